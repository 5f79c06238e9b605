"""Complete the files of a release in a directory: bill of materials, conformance archive, checksums.

The archives of the source and the wheel are there already (`make dist`). The same commit gives the same bytes:
members of archives are sorted, belong to root, and have the time of the commit (SOURCE_DATE_EPOCH).
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import sbom

HERE = Path(__file__).resolve().parent
VECTORS = HERE.parent / "tests/conformance/vectors"
FAMILIES = ("annotations", "cache", "inject", "names", "specs", "version")  # those of the specification itself
EXPLAINED = {"inject-cgroup-017", "specs-type-290"}  # of which the reference has no doubt: docs/deviations.md
PROGRAMS = ("run.py", "shim_injector.py")


def archive(directory: Path, target: Path) -> None:
    """Pack a directory as a .tar.gz whose bytes depend on its content and SOURCE_DATE_EPOCH only."""
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(directory.rglob("*")):
            info = tar.gettarinfo(path, f"{directory.name}/{path.relative_to(directory)}")
            info.uid = info.gid = 0
            info.uname = info.gname = "root"
            info.mtime = epoch
            info.mode = 0o755 if path.is_dir() or path.name in PROGRAMS else 0o644
            with path.open("rb") if path.is_file() else io.BytesIO() as content:
                tar.addfile(info, content if path.is_file() else None)
    target.write_bytes(gzip.compress(packed.getvalue(), mtime=0))


def conformance(directory: Path, python: str, version: str, families: tuple[str, ...] = FAMILIES) -> Path:
    """Make the directory of the conformance archive, with the outcome of shim as this Python has it.

    Returns:
        The directory, `cdi-conformance-VERSION` below the one given.

    Raises:
        SystemExit: More cases differ than those that docs/deviations.md explains; the outcome is printed.
    """
    top = directory / f"cdi-conformance-{version}"
    shutil.rmtree(top, ignore_errors=True)
    (top / "vectors").mkdir(parents=True)
    (top / "results").mkdir()
    for name in ("README.md", *PROGRAMS):
        shutil.copy(HERE / "conformance" / name, top)
    shutil.copy(HERE.parent / "LICENSE", top)
    for family in families:
        shutil.copy(VECTORS / f"{family}.json", top / "vectors")
    asked = [word for family in families for word in ("--family", family)]
    command: list[str | Path] = [python, top / "run.py", "-v", *asked, "--", python, top / "shim_injector.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    differing = {line.split(":")[0].strip() for line in done.stdout.splitlines() if ": differs: " in line}
    if done.returncode not in (0, 1) or " equal" not in done.stdout or differing - EXPLAINED:
        sys.exit(f"{top}/run.py: status {done.returncode}\n{done.stdout}{done.stderr}")
    (top / "results" / f"cdi-shim-{version}.txt").write_text(done.stdout, encoding="utf-8")
    return top


def main() -> None:
    """Write everything that is not an archive of the source or a wheel."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("image", type=Path, help="the image of an installation")
    parser.add_argument("python", help="a Python with the installed package")
    parser.add_argument("dist", type=Path, help="the directory with the archives")
    given = parser.parse_args()
    version = json.loads((given.image / "image.json").read_text(encoding="utf-8"))["version"]
    if f"## {version} (unreleased)" in (HERE.parent / "CHANGELOG.md").read_text(encoding="utf-8"):
        print(f"note: CHANGELOG.md has no date for {version} yet", file=sys.stderr)
    bill = json.dumps(sbom.document(given.image), indent=2) + "\n"
    (given.dist / f"cdi-shim-{version}.cdx.json").write_text(bill, encoding="utf-8")
    top = conformance(given.image.parent, given.python, version)
    archive(top, given.dist / f"{top.name}.tar.gz")
    files = sorted(path for path in given.dist.iterdir() if path.is_file() and path.name != "SHA256SUMS")
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (given.dist / "SHA256SUMS").write_text("".join(sums), encoding="utf-8")
    print("".join(sums), end="")


if __name__ == "__main__":
    main()
