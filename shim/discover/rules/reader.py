"""Files of rules: TOML, each `[[device]]` a rule. A file with a mistake is refused whole, the others count.

    [[device]]
    kind = "linux/serial"                       # VENDOR/CLASS
    match = "/dev/ttyUSB*"                      # device nodes, or directories below /sys
    names = ["{alias:/dev/serial/by-id}", "{name}"]
    model = "{attr:device/../../product}"       # for the inventory
    nodes = ["{path}"]                          # the default; a path that ends in `?` may be missing
    mounts = [{source = "/opt/x", target = "/opt/x", options = ["ro", "rbind"], optional = true}]
    env = {PORT = "{path}"}
    links = {"/dev/console-port" = "{name}"}
    folders = ["/opt/x/lib"]                    # get into the container's ld.so.cache
    hooks = [{stage = "createContainer", path = "/usr/bin/x", args = ["x", "y"], env = ["A=b"], timeout = 5}]
    all = false                                 # no device `all`

    [device.where]                              # sysfs attributes, or links, and globs of their text
    "device/../../idVendor" = ["0403", "10c4"]

    [device.common]                             # nodes, mounts, env, links, folders, hooks for all devices of the kind

Directories are read in order; a file of a later one replaces the file of its name in an earlier one, so an empty file
or a link to /dev/null switches it off. The specs that come of them name programs that root starts, so only files count
that nobody but trusted users can write.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

from shim.base.findings import Finding
from shim.base.nearest import nearest
from shim.cdi.names import BadName, parse_qualified
from shim.discover.rules.match import FIELD, WITH_ARGUMENT
from shim.discover.rules.model import Additions, Rule, RuleMount
from shim.host.tree import Tree

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from shim.host.host import Host

_SUFFIX = ".toml"
_STAGES = ("createRuntime", "createContainer", "startContainer", "poststart", "poststop", "prestart")
_ADDITIONS = ("nodes", "mounts", "env", "links", "folders", "hooks")
_KEYS = ("kind", "match", "names", "model", "where", "common", "all", *_ADDITIONS)
_HEADER = re.compile(r"^\s*\[\[\s*device\s*\]\]", re.MULTILINE)
_AT_LINE = re.compile(r"\(at line (\d+), column \d+\)")


class _FaultError(Exception):
    """A mistake in a rule: the key that it is about, and a sentence."""

    def __init__(self, key: str, text: str) -> None:
        self.key = key
        super().__init__(text)


def read(host: Host, directories: Iterable[str]) -> tuple[list[Rule], list[Finding]]:
    """The rules of all files, in the order of their names, and RULE_INVALID for each mistake."""
    tree = Tree(host)
    paths = {
        name: f"{directory}/{name}"
        for directory in directories
        for name in tree.names(directory)
        if name.endswith(_SUFFIX) and not name.startswith(".")
    }
    rules: list[Rule] = []
    findings: list[Finding] = []
    for _, path in sorted(paths.items()):
        found, faults = _file(host, tree, path)
        rules += [] if faults else found
        findings += faults
    return rules, findings


def _file(host: Host, tree: Tree, path: str) -> tuple[list[Rule], list[Finding]]:
    if tree.resolve(path) == "/dev/null":
        return [], []
    objection = host.objection(path)
    data = None if objection else tree.read(path)
    if data is None:
        text = f"it is not trusted: {objection}" if objection else "it cannot be read as a regular file"
        remedy = "let root own it and each directory above it, writable by nobody else" if objection else ""
        return [], [Finding("RULE_INVALID", text, remedy, path=path)]
    try:
        text = data.decode("utf-8")
        document = tomllib.loads(text)
    except ValueError as error:  # also what is no UTF-8
        at = _AT_LINE.search(str(error))
        return [], [Finding("RULE_INVALID", f"it is not valid TOML: {error}", path=path, line=int(at[1]) if at else 0)]
    unknown = [key for key in document if key != "device"]
    listed = document.get("device", [])
    if unknown or not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in listed):
        key = unknown[0] if unknown else "device"
        fault = f"{key}: a file of rules holds [[device]] tables and nothing else"
        return [], [Finding("RULE_INVALID", fault, path=path, line=_line(text, 0, key))]
    rules, findings = [], []
    for number, entry in enumerate(listed, 1):
        try:
            rules.append(_rule(entry, path, _line(text, number, ""), number))
        except _FaultError as fault:
            line = _line(text, number, fault.key)
            findings.append(Finding("RULE_INVALID", f"{fault.key}: {fault}", path=path, line=line))
    return rules, findings


def _line(text: str, number: int, key: str) -> int:
    """The line of a key of the rule of that number (0: of the file), else that of the rule's header; 0 for none."""
    headers = [match.end() for match in _HEADER.finditer(text)]
    if number > len(headers):
        return 0
    position = headers[number - 1] if number else 0
    end = headers[number] if number and number < len(headers) else len(text)
    for part in map(re.escape, key.split(".") if key else ()):
        value, table = rf"(?<![\w./-])[\"']?{part}[\"']?\s*=", rf"^\s*\[+\s*(?:device\s*\.\s*)?{part}\s*\]"
        at = re.compile(f"{value}|{table}", re.MULTILINE).search(text, position, end)
        if not at:
            break
        position = at.end()
    return text.count("\n", 0, position) + 1


def _rule(entry: dict[str, Any], path: str, line: int, number: int) -> Rule:
    _check_keys(entry, _KEYS, "")
    kind, match = _text(entry, "kind"), _text(entry, "match")
    try:
        parse_qualified(f"{kind}=x")
    except BadName as error:
        raise _FaultError("kind", str(error)) from None
    if not match.startswith(("/dev/", "/sys/")):
        raise _FaultError("match", f"{match!r} is neither below /dev nor below /sys")
    names = tuple(_template("names", name) for name in _texts(entry, "names", ["{name}"]))
    if not names:
        raise _FaultError("names", "it is empty")
    is_node = match.startswith("/dev/")
    if not is_node and not entry.get("nodes"):
        raise _FaultError("nodes", "a rule that matches directories of /sys names the nodes of the device")
    where = entry.get("where", {})
    if not isinstance(where, dict):
        raise _FaultError("where", "it is no table")
    has_all = entry.get("all", True)
    if not isinstance(has_all, bool):
        raise _FaultError("all", f"{has_all!r} is neither true nor false")
    common = entry.get("common", {})
    if not isinstance(common, dict):
        raise _FaultError("common", "it is no table")
    _check_keys(common, _ADDITIONS, "common.")
    return Rule(
        path,
        line,
        number,
        kind,
        match,
        names,
        _template("model", _text(entry, "model", "")),
        tuple((attribute, tuple(_texts(where, attribute, [], "where."))) for attribute in where),
        _additions(entry, "", ["{path}"] if is_node else []),
        _additions(common, "common.", []),
        has_all,
    )


def _additions(table: dict[str, Any], prefix: str, nodes: list[str]) -> Additions:
    def template(key: str) -> Callable[[str], str]:
        return lambda text: _template(prefix + key, text)

    return Additions(
        tuple(
            (_absolute(prefix + "nodes", template("nodes")(text.removesuffix("?"))), text.endswith("?"))
            for text in _texts(table, "nodes", nodes, prefix)
        ),
        tuple(_mount(item, prefix) for item in _list(table, "mounts", prefix)),
        tuple((name, template("env")(text)) for name, text in _table(table, "env", prefix)),
        tuple(
            (_absolute(prefix + "links", template("links")(link)), template("links")(text))
            for link, text in _table(table, "links", prefix)
        ),
        tuple(_absolute(prefix + "folders", text) for text in _texts(table, "folders", [], prefix)),
        tuple(_hook(item, prefix) for item in _list(table, "hooks", prefix)),
    )


def _mount(item: Any, prefix: str) -> RuleMount:
    key = f"{prefix}mounts"
    if not isinstance(item, dict):
        raise _FaultError(key, "a mount is a table with source and target")
    _check_keys(item, ("source", "target", "options", "optional"), f"{key}.")
    source = _absolute(f"{key}.source", _template(f"{key}.source", _text(item, "source", prefix=f"{key}.")))
    target = _absolute(
        f"{key}.target", _template(f"{key}.target", _text(item, "target", item["source"], prefix=f"{key}."))
    )
    options = tuple(_texts(item, "options", [], f"{key}."))
    is_optional = item.get("optional", False)
    if not isinstance(is_optional, bool):
        raise _FaultError(f"{key}.optional", f"{is_optional!r} is neither true nor false")
    return RuleMount(source, target, options, is_optional)


def _hook(item: Any, prefix: str) -> dict[str, Any]:
    key = f"{prefix}hooks"
    if not isinstance(item, dict):
        raise _FaultError(key, "a hook is a table with stage, path and args")
    _check_keys(item, ("stage", "path", "args", "env", "timeout"), f"{key}.")
    stage = _text(item, "stage", "createContainer", prefix=f"{key}.")
    if stage not in _STAGES:
        raise _FaultError(f"{key}.stage", f"{stage!r} is none of {', '.join(_STAGES)}")
    timeout = item.get("timeout")
    if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, int) or timeout < 1):
        raise _FaultError(f"{key}.timeout", f"{timeout!r} is no number of seconds")
    hook = {
        "hookName": stage,
        "path": _absolute(f"{key}.path", _text(item, "path", prefix=f"{key}.")),
        "args": _texts(item, "args", [], f"{key}."),
        "env": _texts(item, "env", [], f"{key}."),
        "timeout": timeout,
    }
    return {name: value for name, value in hook.items() if value}


# --- values -----------------------------------------------------------------------------------------------------------


def _check_keys(table: dict[str, Any], known: tuple[str, ...], prefix: str) -> None:
    for key in table:
        if key not in known:
            near = nearest(key, known)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            raise _FaultError(prefix + key, f"there is no such key ({hint})")


def _text(table: dict[str, Any], key: str, default: str | None = None, *, prefix: str = "") -> str:
    value = table.get(key, default)
    if value is None:
        raise _FaultError(prefix + key, "it is missing")
    if not isinstance(value, str):
        raise _FaultError(prefix + key, f"{value!r} is no text")
    return value


def _list(table: dict[str, Any], key: str, prefix: str) -> list[Any]:
    value = table.get(key, [])
    if not isinstance(value, list):
        raise _FaultError(prefix + key, f"{value!r} is no list")
    return value


def _texts(table: dict[str, Any], key: str, default: list[str], prefix: str = "") -> list[str]:
    value = table.get(key, default)
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list) or not all(isinstance(item, str) for item in listed):
        raise _FaultError(prefix + key, f"{value!r} is no list of texts")
    return listed


def _table(table: dict[str, Any], key: str, prefix: str) -> list[tuple[str, str]]:
    value = table.get(key, {})
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise _FaultError(prefix + key, f"{value!r} is no table of texts")
    return list(value.items())


def _absolute(key: str, path: str) -> str:
    if not path.startswith(("/", "{path}")) or ".." in path.split("/"):
        raise _FaultError(key, f"{path!r} is no absolute path without ..")
    return path


def _template(key: str, text: str) -> str:
    """A template whose fields exist. Raises _FaultError."""
    rest = FIELD.sub("", text)
    if "{" in rest or "}" in rest:
        fields = "{name}, {number}, {index}, {path}, {attr:PATH}, {link:PATH}, {alias:DIR}"
        raise _FaultError(key, f"{text!r} has a field that does not exist (there are {fields})")
    for field in FIELD.finditer(text):
        if field[1] and (field[2] is not None) != (field[1] in WITH_ARGUMENT):
            raise _FaultError(key, f"{field[0]} {'has no argument' if field[2] else 'needs an argument'}")
    return text
