"""`make install`: what lies where afterwards, that it runs for everybody, and that it never gets in a create's way."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import threading
import time
from pathlib import Path
from types import ModuleType

import click
import pytest
from engines.harness.device import NAME
from engines.harness.sandbox import USER
from install.machine import TOP, Machine, make

import shim
from shim.cli import shim as commands

pytestmark = pytest.mark.engine

NOUNS = commands.list_commands(click.Context(commands))

# What an installation brings besides shim; tomli only for Python 3.10
BUNDLED = (
    *("cffi", "click", "markdown-it-py", "mdurl", "musl", "nvidia-ml-py", "pycparser", "pygments", "pyroute2"),
    *("python-prctl", "pyyaml", "rich", "cdi-shim"),
)

# What lies outside the private directory, with its mode or target
OUTSIDE = {
    "etc/logrotate.d/shim": "644",
    "usr/local/bin/shim": "755",
    "usr/local/bin/shim-crun": "-> shim",
    "usr/local/bin/shim-runc": "-> shim",
    "usr/local/lib/shim/launch": "644",
    "usr/local/lib/systemd/system/shim-cdi-refresh.path": "644",
    "usr/local/lib/systemd/system/shim-cdi-refresh.service": "644",
    "usr/local/lib/systemd/system/shim-gate@.service": "644",
    "usr/local/lib/systemd/system/shim-gate@.socket": "644",
    "usr/local/lib/systemd/system/shim-node-labels.service": "644",
    "usr/local/lib/systemd/system/shim-node-plugin.service": "644",
    "usr/local/lib/udev/rules.d/60-shim-cdi.rules": "644",
    "usr/local/share/bash-completion/completions/shim": "644",
    **{
        f"usr/local/share/doc/cdi-shim/{name}.md": "644"
        for name in (
            "configuration",
            "create",
            "deviations",
            "engines",
            "findings",
            "gate",
            "grants",
            "quickstart",
            "rules",
            "specs",
            "troubleshooting",
        )
    },
    "usr/local/share/doc/cdi-shim/sbom.cdx.json": "644",
    **{f"usr/local/share/doc/cdi-shim/licenses/{name}.txt": "644" for name in BUNDLED},
    **{
        f"usr/local/share/doc/cdi-shim/rules.d/{name}.toml": "644"
        for name in ("fpga-opae", "fpga-xrt", "kvm", "npu-accel", "tpm", "usb-serial", "v4l2", "vfio")
    },
    "usr/local/share/fish/vendor_completions.d/shim.fish": "644",
    **{f"usr/local/share/man/man1/{name}.1": "644" for name in ("shim", *(f"shim-{noun}" for noun in NOUNS))},
    "usr/local/share/zsh/site-functions/_shim": "644",
}
FIRST = f"usr/local/lib/shim/{shim.__version__}-1"
PYTHON = os.path.realpath("/usr/bin/python3")


def _contents(top: Path) -> dict[str, str]:
    """Path -> mode, "-> TARGET" for links, "directory MODE" for directories; asserts that all of it is root's."""
    found = {}
    for path in top.rglob("*"):
        status = path.lstat()
        assert (status.st_uid, status.st_gid) == (0, 0), path
        mode = f"{stat.S_IMODE(status.st_mode):o}"
        kind = f"-> {path.readlink()}" if path.is_symlink() else f"directory {mode}" if path.is_dir() else mode
        found[str(path.relative_to(top))] = kind
    return found


# --- what lies where ------------------------------------------------------------------------------------------------


def test_a_staged_tree_is_exact_whatever_the_umask_and_the_group_of_its_directory(image: Path, tmp_path: Path) -> None:
    stage = tmp_path / "stage"
    stage.mkdir()
    os.chown(stage, 0, 4242)
    stage.chmod(0o2775)
    before = os.umask(0o077)
    try:
        make("install", f"DESTDIR={stage}")
    finally:
        os.umask(before)
    found = _contents(stage)
    private = {path: kind for path, kind in found.items() if path.startswith(f"{FIRST}/")}
    outside = {path: kind for path, kind in found.items() if path not in private and not kind.startswith("directory")}
    assert outside == OUTSIDE
    assert {kind for kind in found.values() if kind.startswith("directory")} == {"directory 755"}
    assert {kind for kind in private.values() if not kind.startswith("directory")} == {"644"}
    modules = {f"{FIRST}/{path.relative_to(image / 'modules')}" for path in (image / "modules").rglob("*")}
    assert set(private) == modules | {f"{FIRST}/manifest.json"}
    assert (stage / "usr/local/lib/shim/launch").read_text() == f"{PYTHON}\n/{FIRST}\n"


def test_modules_and_dependencies_are_compiled_and_exactly_those_of_the_lock(image: Path) -> None:
    modules = image / "modules"
    sources = {path for path in modules.rglob("*.py") if path.parent.name != "__pycache__"}
    tag = PYTHON.rpartition("python")[2].replace(".", "")
    for source in sources:
        compiled = source.parent / "__pycache__" / f"{source.stem}.cpython-{tag}.pyc"
        assert int.from_bytes(compiled.read_bytes()[4:8], "little") == 1, "PEP 552: by hash, never compared"
    locked = dict(re.findall(r"^([\w-]+)==([\w.]+)", (TOP / "packaging/lock.txt").read_text(), re.MULTILINE))
    there = {path.name.removesuffix(".dist-info").partition("-")[::2] for path in modules.glob("*.dist-info")}
    for name, version in there - {("cdi_shim", shim.__version__)}:
        assert f"{name.replace('_', '-')}=={version}" in (TOP / "packaging/lock.txt").read_text()
    assert {"pyyaml", "cffi", "click", "rich"} <= {name for name, _ in there} & set(locked)


def test_the_launcher_is_small(image: Path) -> None:
    """It is read at every call of a runtime."""
    assert (image / "bin/shim").stat().st_size <= 600_000


def test_the_lock_has_hashes_for_everything_and_covers_what_an_installation_has() -> None:
    """Without the extra `node`: gRPC is larger than all the rest, and most hosts are no node of Kubernetes."""
    text = (TOP / "packaging/lock.txt").read_text()
    for entry in re.split(r"\n(?=\w)", text):
        assert "--hash=sha256:" in entry
    project = (TOP / "pyproject.toml").read_text()
    asked = project.partition("dependencies = [")[2].partition("]\n")[0]
    extras = project.partition("[project.optional-dependencies]")[2].partition("\n[")[0]
    asked += extras.partition("node = [")[0]
    assert '"python-prctl>' in asked
    for name in re.findall(r'"([a-z][\w-]*)', asked):
        assert f"\n{name}==" in "\n" + text
    assert "\nnode = [" in extras
    assert "\ngrpcio==" not in text


# --- that it runs ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def installed(machine: Machine) -> Machine:
    machine.place("install", umask="077").ok()
    return machine


@pytest.mark.parametrize("user", [None, USER], ids=["root", "somebody"])
@pytest.mark.parametrize("name", ["shim", "shim-runc", "shim-crun"])
def test_it_runs_for(installed: Machine, name: str, user: str | None) -> None:
    if name == "shim":
        installed.assert_works("/usr/local/bin/shim", user)
    else:
        assert installed.run(f"/usr/local/bin/{name}", "state", "x", user=user).ok() == "reached: state x\n"


def test_it_uses_its_own_modules_whatever_the_user_has_elsewhere(installed: Machine) -> None:
    elsewhere = installed.sandbox.scratch / "tmp/click.py"
    elsewhere.write_text("raise SystemExit('the wrong click')")
    environment = {"PYTHONPATH": str(elsewhere.parent), "PYTHONHOME": "/nonexistent"}
    words = ("/usr/local/bin/shim", "version", "-o", "json")
    answer = json.loads(installed.run(*words, user=USER, env=environment, cwd=elsewhere.parent).ok())
    assert answer["modules"] == f"/{FIRST}"
    assert answer["interpreter"] == PYTHON


def test_running_leaves_no_file_in_it(installed: Machine) -> None:
    before = installed.files("/usr/local/lib/shim")
    installed.run("/usr/local/bin/shim", "cdi", "list").ok()
    assert installed.files("/usr/local/lib/shim") == before


def test_the_shells_complete(installed: Machine) -> None:
    script = """
    source /usr/local/share/bash-completion/completions/shim && complete -p shim
    SHIM_LINE="shim cdi li" _SHIM_COMPLETE=bash_complete /usr/local/bin/shim
    """
    assert "list" in installed.run("bash", "-c", script, user=USER).ok()
    for path in ("zsh/site-functions/_shim", "fish/vendor_completions.d/shim.fish"):
        assert "_SHIM_COMPLETE" in installed.run("cat", f"/usr/local/share/{path}").ok()


def test_each_noun_has_a_manual_page_with_its_verbs_and_options(installed: Machine) -> None:
    def page(name: str) -> str:
        return installed.run("cat", f"/usr/local/share/man/man1/{name}.1").ok()

    for noun in NOUNS:
        assert f".BR shim\\-{noun} (1)\n" in page("shim"), "the first page names the others"
    for command in ("shim cdi list", "shim cdi validate", "shim cdi inject"):
        assert f"\n.SS {command} " in page("shim-cdi")
    assert "\\-\\-spec\\-dir" in page("shim-cdi")
    for part in ("ENVIRONMENT", "FILES"):  # neither was there, though five variables count
        assert f"\n.SH {part}\n" in page("shim")


def test_d10_the_documents_for_users_are_installed_and_help_has_the_findings(installed: Machine) -> None:
    """Messages named ids and keys, and the documents that say what they mean lay in the repository."""
    for name in ("configuration", "findings"):
        text = installed.run("cat", f"/usr/local/share/doc/cdi-shim/{name}.md").ok()
        assert text == (TOP / f"docs/{name}.md").read_text()
    assert "No spec serves the name." in installed.run("/usr/local/bin/shim", "help", "DEVICE_UNKNOWN").ok()


# --- installed again ------------------------------------------------------------------------------------------------


def test_the_installation_before_stays_until_the_next(image: Path, tmp_path: Path, installer: ModuleType) -> None:
    place = installer.Target(str(tmp_path / "usr"), sysconfdir=str(tmp_path / "etc"))
    trees: list[Path] = []
    for _ in range(3):
        trees.append(installer.install(image, place, PYTHON))
        assert place.current() == trees[-1]
        assert sorted(place.trees()) == trees[-2:]
        for tree in trees[-2:]:
            _age(tree)
    assert [tree.name.rpartition("-")[2] for tree in trees] == ["1", "2", "3"]


def test_one_that_was_replaced_just_now_stays_even_longer(small: Path, tmp_path: Path, installer: ModuleType) -> None:
    place = installer.Target(str(tmp_path / "usr"), sysconfdir=str(tmp_path / "etc"))
    trees = [installer.install(small, place, PYTHON) for _ in range(4)]
    assert sorted(place.trees()) == trees


def _age(tree: Path) -> None:
    past = time.time() - 3600
    os.utime(tree / "manifest.json", (past, past))


def test_a_file_that_a_new_version_has_no_more_is_removed(small: Path, tmp_path: Path, installer: ModuleType) -> None:
    place = installer.Target(str(tmp_path / "usr"), sysconfdir=str(tmp_path / "etc"))
    installer.install(small, place, PYTHON)
    fewer = tmp_path / "fewer"
    shutil.copytree(small, fewer)
    (fewer / "share/man/man1/shim.1").unlink()
    installer.install(fewer, place, PYTHON)
    assert not (tmp_path / "usr/share/man/man1/shim.1").exists()


def test_a_program_of_another_origin_is_not_overwritten(small: Path, tmp_path: Path, installer: ModuleType) -> None:
    place = installer.Target(str(tmp_path / "usr"), sysconfdir=str(tmp_path / "etc"))
    program = tmp_path / "usr/bin/shim"
    program.parent.mkdir(parents=True)
    program.write_text("mine")
    with pytest.raises(installer.Refusal, match=f"{program} is there and was not put there by an installation"):
        installer.install(small, place, PYTHON)
    assert (program.read_text(), place.trees(), place.current()) == ("mine", {}, None)
    installer.install(small, place, PYTHON, force=True)
    assert program.read_bytes() == (small / "bin/shim").read_bytes()


def test_a_logrotate_file_that_was_changed_here_stays(small: Path, tmp_path: Path, installer: ModuleType) -> None:
    place = installer.Target(str(tmp_path / "usr"), sysconfdir=str(tmp_path / "etc"))
    file = tmp_path / "etc/logrotate.d/shim"
    for text in ("", "# mine\n", "# mine\n"):
        installer.install(small, place, PYTHON)
        if text:
            file.write_text(text)
    assert file.read_text() == "# mine\n"
    installer.uninstall(place, force=True)  # the small image has no command that could be asked
    assert file.read_text() == "# mine\n"


STEPS = ["make_tree", "own", "prepare", "sync", "rename", "retire"]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("again", [False, True], ids=["first", "next"])
def test_an_installation_that_is_cut_off_leaves_the_old_or_the_new_one(
    small: Path, tmp_path: Path, installer: ModuleType, monkeypatch: pytest.MonkeyPatch, step: str, again: bool
) -> None:
    place = installer.Target(str(tmp_path / "usr"), sysconfdir=str(tmp_path / "etc"))
    old = installer.install(small, place, PYTHON) if again else None

    done = getattr(installer, step)
    left = 0

    def cut(*arguments: object, **options: object) -> object:
        nonlocal left
        left -= 1
        if left == 0:
            raise KeyboardInterrupt
        return done(*arguments, **options)

    monkeypatch.setattr(installer, step, cut)
    for count in (1, 2, 5, 30):
        left = count
        try:
            installer.install(small, place, PYTHON)
        except KeyboardInterrupt:
            current = place.current()
            assert current is None or (current / "shim/__main__.py").is_file()
            assert old is None or (current and (tmp_path / "usr/bin/shim").is_file())
    monkeypatch.undo()
    new = installer.install(small, place, PYTHON)
    assert place.current() == new
    assert not list(tmp_path.rglob("*.new*"))
    installer.uninstall(place, force=True)  # the small image has no command that could be asked
    assert not [path for path in (tmp_path / "usr").rglob("*") if not path.is_dir()]


# --- while containers are created -----------------------------------------------------------------------------------


def _variant(image: Path, target: Path, name: str) -> Path:
    """An image of what create needs for a JSON spec; it says its name when Python starts."""
    (target / "modules").mkdir(parents=True)
    for part in ("bin", "share", "etc", "modules/shim"):
        shutil.copytree(
            image / part, target / part, ignore=shutil.ignore_patterns("cli", "hooks", "discover", "engines")
        )
    start = target / "modules/shim/__main__.py"  # run as a script, so there is no byte code to change
    start.write_text(
        start.read_text().replace("import sys\n", f'import posix\nimport sys\n\nposix.write(1, b"{name} ")\n', 1)
    )
    about = json.loads((image / "image.json").read_text())
    (target / "image.json").write_text(json.dumps({**about, "version": f"{about['version']}.{name}"}))
    return target


@pytest.fixture(scope="module")
def small(image: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image that is placed in milliseconds."""
    return _variant(image, tmp_path_factory.mktemp("small") / "image", "x")


LOOP = """
cd "$1" || exit
until [ -e ../stop ]; do
    echo '{"process": {"env": []}}' > config.json
    said=$("$2" create --device "$3" c1 2>&1) || said="FAILED $said"
    echo "$said" >> out
done
"""


def test_creates_never_fail_during_fifty_installations_of_alternating_versions(
    image: Path, machine: Machine, installer: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two versions are made once; what runs fifty times is the placing, which is all that a create can meet.

    Without the sync, which protects from a loss of power only: fifty of them would wait for everybody's disk.

    Each installation waits for a create of each loop to end, so that they do meet.
    """
    monkeypatch.setattr(installer, "sync", lambda _: None)
    versions = [_variant(image, tmp_path / name, name) for name in ("a", "b")]
    loops = machine.sandbox.scratch / "loops"
    loops.mkdir()
    place = installer.Target(str(loops / "usr"), sysconfdir=str(loops / "etc"))
    installer.install(versions[1], place, PYTHON)
    outputs = [loops / f"{number}/out" for number in range(2)]
    threads = []
    for output in outputs:
        output.parent.mkdir()
        output.touch()
        words = ("sh", "-c", LOOP, "loop", output.parent, f"{place.prefix}/bin/shim", NAME)
        threads.append(threading.Thread(target=machine.run, args=words, kwargs={"timeout": 300}))
    for thread in threads:
        thread.start()
    try:
        for number in range(50):
            counts = [len(output.read_bytes().splitlines()) for output in outputs]
            installer.install(versions[number % 2], place, PYTHON)
            end = time.monotonic() + 60
            while any(
                len(output.read_bytes().splitlines()) == count for output, count in zip(outputs, counts, strict=True)
            ):
                assert time.monotonic() < end, "the creates do not go on"
                time.sleep(0.002)
    finally:
        (loops / "stop").touch()
        for thread in threads:
            thread.join()
    said = [line for output in outputs for line in output.read_text().splitlines()]
    assert set(said) == {"a reached: create c1", "b reached: create c1"}
    assert len(said) >= 100
