"""What an image brings for a host: the files of an installation and a Python, and whether a host has them already."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from shim.base.findings import CdiError, Finding
from shim.base.paths import reason
from shim.node import interpreter, placed_files
from shim.node.interpreter import Brought

if TYPE_CHECKING:
    from shim.node.placement import Target

DIRECTORY = "/usr/lib/shim/image"  # in the image
_DIGEST = f"{interpreter.DIRECTORY}/digest"  # below the private directory of an installation


@dataclass(frozen=True)
class Payload(Brought):
    """The files of an image; also the interpreter that the placement brings along.

    Attributes:
        directory: with what packaging/image.py makes, and the document of the interpreter.
        digest: of all that would be placed.
    """

    directory: Path
    digest: str

    @classmethod
    def at(cls, directory: Path, top: Path) -> Payload:
        """Read the payload of an image.

        Arguments:
            directory: see `directory`.
            top: the image's root, as of Brought.
        Raises:
            CdiError: NODE_IMAGE.
        """
        try:
            brought = Brought.read(directory / interpreter.DOCUMENT, top)
            digest = _digest(directory, top, brought)
        except (OSError, ValueError, LookupError, TypeError) as error:
            cause = reason(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
            text = f"no files for a host are here: {cause}"
            raise CdiError([Finding("NODE_IMAGE", text, path=f"/{directory}".replace("//", "/"))]) from None
        return cls(top, brought.program_name, brought.loader, brought.files, directory, digest)

    def bring(self, fresh: Path, modules: str) -> None:
        """Copy the interpreter, and the digest by which it is known, see shim.node.placement.Interpreter."""
        super().bring(fresh, modules)
        (fresh / _DIGEST).write_text(f"{self.digest}\n", encoding="ascii")
        placed_files.own(fresh / _DIGEST, 0o644)

    def is_placed(self, target: Target) -> bool:
        """Whether a host has exactly these files, so that nothing need be placed."""
        current = target.current()
        manifest = target.trees().get(current) if current else None
        if current is None or manifest is None:
            return False
        try:
            digest = (current / _DIGEST).read_text(encoding="ascii").strip()
        except OSError:
            return False
        kinds = manifest["files"]
        return digest == self.digest and all(
            placed_files.identity(target.real(path)) == kind for path, kind in kinds.items() if path != target.logrotate
        )


def _digest(directory: Path, top: Path, brought: Brought) -> str:
    """The digest of names and contents, of the installation's files and of those of the interpreter."""
    total = hashlib.sha256(json.dumps([brought.program_name, brought.loader, dict(brought.files)]).encode())
    paths = [Path(parent, name) for parent, _, names in os.walk(directory) for name in names]
    for path in sorted(paths) + [top / source for _, source in sorted(brought.files.items())]:
        total.update(f"\0{path.relative_to(top)}\0".encode())
        total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()
