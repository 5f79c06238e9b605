"""A directory of hostile files beside good specs: no crash, no hang, no lost device, a finding for each file."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from unit.cdi import hostile

if TYPE_CHECKING:
    from collections.abc import Iterator

# In a process of its own: it ends when it hangs, its memory is limited, and as root it becomes nobody, so that a file
# can be unreadable. All that is loaded late is loaded before, for it may lie in a directory of root's alone.
CHILD = """
import encodings.utf_16_be, encodings.utf_16_le, json, os, resource, sys
from shim.base import nearest
from shim.cdi import directories
directories.read([sys.argv[2]])
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
found = directories.read([sys.argv[1]])
told = {path: [str(one) for one in findings] for path, findings in found.findings.items()}
print(json.dumps({"devices": found.devices(), "told": told, "searched": found.searched}))
"""


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory that everybody may enter: pytest's own are private."""
    with tempfile.TemporaryDirectory(prefix="shim-hostile-") as name:
        Path(name).chmod(0o755)
        (Path(name) / "specs").mkdir()
        (Path(name) / "warm").mkdir()
        yield Path(name)


def test_a_hundred_hostile_files_do_not_hurt_their_neighbours(directory: Path) -> None:
    specs = directory / "specs"
    refused = hostile.make(specs)
    good = hostile.make_good(specs)
    assert len(refused) >= 100
    for name in ("a.yaml", "b.json"):
        (directory / "warm" / name).write_bytes(b"{")
    run = subprocess.run(
        [sys.executable, "-c", CHILD, str(specs), str(directory / "warm")],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-3000:]
    result = json.loads(run.stdout)
    assert result["devices"] == good
    assert result["searched"] == [[str(specs), "ok"]]
    assert set(result["told"]) == {str(path) for path in refused}
    for path, told in result["told"].items():
        assert told, path
        for text in told:
            assert text.isprintable(), path
            assert not any(words in text.lower() for words in ("no such file", "permission denied")), path
            assert 0 < len(text) < 3000, path
