"""create, explain and precreate carry out, describe and print one decision, so they agree; and explain writes nothing.

Each bundle of the table is explained, then created by a real process, then printed by precreate. They must agree in
status, findings and edits. What differs by design is named here: ONLY_EXPLAINED, OTHER_IN_PRECREATE, and folding, which
precreate leaves out.
"""

from __future__ import annotations

import json
import os
import posix
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from unit.create.scenes import CASES, Case, Scene, asking, variables

from shim import cli
from shim.create import changes, log
from shim.host import identity

Json = dict[str, Any]

# What create does not report: requests that do not count, and whatever is wrong where nothing asks
ONLY_EXPLAINED = {"SOURCE_OFF"}
ONLY_EXPLAINED_WHERE_NOTHING_ASKS = {"CONFIG_JSON", "SETTINGS", "SETTINGS_UNTRUSTED", "SETTINGS_UNKNOWN_KEY"}

# podman calls it, without an id, whatever a config.json says
OTHER_IN_PRECREATE = {
    "a sandbox of containerd",
    "a sandbox of CRI-O",
    "an annotation of a Pod of CRI-O",
    "an annotation of a container of CRI-O",
    "a label of nerdctl",
}
# The calling program is another one for each of the three, and the text names it
NAMES_THE_CALLER = {"REQUEST_ORIGIN", "REQUEST_IGNORED"}


def _is_explained(case: Case) -> bool:
    """Whether `shim explain` can be asked about such a call: a create by root, all of whose options are known."""
    return case.verb == "create" and not case.unknown and case.rootful


AGREE = {name: case for name, case in CASES.items() if _is_explained(case)}


class Result(NamedTuple):
    """What one of the three makes of a bundle.

    Attributes:
        refused: whether there will be no container.
        config: config.json afterwards, None where it is no object.
        findings: as plain values.
    """

    refused: bool
    config: Any
    findings: list[Json]


class Bundles:
    """Bundles, and the three ways to ask about one."""

    def __init__(self, directory: Path, launcher: Path, modules: Path) -> None:
        self._directory, self._launcher = directory, launcher
        self._main = [sys.executable, "-I", "-S", "-B", str(modules / "shim/__main__.py")]
        self._count = 0

    def scene(self, case: Case) -> Scene:
        """The files of a case, in a directory of their own."""
        self._count += 1
        return Scene(self._directory / str(self._count), self._launcher, case)

    def create(self, scene: Scene) -> Result:
        """Create, with a program that does nothing as the low-level runtime."""
        return self._run(scene, ["create", *scene.words()], None)

    def precreate(self, scene: Scene, config: bytes) -> Result:
        """The precreate stage, with this config.json."""
        return self._run(scene, ["precreate", f"self={scene.launcher}"], config)

    def _run(self, scene: Scene, words: list[str], config: bytes | None) -> Result:
        before = _logged(scene)
        done = subprocess.run(
            [*self._main, *words], input=config, capture_output=True, env=scene.environment(), check=False
        )
        assert done.returncode in (0, 1), done.stderr
        lines = [line for old, new in zip(before, _logged(scene), strict=True) for line in new[len(old) :]]
        findings = json.loads(lines[0])["findings"] if lines else []
        if done.returncode:
            [line] = [line for line in done.stderr.decode().splitlines() if not line.startswith("shim: warning: ")]
            assert line.split(": ")[1] in [finding["id"] for finding in findings if finding["level"] == "ERROR"]
        written = done.stdout if words[0] == "precreate" else _bytes(scene)
        return Result(done.returncode == 1, _decoded(written), findings)


def _logged(scene: Scene) -> list[list[str]]:
    """The lines of the log of a scene, and of the usual one, which a broken configuration leaves."""
    return [path.read_text().splitlines() if path.exists() else [] for path in (scene.log, Path(log.SYSTEM_FILE))]


def _bytes(scene: Scene) -> bytes:
    return scene.config.read_bytes() if scene.config.is_file() else b""


def _decoded(config: bytes) -> Any:
    try:
        return json.loads(config)
    except ValueError:
        return None


@pytest.fixture(scope="module")
def bundles(launcher: Path, modules: Path) -> Iterator[Bundles]:
    with tempfile.TemporaryDirectory(prefix="shim-test-", dir="/var/lib") as directory:
        program = Path(directory, "shim")
        program.write_bytes(launcher.read_bytes())
        program.chmod(0o755)
        yield Bundles(Path(directory), program, modules)


Explain = Callable[..., tuple[int, Json]]


@pytest.fixture
def explain(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Explain:
    """`shim explain -o json` in this process: the exit status, and what it says."""

    def run(scene: Scene, *words: str) -> tuple[int, Json]:
        with monkeypatch.context() as patched:
            scene.enter(patched)
            patched.delitem(posix.environ, b"CRI_O_EXTERNAL", raising=False)
            patched.setenv("PATH", f"{scene.launcher.parent}:/usr/bin:/bin")
            devices = [f"--device={device}" for device in scene.case.devices]
            with pytest.raises(SystemExit) as ended:
                cli.main(["shim", "explain", "--bundle", str(scene.bundle), "-o", "json", *devices, *words])
        return int(ended.value.code or 0), json.loads(capsys.readouterr().out)

    return run


def _tree(*directories: str | Path) -> Json:
    """Every file below: mode, inode, times, content; the times of reading aside."""
    found: Json = {}
    for directory in directories:
        for place, folders, files in os.walk(directory):
            for path in (place, *(f"{place}/{name}" for name in (*folders, *files))):
                status = os.lstat(path)
                kept = (status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
                found[path] = kept, Path(path).read_bytes() if Path(path).is_file() else b""
    return found


def _without_folded(config: Json, edits: list[Json], before: Json) -> Json:
    """The config in which create has left out the hooks whose work it did."""
    folded = [(edit["item"]["path"], edit["item"].get("args")) for edit in edits if edit["state"] == "folded"]
    hooks = {
        stage: [hook for hook in entries if (hook["path"], hook.get("args")) not in folded]
        for stage, entries in config.get("hooks", {}).items()
    }
    hooks = {stage: entries for stage, entries in hooks.items() if entries or stage in before.get("hooks", {})}
    config = {name: value for name, value in config.items() if name != "hooks"}
    return {**config, "hooks": hooks} if hooks or "hooks" in before else config


def _check(scene: Scene, name: str, bundles: Bundles, explain: Explain) -> None:
    before = _bytes(scene)
    written = scene.directory, "/run/shim", "/var/log", "/etc/shim"
    tree = _tree(*written)
    code, explained = explain(scene)
    assert _tree(*written) == tree, "explain writes nothing"
    assert code == (1 if [one for one in explained["findings"] if one["level"] == "ERROR"] else 0)

    report = scene.directory / "report.json"
    assert explain(scene, "--report", str(report)) == (code, explained)
    decision = json.loads(report.read_text())["decision"]
    assert decision["requests"] == {one["name"]: one["source"] for one in explained["devices"]}
    expected = _decoded(before)
    if decision["edits"]:
        expected = changes.make(expected, decision["edits"])

    created = bundles.create(scene)
    asks = bool(explained["devices"] or created.refused)
    assert created.refused == (explained["refused"] and asks), "what nothing asks in is left to the low-level runtime"
    _check_findings(explained["findings"], created.findings, asks)
    if decision["edits"] and not created.refused:
        assert created.config == _without_folded(expected, explained["edits"], _decoded(before))
    else:
        assert _bytes(scene) == before
    states = {edit["state"] for edit in explained["edits"]}
    assert bool(states & {"added", "replaces", "folded"}) == bool(decision["edits"]) or created.refused

    by_pipe = scene.case.config is not None or name == "everything is there"
    if by_pipe and not scene.config.is_symlink() and not scene.case.devices and name not in OTHER_IN_PRECREATE:
        printed = bundles.precreate(scene, before)
        assert printed.refused == created.refused
        assert _comparable(printed.findings) == _comparable(created.findings)
        assert printed.config == (None if printed.refused else expected)


def _check_findings(explained: list[Json], created: list[Json], asks: bool) -> None:
    ours, theirs = _comparable(explained), _comparable(created)
    only = ONLY_EXPLAINED | (set() if asks else ONLY_EXPLAINED_WHERE_NOTHING_ASKS)
    assert [finding for finding in ours if finding in theirs] == theirs
    assert {finding["id"] for finding in ours if finding not in theirs} <= only


def _comparable(findings: list[Json]) -> list[Json]:
    """Findings without what differs between the three: the program that calls, and the name of config.json."""
    made = []
    for finding in findings:
        if finding["id"] in NAMES_THE_CALLER:
            made.append({"id": finding["id"]})
            continue
        text = finding.get("text", "").replace("the config.json on standard input", "config.json")
        config = finding["id"] == "CONFIG_JSON"
        made.append({**finding, "text": text, **({"path": ""} if config else {})})
    return made


@pytest.mark.rootful
@pytest.mark.parametrize("name", AGREE)
def test_create_explain_and_precreate_agree(name: str, bundles: Bundles, explain: Explain) -> None:
    _check(bundles.scene(AGREE[name]), name, bundles, explain)


def test_there_are_enough_bundles_of_each_kind() -> None:
    assert len(AGREE) >= 60


# --- an index -----------------------------------------------------------------------------------------------------


def _without_records(data: bytes) -> bytes:
    """An index whose header is right, and whose records are noise."""
    preamble, _, _ = data.partition(b"\n")
    start = len(preamble) + 1 + sum(int(size, 16) for size in preamble.split()[2:])
    return data[:start] + b"\xff" * (len(data) - start)


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "whole": lambda data: data,
    "cut off": lambda data: data[: len(data) // 2],
    "empty": lambda _: b"",
    "of another version": lambda data: data.replace(b'"version": "', b'"version": "9', 1),
    "with records that are noise": _without_records,
    "with a header that is noise": lambda data: data[:60] + b"{" * 60 + data[120:],
}
WITH_INDEX = {
    "a device": Case(asking("0", "foreign")),
    "an unknown device": Case(asking("7")),
    "nothing": Case(variables("A=b")),
}


@pytest.mark.rootful
@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", WITH_INDEX)
def test_they_agree_whatever_the_index_is_like(
    name: str, damage: str, bundles: Bundles, explain: Explain, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = bundles.scene(WITH_INDEX[name])
    assert scene.index(monkeypatch)
    index = Path(f"/run/shim/index-{identity.short_name(str(scene.settings))}")
    index.write_bytes(DAMAGE[damage](index.read_bytes()))
    _check(scene, name, bundles, explain)


# --- explain writes nothing ---------------------------------------------------------------------------------------

# Explains what JSON on standard input describes; run under strace, which shows where the imports end
EXPLAINS = """
import json, os, posix, sys
sys.path.insert(0, sys.argv[1])
from shim import cli
posix.access("/shim-test/begin", 0)
for environ, words in json.load(sys.stdin):
    posix.environ.update({name.encode(): value.encode() for name, value in environ.items()})
    try:
        cli.main(["shim", "explain", *words])
    except SystemExit:
        pass
"""
WRITING = "mkdir,mkdirat,rename,renameat,renameat2,unlink,unlinkat,rmdir,link,linkat,symlink,symlinkat,mknod,mknodat,"
WRITING += "chmod,fchmod,fchmodat,chown,fchown,lchown,fchownat,truncate,ftruncate,setxattr,fsetxattr,utimensat"


def _writes(scenes: list[Scene], directory: Path, modules: Path, *words: str) -> list[str]:
    """The system calls by which `shim explain` writes files, or could."""
    asked = [({"SHIM_CONFIG": str(scene.settings)}, ["--bundle", str(scene.bundle), *words]) for scene in scenes]
    log = directory / "strace"
    strace: list[str | Path] = [
        "strace",
        "-f",
        "-qq",
        "-e",
        f"trace=access,open,openat,creat,{WRITING}",
        "-e",
        "signal=none",
        "-o",
        log,
    ]
    subprocess.run(
        [*strace, sys.executable, "-I", "-S", "-B", "-c", EXPLAINS, modules],
        input=json.dumps(asked).encode(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={"PATH": "/usr/bin:/bin"},
        check=True,
    )
    text = log.read_text().partition('"/shim-test/begin"')[2]
    assert all(f'"{scene.config}"' in text for scene in scenes)
    calls = tuple(f"{name}(" for name in WRITING.split(","))
    # of the namespace in which native/idmap.c tries a mount
    own = re.compile(r'"/proc/self/(setgroups|uid_map|gid_map)"')
    return [
        line
        for line in (line.partition(" ")[2].lstrip() for line in text.splitlines())
        if line.startswith(calls) or (re.search("O_WRONLY|O_RDWR|O_CREAT", line) and not own.search(line))
    ]


def test_explain_makes_no_system_call_that_writes(bundles: Bundles, modules: Path, trusted_path: Path) -> None:
    scenes = [bundles.scene(case) for case in AGREE.values()]
    assert _writes(scenes, trusted_path, modules) == []
    # the control
    report = str(trusted_path / "report.json")
    assert any(report in line for line in _writes(scenes[:1], trusted_path, modules, "--report", report))
