"""What else a runtime is called for: exec and update of containers with a device, other names, odd calls and bundles.

Also calls that are passed on, with everything that must reach the runtime unchanged, and the hooks themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .scenes import BUNDLE, DRIVER, LAUNCHER, LIB, LOGS, LOW_LEVEL, ROOT, config, create, dump, spec, text

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]

SPEC: Json = {
    "cdiVersion": "1.1.0",
    "kind": "acme.example/gpu",
    "containerEdits": {"env": ["DRIVER=1", "MODE=spec"]},
    "devices": [
        {
            "name": "0",
            "containerEdits": {
                "env": ["GPU=0"],
                "deviceNodes": [{"path": "/dev/gpu0"}, {"path": "/dev/renamed", "hostPath": "/dev/gpu1"}],
                "mounts": [
                    {"hostPath": "/opt/vendor/lib", "containerPath": "/opt/vendor/lib", "options": ["ro", "rbind"]}
                ],
                "additionalGids": [44],
            },
        },
        {"name": "1", "containerEdits": {"env": ["GPU=1"], "deviceNodes": [{"path": "/dev/gpu1", "permissions": "r"}]}},
        {
            "name": "hooked",
            "containerEdits": {
                "hooks": [
                    {
                        "hookName": "createContainer",
                        "path": LAUNCHER,
                        "args": ["shim", "hook", "update-ldcache", "--folder", LIB],
                    },
                    {"hookName": "createContainer", "path": "/opt/vendor/bin/hook", "args": ["hook"]},
                ]
            },
        },
        {"name": "netted", "containerEdits": {"netDevices": [{"hostInterfaceName": "eth7", "name": "eth0"}]}},
    ],
}
PROCESS: Json = {"args": ["sh"], "env": ["PATH=/bin", "MODE=image"], "cwd": "/", "user": {"uid": 0, "gid": 0}}
RULES = [{"allow": False, "access": "rwm"}]
BARE: Json = {
    "ociVersion": "1.2.0",
    "process": PROCESS,
    "root": {"path": "rootfs"},
    "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
    "linux": {"resources": {"devices": RULES}, "namespaces": [{"type": "pid"}, {"type": "mount"}]},
}
ASKING: Json = {**BARE, "annotations": {"cdi.k8s.io/x": "acme.example/gpu=0"}}
MACHINE = [LOGS, LOW_LEVEL, *DRIVER, spec("/etc/cdi/acme.json", SPEC)]
CRUN: Json = {"path": "/etc/shim/low-level/shim-crun", "link": "/usr/bin/crun"}


def _case(name: str, *steps: Json, files: tuple[Json, ...] = (), value: Any = ASKING) -> Json:
    given = [] if value is None else [config(value)]
    return {"id": f"lives/{name}", "files": [*MACHINE, *given, *files], "steps": list(steps)}


def _verb(name: str, *words: str, **more: Any) -> Json:
    return {"name": name, "argv": ["shim", *words], **more}


def exec_step(name: str, *env: str, words: tuple[str, ...] = (), **more: Any) -> Json:
    """An exec with a process file."""
    file = text("/s/process", dump({**PROCESS, "env": list(env)}), "600")
    return _verb(name, *words, "exec", "--process", "/s/process", "--detach", "c1", **{"files": [file], **more})


def _lives() -> Iterator[Json]:
    limits = {
        "memory": {"limit": 1 << 24},
        "devices": [*RULES, {"allow": True, "type": "c", "major": 1, "minor": 3, "access": "rwm"}],
    }
    yield _case(
        "exec",
        create(),
        exec_step("plain", "PATH=/bin"),
        exec_step("as before the device", "PATH=/bin", "MODE=image"),
        exec_step("as the user says", "MODE=mine", "GPU=mine"),
        exec_step("as after the device", "MODE=spec", "GPU=0", "DRIVER=1"),
        exec_step("with no environment", files=[text("/s/process", '{"args":["true"],"env":null}')]),
        exec_step("with a file that is broken", files=[text("/s/process", "{")]),
        _verb("without a file", "exec", "c1", "true"),
        _verb("of another container", "exec", "--process", "/s/process", "c2"),
        exec_step("under another root", "PATH=/bin", words=("--root", "/run/other")),
        exec_step(
            "after the engine wrote the bundle again",
            "PATH=/bin",
            files=[config(ASKING), text("/s/process", dump(PROCESS))],
        ),
    )
    yield _case(
        "update",
        create(),
        _verb("by standard input", "update", "--resources", "-", "c1", stdin=dump(limits)),
        _verb("by a file", "update", "--resources", "/s/limits", "c1", files=[text("/s/limits", dump(limits))]),
        _verb("without rules", "update", "--resources", "-", "c1", stdin=dump({"memory": {"limit": 1}})),
        _verb("broken", "update", "--resources", "-", "c1", stdin="{"),
        _verb("by options", "update", "--memory", "1000000", "c1"),
    )
    yield _case(
        "whole",
        create(options=("--root", "/run/runc")),
        *(
            _verb(verb, "--root", "/run/runc", verb, "c1")
            for verb in ("start", "state", "pause", "resume", "ps", "kill", "delete")
        ),
        _verb("explained", "explain", "c1"),
        _verb("explained as JSON", "explain", "-o", "json", "c1"),
        _verb("explained by its beginning", "explain", "c"),
        _verb("not known", "explain", "c7"),
        create(name="again", options=("--root", "/run/runc")),
        create("acme.example/gpu=1", name="with one more", options=("--root", "/run/runc")),
        create("acme.example/gpu=1", name="under another id", options=("--root", "/run/runc")),
    )
    crun = {"files": [CRUN]}
    yield _case(
        "crun",
        {**create(), "argv": ["shim-crun", "--log", "file:/log/runtime", "create", "-b", BUNDLE, "c1"], **crun},
        {**exec_step("exec", "PATH=/bin"), "argv": ["shim-crun", "exec", "--process=/s/process", "c1"]},
        {
            **create(name="by -f"),
            "argv": ["shim-crun", "create", "-f", "config.json", "-b", BUNDLE, "c2"],
            "cwd": BUNDLE,
        },
        {
            **create(name="with a device"),
            "argv": ["shim-crun", "run", "--device", "acme.example/gpu=1", f"--bundle={BUNDLE}", "c3"],
        },
    )


def _odd() -> Iterator[Json]:
    boot = {"path": "/run/shim", "absent": True}
    yield _case("the first after boot", create(), files=(boot,))
    yield _case("hooks", create("acme.example/gpu=hooked"), files=tuple(ROOT), value=BARE)
    yield _case("interfaces", create("acme.example/gpu=netted"), value=BARE)
    yield _case(
        "interfaces of the host", create("acme.example/gpu=netted"), value={**BARE, "linux": {"namespaces": []}}
    )
    yield _case("interfaces restored", create("acme.example/gpu=netted", verb="restore"), value=BARE)
    yield _case("restored", create(verb="restore"))
    yield _case("restored with what it had", create(), create(name="restore", verb="restore"))
    yield _case("nothing asked", create(), value=BARE)
    for name, value in {
        "no config": None,
        "a broken config": "{",
        "a broken config that asks": '{"annotations":{"cdi.k8s.io/x":"acme.example/gpu=0"}',
        "an empty config": "",
        "a list": "[]",
        "a name twice": '{"annotations":{},"annotations":{"cdi.k8s.io/x":"acme.example/gpu=0"}}',
        "another case": '{"Annotations":{"cdi.k8s.io/x":"acme.example/gpu=0"},"process":{"env":[]}}',
        "escapes": '{"annotations":{"cdi\\u002ek8s.io\\/x":"acme.example/gpu=0"}}',
        "a number that is too large": '{"annotations":{"cdi.k8s.io/x":"acme.example/gpu=0"},"x":1e999}',
        "surrogates": '{"annotations":{"cdi.k8s.io/x":"acme.example/gpu=0"},"x":"\\ud800"}',
        "a value of another type": {**ASKING, "mounts": {}, "process": []},
        "no process": {"annotations": ASKING["annotations"]},
        "annotations that are no object": {**BARE, "annotations": ["cdi.k8s.io/x"]},
    }.items():
        yield _case(
            name,
            create(),
            create("acme.example/gpu=1", name="with a device", files=[] if value is None else [config(value)]),
            value=value,
        )
    for name, words in {
        "a bare name": ["--device", "0"],
        "another form": ["--device=acme.example/gpu=1"],
        "without its value": ["--device"],
        "a device file": ["--device", "/dev/null"],
        "twice": ["--device", "acme.example/gpu=0", "--device", "acme.example/gpu=0"],
        "an empty name": ["--device", ""],
    }.items():
        yield _case(f"--device {name}", _verb("create", "create", *words, "--bundle", BUNDLE, "c1"), value=BARE)
    unknown = _verb("create", "--new-option", "x", "create", "--bundle", BUNDLE, "c1")
    yield _case("an unknown option", unknown)
    yield _case("an unknown option, nothing asked", unknown, value=BARE)
    yield _case(
        "--device in front",
        _verb("create", "--device", "acme.example/gpu=1", "create", "--bundle", BUNDLE, "c1"),
        value=BARE,
    )
    yield _case("the working directory", _verb("create", "create", "c1", cwd=BUNDLE))
    yield _case("a bundle that is missing", _verb("create", "create", "--bundle", "/missing", "c1"))
    yield _case("help", _verb("create", "create", "--help"), _verb("run", "run", "--device", "x", "--help"), value=BARE)
    yield _case(
        "a log for people",
        {
            **create("no.such/kind=0"),
            "argv": ["shim", "--log", "/log/runtime", "create", "--device", "no.such/kind=0", "--bundle", BUNDLE, "c1"],
        },
    )
    yield _case(
        "a log that is missing",
        {
            **create("no.such/kind=0"),
            "argv": ["shim", "--log", "/no/such", "create", "--device", "no.such/kind=0", "--bundle", BUNDLE, "c1"],
        },
    )
    yield _case(
        "rootless",
        create(rootless=True, env=["PATH=/usr/bin:/bin", "XDG_RUNTIME_DIR=/run/user", "XDG_STATE_HOME=/root"]),
        files=({"path": "/run/user", "directory": True, "mode": "700"},),
    )
    for name, mode in (("trusted", "644"), ("writable by all", "666")):
        yield _case(
            f"a spec that is {name}",
            create("acme.example/nic=0"),
            value=BARE,
            files=(spec("/etc/cdi/nic.json", {**SPEC, "kind": "acme.example/nic"}, mode),),
        )
    settings = text("/etc/shim/config.toml", "[cdi\n")
    yield _case(
        "a broken configuration", create(), create(name="nothing asked", files=[config(BARE)]), files=(settings,)
    )
    environment = text("/etc/shim/config.toml", '[sources]\nenvironment = "any"\n[cdi\n')
    variable = {**BARE, "process": {**PROCESS, "env": ["NVIDIA_VISIBLE_DEVICES=0"]}}
    yield _case("a broken configuration with a variable", create(), value=variable, files=(environment,))
    yield _case("a configuration that is missing", create(env=["SHIM_CONFIG=/missing", "PATH=/bin"]))


def _runtimes() -> Iterator[Json]:
    """How the low-level runtime is found, and what reaches it."""
    link = LOW_LEVEL["path"]
    for name, target in (
        ("of a relative path", "runc"),
        ("to nothing", "/missing"),
        ("to itself", LAUNCHER),
        ("to the other", "/usr/bin/crun"),
    ):
        yield _case(f"link {name}", _verb("state", "state", "c1"), create(), files=({"path": link, "link": target},))
    yield _case("link is a file", _verb("state", "--log", "/log/runtime", "state", "c1"), files=(text(link, ""),))
    for name in ("shim-runc", "shim-crun", "shim-youki", "runc", "crun", "youki"):
        yield _case(
            f"named {name}",
            {"name": "state", "argv": [name, "state", "c1"]},
            {"name": "hook", "argv": [name, "hook", "--help"]},
        )
    odd = [
        "A=1",
        "A=2",
        "LD_PRELOAD=./x.so",
        "LD_LIBRARY_PATH=/x",
        "LD_PRELOAD=again",
        "GLIBC_TUNABLES=glibc.malloc.check=3",
        "PYTHONPATH=/x",
        "SHIM_KEEP_A=1",
        "EMPTY=",
        "PATH=/nowhere",
        "Z=\udcff",
    ]
    fds = {"3": "socket", "5": "pipe", "9": "null"}
    for name, value, verb in (
        ("passed on", BARE, "state"),
        ("nothing asked", BARE, "create"),
        ("device asked", ASKING, "create"),
    ):
        words = ["--bundle", BUNDLE, "c1"] if verb == "create" else ["c1"]
        step = {"argv": ["shim", "--debug", verb, *words], "env": odd, "fds": fds, "umask": 0o77, "cwd": "/s"}
        place: Json = {"path": "/s", "directory": True}
        yield _case(
            f"everything, {name}",
            {"name": "call", **step, "stdin": "<socket>"},
            {"name": "ignored", **step, "ignored": ["PIPE", "HUP", "XFSZ", "INT"], "files": [config(value)]},
            {
                "name": "terminal",
                **step,
                "stdin": "<tty>",
                "stdout": "<tty>",
                "stderr": "<tty>",
                "files": [config(value)],
            },
            {"name": "no environment", **step, "env": [], "files": [config(value)]},
            value=value,
            files=(place,),
        )


def _hooks() -> Iterator[Json]:
    """The hooks, on trees."""
    state = dump({"ociVersion": "1.0.2", "id": "c1", "pid": 0, "bundle": BUNDLE})
    libraries = ({"path": f"{BUNDLE}/rootfs{LIB}/libgpu.so.1.2", "base64": DRIVER[0]["base64"]},)
    for name, words in {
        "update-ldcache": ["update-ldcache", "--folder", LIB],
        "update-ldcache without a folder": ["update-ldcache"],
        "create-symlinks": ["create-symlinks", "--link", f"libgpu.so.1.2::{LIB}/libgpu.so"],
        "both": ["update-ldcache", "create-symlinks", "--link", f"libgpu.so.1.2::{LIB}/libgpu.so", "--folder", LIB],
        "enable-cuda-compat": ["enable-cuda-compat", "--host-driver-version", "550.1"],
        "a name that is none": ["update-cache"],
        "an option that is none": ["update-ldcache", "--new"],
    }.items():
        tree = _verb("tree", "hook", *words, "--root", f"{BUNDLE}/rootfs")
        call = _verb("container", "hook", *words, stdin=state)
        yield _case(f"hook {name}", tree, call, _verb("no state", "hook", *words, stdin="{"), files=(*ROOT, *libraries))
    vendor = {"name": "vendor", "argv": ["nvidia-cdi-hook", "update-ldcache", "--folder", LIB], "stdin": state}
    yield _case("hook of the vendor", vendor, files=(*ROOT, *libraries))
    precreate = _verb("asked", "hook", "precreate", stdin=dump(ASKING))
    yield _case(
        "precreate",
        precreate,
        _verb("not asked", "hook", "precreate", stdin=dump(BARE)),
        _verb(
            "refused", "hook", "precreate", stdin=dump({**BARE, "annotations": {"cdi.k8s.io/x": "acme.example/gpu=7"}})
        ),
    )


def cases() -> Iterator[Json]:
    """All of them."""
    yield from _lives()
    yield from _odd()
    yield from _runtimes()
    yield from _hooks()
