"""packaging/sizes.py: what `make sizes` prints of the files that are there (test_ways.py has the packages)."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import zipfile
from hashlib import sha256
from json import dumps
from pathlib import Path

import pytest
from install.machine import TOP


def _tar(files: dict[str, bytes], mode: str = "w") -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode=mode) as archive:  # type: ignore[call-overload]  # a mode that is a variable
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return written.getvalue()


def _sizes(directory: Path, launcher: int) -> subprocess.CompletedProcess[str]:
    """The program on a tree with a launcher of so many bytes, and a wheel and an image with the same."""
    image, dist = directory / "image", directory / "dist"
    (image / "bin").mkdir(parents=True)
    (image / "bin/shim").write_bytes(bytes(launcher))
    (image / "text").write_bytes(b"12345")
    dist.mkdir()
    with zipfile.ZipFile(dist / "cdi_shim-1-cp310-abi3-linux.whl", "w") as wheel:
        wheel.writestr("cdi_shim-1.data/scripts/shim", bytes(launcher))
        wheel.writestr("shim/__init__.py", "1")
    layers = [_tar({"usr/bin/python3": b"123", "usr/bin/shim": b""}, "w:gz"), _tar({"usr/bin/shim": bytes(launcher)})]
    names = [sha256(layer).hexdigest() for layer in layers]
    manifest = dumps({"layers": [{"digest": f"sha256:{name}"} for name in names]}).encode()
    index = dumps({"manifests": [{"digest": f"sha256:{sha256(manifest).hexdigest()}"}]}).encode()
    blobs = {sha256(data).hexdigest(): data for data in (*layers, manifest)}
    files = {"index.json": index, **{f"blobs/sha256/{name}": data for name, data in blobs.items()}}
    (dist / "cdi-shim_1_amd64.oci.tar").write_bytes(_tar(files))
    words: list[str | Path] = [sys.executable, "-I", "-S", "-B", TOP / "packaging/sizes.py", image, dist]
    return subprocess.run(words, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("launcher", [1000, 600_000])
def test_a_line_has_the_file_what_it_installs_and_the_launcher(tmp_path: Path, launcher: int) -> None:
    done = _sizes(tmp_path, launcher)
    assert (done.returncode, done.stderr) == (0, "")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines()[2:]]
    wheel, image = (
        (tmp_path / "dist" / name).stat().st_size
        for name in ("cdi_shim-1-cp310-abi3-linux.whl", "cdi-shim_1_amd64.oci.tar")
    )
    assert rows == [
        ["`make install`", "", str(launcher + 5), str(launcher)],
        ["wheel, without its dependencies", str(wheel), str(launcher + 1), str(launcher)],
        ["image for nodes, with a Python and gRPC", str(image), str(launcher + 3), str(launcher)],
    ]


def test_a_launcher_that_is_too_large_is_an_error(tmp_path: Path) -> None:
    done = _sizes(tmp_path, 600_001)
    assert (done.returncode, done.stderr) == (1, "a launcher is larger than 600000 bytes\n")
