"""An image in the form of the OCI: layers, configuration, manifest and index, in a directory or as a tar.

The same files give the same bytes: entries are sorted, belong to root and have one time, and nothing is compressed by a
program whose version is not known.

Source: OCI image specification 1.1, image-layout.md, manifest.md, config.md, layer.md
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_INDEX = "application/vnd.oci.image.index.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"


@dataclass(frozen=True)
class Entry:
    """A file, link or directory of a layer.

    Attributes:
        mode: its permissions.
        source: content of a file, or the path of a file with it.
        link: target of a link, "" for none.
        is_directory: whether it is a directory.
    """

    mode: int = 0o644
    source: bytes | Path = b""
    link: str = ""
    is_directory: bool = False


@dataclass(frozen=True)
class Layer:
    """A layer.

    Attributes:
        data: the compressed tar.
        diff_id: digest of the tar.
        comment: what it holds, for the image's history.
    """

    data: bytes
    diff_id: str
    comment: str


def layer(entries: dict[str, Entry], epoch: int, comment: str) -> Layer:
    """Make a layer.

    Arguments:
        entries: path without a leading slash -> entry; missing parents are added.
        epoch: the time of all entries.
        comment: what it holds.
    """
    every = dict(entries)
    for path in entries:
        for parent in list(Path(path).parents)[:-1]:
            every.setdefault(str(parent), Entry(0o755, is_directory=True))
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path, entry in sorted(every.items()):
            _add(archive, path, entry, epoch)
    tar = stream.getvalue()
    return Layer(gzip.compress(tar, 9, mtime=0), _digest(tar), comment)


def _add(archive: tarfile.TarFile, path: str, entry: Entry, epoch: int) -> None:
    member = tarfile.TarInfo(path)
    member.mtime, member.mode, member.uname, member.gname = epoch, entry.mode, "root", "root"
    if entry.is_directory:
        member.type = tarfile.DIRTYPE
        archive.addfile(member)
    elif entry.link:
        member.type, member.linkname, member.mode = tarfile.SYMTYPE, entry.link, 0o777
        archive.addfile(member)
    else:
        data = entry.source.read_bytes() if isinstance(entry.source, Path) else entry.source
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))


def image(layers: list[Layer], config: dict[str, Any], architecture: str, created: str, name: str) -> dict[str, bytes]:
    """The files of an image layout.

    Arguments:
        layers: the lowest first.
        config: how a container of it runs: `config` of the image configuration.
        architecture: in Go's words, such as amd64.
        created: time in the form of RFC 3339.
        name: by which engines know it, with a tag.
    Returns:
        path -> content.
    """
    blobs: dict[str, bytes] = {}

    def blob(data: bytes, kind: str) -> dict[str, Any]:
        digest = _digest(data)
        blobs[f"blobs/sha256/{digest.removeprefix('sha256:')}"] = data
        return {"mediaType": kind, "digest": digest, "size": len(data)}

    document = {
        "created": created,
        "architecture": architecture,
        "os": "linux",
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [one.diff_id for one in layers]},
        "history": [{"created": created, "created_by": "make oci-image", "comment": one.comment} for one in layers],
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "config": blob(_json(document), _CONFIG),
        "layers": [blob(one.data, _LAYER) for one in layers],
    }
    entry = blob(_json(manifest), _MANIFEST)
    entry["platform"] = {"architecture": architecture, "os": "linux"}
    # the second is read by containerd's import, the first by others
    tag = name.rpartition(":")[2]
    entry["annotations"] = {"org.opencontainers.image.ref.name": tag, "io.containerd.image.name": name}
    index = {"schemaVersion": 2, "mediaType": _INDEX, "manifests": [entry]}
    return {"oci-layout": _json({"imageLayoutVersion": "1.0.0"}), "index.json": _json(index), **blobs}


def archive(files: dict[str, bytes], epoch: int) -> bytes:
    """The files of a layout as a tar, which `ctr image import`, `podman load` and `skopeo copy oci-archive:` read."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for path, data in sorted(files.items()):
            _add(tar, path, Entry(source=data), epoch)
    return stream.getvalue()


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _json(value: Any) -> bytes:
    return json.dumps(value, indent=1, sort_keys=True).encode() + b"\n"
