"""The bundles of bundles/, by `--device` and by annotation, as bundles/run.py makes them ready."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .scenes import BUNDLE, LOGS, LOW_LEVEL, config, create, program, text

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]
BUNDLES = Path(__file__).parent.parent.parent / "bundles"


def _files(directory: Path) -> list[Json]:
    """A bundle without its config.json, and the configuration that finds its specs."""
    files = [{"path": f"{BUNDLE}/rootfs", "directory": True}]
    for place in ("cdi", "share"):
        for path in sorted((directory / place).glob("*")):
            files.append(text(f"{BUNDLE}/{place}/{path.name}", path.read_text().replace("@BUNDLE@", BUNDLE)))
    own = directory / "config.toml"
    settings = f'[cdi]\nspec-dirs = ["{BUNDLE}/cdi"]\n' + (own.read_text() if own.exists() else "")
    return [LOGS, LOW_LEVEL, program("/bin/sh"), *files, text("/etc/shim/config.toml", settings)]


def cases() -> Iterator[Json]:
    """Both ways to ask for each bundle."""
    for directory in sorted(path.parent for path in BUNDLES.glob("*/expected.json")):
        devices = json.loads((directory / "expected.json").read_text())["devices"]
        given = (directory / "config.json").read_text()
        files = _files(directory)
        option = [create(*devices, verb="run", name="run"), create(*devices, verb="run", name="again")]
        yield {"id": f"bundles/{directory.name}-option", "files": [*files, config(given)], "steps": option}
        asking = json.loads(given) | ({"annotations": {"cdi.k8s.io/bundle": ",".join(devices)}} if devices else {})
        yield {"id": f"bundles/{directory.name}-annotation", "files": [*files, config(asking)], "steps": [create()]}
