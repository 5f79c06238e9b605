"""2,000 creates: 40 machines with specs and a configuration of their own, 50 bundles on each. Always the same ones.

The alphabets are small, so that the same path, name or number comes up again: what overlaps is where the rules are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .scenes import (
    DRIVER,
    LAUNCHER,
    LIB,
    LOGS,
    LOW_LEVEL,
    ROOT,
    Dice,
    config,
    create,
    dump,
    spec,
    text,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]

WORLDS, BUNDLES = 40, 50
KINDS = ("acme.example/gpu", "acme.example/nic", "nvidia.com/gpu", "radio.example/rx")
NAMES = ("0", "1", "2", "all", "GPU-1b2c")
THERE = ("/dev/gpu0", "/dev/gpu0", "/dev/gpu1", "/dev//gpu0", "/dev/nic0", "/dev/disk0")
MISSING = ("/dev/missing", "/dev/dri/card0")
TARGETS = (
    "/a",
    "/a/",
    "/a/b",
    "/dev/gpu0",
    f"{LIB}/libgpu.so.1.2",
    f"{LIB}/libml.so.1.2",
    "/opt/vendor",
    "/etc/x.conf",
)
SOURCES = (
    "/opt/vendor/lib/libgpu.so.1.2",
    "/opt/vendor/lib/libml.so.1.2",
    "/opt/vendor/share",
    "/dev/gpu0",
    "/missing",
)
VARIABLES = ("A=1", "A=2", "B=", "PATH=/opt/vendor/bin", "NVIDIA_VISIBLE_DEVICES=void", "DRIVER=1.2")
LDCACHE = ["shim", "hook", "update-ldcache", "--folder", LIB]
LINKS = ["shim", "hook", "create-symlinks", "--link", f"libgpu.so.1.2::{LIB}/libgpu.so"]
BOTH = ["shim", "hook", "create-symlinks", "update-ldcache", "--link", f"libml.so.1.2::{LIB}/libml.so", "--folder", LIB]
HOOKS: tuple[tuple[str, list[str]], ...] = (
    (LAUNCHER, LDCACHE),
    (LAUNCHER, LINKS),
    (LAUNCHER, BOTH),
    (LAUNCHER, ["nvidia-cdi-hook", "update-ldcache", "--folder", LIB]),
    ("/usr/bin/nvidia-cdi-hook", ["nvidia-cdi-hook", "update-ldcache", "--folder", LIB]),
    ("/usr/bin/nvidia-cdi-hook", ["nvidia-cdi-hook", "chmod", "--mode", "755", "--path", "/a"]),
    ("/opt/vendor/bin/hook", ["hook", "a", "b"]),
    ("/opt/vendor/bin/hook", []),
)
BAD_HOOKS: tuple[tuple[str, list[str]], ...] = (("/opt/vendor/bin/missing", ["missing"]), ("/tmp/hook", ["hook"]))

# What the administrator wrote, one for each world in turn.
SETTINGS: tuple[str, ...] = (
    "",
    '[hooks]\nfold = "known"\n',
    '[sources]\nenvironment = "any"\nmounts = "any"\n',
    '[cdi]\nannotation-prefixes = ["cdi.k8s.io/", "acme.example/"]\ndefault-kind = "acme.example/gpu"\n',
    '[sources]\nenvironment = "privileged"\nmounts = "privileged"\nmerge = false\n',
    '[hooks]\nfold = "off"\n[log]\nfile = "/log/ours"\n',
    '[cdi]\nspec-dirs = ["/etc/cdi", "/opt/cdi", "/var/run/cdi"]\n[log]\nfile = ""\n',
    '[sources]\nenvironment = "any"\n[sources.variables]\nNVIDIA_VISIBLE_DEVICES = "nvidia.com/gpu"\n'
    'ACME = "acme.example/gpu"\n[sources.swarm-variables]\nDOCKER_RESOURCE = "acme.example/gpu"\n',
    "[cdi]\nspec-dir = 3\n",
    "[cdi\n",
)
VENDOR = """accept-nvidia-visible-devices-envvar-when-unprivileged = true
accept-nvidia-visible-devices-as-volume-mounts = true
"""


# --- specs ----------------------------------------------------------------------------------------------------------


def _node(dice: Dice) -> Json:
    node: Json = {"path": dice.one((*THERE, *THERE, *MISSING))}
    if dice.chance(40):
        node["hostPath"] = dice.one((*THERE, *THERE, *THERE, *MISSING))
    if dice.chance(30) or node.get("hostPath", node["path"]) in MISSING:
        kind = "b" if node.get("hostPath", node["path"]) == "/dev/disk0" else "c"
        kind = "b" if dice.chance(3) else kind
        node |= {"type": kind, "major": dice.one((195, 195, 240, 8)), "minor": dice.below(2)}
    if dice.chance(30):
        node["fileMode"] = dice.one((0o600, 0o660, 0o666))
    if dice.chance(20):
        node |= {"uid": dice.below(2), "gid": dice.below(50)}
    if dice.chance(40):
        node["permissions"] = dice.one(("r", "rw", "rwm", "none"))
    return node


def _mount(dice: Dice) -> Json:
    mount: Json = {"hostPath": dice.one(SOURCES), "containerPath": dice.one(TARGETS)}
    if dice.chance(60):
        mount["options"] = dice.one((["ro", "nosuid", "nodev", "rbind", "rprivate"], ["ro", "bind"], ["rw"], []))
    if dice.chance(15):
        mount["type"] = dice.one(("bind", "none"))
    return mount


def _hook(dice: Dice) -> Json:
    path, args = dice.one(BAD_HOOKS if dice.below(300) == 0 else HOOKS)
    hook: Json = {"hookName": dice.one(("createContainer",) * 8 + ("createRuntime", "prestart", "poststop"))}
    hook["path"] = path
    if args:
        hook["args"] = args
    if dice.chance(2):
        hook["hookName"] = "startContainer"
    if dice.chance(30):
        hook["env"] = dice.one((["A=1"], ["LD_PRELOAD=/x.so", "A=1"], ["PYTHONPATH=/x", "PATH=/bin"]))
    if dice.chance(20):
        hook["timeout"] = dice.one((1, 30))
    return hook


def _edits(dice: Dice) -> Json:
    edits: Json = {}
    if dice.chance(60):
        edits["env"] = dice.some(VARIABLES, 3)
    if dice.chance(70):
        edits["deviceNodes"] = [_node(dice) for _ in range(1 + dice.below(3))]
    if dice.chance(50):
        edits["mounts"] = [_mount(dice) for _ in range(1 + dice.below(3))]
    if dice.chance(35):
        edits["hooks"] = [_hook(dice) for _ in range(1 + dice.below(2))]
    if dice.chance(30):
        edits["additionalGids"] = [dice.one((0, 5, 44, 100044)) for _ in range(1 + dice.below(3))]
    if dice.chance(6):
        edits["intelRdt"] = {"closID": dice.one("cd"), "l3CacheSchema": "L3:0=f"}
    if dice.chance(2):
        edits["netDevices"] = [{"hostInterfaceName": dice.one(("e0", "e1")), "name": "n"}]
    return edits if edits else {"env": ["NOTHING=1"]}


def _document(dice: Dice, kind: str) -> Json:
    names = list(dict.fromkeys(dice.one(NAMES) for _ in range(1 + dice.below(5))))
    document: Json = {"cdiVersion": dice.one(("0.5.0", *("1.1.0",) * 14)), "kind": kind}
    document["devices"] = [{"name": name, "containerEdits": _edits(dice)} for name in names]
    if dice.chance(50):
        document["containerEdits"] = _edits(dice)
    if dice.chance(2):
        document["devises"] = []
    return document


class World:
    """A machine: its driver, specs and configuration.

    Attributes:
        files: all of it.
        devices: names that its specs serve, as far as these are good.
    """

    def __init__(self, number: int) -> None:
        dice = Dice(1_000_000 + number)
        self.devices: list[str] = []
        self.files = [LOGS, LOW_LEVEL, *DRIVER]
        directories = (
            "/etc/cdi",
            "/etc/cdi",
            "/var/run/cdi",
            "/opt/cdi" if "/opt/cdi" in settings(number) else "/etc/cdi",
        )
        for count in range(3 + dice.below(4)):
            document = _document(dice, KINDS[count % len(KINDS)])
            mode = "666" if dice.chance(2) else "644"
            name = f"{dice.one(directories)}/s{count}.{dice.one(('json', 'json', 'json', 'yaml'))}"
            self.files.append(spec(name, document, mode))
            self.devices += [f"{document['kind']}={device['name']}" for device in document["devices"]]
        if settings(number):
            self.files.append(text("/etc/shim/config.toml", settings(number)))
        elif number % 20:
            self.files.append(text("/etc/nvidia-container-runtime/config.toml", VENDOR))


def settings(number: int) -> str:
    """The configuration of a world; of the broken ones there is one each."""
    return SETTINGS[number % len(SETTINGS)] if number < len(SETTINGS) else SETTINGS[number % (len(SETTINGS) - 2)]


# --- bundles --------------------------------------------------------------------------------------------------------


def _name(dice: Dice, devices: list[str]) -> str:
    if dice.chance(3):
        return dice.one(
            ("0", "no.such/kind=0", "acme.example/gpu", "acme.example/gpu=a b", "/dev/null", "nvidia.com/gpu=7")
        )
    return dice.one(devices)


def _annotations(dice: Dice, devices: list[str]) -> Json:
    found: Json = {}
    if dice.chance(75):
        asked = ",".join(_name(dice, devices) for _ in range(1 + dice.below(2)))
        found[dice.one(("cdi.k8s.io/x",) * 8 + ("cdi.k8s.io/vendor_1", "acme.example/x", "cdi.k8s.io"))] = asked
        if dice.chance(10):  # CRI-O keeps the Pod's and the container's own
            found["io.kubernetes.cri-o.Annotations"] = dump({"cdi.k8s.io/x": dice.one((asked, "acme.example/gpu=9"))})
    if dice.chance(8):
        found["io.kubernetes.cri.container-type"] = dice.one(("sandbox", "container"))
    if dice.chance(4):
        found["io.kubernetes.cri-o.ContainerType"] = "sandbox"
    if dice.chance(8):
        found["io.kubernetes.cri.sandbox-id"] = dice.one(("c1", "c2"))
    if dice.chance(10):
        found["io.container.manager"] = "libpod"
    if dice.chance(5):
        found["note"] = '\u00fc \\ " < cdi.k8s.io'
    return found


def _process(dice: Dice) -> Json:
    sets = ("bounding", "effective", "permitted")
    held = ["CAP_CHOWN", "CAP_SYS_ADMIN"] if dice.chance(40) else ["CAP_CHOWN"]
    env = ["PATH=/bin", *dice.some((*VARIABLES, "TERM=xterm", "A=3"), 3)]
    if dice.chance(30):
        env.append(
            f"NVIDIA_VISIBLE_DEVICES={dice.one(('all', '0', '0,1', 'none', 'void', '', 'GPU-1b2c', '0-1', 'x y'))}"
        )
    if dice.chance(8):
        env.append(f"ACME={dice.one(('0', '1'))}")
    user: Json = {"uid": dice.one((0, 0, 1000)), "gid": 0}
    if dice.chance(25):
        user["additionalGids"] = [dice.one((5, 44, 10))]
    process: Json = {"user": user, "args": ["sh"], "env": env, "cwd": "/"}
    return {**process, "capabilities": dict.fromkeys(sets, held)} if dice.chance(80) else process


def _mounts(dice: Dice) -> list[Json]:
    found: list[Json] = [{"destination": "/proc", "type": "proc", "source": "proc"}]
    found.append({"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]})
    for _ in range(dice.below(3)):
        found.append({"destination": dice.one((*TARGETS, LIB, "/a/b/c")), "type": "bind", "source": dice.one(SOURCES)})
    if dice.chance(12):
        below = dice.one(("0", "all", "cdi/acme.example/gpu/0", "cdi/acme.example/gpu=1", "imex/3"))
        found.append(
            {"destination": f"/var/run/nvidia-container-devices/{below}", "source": "/dev/null", "type": "bind"}
        )
    return found


def _linux(dice: Dice) -> Json:
    linux: Json = {"namespaces": [{"type": "pid"}, {"type": "mount"}]}
    if dice.chance(15):
        linux["namespaces"].append({"type": "user"})
        ranges = [{"containerID": 0, "hostID": 100000, "size": 65536}]
        linux |= {"uidMappings": ranges, "gidMappings": ranges}
    rules: list[Json] = [{"allow": False, "access": "rwm"}]
    if dice.chance(30):
        rules.append({"allow": True, "type": "c", "major": 195, "minor": 0, "access": "rwm"})
    if dice.chance(80):
        linux["resources"] = {"devices": rules} if dice.chance(85) else {"memory": {"limit": 1048576}}
    if dice.chance(25):
        linux["devices"] = [
            {"path": dice.one((*THERE, *MISSING)), "type": "c", "major": 195, "minor": dice.below(2), "fileMode": 438}
        ]
    if dice.chance(10):
        linux["xFuture"] = [1.50, -0, None, {"deep": []}]
    return linux


def _config(dice: Dice, devices: list[str]) -> Json:
    found: Json = {"ociVersion": dice.one(("1.0.2", "1.2.0")), "process": _process(dice), "root": {"path": "rootfs"}}
    if dice.chance(50):
        found["root"]["readonly"] = True
    found |= {"hostname": "box", "mounts": _mounts(dice), "linux": _linux(dice)}
    annotations = _annotations(dice, devices)
    if annotations:
        found["annotations"] = annotations
    if dice.chance(20):
        found["hooks"] = {dice.one(("createContainer", "poststop")): [{"path": "/old", "args": ["old"], "xHook": True}]}
    for name in ("mounts", "linux", "process", "hooks"):
        if dice.chance(1):
            found.pop(name, None)
        elif dice.chance(1):
            found[name] = None
    return found


def _text(dice: Dice, value: Json) -> str:
    """The config as some engine could write it."""
    form = dice.below(10)
    if form < 7:
        return dump(value)
    return dump(value, 2) + "\n" if form < 9 else dump(value).replace("/", "\\/")


def bundle(world_number: int, number: int, served: list[str]) -> Json:
    """A bundle on a world, and how it is created."""
    dice = Dice(world_number * 1000 + number)
    files = [config(_text(dice, _config(dice, served)))]
    if dice.chance(60):
        files += ROOT
    devices = [_name(dice, served) for _ in range(1 + dice.below(2))] if dice.chance(20) else []
    if dice.chance(3):
        devices.append(dice.one(NAMES))
    options = [
        word for pair in dice.some((("--root", "/run/runc"), ("--debug",), ("--systemd-cgroup",)), 2) for word in pair
    ]
    more: Json = {"env": ["PATH=/usr/bin:/bin", "CRI_O_EXTERNAL=1"]} if dice.chance(8) else {}
    verb = dice.one(("create",) * 24 + ("run",) * 5 + ("restore",))
    steps = [create(*devices, verb=verb, options=options, **more)]
    if dice.chance(20):
        steps.append(create(*devices, verb=verb, options=options, name="again", **more))
    return {"id": f"generated/{world_number:02}-{number:02}", "files": files, "steps": steps}


def cases() -> Iterator[Json]:
    """All of them, each behind its world."""
    for number in range(WORLDS):
        world = World(number)
        yield {"world": world.files, "name": f"generated-{number:02}"}
        for count in range(BUNDLES):
            yield bundle(number, count, world.devices)
