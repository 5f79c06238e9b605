"""Writing spec files: whole or not at all, and only documents that a reader accepts.

The text is read back by our own reader before anything is written to disk, so a spec that was written can be served.
shim.base.files replaces the file: its temporary file, in the same directory, has no spec suffix, so no reader takes it
for a spec. If the path is a link, the link is replaced, never followed.

Source: CDI specification, "CDI JSON specification" (file names, suffixes); the reference's WriteSpec and RemoveSpec.
"""

from __future__ import annotations

import errno
import json
import os
import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from shim.base import files
from shim.base.findings import CdiError, Finding
from shim.base.paths import clean, parent, reason
from shim.cdi import names
from shim.cdi import spec as reader

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any, Literal

_REMEDIES = {
    errno.EACCES: "run it as the owner of the directory, usually root",
    errno.EPERM: "look for an immutable attribute (lsattr) on the file and the directory",
    errno.EROFS: "write to a directory that is writable; /var/run/cdi is in memory and writable on read-only systems",
    errno.ENOSPC: "free space, or write to /var/run/cdi, which is in memory",
    errno.ENOENT: "make the directory above first",
    errno.EISDIR: "move the directory of that name away",
}

_SUFFIX = {"yaml": ".yaml", "json": ".json"}
_MODE = 0o644
_DIRECTORY_MODE = 0o755

# Letters that are allowed unescaped in JSON but not in YAML.
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
# Plain words that every YAML reader, of 1.1 or 1.2, reads as text; all other text is quoted.
_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./=+-]*", re.ASCII)
_WORDS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}


def write(
    document: Mapping[str, Any],
    directory: str,
    name: str | None = None,
    format: Literal["yaml", "json"] | None = None,
    transient_id: str | None = None,
) -> str:
    """Write a spec into a spec directory; a file of the same name is replaced.

    Arguments:
        document: the spec, as plain values.
        directory: it is created (0755) when only its last part is missing.
        name: file name; without `.yaml` or `.json` the suffix is added. Without a name it is VENDOR-CLASS.
        format: "yaml" or "json"; if not given the name's suffix decides, else it is YAML.
        transient_id: for a spec that exists as long as a container: the name becomes VENDOR-CLASS_ID.

    Returns the path. A new file has mode 0644, a replaced file keeps its mode and owner.
    Raises SpecError for a document that readers refuse, CdiError for names and for errors of the system.
    """
    data, spec = _text(document, _format_of(name, format))
    if name is None:
        name = _own_name(spec, transient_id)
    elif transient_id is not None:
        raise ValueError("a name and a transient_id exclude each other: the id is a part of the name")
    name = _checked_name(_with_suffix(name, _format_of(name, format)))
    return _put(data, directory, name, keeps_mode=True)


def put(data: bytes, directory: str, name: str) -> str:
    """Write the text of a spec, from `encode`, into a spec directory; its mode is 0644 whatever was there before.

    Arguments:
        data: the text.
        directory: as of `write`.
        name: file name, with its suffix.

    Returns the path. Raises CdiError for names and for errors of the system.
    """
    return _put(data, directory, _checked_name(name), keeps_mode=False)


def _put(data: bytes, directory: str, name: str, *, keeps_mode: bool) -> str:
    directory = clean(directory)
    path = f"{directory.rstrip('/')}/{name}"
    with refusals(path, "written"):
        _make_directory(directory)
        files.write(path, data, mode=_MODE, keep=keeps_mode, follow=False)
    return path


def remove(name: str, directory: str) -> bool:
    """Remove a spec file.

    Arguments:
        name: file name; without `.yaml` or `.json` it is NAME.yaml, as in `write`.
        directory: the spec directory.

    Returns whether the file existed; a missing file or directory is no error. Raises CdiError for names and for errors
    of the system.
    """
    name = _checked_name(_with_suffix(name, "yaml"))
    directory = clean(directory)
    path = f"{directory.rstrip('/')}/{name}"
    with refusals(path, "removed"):
        try:
            os.unlink(path)
        except FileNotFoundError:
            return False
    files.sync(Path(directory))
    return True


def encode(document: Mapping[str, Any], format: Literal["yaml", "json"] = "yaml") -> bytes:
    """The text of a spec as `write` would write it. Raises SpecError for a document that readers refuse."""
    return _text(document, format)[0]


def _text(document: Mapping[str, Any], format: str) -> tuple[bytes, reader.Spec]:
    """Encode, and read back: the result must be equal to the document."""
    try:
        plain = _UNPRINTABLE.sub(
            lambda match: f"\\u{ord(match[0]):04x}",
            json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False),
        ).encode()
        data = plain + b"\n" if format == "json" else _yaml(document)
    except (ValueError, TypeError, RecursionError) as error:
        text = f"the document holds what no spec can hold: {error}"
        raise reader.SpecError([Finding("SPEC_INVALID", text, rule="wrong-type")]) from error
    try:
        wanted = reader.parse(plain)
        written = reader.parse(data)
    except reader.SpecError as error:
        for finding in error.findings:
            finding.line = 0  # the line of a text that is not on disk
        raise reader.SpecError(error.findings) from None
    if written.document != wanted.document:
        text = "the spec reads back as another one than was written, so it was not written"
        raise CdiError([Finding("INTERNAL", text)])
    return data, wanted


def _yaml(document: Mapping[str, Any]) -> bytes:
    """YAML with the same meaning for all readers: words that a reader could read as numbers or booleans are quoted."""
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - PyYAML's interface
            return True

    def quoted(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
        plain = _PLAIN.fullmatch(text) and text.lower() not in _WORDS
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if plain else '"')

    Dumper.add_representer(str, quoted)
    text = yaml.dump(document, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=1 << 30)
    return str(text).encode()


def _format_of(name: str | None, format: str | None) -> str:
    """The format asked for, by argument or by suffix. Raises ValueError when the two contradict each other."""
    if format is not None and format not in _SUFFIX:
        raise ValueError(f'the format of a spec is "yaml" or "json", not {format!r}')
    for known, suffix in _SUFFIX.items():
        if name is not None and name.endswith(suffix):
            if format not in (None, known):
                raise ValueError(f"{name!r} is the name of a {known} file, but the format is {format!r}")
            return known
    return format or "yaml"


def _with_suffix(name: str, format: str) -> str:
    return name if name.endswith((".yaml", ".json")) else name + _SUFFIX[format]


def _own_name(spec: reader.Spec, transient_id: str | None) -> str:
    if transient_id is None:
        return names.spec_name(spec.vendor, spec.klass)
    return names.transient_spec_name(spec.vendor, spec.klass, transient_id)


def _checked_name(name: str) -> str:
    """The name, if it is a file name without a directory. Raises CdiError (SPEC_TARGET)."""
    if name.startswith("."):
        wrong = "begins with a dot"
    elif "/" in name:
        wrong = "has a slash"
    elif not name.isprintable():
        wrong = "has a control or an unprintable character"
    elif len(name.encode("utf-8", "surrogateescape")) > 255:
        wrong = "is longer than 255 bytes"
    else:
        return name
    raise CdiError([Finding("SPEC_TARGET", f"the spec file name {name[:300]!a} {wrong}", rule="spec-name")])


def _make_directory(directory: str) -> None:
    """Create the last part of the path if it is missing, with mode 0755 whatever the umask is: specs are public."""
    try:
        os.mkdir(directory, _DIRECTORY_MODE)
    except FileExistsError:
        return
    os.chmod(directory, _DIRECTORY_MODE)


@contextmanager
def refusals(path: str, done: str) -> Iterator[None]:
    """Turn an OSError in the block into a CdiError (SPEC_WRITE) with what was not done, the reason and the remedy."""
    try:
        yield
    except OSError as error:
        failed = error.filename if error.filename == parent(path) else path  # not the temporary file
        text = f"the spec was not {done}: {failed}: {reason(error)}"
        remedy = _REMEDIES.get(error.errno or 0, "")
        raise CdiError([Finding("SPEC_WRITE", text, remedy, path=path, rule="spec-write")]) from error
