"""Folding: what create does itself is what the hook would have done, and all else is left to it."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from unit.native import calls
from unit.native.elves import library
from unit.native.trees import CONF, Entry, build, picture

from shim.cdi.plan import Plan
from shim.config.settings import KNOWN, OFF, OURS
from shim.create import fold, merge
from shim.create.invocation import Invocation
from shim.create.world import World
from shim.host import ldcache

SHIM = str(Path(sys.executable).parent / "shim")
LIB = "usr/lib/x86_64-linux-gnu"
LIBC: dict[str, Entry] = {"etc/ld.so.conf": CONF, f"{LIB}/ld-linux-x86-64.so.2": library("ld-linux-x86-64.so.2")}
LDCACHE = ["hook", "update-ldcache", "--folder", f"/{LIB}"]


def hook(*words: str, path: str = SHIM, name: str = "shim", stage: str = "createContainer") -> dict[str, Any]:
    return {"hookName": stage, "path": path, "args": [name, *words], "env": ["A=1"], "timeout": 10}


class Scene:
    """A bundle, a driver of some libraries on the host, and a plan that mounts them."""

    def __init__(self, path: Path, image: dict[str, Entry] | None = None) -> None:
        self.path = path
        self.root = build(path / "bundle" / "rootfs", LIBC if image is None else image)
        self.driver = path / "driver"
        self.driver.mkdir()
        for name in ("libcuda.so", "libml.so"):
            (self.driver / f"{name}.550.1").write_bytes(library(f"{name}.1"))
        self.config: dict[str, Any] = {
            "root": {"path": "rootfs"},
            "mounts": [{"destination": "/dev", "type": "tmpfs", "source": "tmpfs"}, {"destination": "/proc"}],
        }
        self.mounts = [
            {"hostPath": str(file), "containerPath": f"/{LIB}/{file.name}", "options": ["ro", "bind"]}
            for file in sorted(self.driver.iterdir())
        ]
        self.nodes: list[dict[str, Any]] = []
        self.low = "/usr/bin/runc"

    def fold(self, *hooks: dict[str, Any], which: str = OURS) -> tuple[dict[str, Any], list[Any]]:
        """Fold the plan; the config and what was done. Nothing that was given is changed."""
        edits = {"mounts": self.mounts, "deviceNodes": self.nodes, "hooks": list(hooks)}
        plan = Plan(["a.b/c=d"], [{"spec": "/etc/cdi/a.json", "device": "d", "edits": edits}])
        words = [f"low={self.low}", "name=shim", f"self={SHIM}", "verb=create", f"bundle={self.path / 'bundle'}", "--"]
        edited = merge.add(plan, self.config)
        before = copy.deepcopy((edited, self.config, plan.origins))
        folded, done = fold.fold(edited, self.config, plan, Invocation(words), World(), which, rootful=True)
        assert (edited, self.config, plan.origins) == before
        return folded, [name for one in done for name in one["names"]]

    def names(self, file: Path | None = None) -> set[str]:
        """What the loader finds by name."""
        data = (file or self.root / "etc/ld.so.cache").read_bytes()
        return {entry.key for entry in ldcache.decode(data).entries}


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def args(config: dict[str, Any]) -> list[list[str]]:
    return [entry["args"] for stage in (config.get("hooks") or {}).values() for entry in stage]


def test_a_cache_is_made_and_the_hook_is_not_in_the_config(scene: Scene) -> None:
    folded, done = scene.fold(hook(*LDCACHE))
    assert done == ["update-ldcache"]
    assert "hooks" not in folded
    assert scene.names() >= {"libcuda.so.1", "libml.so.1"}


def test_a_second_create_changes_nothing(scene: Scene) -> None:
    everything = hook(*LDCACHE, "create-symlinks", "--link", f"libcuda.so.1::/{LIB}/libcuda.so")
    folded, done = scene.fold(everything)
    assert done == ["create-symlinks", "update-ldcache"]
    before = picture(scene.path)
    for _ in range(4):
        scene.config = folded
        assert scene.fold(everything)[0] == folded
    assert picture(scene.path) == before


def run_the_hook(scene: Scene, config: dict[str, Any], entry: dict[str, Any]) -> None:
    """Start a hook as runc does: in a mount namespace in which all is mounted."""
    bundle = scene.path / "bundle"
    (bundle / "config.json").write_text(json.dumps(config))
    (bundle / "state").write_text(json.dumps({"bundle": str(bundle)}))
    script = "mount --make-rprivate /\n"
    for mount in config["mounts"]:
        point = f"{scene.root}{mount['destination']}"
        source = mount.get("source", "")
        if mount.get("type") == "tmpfs":
            script += f"mkdir -p {point}; mount -t tmpfs tmpfs {point}\n"
        elif source.startswith("/"):
            make = "mkdir -p" if Path(source).is_dir() else "install -m 755 -D /dev/null"
            script += f"test -e {point} || {make} {point}; mount --bind {source} {point}\n"
    for node in (config.get("linux") or {}).get("devices", []):
        script += f": > {scene.root}{node['path']}\n"
    script += f"exec -a {entry['args'][0]} {SHIM} {' '.join(entry['args'][1:])} < {bundle}/state"
    done = subprocess.run(
        ["unshare", "-m", "bash", "-ec", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    (bundle / "config.json").unlink()
    (bundle / "state").unlink()


EVERYTHING = [
    *("hook", "create-symlinks", "enable-cuda-compat", "update-ldcache", "update-application-profile"),
    *("--folder", f"/{LIB}", "--folder", "/opt/lent", "--link", f"libcuda.so.1::/{LIB}/libcuda.so"),
    *("--host-driver-version", "550.1"),
]


@pytest.mark.parametrize("lent", [False, True], ids=["files", "files and a directory"])
def test_the_tree_is_that_of_the_hook(tmp_path: Path, lent: bool) -> None:
    image = {**LIBC, "usr/local/cuda/compat/libcuda.so.560.1": library("libcuda.so.1"), f"{LIB}/libold.so.1": library()}
    hooked, folded = Scene(tmp_path / "hooked", image), Scene(tmp_path / "folded", image)
    for scene in (hooked, folded):
        scene.nodes = [{"path": "/dev/nvidia3", "type": "c", "major": 195, "minor": 3}]
        if lent:
            (scene.path / "lent").mkdir()
            (scene.path / "lent/libl.so.2").write_bytes(library("libl.so.1"))
            scene.mounts.append(
                {"hostPath": str(scene.path / "lent"), "containerPath": "/opt/lent", "options": ["rbind"]}
            )
    config, done = folded.fold(hook(*EVERYTHING))
    assert done == EVERYTHING[1:5]
    (hooked.root / "dev").mkdir()
    (folded.root / "dev").mkdir()
    (hooked.root / "proc").mkdir()
    (folded.root / "proc").mkdir()
    given = json.loads(json.dumps(config).replace(str(folded.path), str(hooked.path)))
    run_the_hook(hooked, given, hook(*EVERYTHING))
    assert picture(folded.root) == picture(hooked.root)
    assert hooked.names() >= {"libcuda.so", "libcuda.so.1", "libml.so.1"} | ({"libl.so.1"} if lent else set())


# --- left to the hook -----------------------------------------------------------------------------------------------


def bind(scene: Scene, destination: str, *, file: bool = False) -> dict[str, Any]:
    """A volume of the user's."""
    source = scene.path / "volume"
    if file:
        source.write_text("")
    else:
        source.mkdir()
    return {"destination": destination, "source": str(source), "type": "bind", "options": ["bind"]}


COVERS: dict[str, tuple[str, list[str]]] = {
    "the library directory": (f"/{LIB}", ["create-symlinks", "update-ldcache"]),
    "a directory above it": ("/usr", ["create-symlinks", "update-ldcache"]),
    "the whole root": ("/", ["create-symlinks", "update-ldcache"]),
    "what a link to it leads to": ("/lib/x86_64-linux-gnu", ["create-symlinks", "update-ldcache"]),
    "a directory of the loader's configuration": ("/data/lib", ["update-ldcache"]),
    "one that a dangling link of the image leads to": ("/volume", ["update-ldcache"]),
    "the loader's configuration": ("/etc/ld.so.conf.d", ["update-ldcache"]),
    "where the cache is written": ("/etc", ["update-ldcache"]),
    "the cache": ("/etc/ld.so.cache", ["update-ldcache"]),
    "one library": (f"/{LIB}/libof-the-user.so.1", ["update-ldcache"]),
    "libraries for better processors": (f"/{LIB}/glibc-hwcaps/x86-64-v3", ["update-ldcache"]),
    "where the link is": (f"/{LIB}/libcuda.so", ["create-symlinks", "update-ldcache"]),
    "a directory that nobody looks at": ("/srv", []),
    "a file that nobody looks at": (f"/{LIB}/gconv/gconv-modules", []),
    "a directory beside the libraries": ("/usr/lib/modules", []),
    "the name of another file": ("/etc/hosts", []),
    "a name that only begins alike": ("/usrlocal", []),
}


@pytest.mark.parametrize(("destination", "left"), COVERS.values(), ids=COVERS.keys())
def test_what_another_mount_covers_is_left_to_the_hook(tmp_path: Path, destination: str, left: list[str]) -> None:
    conf = f"{CONF}/data/lib\n/opt/link\n"
    scene = Scene(tmp_path, {**LIBC, "etc/ld.so.conf": conf, "lib": "-> usr/lib", "opt/link": "-> /volume/lib"})
    scene.config["mounts"].append(bind(scene, destination))
    words = [*LDCACHE, "create-symlinks", "--link", f"libcuda.so.1::/{LIB}/libcuda.so"]
    folded, done = scene.fold(hook(*words))
    assert done == [name for name in ("create-symlinks", "update-ldcache") if name not in left]
    # the rest of the entry stays, with all its options
    rest = [word for word in words if word not in done]
    assert args(folded) == ([["shim", *rest]] if left else [])
    assert (scene.root / "etc/ld.so.cache").exists() == (not left)


ON_THE_WAY: dict[str, tuple[dict[str, Entry], str, str]] = {
    "a directory of ld.so.conf is a link there": ({"opt/v": "-> /usr/lib/drv"}, "/opt/v\n", "/opt"),
    "a link on the way is a link there": ({"opt/v": "-> /usr/lib"}, "/opt/v/drv\n", "/opt"),
    "a link leads through it by ..": ({"srv": "-> opt/v/..", "opt/v": "-> /usr/lib/drv"}, "/srv/drv\n", "/opt/v"),
    "a link leads there first": ({"srv": "-> opt/v", "opt/v": "-> ../usr/lib/drv"}, "/srv\n", "/opt"),
    "an included file": ({"opt/v": "-> /etc/v", "etc/v/a.conf": "/usr/lib/drv\n"}, "include /opt/v/*.conf\n", "/opt"),
    "a library's link": ({f"{LIB}/libd.so.2": "-> /opt/v/libd.so.1", "opt/v": "-> /usr/lib/drv"}, "", "/opt"),
    "a mount point's link is there": ({"srv/v": "-> /usr/lib/drv"}, "/usr/lib/drv\n", "/srv/v"),
}


@pytest.mark.parametrize(("image", "conf", "covered"), ON_THE_WAY.values(), ids=ON_THE_WAY.keys())
@pytest.mark.parametrize("mount", ["a tmpfs", "nothing"])
def test_a_way_through_a_directory_that_will_be_covered_is_left_to_the_hook(
    tmp_path: Path, image: dict[str, Entry], conf: str, covered: str, mount: str
) -> None:
    """Only the end of a path was compared, after the links of the image: the cache named files that were not there."""
    image = {**LIBC, "usr/lib/drv/libd.so.1": library("libd.so.1"), **image}
    scene = Scene(tmp_path, {**image, "etc/ld.so.conf": f"{CONF}{conf}"})
    if mount == "a tmpfs":
        scene.config["mounts"].append({"destination": covered, "source": "tmpfs", "type": "tmpfs"})
    assert scene.fold(hook(*LDCACHE))[1] == (["update-ldcache"] if mount == "nothing" else [])


@pytest.mark.parametrize("links", [False, True])
def test_a_mount_point_below_a_mount_lies_where_that_leads(tmp_path: Path, links: bool) -> None:
    """In what is mounted first a link of the same path as the second's mount point leads that to the libraries."""
    scene = Scene(tmp_path, {**LIBC, "srv/v": None, f"{LIB}/drv/libd.so.1": library("libd.so.1")})
    volume = bind(scene, "/srv")
    if links:
        (scene.path / "volume/v").symlink_to(f"/{LIB}")
    else:
        (scene.path / "volume/v").mkdir()
    scene.config["mounts"] += [volume, {"destination": "/srv/v", "source": "tmpfs", "type": "tmpfs"}]
    assert scene.fold(hook(*LDCACHE))[1] == ([] if links else ["update-ldcache"])


@pytest.mark.parametrize(
    ("name", "image", "conf"),
    [
        ("a directory by .. behind a link", {"opt/l": "-> /usr/lib"}, "/opt/l/../sdk/lib\n"),
        ("a link up, in a directory that is named by a link", {"lib": "-> /usr/lib"}, "/lib/x\n"),
    ],
)
def test_only_the_text_of_a_path_leads_into_a_directory_of_the_plan(
    tmp_path: Path, name: str, image: dict[str, Entry], conf: str
) -> None:
    """The way leads elsewhere, to nothing: the cache named a library that the container does not find there."""
    image = {**LIBC, **image, "usr/lib/x/libs.so.9": "-> ../../opt/sdk/lib/libs.so.1"}
    scene = Scene(tmp_path, {**image, "etc/ld.so.conf": f"{CONF}{conf}"})
    (scene.path / "sdk/lib").mkdir(parents=True)
    (scene.path / "sdk/lib/libs.so.1").write_bytes(library("libs.so.1"))
    scene.mounts.append({"hostPath": str(scene.path / "sdk"), "containerPath": "/opt/sdk", "options": ["rbind"]})
    done = scene.fold(hook(*LDCACHE))[1]
    assert not done or "libs.so.1" not in scene.names(), name


def test_mounts_are_made_one_after_the_other(tmp_path: Path) -> None:
    """The image's link leads a mount to the libraries, unless an earlier mount hides the link."""
    root = build(tmp_path / "root", {**LIBC, "srv/v": f"-> /{LIB}"})
    covers = [("/srv", "", False), ("/srv/v", "", False)]
    call = calls.hook_call("update-ldcache", "--folder", f"/{LIB}")
    call.run("update-ldcache", str(root), covers=covers)
    with pytest.raises(OSError, match=f"/{LIB} will be covered by a mount"):
        call.run("update-ldcache", str(root), covers=covers[::-1])


def test_a_directory_of_the_plan_is_searched_where_the_host_has_it(scene: Scene) -> None:
    """Parts of it as well, but for ways through links: only in the container is it seen where they lead."""
    sdk = scene.path / "sdk"
    (sdk / "lib/glibc-hwcaps/x86-64-v2").mkdir(parents=True)
    (sdk / "lib/libs.so.1.2").write_bytes(library("libs.so.1"))
    (sdk / "lib/glibc-hwcaps/x86-64-v2/libv.so.1").write_bytes(library("libv.so.1"))
    (sdk / "lib64").symlink_to("lib")
    scene.mounts.append({"hostPath": str(sdk), "containerPath": "/opt/sdk", "options": ["rbind"]})
    before = picture(sdk)
    assert scene.fold(hook("hook", "update-ldcache", "--folder", "/opt/sdk/lib"))[1] == ["update-ldcache"]
    assert scene.names() >= {"libs.so.1", "libv.so.1"}
    assert scene.fold(hook("hook", "update-ldcache", "--folder", "/opt/sdk/lib64"))[1] == []
    assert scene.fold(hook("hook", "create-symlinks", "--link", "x::/opt/sdk/lib/y"))[1] == []
    (sdk / "lib/libout.so.1").symlink_to("/usr/lib/libin-the-image.so.1")
    assert scene.fold(hook("hook", "update-ldcache", "--folder", "/opt/sdk/lib"))[1] == []
    (sdk / "lib/libout.so.1").unlink()
    assert picture(sdk) == before


def test_a_link_that_leads_to_where_a_volume_will_be_stays(tmp_path: Path) -> None:
    """ldconfig removes links that lead to nothing; this one will lead to something."""
    scene = Scene(tmp_path, {**LIBC, f"{LIB}/libdata.so.1": "-> /data/libdata.so.1", f"{LIB}/libgone.so.1": "-> gone"})
    scene.config["mounts"].append(bind(scene, "/data"))
    assert scene.fold(hook(*LDCACHE))[1] == []
    assert (scene.root / LIB / "libdata.so.1").is_symlink()
    del scene.config["mounts"][-1]
    assert scene.fold(hook(*LDCACHE))[1] == ["update-ldcache"]
    assert not (scene.root / LIB / "libgone.so.1").is_symlink()


def test_a_link_in_the_place_of_a_mounted_file_is_left_to_the_hook(scene: Scene) -> None:
    link = hook("hook", "create-symlinks", "--link", f"x::/{LIB}/libcuda.so.550.1")
    assert scene.fold(link)[1] == []


ROOTS: dict[str, Any] = {
    "no root": None,
    "a root without a path": {},
    "a root that is not there": {"path": "none"},
    "an empty root": {"path": "empty"},
    "a root that is a link": {"path": "link"},
    "the host's own": {"path": "/"},
}


@pytest.mark.parametrize("root", ROOTS.values(), ids=ROOTS.keys())
def test_without_a_tree_of_its_own_all_is_left_to_the_hook(scene: Scene, root: Any) -> None:
    (scene.path / "bundle/empty").mkdir()
    (scene.path / "bundle/link").symlink_to("rootfs")
    scene.config["root"] = root
    folded, done = scene.fold(hook(*LDCACHE))
    assert (args(folded), done) == ([["shim", *LDCACHE]], [])
    assert list((scene.path / "bundle/empty").iterdir()) == []


@pytest.mark.parametrize(
    ("low", "folds"),
    [
        ("/usr/bin/runc", True),
        ("/usr/local/sbin/runc-1.3", True),
        ("/usr/bin/crun.real", True),
        ("/usr/bin/kata-runtime", False),
        ("/usr/bin/runsc", False),
        ("/opt/runc/youki", False),
        ("/usr/bin/krun", False),
    ],
)
def test_only_runc_and_crun_are_known_to_do_what_we_expect(scene: Scene, low: str, folds: bool) -> None:
    scene.low = low
    assert bool(scene.fold(hook(*LDCACHE))[1]) == folds


VENDOR = {"path": "/opt/nvidia/nvidia-cdi-hook", "name": "nvidia-cdi-hook"}
CTK = {"path": "/usr/bin/nvidia-ctk", "name": "nvidia-ctk"}
FORMS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "ours": (hook(*LDCACHE), [OURS, KNOWN]),
    "the vendor's": (hook(*LDCACHE[1:], **VENDOR), [KNOWN]),
    "the vendor's other one": (hook(*LDCACHE, **CTK), [KNOWN]),
    "the vendor's form of our own": (hook(*LDCACHE[1:], name="nvidia-cdi-hook"), [OURS, KNOWN]),
    "the vendor's with what ldconfig needs": (
        hook("update-ldcache", "--ldconfig-path", "@/sbin/ldconfig", "--folder", f"/{LIB}", **VENDOR),
        [KNOWN],
    ),
    "the vendor's, called by another name": (hook(*LDCACHE[1:], path=VENDOR["path"], name="hook"), [KNOWN]),
    "another program by that name": (hook(*LDCACHE[1:], path="/bin/sh", name="nvidia-cdi-hook"), []),
    "the vendor's with an option of tomorrow": (hook(*LDCACHE[1:], "--new", "x", **VENDOR), []),
    "the vendor's other program, without `hook`": (hook(*LDCACHE[1:], **CTK), []),
    "a hook of tomorrow": (hook("hook", "of-tomorrow"), []),
    "another command of ours": (hook("hook", "netdevices", "attach"), []),
    "no command at all": (hook(), []),
    "on another tree": (hook(*LDCACHE, "--root", "/x"), []),
    "with another state": (hook(*LDCACHE, "--container-spec", "/x"), []),
    "with an option that is wrong": (hook(*LDCACHE, "--none"), []),
    "at another stage": (hook(*LDCACHE, stage="poststart"), []),
    "at an earlier stage": (hook(*LDCACHE, stage="createRuntime"), [OURS, KNOWN]),
    "at an earlier stage of old": (hook(*LDCACHE, stage="prestart"), [OURS, KNOWN]),
    "with another program": (hook("x", path="/bin/true"), []),
}


@pytest.mark.parametrize(("item", "by"), FORMS.values(), ids=FORMS.keys())
@pytest.mark.parametrize("which", [OFF, OURS, KNOWN])
def test_known_hooks_are_told_by_program_and_form(
    scene: Scene, item: dict[str, Any], by: list[str], which: str
) -> None:
    folded, done = scene.fold(item, which=which)
    assert done == (["update-ldcache"] if which in by else [])
    assert args(folded) == ([] if which in by else [item["args"]])


def test_a_hook_that_config_json_has_is_neither_done_nor_removed(scene: Scene) -> None:
    """An engine with CDI of its own put it there."""
    item = hook(*LDCACHE)
    entry = {name: value for name, value in item.items() if name != "hookName"}
    scene.config["hooks"] = {"createContainer": [entry], "poststop": []}
    folded, done = scene.fold(item)
    assert (folded["hooks"], done) == (scene.config["hooks"], [])
    assert not (scene.root / "etc/ld.so.cache").exists()


LINK = hook("hook", "create-symlinks", "--link", "x::/dev/y")  # in the container's /dev, which is not there yet
OTHERS: dict[str, tuple[dict[str, Any], bool]] = {
    "a hook that makes links elsewhere": (LINK, False),
    "a hook of a vendor": (hook("x", path="/bin/true"), False),
    "the same at an earlier stage": (hook("x", path="/bin/true", stage="createRuntime"), False),
    "one that makes no libraries": (hook("chmod", "--mode", "1", **VENDOR), True),
}


@pytest.mark.parametrize(("item", "folds"), OTHERS.values(), ids=OTHERS.keys())
def test_a_cache_is_not_made_before_libraries_that_a_hook_may_make(
    scene: Scene, item: dict[str, Any], folds: bool
) -> None:
    """Of the plan, and of config.json."""
    folded, done = scene.fold(item, hook(*LDCACHE), which=KNOWN)
    assert done == (["update-ldcache"] if folds else [])
    assert args(folded) == [item["args"], *([] if folds else [["shim", *LDCACHE]])]
    is_earlier = item["hookName"] == "createRuntime"
    assert bool(scene.fold(hook(*LDCACHE), item, which=KNOWN)[1]) == (not is_earlier)
    scene.config["hooks"] = {item["hookName"]: [item]}
    # of an engine's own, earlier ones set networks up
    assert bool(scene.fold(hook(*LDCACHE))[1]) == (folds or is_earlier)


def test_a_profile_names_the_nodes_that_the_container_will_have(scene: Scene) -> None:
    scene.nodes = [{"path": path, "type": "c", "major": 195, "minor": 1} for path in ("/dev/nvidia1", "/dev/nvidiactl")]
    scene.config["mounts"].append({"destination": "/dev/nvidia4", "source": "/dev/null", "options": ["bind"]})
    assert scene.fold(hook("hook", "update-application-profile"))[1] == ["update-application-profile"]
    file = scene.root / "etc/nvidia/nvidia-application-profiles-rc.d/10-container.conf"
    assert json.loads(file.read_text())["profiles"][0]["settings"] == ["EGLVisibleDGPUDevices", 0b10010]


def test_without_nodes_of_its_kind_there_is_no_profile(scene: Scene) -> None:
    before = picture(scene.root)
    assert scene.fold(hook("hook", "update-application-profile"))[1] == ["update-application-profile"]
    assert picture(scene.root) == before


# --- owners, and roots that cannot be written -----------------------------------------------------------------------

MAPPED = [{"containerID": 0, "hostID": 70000, "size": 1000}]


@pytest.mark.rootful
def test_what_is_made_belongs_to_the_container_s_root(scene: Scene) -> None:
    before = picture(scene.root)
    scene.config["linux"] = {"namespaces": [{"type": "user"}], "uidMappings": MAPPED, "gidMappings": MAPPED}
    assert scene.fold(hook(*LDCACHE))[1] == ["update-ldcache"]
    made = {path: what for path, what in picture(scene.root).items() if path not in before}
    assert {what[1:3] for what in made.values() if isinstance(what, tuple)} == {(70000, 70000)}
    assert set(made) >= {"etc/ld.so.cache", f"{LIB}/libcuda.so.1", f"{LIB}/libcuda.so.550.1"}


def test_a_root_that_is_nobody_on_the_host_leaves_all_to_the_hook(scene: Scene) -> None:
    scene.config["linux"] = {"namespaces": [{"type": "user"}], "uidMappings": [{**MAPPED[0], "containerID": 5}]}
    assert scene.fold(hook(*LDCACHE))[1] == []


APART = """
import json, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from unit.create.test_fold import Scene, args, hook
scene = Scene.__new__(Scene)
scene.__dict__.update({{name: Path(v) if name in ("path", "root", "driver") else v for name, v in {scene!r}.items()}})
folded, done = scene.fold(hook(*{words!r}))
scene.config = folded
again, _ = scene.fold(hook(*{words!r}))
print(json.dumps([folded, done, again == folded]))
"""


def fold_apart(scene: Scene, words: list[str], script: str) -> tuple[dict[str, Any], list[str]]:
    """Fold in a mount namespace that a shell script has arranged; a second create changes nothing."""
    state = {name: str(value) if isinstance(value, Path) else value for name, value in vars(scene).items()}
    program = APART.format(tests=str(Path(__file__).parents[2]), scene=state, words=words)
    command = [
        "unshare",
        "-m",
        "sh",
        "-ec",
        f'mount --make-rprivate /\n{script}\nexec {sys.executable} -I -c "$0"',
        program,
    ]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    folded, done, is_stable = json.loads(ran.stdout)
    assert is_stable
    return folded, done


def read_only(scene: Scene) -> str:
    return f"mount --bind {scene.root} {scene.root}\nmount -o remount,bind,ro {scene.root}"


@pytest.mark.parametrize(
    ("cache", "folds"), [("old", True), (None, False), ("-> elsewhere", False)], ids=["there", "none", "a link"]
)
@pytest.mark.parametrize("label", ["", "system_u:object_r:container_file_t:s0:c1,c2"])
def test_a_root_that_cannot_be_written_gets_a_cache_of_the_bundle(
    tmp_path: Path, cache: str | None, folds: bool, label: str
) -> None:
    """It can be mounted over a file that is there, and over nothing else. The rest is left to the hook."""
    image: dict[str, Entry] = {**LIBC, f"{LIB}/libcuda.so.550.1": "", f"{LIB}/libml.so.550.1": ""}
    scene = Scene(tmp_path, {**image, "etc/ld.so.cache": cache} if cache else image)
    scene.config["linux"] = {"mountLabel": label}
    words = [*LDCACHE, "create-symlinks", "--link", f"x::/{LIB}/liby.so"]
    folded, done = fold_apart(scene, words, read_only(scene))
    beside = tmp_path / "bundle/shim-ld.so.cache"
    assert (done, beside.exists()) == (["update-ldcache"] if folds else [], folds)
    assert args(folded) == [["shim", *(word for word in words if word not in done)]]
    assert {path.name for path in (tmp_path / "bundle").iterdir()} == {"rootfs", *([beside.name] if folds else [])}
    mounts = [mount for mount in folded["mounts"] if mount["destination"].startswith("/etc")]
    options = ["bind", "ro", "nosuid", "nodev", "noexec", "rprivate"]
    entry = {"destination": "/etc/ld.so.cache", "source": str(beside), "type": "bind", "options": options}
    assert mounts == ([entry] if folds else [])
    if folds:
        assert beside.stat().st_mode & 0o7777 == 0o644
        # no link could be made: the names lead to the files themselves
        entries = ldcache.decode(beside.read_bytes()).entries
        assert {entry.key: entry.value for entry in entries if "cuda" in entry.key} == {
            "libcuda.so.1": f"/{LIB}/libcuda.so.550.1"
        }
        if label and "security.selinux" in os.listxattr(beside):
            assert os.getxattr(beside, "security.selinux") == label.encode() + b"\0"


def test_a_root_with_musl_that_cannot_be_written_is_left_to_the_hook(tmp_path: Path) -> None:
    """Its loader reads no cache."""
    scene = Scene(tmp_path, {"lib/ld-musl-x86_64.so.1": "", "etc/ld.so.cache": ""})
    scene.mounts = []
    assert fold_apart(scene, LDCACHE, read_only(scene))[1] == []


@pytest.mark.parametrize("setting", [0, 1])
def test_the_hook_that_covers_the_driver_s_parameters_stays_where_they_ask_for_it(scene: Scene, setting: int) -> None:
    script = "mount -t tmpfs tmpfs /proc/driver\nmkdir /proc/driver/nvidia\n"
    script += f"echo 'ModifyDeviceFiles: {setting}' > /proc/driver/nvidia/params"
    words = [*LDCACHE, "disable-device-node-modification"]
    folded, done = fold_apart(scene, words, script)
    assert done == ["disable-device-node-modification", "update-ldcache"][setting:], "in the order of one process"
    rest = ["shim", "hook", *LDCACHE[2:], "disable-device-node-modification"]
    assert args(folded) == ([rest] if setting else [])


# --- configs that are none -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "config",
    [
        {"mounts": [{"destination": 7}]},
        {"mounts": [{}]},
        {"mounts": [[]]},
        {"linux": {"devices": [7]}},
        {"root": []},
        {"hooks": {"createContainer": [{"path": SHIM, "args": [7]}, 7, {}]}},
    ],
)
def test_a_config_that_the_runtime_will_refuse_is_left_to_it(scene: Scene, config: dict[str, Any]) -> None:
    scene.config.update(config)
    assert scene.fold(hook(*LDCACHE))[1] == []
