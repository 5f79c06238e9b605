"""What a release has besides the wheel: bill of materials, licences, the conformance archive, equal bytes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from install.machine import TOP, load
from ownmachine import is_root_of_the_machine

import shim


@pytest.fixture(scope="module")
def sbom() -> ModuleType:
    return load("sbom")


@pytest.fixture(scope="module")
def bill(image: Path) -> dict[str, Any]:
    text = (image / "share/doc/cdi-shim/sbom.cdx.json").read_text()
    read: dict[str, Any] = json.loads(text)
    return read


# --- bill of materials and licences ---------------------------------------------------------------------------------


def test_the_bill_names_every_distribution_of_the_image_in_its_version_and_musl(
    image: Path, bill: dict[str, Any]
) -> None:
    there = {
        path.name.removesuffix(".dist-info").replace("_", "-").lower() for path in image.glob("modules/*.dist-info")
    }
    named = {f"{item['name']}-{item['version']}" for item in (bill["metadata"]["component"], *bill["components"])}
    assert named - there == {f"musl-{item['version']}" for item in bill["components"] if item["name"] == "musl"}
    assert there <= named
    assert bill["metadata"]["component"]["version"] == shim.__version__
    assert len(named) > len(there), "the launcher is linked against musl here"


def test_each_component_has_a_licence_and_its_text(image: Path, bill: dict[str, Any]) -> None:
    for item in bill["components"]:
        assert item["licenses"][0]["expression"]
        text = (image / f"share/doc/cdi-shim/licenses/{item['name']}.txt").read_text()
        assert "opyright" in text or "OPYRIGHT" in text, item["name"]


def test_the_same_image_has_the_same_bill(image: Path, sbom: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    first, second = sbom.document(image), sbom.document(image)
    assert first == second
    assert first["metadata"]["timestamp"] == "2023-11-14T22:13:20+00:00"


def test_a_dependency_whose_licence_is_unknown_stops_the_build(tmp_path: Path, sbom: ModuleType) -> None:
    metadata = tmp_path / "modules/newcomer-1.0.dist-info/METADATA"
    metadata.parent.mkdir(parents=True)
    metadata.write_text("Metadata-Version: 2.1\nName: newcomer\nVersion: 1.0\nLicense: see the web site\n")
    with pytest.raises(SystemExit, match="newcomer: its metadata has no License-Expression"):
        sbom.document(tmp_path)


# --- the conformance archive ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive, unpacked, with a few of its families, made as a release does it."""
    directory = tmp_path_factory.mktemp("conformance")
    release = load("release")
    top = release.conformance(directory, sys.executable, shim.__version__, ("version", "inject"))
    release.archive(top, directory / "a.tar.gz")
    release.archive(top, directory / "b.tar.gz")
    assert (directory / "a.tar.gz").read_bytes() == (directory / "b.tar.gz").read_bytes()
    with tarfile.open(directory / "a.tar.gz") as tar:
        assert {(member.uid, member.uname) for member in tar} == {(0, "root")}
    (directory / "out").mkdir()
    subprocess.run(["tar", "-xzf", directory / "a.tar.gz", "-C", directory / "out"], check=True)
    return Path(directory, "out", top.name)


def run(unpacked: Path, *command: str, family: str = "version") -> subprocess.CompletedProcess[str]:
    words: list[str | Path] = [sys.executable, "-I", unpacked / "run.py", "-v", "--family", family, "--", *command]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def test_the_archive_has_our_results_and_they_are_those_of_a_run(unpacked: Path) -> None:
    results = (unpacked / f"results/cdi-shim-{shim.__version__}.txt").read_text()
    again = run(unpacked, sys.executable, str(unpacked / "shim_injector.py"))
    assert again.returncode == 0, again.stdout
    assert again.stdout.splitlines()[0] in results.splitlines()
    (inject,) = (line for line in results.splitlines() if line.startswith("inject: "))
    # its deviation `permissions-none`, see docs/deviations.md
    assert [line.split(":")[0].strip() for line in results.splitlines() if ": differs: " in line] == [
        "inject-cgroup-017"
    ]
    assert "191 equal" in inject or not is_root_of_the_machine(), "cases with nodes need root"


@pytest.mark.parametrize(
    ("program", "outcome"),
    [
        ("print('{}')", "178 differs, 4 doubtful"),
        ("print('not JSON')", "178 differs, 4 doubtful"),
        ("import sys; sys.exit(3)", "178 differs, 4 doubtful"),
        ("print('{\"unsupported\": true}')", "182 unsupported"),
        ('print(\'{"current": "0.8.0", "known": true, "minimum": "0.3.0", "accepted": true}\')', "differs"),
    ],
)
def test_a_program_with_wrong_answers_does_not_pass(unpacked: Path, program: str, outcome: str) -> None:
    done = run(unpacked, sys.executable, "-c", program)
    assert done.returncode == 1
    assert outcome in done.stdout.splitlines()[-1]


def test_the_command_may_be_relative_paths(unpacked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`make release` names the Python of its environment so."""
    monkeypatch.chdir(Path(sys.executable).parent)
    assert run(unpacked, "./python3", os.path.relpath(unpacked / "shim_injector.py")).returncode == 0


def test_an_injector_that_leaves_config_json_as_it_is_does_not_pass(unpacked: Path) -> None:
    program = "import json, sys; json.dump({'config': json.load(sys.stdin)['input']['config']}, sys.stdout)"
    done = run(unpacked, sys.executable, "-c", program, family="inject")
    assert done.returncode == 1
    assert "inject-node-001: differs" in done.stdout


# --- reproducible ---------------------------------------------------------------------------------------------------


@pytest.mark.nightly
def test_two_clones_of_a_commit_make_the_same_release(tmp_path: Path) -> None:
    """The launcher's debug information had the directory of the build in it, and the wheel the times of files."""
    sums = []
    for name in ("first", "second-and-longer"):
        clone = tmp_path / name
        subprocess.run(["git", "clone", "-q", TOP, clone], check=True)
        subprocess.run(["make", "-s", "release"], cwd=clone, check=True, capture_output=True)
        sums.append((clone / "dist/SHA256SUMS").read_text())
        shutil.rmtree(clone)
    assert sums[0] == sums[1]
    assert len(sums[0].splitlines()) >= 4
