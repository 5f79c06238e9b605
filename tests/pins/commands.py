"""Each command: its help, its answers for people and for programs, over fixed specs and machines of tests/configs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import generated, lives
from .scenes import BUNDLE, DRIVER, LOGS, LOW_LEVEL, config, dump, program, spec, text

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]
CONFIGS = Path(__file__).parent.parent / "configs"
HELP = (
    "", "cdi", "cdi list", "cdi show", "cdi validate", "cdi diff", "cdi inject", "explain", "runtime",
    "runtime configure", "runtime verify", "runtime remove", "runtime class", "config", "config show",
    "config default", "version", "hook", "hook create-symlinks", "hook update-ldcache", "hook enable-cuda-compat",
    "hook precreate", "hook netdevices", "hook disable-device-node-modification",
    "hook update-application-profile",
)  # fmt: skip

GOOD = lives.SPEC
OLD: Json = {
    "cdiVersion": "0.5.0",
    "kind": "acme.example/nic",
    "devices": [
        {"name": "a", "containerEdits": {"env": ["A=1"], "deviceNodes": [{"path": "/dev/nic0", "permissions": "rw"}]}},
        {"name": "b", "containerEdits": {"env": ["B=1"]}},
    ],
}
NEW: Json = {
    **OLD,
    "devices": [{"name": "a", "containerEdits": {"env": ["A=2"], "mounts": []}}, OLD["devices"][1] | {"name": "c"}],
}
BROKEN = """# three faults
cdiVersion: "0.5.0"
kind: acme.example/gpu
devices:
- name: 0
  containerEdits:
    deviceNodes:
    - path: dev/x
      type: char
    env: [NOTHING]
- name: "0"
  containerEdit: {}
"""
YAML = """cdiVersion: "0.6.0"
kind: "acme.example/gpu"
# a comment
devices:
  - name: gpu0
    containerEdits: &edits
      deviceNodes:
        - {path: /dev/gpu0, permissions: rw}
  - name: gpu1
    containerEdits: *edits
containerEdits:
  env: ["LEVEL=yes"]
"""


def _specs() -> list[Json]:
    conflict = {
        "cdiVersion": "0.6.0",
        "kind": "acme.example/gpu",
        "devices": [{"name": "0", "containerEdits": {"env": ["X=1"]}}],
    }
    return [
        spec("/s/good/acme.json", GOOD),
        spec("/s/good/nic.json", OLD),
        text("/s/good/README", "no spec\n"),
        text("/s/bad/broken.yaml", BROKEN),
        text("/s/bad/empty.json", ""),
        text("/s/bad/text.yaml", "just a text\n"),
        spec("/s/bad/acme.json", GOOD),
        spec("/s/bad/twin.json", conflict),
        spec("/s/bad/writable.json", OLD, "666"),
        spec("/s/old.json", OLD),
        spec("/s/new.json", NEW),
        text("/s/gpu.yaml", YAML),
        spec("/s/above/acme.json", conflict),
        {"path": "/s/none", "directory": True},
        config(lives.BARE),
    ]


# Name -> command line, and standard input where it reads one.
ANSWERS: dict[str, tuple[str, str]] = {
    "list": ("cdi list", ""),
    "list good": ("cdi list --spec-dir /s/good", ""),
    "list good -v": ("cdi list -v --spec-dir /s/good --spec-dir /s/above", ""),
    "list bad": ("cdi list --spec-dir /s/bad", ""),
    "list bad -v": ("cdi list -v --spec-dir /s/bad --spec-dir /s/missing", ""),
    "list file": ("cdi list --spec-dir /s/gpu.yaml", ""),
    "list none": ("cdi list --spec-dir /s/none", ""),
    "show": ("cdi show --spec-dir /s/good acme.example/gpu=0", ""),
    "show pattern": ("cdi show --spec-dir /s/good acme.example/*=*", ""),
    "show unknown": ("cdi show --spec-dir /s/good acme.example/gpu=9", ""),
    "show bad": ("cdi show --spec-dir /s/bad acme.example/gpu=0 acme.example/nic=a", ""),
    "validate good": ("cdi validate /s/good", ""),
    "validate bad": ("cdi validate /s/bad", ""),
    "validate file": ("cdi validate /s/bad/broken.yaml /s/gpu.yaml", ""),
    "validate missing": ("cdi validate /s/missing", ""),
    "validate input": ("cdi validate -", YAML),
    "validate bad input": ("cdi validate -", BROKEN),
    "diff": ("cdi diff /s/old.json /s/new.json", ""),
    "diff same": ("cdi diff /s/old.json /s/old.json", ""),
    "diff directories": ("cdi diff /s/good /s/bad", ""),
    "diff input": ("cdi diff - /s/gpu.yaml", YAML.replace("rw", "r")),
    "version": ("version", ""),
    "config show": ("config show", ""),
    "config show file": ("config show /s/config.toml", ""),
    "config show broken": ("config show /s/broken.toml", ""),
    "config show missing": ("config show /s/missing.toml", ""),
    "class": ("runtime class", ""),
    "explain": (f"explain --bundle {BUNDLE}", ""),
    "explain device": (f"explain --bundle {BUNDLE} --device acme.example/gpu=0 --device acme.example/gpu=hooked", ""),
    "explain refused": (f"explain --bundle {BUNDLE} --device acme.example/gpu=9", ""),
    "explain missing": ("explain --bundle /missing", ""),
    "explain nobody": ("explain nobody", ""),
    "verify nothing": ("runtime verify", ""),
    "configure nothing": ("runtime configure --dry-run", ""),
}
# These have no other form, or write.
ALONE: dict[str, tuple[str, str]] = {
    "inject": (f"cdi inject --spec-dir /s/good {BUNDLE} acme.example/gpu=0", ""),
    "inject yaml": (f"cdi inject --spec-dir /s/good -o yaml {BUNDLE} acme.example/nic=*", ""),
    "inject dry run": (f"cdi inject --spec-dir /s/good --dry-run {BUNDLE}/config.json acme.example/gpu=1", ""),
    "inject in place": (f"cdi inject --spec-dir /s/good --in-place {BUNDLE} acme.example/gpu=1", ""),
    "inject to": (f"cdi inject --spec-dir /s/good --to /s/out.json {BUNDLE} acme.example/gpu=1", ""),
    "inject unknown": (f"cdi inject --spec-dir /s/good {BUNDLE} acme.example/gpu=9 acme.example/fpga=0", ""),
    "inject input": ("cdi inject --spec-dir /s/good - acme.example/gpu=0", dump(lives.BARE)),
    "inject bad input": ("cdi inject --spec-dir /s/good - acme.example/gpu=0", "{"),
    "default": ("config default", ""),
    "default dry run": ("config default --to /s/config.toml --dry-run", ""),
    "default write": ("config default --write", ""),
    "default again": ("config default --write", ""),
    "show toml": ("config show -o toml", ""),
    "class options": (
        "runtime class --name gpu --handler shim --node-selector a=b --toleration gpu:NoSchedule --overhead memory=1Mi",
        "",
    ),
    "class pod": ("runtime class --pod --resource nvidia.com/gpu", ""),
    "class device": ("runtime class --pod --device acme.example/gpu=0", ""),
    "class bad name": ("runtime class --name GPU_x", ""),
    "typo": ("cdi lst", ""),
    "option": ("cdi list --nothing", ""),
    "no argument": ("cdi show", ""),
    "runtime engine": ("runtime verify --engine lxc", ""),
    "the command help": ("help explain", ""),
    "a verb's help": ("help run", ""),
}


def step(name: str, words: str, given: str = "") -> Json:
    """A step that calls one of our commands."""
    return {"name": name, "argv": ["shim", *words.split()], **({"stdin": given} if given else {})}


def _helps() -> Iterator[Json]:
    for command in HELP:
        yield {
            "id": f"commands/help {command}".rstrip(),
            "files": [LOW_LEVEL],
            "steps": [step("help", f"{command} --help")],
        }


def _answers() -> Iterator[Json]:
    settings = text(
        "/s/config.toml", '[cdi]\ndefault-kind = "acme.example/gpu"\nspec-dir = []\n[sources]\nenvironment = "any"\n'
    )
    broken = text("/s/broken.toml", '[sources]\nenvironment = "some"\n[cdi]\nspec-dirs = ["x"]\n')
    files = [LOGS, LOW_LEVEL, *DRIVER, *_specs(), settings, broken, spec("/etc/cdi/acme.json", GOOD)]
    for name, (words, given) in ANSWERS.items():
        forms = [step("table", words, given), step("json", f"{words} -o json", given)]
        yield {"id": f"commands/{name}", "files": files, "steps": forms}
    for name, (words, given) in ALONE.items():
        yield {"id": f"commands/{name}", "files": files, "steps": [step("only", words, given)]}


def _explained() -> Iterator[Json]:
    """Bundles of the generated worlds, explained instead of created."""
    for number in range(0, generated.WORLDS, 2):
        world = generated.World(number)
        yield {"world": world.files, "name": f"explained-{number:02}"}
        for count in range(2):
            case = generated.bundle(number, 10 + count, world.devices)
            steps = [step("table", f"explain --bundle {BUNDLE}"), step("json", f"explain --bundle {BUNDLE} -o json")]
            yield {"id": f"commands/explain {number:02}-{count}", "files": case["files"], "steps": steps[count:]}


def _engines() -> Iterator[Json]:
    """Machines with an engine: what configure would write, what it writes, what verify says, what remove leaves."""
    yield {"world": [], "name": "engines"}
    for number, about in enumerate(sorted(CONFIGS.glob("*/*/about"))):
        tree = about.parent
        engine = tree.parent.name.removesuffix("-refused")
        files = [LOGS, LOW_LEVEL]
        for path in sorted(tree.rglob("*")):
            place = f"/{path.relative_to(tree)}"
            if path.is_file() and path != about:
                mode = "755" if "/bin/" in place or "/sbin/" in place else "644"
                if place.startswith(("/usr/lib/", "/lib/")) or place in ("/usr/sbin/runc", "/usr/bin/crun"):
                    continue  # the machine has its own
                files.append({"path": place, "text": path.read_bytes().decode(), "mode": mode})
        option = f"--engine {engine}"
        steps = [
            step("verify before", f"runtime verify {option}"),
            step("dry run", f"runtime configure {option} --dry-run"),
            step("configure", f"runtime configure {option} -o json"),
            step("verify", f"runtime verify {option} -o json"),
            step("remove", f"runtime remove {option}"),
        ]
        first = 0 if number % 4 == 0 else 1  # what verify says of a machine without shim differs little
        yield {"id": f"commands/{tree.parent.name} {tree.name}", "files": files, "steps": steps[first:]}
    options = "--set-as-default --enable-cdi --name gpu --low-level crun --dry-run"
    for engine in ("containerd", "crio", "docker", "podman"):
        steps = [step("options", f"runtime configure --engine {engine} {options}")]
        yield {"id": f"commands/{engine} options", "files": [LOGS, LOW_LEVEL], "steps": steps}
    hook = [
        step("hook", "runtime configure --engine podman --hook"),
        step("verify", "runtime verify --engine podman"),
    ]
    yield {"id": "commands/podman hook", "files": [LOGS, LOW_LEVEL, program("/usr/bin/podman", "")], "steps": hook}


def cases() -> Iterator[Json]:
    """All of them."""
    yield from _helps()
    yield from _answers()
    yield from _engines()
    yield from _explained()
