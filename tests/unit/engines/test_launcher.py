"""The launcher that an engine gets: whose it must be, and which runtime it becomes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from shim.base.findings import CdiError
from shim.config.location import VENDOR_FILE
from shim.engines import launcher
from shim.engines.model import Registry, Runtime
from shim.host import identity
from shim.host.host import Host


def _ids(host: Host, path: Path | str) -> list[str]:
    return [finding.id for finding in launcher.faults(host, str(path))]


def test_what_root_alone_can_write_is_trusted(shim_path: Path) -> None:
    assert _ids(Host(), shim_path) == []
    assert _ids(Host(), shim_path.with_name("shim-crun")) == [], "a link to it is the same"


def _give_to_group(path: Path) -> None:
    os.chown(path, 0, 7)
    path.chmod(0o775)


OTHERS: dict[str, Callable[[Path], Path]] = {
    "the launcher": lambda top: top / "bin/shim",
    "its directory": lambda top: top / "bin",
    "the file that names the interpreter": lambda top: top / "lib/shim/launch",
    "the module directory": lambda top: top / "lib/shim/1-1",
    "a directory of modules": lambda top: top / "lib/shim/1-1/shim",
    "an empty directory of modules, in which a module could be put": lambda top: top / "lib/shim/1-1/empty",
    "one module": lambda top: top / "lib/shim/1-1/shim/module.py",
}


@pytest.mark.parametrize("place", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize(
    "harm",
    [lambda path: path.chmod(0o777), lambda path: os.chown(path, 1000, 0), _give_to_group],
    ids=["everybody can write it", "it belongs to a user", "a group can write it"],
)
def test_one_place_that_others_can_write_is_enough(
    shim_path: Path, place: Callable[[Path], Path], harm: Callable[[Path], None]
) -> None:
    harm(place(shim_path.parent.parent))
    found = launcher.faults(Host(), str(shim_path))
    assert [finding.id for finding in found] == ["LAUNCHER_UNTRUSTED"]
    assert str(place(shim_path.parent.parent)) in found[0].text
    with pytest.raises(CdiError, match="start as root"):
        launcher.check(Host(), str(shim_path))


def test_the_interpreter_counts(shim_path: Path, tmp_path: Path) -> None:
    python = tmp_path / "python3"
    python.write_text("")
    launch = shim_path.parent.parent / "lib/shim/launch"
    launch.write_text(launch.read_text().replace("/usr/bin/python3", str(python)))
    assert _ids(Host(), shim_path) == ["LAUNCHER_UNTRUSTED"]


def test_in_a_virtual_environment_the_modules_of_its_newest_python_count(shim_path: Path) -> None:
    top = shim_path.parent.parent
    shutil.rmtree(top / "lib/shim")
    (top / "bin/python3").symlink_to("/usr/bin/python3")
    for name in ("python3.9", "python3.10"):
        (top / f"lib/{name}/site-packages/shim").mkdir(parents=True)
        (top / f"lib/{name}/site-packages/shim/__main__.py").write_text("")
    (top / "lib/python3.11/site-packages").mkdir(parents=True)
    (top / "lib/python3.9/site-packages").chmod(0o777)
    assert _ids(Host(), shim_path) == []
    (top / "lib/python3.10/site-packages/shim/__main__.py").chmod(0o666)
    assert _ids(Host(), shim_path) == ["LAUNCHER_UNTRUSTED"]


@pytest.mark.parametrize("mode", [0o644, None], ids=["not executable", "missing"])
def test_a_launcher_that_cannot_be_started_is_named(shim_path: Path, mode: int | None) -> None:
    shim_path.unlink() if mode is None else shim_path.chmod(mode)
    assert _ids(Host(), shim_path) == ["RUNTIME_BINARY_MISSING"]


# --- the low-level runtime --------------------------------------------------------------------------------------------


@pytest.fixture
def tree(tmp_path: Path, launcher: Path) -> Path:
    """A machine with both runtimes, the launcher, and NVIDIA's runtime."""
    for name in ("usr/sbin/runc", "usr/bin/crun", "usr/bin/nvidia-container-runtime"):
        (tmp_path / "m" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "m" / name).write_text(name)
        (tmp_path / "m" / name).chmod(0o755)
    (tmp_path / "m/usr/local/bin").mkdir(parents=True)
    os.link(launcher, tmp_path / "m/usr/local/bin/shim") if os.stat(launcher).st_dev == os.stat(tmp_path).st_dev else (
        (tmp_path / "m/usr/local/bin/shim").write_bytes(launcher.read_bytes())
    )
    (tmp_path / "m/usr/local/bin/shim").chmod(0o755)
    (tmp_path / "m/usr/local/bin/shim-crun").symlink_to("shim")
    return tmp_path / "m"


def _link(tree: Path, name: str, target: str) -> None:
    (tree / "etc/shim/low-level").mkdir(parents=True, exist_ok=True)
    (tree / "etc/shim/low-level" / name).symlink_to(target)


SHIM = "/usr/local/bin/shim"


def _choose(tree: Path, uses: str, low_level: str = "", path: str = "") -> launcher.Choice:
    registry = Registry(default="default", low_level=uses)
    return launcher.choose(Host(str(tree)), registry, path or SHIM, low_level, fixed=bool(path))


@pytest.mark.rootful
def test_the_runtime_that_the_engine_uses_becomes_the_link(tree: Path) -> None:
    choice = _choose(tree, "/usr/bin/crun")
    assert choice == launcher.Choice(SHIM, "/usr/bin/crun", "/etc/shim/low-level/shim", None)
    assert choice.is_new


def test_a_link_that_is_right_stays(tree: Path) -> None:
    _link(tree, "shim", "/usr/sbin/runc")
    assert not _choose(tree, "/usr/sbin/runc").is_new


@pytest.mark.rootful
def test_a_second_engine_with_another_runtime_gets_a_launcher_of_its_own(tree: Path) -> None:
    _link(tree, "shim", "/usr/sbin/runc")
    choice = _choose(tree, "/usr/bin/crun")
    assert (choice.path, choice.link) == ("/usr/local/bin/shim-crun", "/etc/shim/low-level/shim-crun")


@pytest.mark.rootful
@pytest.mark.parametrize(
    ("path", "remedy"),
    [(SHIM, "--path"), ("", "ln -s shim /usr/local/bin/shim-crun")],
    ids=["the path was asked for", "there is no other launcher"],
)
def test_a_link_that_another_engine_needs_is_not_changed(tree: Path, path: str, remedy: str) -> None:
    _link(tree, "shim", "/usr/sbin/runc")
    (tree / "usr/local/bin/shim-crun").unlink()
    with pytest.raises(CdiError) as refused:
        _choose(tree, "/usr/bin/crun", path=path)
    assert [finding.id for finding in refused.value.findings] == ["LOWLEVEL_TAKEN"]
    assert remedy in refused.value.findings[0].remedy


@pytest.mark.rootful
def test_a_link_is_changed_for_who_asks_for_both(tree: Path) -> None:
    _link(tree, "shim", "/usr/sbin/runc")
    choice = _choose(tree, "/usr/sbin/runc", "crun", SHIM)
    assert (choice.low_level, choice.linked, choice.is_new) == ("/usr/bin/crun", "/usr/sbin/runc", True)


def test_low_level_names_a_program_that_is_there(tree: Path) -> None:
    assert _choose(tree, "/usr/sbin/runc", "crun").low_level == "/usr/bin/crun"
    with pytest.raises(CdiError, match="there are /usr/sbin/runc, /usr/bin/crun") as refused:
        _choose(tree, "/usr/sbin/runc", "kata")
    assert [finding.id for finding in refused.value.findings] == ["LOWLEVEL_MISSING"]


@pytest.mark.parametrize("low_level", ["shim", "shim-crun", SHIM])
def test_the_launcher_is_no_low_level_runtime(tree: Path, low_level: str) -> None:
    """A link to it was written, with which no container started."""
    with pytest.raises(CdiError, match="there are /usr/sbin/runc, /usr/bin/crun") as refused:
        _choose(tree, "/usr/sbin/runc", low_level)
    assert [finding.id for finding in refused.value.findings] == ["LOWLEVEL_MISSING"]


@pytest.mark.parametrize(
    ("uses", "low_level"),
    [
        ("/usr/sbin/runc", "runc"),
        ("/usr/bin/nvidia-container-runtime", ""),
        ("/usr/local/sbin/runc", ""),
        ("", ""),
    ],
    ids=["named", "behind a vendor's runtime", "the engine's own", "where the engine's is missing"],
)
def test_a_link_to_the_launcher_in_a_runtimes_place_is_passed_over(tree: Path, uses: str, low_level: str) -> None:
    """configure searched by rules of its own, and wrote a link that led from the launcher to itself."""
    (tree / "usr/local/sbin").mkdir()
    (tree / "usr/local/sbin/runc").symlink_to("../bin/shim")
    runtimes = {"default": Runtime("default", "/nowhere/runc")}
    registry = Registry(default="default", low_level=uses, runtimes=runtimes)
    chosen = launcher.choose(Host(str(tree)), registry, SHIM, low_level, fixed=False)
    assert chosen.low_level == "/usr/sbin/runc"


@pytest.mark.parametrize("linked", ["/usr/sbin/runc", None])
def test_without_root_a_link_that_is_wanted_is_asked_for(
    tree: Path, monkeypatch: pytest.MonkeyPatch, linked: str | None
) -> None:
    """The refusal came from writing the link, and named no way out."""
    monkeypatch.setattr(identity, "is_rootful", lambda: False)
    if linked:
        _link(tree, "shim", linked)
    with pytest.raises(CdiError) as refused:
        _choose(tree, "/usr/sbin/runc", "crun", SHIM)
    (found,) = refused.value.findings
    assert (found.id, found.remedy) == ("LOWLEVEL_TAKEN", "as root: ln -sf /usr/bin/crun /etc/shim/low-level/shim")
    assert "executes /usr/sbin/runc here" in found.text


def test_an_engine_that_uses_us_already_uses_what_we_become(tree: Path) -> None:
    _link(tree, "shim", "/usr/bin/crun")
    assert _choose(tree, SHIM).low_level == "/usr/bin/crun"


VENDOR: dict[str, tuple[str, str]] = {
    "its list, the first that is there": (
        '[nvidia-container-runtime]\nruntimes = ["docker-runc", "crun", "runc"]',
        "/usr/bin/crun",
    ),
    "an absolute path": ('[nvidia-container-runtime]\nruntimes = ["/usr/bin/crun"]', "/usr/bin/crun"),
    "no list": ("[nvidia-container-runtime]\n", "/usr/sbin/runc"),
    "a file that is no TOML": ("[", "/usr/sbin/runc"),
}


@pytest.mark.parametrize(("text", "expected"), VENDOR.values(), ids=VENDOR)
def test_behind_the_runtime_of_a_vendor_is_what_its_configuration_says(tree: Path, text: str, expected: str) -> None:
    file = tree / VENDOR_FILE.lstrip("/")
    file.parent.mkdir(parents=True)
    file.write_text(text)
    assert _choose(tree, "/usr/bin/nvidia-container-runtime").low_level == expected


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("/usr/bin/runc", "/usr/sbin/runc"),
        ("/opt/bin/crun", "/usr/bin/crun"),
        ("/usr/local/nvidia/toolkit/nvidia-container-runtime", "/usr/sbin/runc"),
    ],
)
def test_a_default_runtime_that_is_not_where_it_is_said_to_be(tree: Path, written: str, expected: str) -> None:
    """The engine cannot start it, which verify says; a file of another distribution can be configured all the same."""
    registry = Registry(default="it", runtimes={"it": Runtime("it", written)})
    assert launcher.choose(Host(str(tree)), registry, SHIM, "", fixed=False).low_level == expected


def test_an_engine_without_any_runtime_is_refused(tree: Path) -> None:
    with pytest.raises(CdiError) as refused:
        _choose(tree, "")
    assert [finding.id for finding in refused.value.findings] == ["LOWLEVEL_MISSING"]


def test_a_launcher_without_its_interpreter_is_broken(shim_path: Path) -> None:
    launch = shim_path.parent.parent / "lib/shim/launch"
    launch.write_text(launch.read_text().replace("/usr/bin/python3", "/opt/python3"))
    assert _ids(Host(), shim_path) == ["SHIM_BROKEN"]
