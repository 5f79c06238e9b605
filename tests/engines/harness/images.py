"""Root directories and images of a static busybox, made without registry and without an image tool.

One tar is an OCI image layout and a docker-archive at once, so `ctr image import`, `docker load` and `podman load` all
take the same file. The layer is not compressed: its digest is its diff id.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import programs

# The host part has a dot, so that no engine takes it for a short name of a public registry.
BUSYBOX = "test.local/busybox:1"
PAUSE = "test.local/pause:1"

APPLETS = ["sh", "ls", "cat", "sleep", "env", "id", "true", "head", "od", "tr", "mknod", "kill", "stat", "grep"]
DIRECTORIES = ["bin", "dev", "etc", "lib", "opt", "proc", "root", "run", "sys", "tmp", "usr", "usr/bin", "var"]
FILES = {"etc/passwd": "root:x:0:0:root:/root:/bin/sh\n", "etc/group": "root:x:0:\n"}

# Answers TERM at once. A bare `sleep` as process 1 ignores it and costs every test the engine's grace period.
WAIT = 'trap "exit 0" TERM INT; while :; do sleep 3600 & wait $!; done'


def write_root(directory: Path) -> None:
    """Fill an empty directory with the root of a container."""
    (busybox,) = programs.find("busybox")
    for name in DIRECTORIES:
        (directory / name).mkdir(parents=True)
    for name, text in FILES.items():
        (directory / name).write_text(text, encoding="ascii")
    shutil.copy(busybox, directory / "bin/busybox")
    for name in APPLETS:
        (directory / "bin" / name).symlink_to("busybox")


def write_image(
    file: Path,
    reference: str,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
) -> None:
    """Write the image of that reference as one tar: a shell by default, or the pause container for PAUSE.

    Arguments:
        annotations: of its manifest, which docker-archives do not have: for `oci-archive:FILE` only.
        labels: of its configuration.
    """
    layer = _layer()
    command = ["/bin/sh", "-c", WAIT] if reference == PAUSE else ["/bin/sh"]
    config = _json(
        {
            "architecture": {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine],
            "os": "linux",
            "config": {"Env": ["PATH=/bin"], "Cmd": command, "Labels": dict(labels or {})},
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
            "history": [{"created_by": "tests/engines"}],
        }
    )
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": _descriptor("config.v1+json", config),
            "layers": [_descriptor("layer.v1.tar", layer)],
            "annotations": dict(annotations or {}),
        }
    )
    names = {"io.containerd.image.name": reference, "org.opencontainers.image.ref.name": reference.rpartition(":")[2]}
    index = {"schemaVersion": 2, "manifests": [{**_descriptor("manifest.v1+json", manifest), "annotations": names}]}
    docker = [{"Config": _blob(config), "RepoTags": [reference], "Layers": [_blob(layer)]}]
    with tarfile.open(file, "w", format=tarfile.USTAR_FORMAT) as archive:
        for content in (layer, config, manifest):
            _add(archive, _blob(content), content)
        _add(archive, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        _add(archive, "index.json", _json(index))
        _add(archive, "manifest.json", _json(docker))


def _layer() -> bytes:
    (busybox,) = programs.find("busybox")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in DIRECTORIES:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(entry)
        for name, text in FILES.items():
            _add(archive, name, text.encode())
        _add(archive, "bin/busybox", Path(busybox).read_bytes(), mode=0o755)
        for name in APPLETS:
            entry = tarfile.TarInfo(f"bin/{name}")
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            archive.addfile(entry)
    return buffer.getvalue()


def _add(archive: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def _digest(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


def _blob(content: bytes) -> str:
    return "blobs/sha256/" + hashlib.sha256(content).hexdigest()


def _descriptor(kind: str, content: bytes) -> dict[str, Any]:
    return {
        "mediaType": f"application/vnd.oci.image.{kind}",
        "digest": _digest(content),
        "size": len(content),
    }
