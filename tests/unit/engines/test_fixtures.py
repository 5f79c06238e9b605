"""Files as they are found on real machines: configure, verify, configure again, remove. See tests/configs.

Each directory tests/configs/ENGINE/NAME is the root of a machine; `about` says what it stands for. Those in
tests/configs/ENGINE-refused cannot be configured; the first word of their `about` is the finding that says why.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from shim.base.findings import ERROR, CdiError
from shim.engines import configure, table, verify
from shim.engines import remove as removal
from shim.engines.configure import Options
from shim.engines.contract import Engine
from shim.host.host import Host

CONFIGS = Path(__file__).parents[2] / "configs"
PROGRAMS = ("usr/sbin/runc", "usr/bin/crun", "usr/bin/python3")


def _cases(suffix: str) -> list[str]:
    tops = (CONFIGS / f"{name}{suffix}" for name in table.ENGINES)
    return sorted(str(path.relative_to(CONFIGS)) for top in tops for path in top.glob("*"))


def _machine(case: str, root: Path, shim: Path) -> Host:
    shutil.copytree(CONFIGS / case, root, symlinks=True)
    for name in PROGRAMS:
        file = root / name
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("")
        file.chmod(0o755)
    location = root / shim.parent.parent.relative_to("/")
    location.parent.mkdir(parents=True, exist_ok=True)
    location.symlink_to(shim.parent.parent)
    return Host(str(root), daemons=[])


def _files(root: Path) -> dict[str, bytes | str]:
    found: dict[str, bytes | str] = {}
    for path in root.rglob("*"):
        if path.is_symlink():
            found[str(path)] = str(path.readlink())
        elif path.is_file():
            found[str(path)] = path.read_bytes()
    return found


def test_there_are_thirty_for_all_engines() -> None:
    engines = {case.partition("/")[0] for case in _cases("")}
    assert engines == set(table.ENGINES)
    assert len(_cases("")) >= 30
    assert all((CONFIGS / case / "about").is_file() for case in _cases("") + _cases("-refused"))


@pytest.mark.rootful
@pytest.mark.usefixtures("stub_versions")
@pytest.mark.parametrize("case", _cases(""))
def test_configure_verify_again_remove(case: str, trusted_path: Path, shim_path: Path) -> None:
    root = trusted_path / "root"
    host = _machine(case, root, shim_path)
    engine: Engine = table.ENGINES[case.partition("/")[0]]
    before = _files(root)
    found = engine.read(host, engine.locate(host))
    errors = {str(one) for one in verify.findings(host, engine, engine.locate(host), "shim") if one.level == ERROR}

    order = Options(path=str(shim_path))
    would = configure.configure(host, engine, Options(path=str(shim_path), dry_run=True))
    assert _files(root) == before, "a dry run writes nothing"
    done = configure.configure(host, engine, order)
    assert would.after == done.after
    location = engine.locate(host)
    now = engine.read(host, location)
    ours = now.runtimes["shim"]
    assert ours.path.startswith(str(shim_path)), "shim, or shim-crun beside it"
    assert now.runtimes.keys() - {"shim"} == found.runtimes.keys() - {"shim"}
    assert {name: one.table for name, one in now.runtimes.items() if name != "shim"} == {
        name: one.table for name, one in found.runtimes.items() if name != "shim"
    }
    assert now.default == found.default
    assert ours.systemd_cgroup == found.runtimes[found.default].systemd_cgroup
    new = [
        one for one in verify.findings(host, engine, location, "shim") if one.level == ERROR and str(one) not in errors
    ]
    assert new == []

    written = _files(root)
    assert not configure.configure(host, engine, order).changed
    assert _files(root) == written, "a second configure changes nothing"
    assert removal.remove(host, engine, Options()).changed
    assert _files(root) == before, "remove gives back every byte"


@pytest.mark.parametrize("case", _cases("-refused"))
def test_what_cannot_be_configured_is_told_and_left_alone(case: str, trusted_path: Path, shim_path: Path) -> None:
    root = trusted_path / "root"
    host = _machine(case, root, shim_path)
    engine: Engine = table.ENGINES[case.partition("-refused/")[0]]
    expected = (CONFIGS / case / "about").read_text().split()[0].rstrip(":")
    before = _files(root)
    with pytest.raises(CdiError) as refused:
        configure.configure(host, engine, Options(path=str(shim_path)))
    assert refused.value.findings[0].id == expected
    assert all(finding.remedy for finding in refused.value.findings)
    assert _files(root) == before
