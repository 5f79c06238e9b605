"""The feature file, and other programs that write labels."""

from __future__ import annotations

from pathlib import Path

import pytest

from shim.base.findings import CdiError
from shim.host.host import Daemon, Host
from shim.node.labels import feature_file
from shim.node.labels.feature_file import DIRECTORY, FILE

LABELS = {"nvidia.com/gpu.count": "2", "amd.com/gpu.count": "1", "drm/gpu.count": ""}


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(str(tmp_path))


def test_a_line_is_a_label(host: Host) -> None:
    feature_file.write(host, FILE, LABELS)
    assert feature_file.read(host, FILE) == "amd.com/gpu.count=1\ndrm/gpu.count=\nnvidia.com/gpu.count=2\n"
    assert host.real(FILE).stat().st_mode & 0o777 == 0o644
    feature_file.write(host, FILE, {"a/b": "c"})
    assert feature_file.read(host, FILE) == "a/b=c\n"
    assert [path.name for path in host.real(DIRECTORY).iterdir()] == ["shim"]
    feature_file.remove(host, FILE)
    feature_file.remove(host, FILE)
    assert feature_file.read(host, FILE) == ""


def test_a_link_is_replaced_and_what_it_leads_to_stays(host: Host, tmp_path: Path) -> None:
    host.real(DIRECTORY).mkdir(parents=True)
    (tmp_path / "other").write_text("mine")
    host.real(FILE).symlink_to(tmp_path / "other")
    feature_file.write(host, FILE, LABELS)
    assert not host.real(FILE).is_symlink()
    assert (tmp_path / "other").read_text() == "mine"


def test_a_file_that_cannot_be_written_is_reported(host: Host) -> None:
    host.real(FILE).mkdir(parents=True)
    with pytest.raises(CdiError) as error:
        feature_file.write(host, FILE, LABELS)
    assert [finding.id for finding in error.value.findings] == ["LABELS_WRITE"]
    with pytest.raises(CdiError):
        feature_file.remove(host, FILE)


def test_a_prefix_below_which_another_file_has_labels_is_left_alone(host: Host) -> None:
    directory = host.real(DIRECTORY)
    directory.mkdir(parents=True)
    (directory / "gfd").write_text("# from elsewhere\n\nnvidia.com/gpu.count=8\nplain=1\n")
    (directory / ".hidden").write_text("amd.com/gpu.count=8\n")
    (directory / "folder").mkdir()
    feature_file.write(host, FILE, LABELS)
    writers = feature_file.others(host, FILE, host)
    assert writers == {"nvidia.com": f"the file {DIRECTORY}/gfd"}
    left, findings = feature_file.without_others(LABELS, writers)
    assert set(left) == {"amd.com/gpu.count", "drm/gpu.count"}
    assert [finding.id for finding in findings] == ["LABELS_TAKEN"]
    assert "gfd has labels below nvidia.com/" in findings[0].text


def test_a_program_of_the_vendor_that_runs_is_noticed(host: Host, tmp_path: Path) -> None:
    processes = [Daemon(7, ("/usr/bin/gpu-feature-discovery",), 1.0), Daemon(8, ("/bin/k8s-node-labeller",), 1.0)]
    machine = Host(str(tmp_path), daemons=processes)
    assert feature_file.others(host, FILE, machine) == {
        "nvidia.com": "gpu-feature-discovery (process 7)",
        "amd.com": "k8s-node-labeller (process 8)",
    }


def test_nothing_is_reported_of_a_vendor_that_has_no_labels_here() -> None:
    assert feature_file.without_others({"a/b": "c"}, {"nvidia.com": "a file"}) == ({"a/b": "c"}, [])
