"""A table of creates, from "nothing asks" to a damaged index, and the files that each needs.

test_recipe.py decides each of them again from its trace; test_agreement.py compares what create, explain and precreate
make of it.
"""

from __future__ import annotations

import json
import os
import posix
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from shim.base.findings import CdiError
from shim.cdi import directories, index_writer
from shim.create import lock_writer
from shim.create.annotation_origin import MANAGER
from shim.create.bundle import Bundle
from shim.create.engine_annotations import OWN
from shim.create.invocation import Invocation
from shim.create.question import Question
from shim.create.recipe import Decision, decide
from shim.create.world import World

Json = dict[str, Any]

KIND = "acme.example/gpu"
ID = "4f6c0c2b7d1e"  # of the container, and the name of its bundle, as under every engine
NULL = {"path": "/dev/null"}


def _hook(path: str, *args: str, stage: str = "createContainer", **more: Any) -> Json:
    return {"hooks": [{"hookName": stage, "path": path, **({"args": list(args)} if args else {}), **more}]}


def _mounts(*paths: str, **more: Any) -> Json:
    return {"mounts": [{"hostPath": "/usr/share", "containerPath": path, **more} for path in paths]}


# Device -> its edits; LAUNCHER and HERE stand for paths of the scene
DEVICES: dict[str, Json] = {
    "0": {"env": ["GPU=0"], "deviceNodes": [NULL], "additionalGids": [44], **_mounts("/usr/share", options=["ro"])},
    "1": {"env": ["GPU=1"]},
    "renamed": {"deviceNodes": [{"path": "/dev/gpu0", "hostPath": "/dev/null", "permissions": "rw"}]},
    "stale": {"deviceNodes": [{**NULL, "type": "c", "major": 9, "minor": 9}]},
    "block": {"deviceNodes": [{**NULL, "type": "b", "major": 9, "minor": 9}]},
    "phantom": {"deviceNodes": [{"path": "/dev/shim-test-gone", "type": "c", "major": 240, "minor": 1}]},
    "gone": {"deviceNodes": [{"path": "/dev/shim-test-gone"}]},
    "regular": {"deviceNodes": [{"path": "/etc/passwd"}]},
    "cache": {"intelRdt": {"closID": "closed"}},
    "port": {"netDevices": [{"hostInterfaceName": "eth5", "name": "net0"}]},
    "bad-port": {"netDevices": [{"hostInterfaceName": "eth5", "name": "a/b"}]},
    "foreign": _hook("/bin/true", "true", env=["LD_PRELOAD=x", "A=1"]),
    "own": _hook("LAUNCHER", "shim", "hook", "update-ldcache"),
    "vendor": _hook("HERE/nvidia-cdi-hook", "nvidia-cdi-hook", "update-ldcache"),
    "late": _hook("/bin/true", stage="poststop"),
    "inside": _hook("/bin/inside", stage="startContainer"),
    "linked": _hook("HERE/link/to/true", timeout=3),
    "no-program": _hook("/bin/shim-test-gone"),
    "open-program": _hook("HERE/open/program"),
    "proc": _mounts("/proc/x", "/ok", "/sys/y"),
    "root": _mounts("/"),
    "unbound": _mounts("/data", type="bind"),
    "missing": _mounts("/data", hostPath="/usr/share/shim-test-gone"),
    "former": _mounts("/data", hostPath="/usr/share/shim-test-gone.so.1.2"),
    "shared": _mounts("/data", options=["rshared"]),
    "comma": _mounts("/data", options=["ro,rshared"]),
}
SPEC: Json = {
    "cdiVersion": "1.1.0",
    "kind": KIND,
    "containerEdits": {"env": ["DRIVER=1", "VISIBLE=void"]},
    "devices": [{"name": name, "containerEdits": edits} for name, edits in DEVICES.items()],
}


def asking(*devices: str, **more: Any) -> Json:
    """A config.json whose annotation asks for devices."""
    process = {"env": ["PATH=/bin"], "cwd": "/"}
    names = ",".join(device if "=" in device else f"{KIND}={device}" for device in devices)
    return {"annotations": {"cdi.k8s.io/x": names}, "process": process, "root": {"path": "rootfs"}, **more}


def variables(*env: str, privileged: bool = False, **more: Any) -> Json:
    """A config.json with variables and no annotation."""
    bounding = ["CAP_SYS_ADMIN"] if privileged else []
    return {"process": {"env": list(env), "cwd": "/", "capabilities": {"bounding": bounding}}, **more}


def _user_namespace(*ranges: tuple[int, int, int], **more: Any) -> Json:
    maps = [{"containerID": first, "hostID": outside, "size": size} for first, outside, size in ranges]
    linux = {"namespaces": [{"type": "user", **more}, {"type": "network"}]}
    return {"linux": {**linux, **({"uidMappings": maps, "gidMappings": maps} if maps else {})}}


class Case(NamedTuple):
    """One create.

    Attributes:
        config: the decoded config.json, or its text; None for no file.
        devices: values of --device.
        settings: lines of the configuration beyond those of every scene.
        verb, unknown, rootful, environ: of the call.
        prepare: changes the scene before the create.
        ids: of what create warns of, and of why it refuses, in this order.
    """

    config: Any
    devices: tuple[str, ...] = ()
    settings: str = ""
    verb: str = "create"
    unknown: str = ""
    rootful: bool = True
    environ: dict[str, str] | None = None
    prepare: Callable[[Scene], object] | None = None
    ids: str = ""


class Scene:
    """The files of one create below one directory, which only root can write."""

    def __init__(self, directory: Path, launcher: Path, case: Case) -> None:
        self.directory, self.launcher, self.case = directory, launcher, case
        self.bundle, self.specs = directory / ID, directory / "cdi"
        self.config, self.settings = self.bundle / "config.json", directory / "config.toml"
        self.log = directory / "log"
        for path in (self.bundle / "rootfs/etc", self.specs, directory / "open", directory / "low"):
            path.mkdir(parents=True)
        (directory / "open").chmod(0o777)
        (directory / "link").symlink_to(directory / "other")
        (directory / "other").mkdir()
        (directory / "other/to").symlink_to("/bin")
        for name in ("nvidia-cdi-hook", "open/program"):
            (directory / name).write_text("#!/bin/sh\n")
            (directory / name).chmod(0o755)
        self.low = directory / "low/runc"
        self.low.symlink_to("/bin/true")
        text = json.dumps(SPEC).replace("LAUNCHER", str(launcher)).replace("HERE", str(directory))
        (self.specs / "gpu.json").write_text(text)
        settings = case.settings
        if _PODMAN not in settings:  # in the precreate stage every caller is a podman, of a version that is not known
            head, sources, tail = settings.partition("[sources]\n")
            settings = f'{head}{sources or "[sources]"}\n{_PODMAN} = "any"\n{tail}'
        cdi = f'[cdi]\nspec-dirs = ["{self.specs}"]\ndefault-kind = "{KIND}"\n'
        self.settings.write_text(f'[log]\nfile = "{self.log}"\n{cdi}{settings}')
        if case.config is not None:
            self.write(case.config)
        if case.prepare:
            case.prepare(self)

    def write(self, config: Any) -> None:
        """Write config.json: a text or bytes as they are, anything else as JSON."""
        data = config if isinstance(config, bytes | str) else json.dumps(config)
        self.config.write_bytes(data if isinstance(data, bytes) else data.encode())

    def words(self) -> list[str]:
        """What the launcher hands to Python."""
        words = [f"low={self.low}", "name=shim", f"self={self.launcher}", f"verb={self.case.verb}", f"id={ID}"]
        words += [f"bundle={self.bundle}", *(f"device={device}" for device in self.case.devices)]
        return [*words, *([f"unknown={self.case.unknown}"] if self.case.unknown else []), "--", "true"]

    def environment(self) -> dict[str, str]:
        """The environment of the create."""
        return {**os.environ, "SHIM_CONFIG": str(self.settings), **(self.case.environ or {})}

    def enter(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let this process be the create."""
        for name, value in {"SHIM_CONFIG": str(self.settings), **(self.case.environ or {})}.items():
            monkeypatch.setitem(posix.environ, name.encode(), value.encode())

    def question(self) -> Question:
        """The question of the create."""
        call = Invocation(self.words())
        return Question(call, Bundle(call.config), rootful=self.case.rootful)

    def decide(self) -> tuple[Question, Decision]:
        """Decide in this process, which `enter` has prepared."""
        question = self.question()
        return question, decide(question, World())

    def index(self, monkeypatch: pytest.MonkeyPatch) -> bool:
        """Leave the index that a create leaves, however new its inputs are; False where it leaves none."""
        with monkeypatch.context() as patched:
            self.enter(patched)
            patched.setattr(index_writer, "_FRESH_NS", 0)
            world = World()
            try:
                world.served()
            except CdiError:  # the configuration is broken
                return False
            world.save()
            return True


def _as_link(scene: Scene) -> None:
    scene.config.rename(scene.bundle / "real.json")
    scene.config.symlink_to("real.json")


def _as_directory(scene: Scene) -> None:
    scene.config.mkdir()


def _as_fifo(scene: Scene) -> None:
    os.mkfifo(scene.config)


def _other_spec(name: str, text: str) -> Callable[[Scene], object]:
    return lambda scene: (scene.specs / name).write_text(text)


def _same_device(scene: Scene) -> None:
    (scene.specs / "twin.json").write_text(
        json.dumps({**SPEC, "devices": [{"name": "1", "containerEdits": {"env": ["GPU=twin"]}}]})
    )


def _with_all(scene: Scene) -> None:
    """What an engine leaves that has applied the devices itself, and kept the annotation."""
    scene.write(asking("1", process={"env": ["PATH=/bin", "DRIVER=1", "VISIBLE=void", "GPU=1"], "cwd": "/"}))


_PODMAN = "podman-annotations"
_CRIO: dict[str, Any] = {"environ": {"CRI_O_EXTERNAL": "1"}}  # as it calls


def _annotated(annotations: Json) -> Json:
    return asking() | {"annotations": {"cdi.k8s.io/x": f"{KIND}=1", **annotations}}


_LOCKED = "locked = true\n"


def _lock(scene: Scene) -> None:
    lock = lock_writer.make(directories.read([str(scene.specs)]).specs)
    (scene.directory / "cdi.lock").write_text(lock_writer.encode(lock))


def _lock_and_change(scene: Scene) -> None:
    _lock(scene)
    path = scene.specs / "gpu.json"
    path.write_text(path.read_text().replace("DRIVER=1", "DRIVER=2"))


def _lock_and_touch(scene: Scene) -> None:
    """Another identity and the same content."""
    _lock(scene)
    os.utime(scene.specs / "gpu.json")


_ANY = '[sources]\nenvironment = "any"\nmounts = "any"\nvariables = {VISIBLE = "acme.example/gpu"}\n'
_PRIVILEGED = _ANY.replace('"any"', '"privileged"')
_ONE_DEVICE = {"type": "c", "major": 1, "minor": 3, "path": "/dev/null"}
_MOUNT = {"destination": "/var/run/nvidia-container-devices/1", "source": "/dev/null", "type": "bind"}
_SANDBOX = {"io.kubernetes.cri.container-type": "sandbox", "io.kubernetes.cri.sandbox-id": ID}
_CRIO_SANDBOX = {
    MANAGER: "cri-o",
    "io.kubernetes.cri-o.ContainerType": "sandbox",
    "io.kubernetes.cri-o.SandboxID": ID,
}

CASES: dict[str, Case] = {
    # the specs are locked
    "specs as they were locked": Case(asking("0"), settings=_LOCKED, prepare=_lock),
    "a spec that was locked and written again": Case(asking("0"), settings=_LOCKED, prepare=_lock_and_touch),
    "a spec that is not as it was locked": Case(
        asking("0"), settings=_LOCKED, prepare=_lock_and_change, ids="SPEC_UNLOCKED"
    ),
    "no lock": Case(asking("0"), settings=_LOCKED, ids="SPEC_UNLOCKED"),
    "no lock, and no request": Case({}, settings=_LOCKED),
    # nothing asks
    "an empty object": Case({}),
    "no request": Case(variables("PATH=/bin")),
    "annotations that are empty": Case({"annotations": {}}),
    "annotations that are null": Case({"annotations": None}),
    "annotations that are a list": Case({"annotations": ["cdi.k8s.io/x"]}),
    "a foreign annotation": Case({"annotations": {"a.example/x": f"{KIND}=0"}}),
    "a name twice, and no request": Case('{"hostname": "a", "hostname": "b"}'),
    "a link, and no request": Case({}, prepare=_as_link),
    "a working directory below /proc, and no request": Case({"process": {"cwd": "/proc/self/fd/7"}}),
    "an unknown option, and no request": Case({}, unknown="--new"),
    "a misspelt member, and no request": Case({"Process": {}}),
    "restore, and no request": Case({}, verb="restore"),
    "an annotation that nearly asks": Case({"annotations": {"CDI.k8s.io/x": f"{KIND}=0"}}, ids="ANNOTATION_NEAR"),
    "a name twice, one of which asks": Case(
        '{"annotations": {"cdi.k8s.io/x": "acme.example/gpu=0"}, "annotations": {}}', ids="CONFIG_JSON"
    ),
    "a misspelt member that asks": Case({"Annotations": {"cdi.k8s.io/x": f"{KIND}=0"}}, ids="CONFIG_JSON"),
    # sandboxes
    "a sandbox of containerd": Case(_annotated(_SANDBOX)),
    "a sandbox of CRI-O": Case(_annotated(_CRIO_SANDBOX), **_CRIO),
    "a container that calls itself a sandbox": Case(_annotated({**_SANDBOX, "io.kubernetes.cri.sandbox-id": "other"})),
    # engines
    "an annotation of a Pod of CRI-O": Case(_annotated({MANAGER: "cri-o"}), **_CRIO, ids="REQUEST_IGNORED"),
    "an annotation of a container of CRI-O": Case(
        _annotated({MANAGER: "cri-o", OWN: json.dumps({"cdi.k8s.io/x": f"{KIND}=1"})}), **_CRIO
    ),
    "an annotation under an unknown podman": Case(
        _annotated({MANAGER: "libpod"}), settings=f'[sources]\n{_PODMAN} = "refuse"\n', ids="REQUEST_ORIGIN"
    ),
    "an annotation under an unknown podman, ignored": Case(
        _annotated({MANAGER: "libpod"}), settings=f'[sources]\n{_PODMAN} = "ignore"\n', ids="REQUEST_IGNORED"
    ),
    "an annotation under any podman": Case(_annotated({MANAGER: "libpod"})),
    "a label of nerdctl": Case({"annotations": {"cdi.k8s.io/nerdctl/x": f"{KIND}=1"}}, ids="REQUEST_ORIGIN"),
    # files that are no config.json
    "no file": Case(None),
    "no file, and --device": Case(None, ("0",), ids="CONFIG_JSON"),
    "an empty file": Case(""),
    "no JSON": Case("{"),
    "no JSON, and a request": Case('{"annotations": {"cdi.k8s.io/x": ', ids="CONFIG_JSON"),
    "no JSON, and --device": Case("{", ("0",), ids="CONFIG_JSON"),
    "no object": Case("[]"),
    "no UTF-8": Case(b'{"a": "\xff"}'),
    "no UTF-8, and a request": Case(b'{"annotations": {"cdi.k8s.io/x": "\xff"}}', ids="CONFIG_JSON"),
    "a directory": Case(None, prepare=_as_directory),
    "a FIFO, and --device": Case(None, ("0",), prepare=_as_fifo, ids="CONFIG_JSON"),
    # requests
    "an annotation": Case(asking("0")),
    "--device": Case(variables("PATH=/bin"), (f"{KIND}=0",)),
    "--device with a bare name": Case({}, ("1",)),
    "two requests for one device": Case(asking("0"), ("0", f"{KIND}=0")),
    "two devices, one of which overrides": Case(asking("0", "1")),
    "an unknown device": Case(asking("7"), ids="DEVICE_UNKNOWN"),
    "an unknown kind": Case(asking("acme.example/gpx=0"), ids="DEVICE_UNKNOWN"),
    "one unknown device of two": Case(asking("0", "7"), ids="DEVICE_UNKNOWN"),
    "an annotation that holds no names": Case({"annotations": {"cdi.k8s.io/x": "all gpus"}}, ids="ANNOTATION_INVALID"),
    "a --device that is no name": Case({}, ("/dev/null",), ids="DEVICE_NAME"),
    "too many devices": Case(asking(*(f"{number}" for number in range(200, 330))), ids="REQUEST_LIMIT"),
    "too long a name": Case(asking("x" * 300), ids="REQUEST_LIMIT"),
    "an unknown option": Case(asking("0"), unknown="--new", ids="OPTION_UNKNOWN"),
    # what config.json says otherwise
    "a link that asks": Case(asking("0"), prepare=_as_link, ids="CONFIG_JSON"),
    "a name twice that asks": Case(
        json.dumps(asking("0")).replace("{", '{"hostname": "a", "hostname": "b", ', 1), ids="CONFIG_JSON"
    ),
    "a member that is misspelt": Case(asking("0", Linux={"devices": []}), ids="CONFIG_JSON"),
    "a working directory below /proc": Case(asking("0") | {"process": {"cwd": "/proc/self/fd/7"}}, ids="CWD_FORBIDDEN"),
    "a working directory through /proc": Case(
        asking("0") | {"process": {"cwd": "/proc/self/../../etc"}}, ids="CWD_FORBIDDEN"
    ),
    "a process that is a list": Case(asking("0") | {"process": []}, ids="CONFIG_JSON"),
    "an env that is a text": Case(asking("0") | {"process": {"env": "A=b"}}, ids="CONFIG_JSON"),
    "mounts that are an object": Case(asking("0", mounts={}), ids="CONFIG_JSON"),
    "hooks that are a list": Case(asking("foreign", hooks=[]), ids="HOOK_ENVIRONMENT CONFIG_JSON"),
    "linux that is null": Case(asking("0", linux=None)),
    "devices that are numbers": Case(asking("0", linux={"devices": [1, 2]})),
    "everything is there": Case(None, prepare=_with_all),
    "a node that is there with other numbers": Case(asking("0", linux={"devices": [{**_ONE_DEVICE, "minor": 5}]})),
    "a rule behind a denial": Case(asking("0", linux={"resources": {"devices": [{"allow": False, "access": "rwm"}]}})),
    "a variable that is there": Case(asking("1") | {"process": {"env": ["GPU=9", "GPU=8"]}}),
    # edits
    "a node under another name": Case(asking("renamed")),
    "a node with stale numbers": Case(asking("stale"), ids="DEVNUM_STALE"),
    "a node that the spec alone has": Case(asking("phantom"), ids="NODE_PHANTOM"),
    "a node that the spec alone has, in a user namespace": Case(
        asking("phantom", **_user_namespace((0, 100000, 65536))), ids="NODE_UNUSABLE"
    ),
    "a node of another type": Case(asking("block"), ids="NODE_UNUSABLE"),
    "a node that is gone": Case(asking("gone"), ids="NODE_UNUSABLE"),
    "a node that is a file": Case(asking("regular"), ids="NODE_UNUSABLE"),
    "a class of the cache": Case(asking("cache")),
    "mounts into the kernel's file systems": Case(asking("proc"), ids="TARGET_FORBIDDEN TARGET_FORBIDDEN"),
    "a mount in place of the root": Case(asking("root"), ids="TARGET_FORBIDDEN"),
    "a mount that is no bind mount by its options": Case(asking("unbound")),
    "a mount of a path that is missing": Case(asking("missing"), ids="MOUNT_MISSING"),
    "a mount of a version that is missing": Case(asking("former"), ids="MOUNT_MISSING"),
    "a mount with shared propagation": Case(asking("shared"), ids="MOUNT_OPTION"),
    "a mount option with a comma": Case(asking("comma"), ids="MOUNT_OPTION"),
    # hooks
    "a foreign hook": Case(asking("foreign"), ids="HOOK_ENVIRONMENT"),
    "a hook that is there": Case(
        asking("foreign", hooks={"createContainer": [{"path": "/bin/true", "args": ["true"]}]}), ids="HOOK_ENVIRONMENT"
    ),
    "a hook of our own": Case(asking("own")),
    "a hook of our own, not folded": Case(asking("own"), settings='[hooks]\nfold = "off"\n'),
    "a hook of our own, folded": Case(asking("own"), settings='[hooks]\nfold = "ours"\n'),
    "a hook of our own, in a read-only root": Case(asking("own", root={"path": "rootfs", "readonly": True})),
    "a hook of our own without a root": Case(asking("own", root={}), settings='[hooks]\nfold = "ours"\n'),
    "a hook of a vendor": Case(asking("vendor")),
    "a hook of a vendor, folded": Case(asking("vendor"), settings='[hooks]\nfold = "known"\n'),
    "a hook of a late stage": Case(asking("late"), ids="HOOK_STAGE"),
    "a hook of the container": Case(asking("inside")),
    "a hook behind links": Case(asking("linked")),
    "a hook without its program": Case(asking("no-program"), ids="HOOK_MISSING"),
    "a hook that everybody can write": Case(asking("open-program"), ids="HOOK_UNTRUSTED"),
    "two faults": Case(asking("proc", "no-program"), ids="TARGET_FORBIDDEN TARGET_FORBIDDEN HOOK_MISSING"),
    # network interfaces
    "an interface": Case(asking("port", linux={"namespaces": [{"type": "network"}]})),
    "an interface in the host's network": Case(asking("port"), ids="NETDEV_HOST_NETWORK"),
    "an interface with a bad name": Case(
        asking("bad-port", linux={"namespaces": [{"type": "network"}]}), ids="NETDEV_NAME"
    ),
    # user namespaces
    "a user namespace": Case(asking("0", **_user_namespace((0, 100000, 40), (44, 44, 1)))),
    "a user namespace without the group": Case(asking("0", **_user_namespace((0, 100000, 10))), ids="GID_UNMAPPED"),
    "a user namespace and a renamed node": Case(asking("renamed", **_user_namespace((0, 100000, 65536)))),
    "a user namespace that is joined": Case(asking("0", **_user_namespace(path="/proc/self/ns/user"))),
    "an interface without root": Case(
        asking("port", linux={"namespaces": [{"type": "network"}]}), rootful=False, ids="NETDEV_ROOTLESS"
    ),
    "hooks without root": Case(asking("foreign", "linked"), rootful=False, ids="HOOK_ENVIRONMENT"),
    # sources that an image can write to
    "a variable, source off": Case(variables("NVIDIA_VISIBLE_DEVICES=all")),
    "a variable": Case(variables("VISIBLE=1", "A=b"), settings=_ANY),
    "a variable twice": Case(variables("VISIBLE=0", "A=b", "VISIBLE=1"), settings=_ANY),
    "a variable with the value void": Case(variables("VISIBLE=void"), settings=_ANY),
    "a variable with the value none": Case(variables("VISIBLE=none"), settings=_ANY),
    "a variable that names no device": Case(variables("VISIBLE=$(id)"), settings=_ANY, ids="SOURCE_VALUE"),
    "a variable of a container with rights": Case(variables("VISIBLE=1", privileged=True), settings=_PRIVILEGED),
    "a variable of a container without": Case(variables("VISIBLE=1"), settings=_PRIVILEGED, ids="SOURCE_UNPRIVILEGED"),
    "a mount": Case(variables(mounts=[_MOUNT]), settings=_ANY),
    "a mount, source off": Case(variables(mounts=[_MOUNT])),
    "a variable and an annotation": Case(asking("0") | variables("VISIBLE=1"), settings=_ANY),
    # the configuration
    "a key that means nothing": Case(asking("0"), settings='speed = "high"\n', ids="SETTINGS_UNKNOWN_KEY"),
    "a broken configuration, and no request": Case({}, settings="[cdi\n"),
    "a broken configuration": Case(asking("0"), settings="[cdi\n", ids="SETTINGS"),
    "a bad value, and a variable": Case(variables("VISIBLE=1"), settings=_ANY + "[hooks]\nfold = 1\n", ids="SETTINGS"),
    "a bad value, --device, and a variable that names no device": Case(
        variables("VISIBLE=$(id)"), ("acme.example/gpu=0",), settings=_ANY + "[hooks]\nfold = 1\n", ids="SETTINGS"
    ),
    "a configuration that is gone": Case(asking("0"), prepare=lambda scene: scene.settings.unlink(), ids="SETTINGS"),
    "a configuration that everybody can write": Case(
        asking("0"), prepare=lambda scene: scene.settings.chmod(0o666), ids="SETTINGS_UNTRUSTED"
    ),
    "annotations switched off": Case(asking("0"), settings="annotation-prefixes = []\n"),
    # specs
    "a spec that is damaged": Case(asking("0"), prepare=_other_spec("bad.yaml", "kind: [")),
    "a device that only a damaged spec has": Case(
        asking("7"), prepare=_other_spec("bad.json", '{"kind": 1}'), ids="DEVICE_UNKNOWN SPEC_INVALID"
    ),
    "a device that two specs have": Case(asking("1"), prepare=_same_device, ids="SPEC_CONFLICT"),
    "a spec that everybody can write": Case(
        asking("0"), prepare=lambda scene: (scene.specs / "gpu.json").chmod(0o666), ids="DEVICE_UNKNOWN SPEC_UNTRUSTED"
    ),
    "a spec directory that everybody can write": Case(
        asking("0"), prepare=lambda scene: scene.specs.chmod(0o777), ids="DEVICE_UNKNOWN SPEC_UNTRUSTED"
    ),
    "a spec directory that is gone": Case(
        asking("0"), prepare=lambda scene: scene.specs.rename(f"{scene.specs}.old"), ids="DEVICE_UNKNOWN"
    ),
    # restore
    "a checkpoint that asks": Case(asking("1"), verb="restore", ids="RESTORE_UNTRUSTED"),
    "a checkpoint that has everything": Case(None, verb="restore", prepare=_with_all),
    "a checkpoint with hooks": Case(asking("own"), verb="restore", ids="RESTORE_UNTRUSTED"),
}
