"""What an installation is made of: a software bill of materials (CycloneDX 1.5, JSON), and the licences of all of it.

Components are what the image really holds, in the versions of the lock: the metadata of its Python distributions, and
musl, which is part of the launcher where it was linked against it.

The same image gives the same bytes: the serial number follows from the content, and the time is SOURCE_DATE_EPOCH or
left out.

Source: CycloneDX 1.5 (ECMA-424), purl specification for `pkg:pypi`, SPDX license list.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import uuid
from datetime import datetime, timezone
from importlib.metadata import PathDistribution
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
TEXTS = HERE / "licenses"  # of components that do not bring theirs
US = "cdi-shim"

# Where the metadata has no SPDX expression; looked up by hand, in each project's own files
LICENCES = {
    "markdown-it-py": "MIT",
    "mdurl": "MIT",
    "nvidia-ml-py": "BSD-3-Clause",
    "python-prctl": "GPL-3.0-or-later",
    "pyyaml": "MIT",
    "rich": "MIT",
    "tomli": "MIT",
    "typing-extensions": "PSF-2.0",
}


def _name(distribution: PathDistribution) -> str:
    """The normalized name (PEP 503)."""
    return re.sub(r"[-_.]+", "-", distribution.metadata["Name"]).lower()


def _licence(distribution: PathDistribution) -> str:
    """The licence as an SPDX expression; raises SystemExit when it is unknown."""
    name = _name(distribution)
    expression = distribution.metadata["License-Expression"] or LICENCES.get(name)
    if not expression:
        raise SystemExit(f"{name}: its metadata has no License-Expression; look it up and add it to {__file__}")
    return str(expression)


def distributions(modules: Path) -> list[PathDistribution]:
    """The Python distributions below a directory of modules, ours first."""
    found = [PathDistribution(path) for path in sorted(modules.glob("*.dist-info"))]
    return sorted(found, key=lambda item: (_name(item) != US, _name(item)))


def musl(launcher: Path) -> str | None:
    """The version of musl in a launcher; None when it was linked against another C library.

    A static program does not hold the version. So the C library that the build links against is asked, which is a
    program, too. That it is in the launcher shows its text for errno 0, which glibc has in other words.
    """
    if b"No error information" not in launcher.read_bytes():
        return None
    directory = subprocess.run([HERE.parent / "native/musl.sh"], capture_output=True, text=True, check=True).stdout
    answer = subprocess.run([Path(directory.strip()) / "libc.so"], capture_output=True, text=True, check=False).stderr
    version = re.search(r"^Version (\S+)$", answer, re.MULTILINE)
    return version[1] if version else "unknown"


def _component(distribution: PathDistribution) -> dict[str, Any]:
    name, version = _name(distribution), distribution.version
    return {
        "type": "application" if name == US else "library",
        "bom-ref": name,
        "name": name,
        "version": version,
        "purl": f"pkg:pypi/{name}@{version}",
        "licenses": [{"expression": _licence(distribution)}],
    }


def document(image: Path) -> dict[str, Any]:
    """The bill of materials of an image.

    Args:
        image: A directory as image.py makes it: modules/ with dist-info directories, bin/shim.

    Returns:
        A CycloneDX 1.5 document; its main component is shim, `dependencies` has what it and the launcher need.
    """
    ours, *others = [_component(item) for item in distributions(image / "modules")]
    version = musl(image / "bin/shim")
    if version:
        linked = {"type": "library", "bom-ref": "musl", "name": "musl", "version": version}
        others.append(linked | {"purl": f"pkg:generic/musl@{version}", "licenses": [{"expression": "MIT"}]})
    metadata: dict[str, Any] = {"component": ours}
    if epoch := os.environ.get("SOURCE_DATE_EPOCH"):
        metadata["timestamp"] = datetime.fromtimestamp(int(epoch), timezone.utc).isoformat()
    depends = [{"ref": US, "dependsOn": [component["bom-ref"] for component in others]}]
    content = {"metadata": metadata, "components": others, "dependencies": depends}
    serial = uuid.uuid5(uuid.NAMESPACE_OID, json.dumps(content, sort_keys=True))
    head = {"bomFormat": "CycloneDX", "specVersion": "1.5", "serialNumber": f"urn:uuid:{serial}", "version": 1}
    return head | content


def licences(image: Path) -> dict[str, str]:
    """Name of a file -> text: the licences of all that an image holds, by component; ours is LICENSE of the source."""
    texts = {f"{path.stem}.txt": path.read_text(encoding="utf-8") for path in sorted(TEXTS.iterdir())}
    if musl(image / "bin/shim") is None:
        del texts["musl.txt"]
    for distribution in distributions(image / "modules"):
        files = [
            file for file in distribution.files or [] if re.search(r"dist-info/(licenses/|LICEN|COPYING)", str(file))
        ]
        parts = [file.read_text(encoding="utf-8") for file in sorted(files, key=str)]
        if parts:
            texts[f"{_name(distribution)}.txt"] = "\n".join(parts)
    return texts
