#!/usr/bin/env python3
"""How cdi-shim answers a case: the command that run.py starts, and an example for other programs.

It needs the package `cdi-shim`. A refusal is an answer, too: {"error": TEXT}, or {"accepted": false, "error": TEXT}.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable
from typing import Any

import shim.cdi.annotations as requests
from shim.cdi import directories, edits, names, plan, spec, versions


def inject(given: dict[str, Any]) -> dict[str, Any]:
    """The config.json with the edits of the devices."""
    try:
        made = plan.make(given["devices"], directories.read(given["dirs"]))
    except plan.UnresolvedError as error:
        return {"unresolved": error.names}
    except plan.NodeError as error:
        return {"error": str(error), "node": error.node}
    return {"config": edits.apply(made, given["config"])}


def cache(given: dict[str, Any]) -> dict[str, Any]:
    """What a list of spec directories serves."""
    found = directories.read(given["dirs"])
    files = {path: errors for path, errors in found.findings.items() if errors[0].id != "SPEC_DIR_UNREADABLE"}
    got = {name: found.get(name) for name in given["queries"]}
    served = {
        name: item and {"path": item[0].path, "priority": item[0].priority, "edits": item[0].devices[item[1]]}
        for name, item in got.items()
    }
    return {
        "vendors": found.vendors(),
        "classes": found.classes(),
        "devices": found.devices(),
        "errors": {path: [error.text for error in errors] for path, errors in files.items()},
        "get": served,
    }


def specs(given: dict[str, Any]) -> dict[str, Any]:
    """A spec: whether it is valid, what it holds, and the lowest version that its content needs."""
    text = base64.b64decode(given["text_b64"]) if "text_b64" in given else given["text"].encode()
    document, findings = spec.examine(text)
    if findings:
        return {"accepted": False, "error": findings[0].text}
    read = spec.parse(text)
    answer = {"vendor": read.vendor, "class": read.klass, "devices": list(read.devices), "spec": read.document}
    return {"accepted": True, "minimum": versions.minimum(document), **answer}


def qualified(value: str) -> dict[str, Any]:
    """The parts of a device's name."""
    members = ("vendor", "class", "name")
    split = dict(zip(members, names.split_qualified(value), strict=True))
    try:
        return {"valid": True, "split": split, "parts": dict(zip(members, names.parse_qualified(value), strict=True))}
    except names.BadName as error:
        return {"valid": False, "split": split, "error": str(error)}


def name(given: dict[str, Any]) -> dict[str, Any]:
    """Checks of names, their parts, and names of spec files."""
    builders: dict[str, Callable[..., str]] = {
        "compose": names.compose,
        "spec_name": names.spec_name,
        "spec_name_for_kind": names.spec_name_for_kind,
    }
    builders |= {"transient_spec_name": names.transient_spec_name}
    builders |= {"transient_spec_name_for_kind": names.transient_spec_name_for_kind}
    checks = {"vendor": names.check_vendor, "class": names.check_class, "device": names.check_device}
    build = builders.get(given["op"])
    parts = [given[part] for part in ("kind", "vendor", "class", "name", "transient_id") if part in given]
    value = given.get("value", "")
    if "value_b64" in given:
        value = base64.b64decode(given["value_b64"]).decode("utf-8", "surrogateescape")
    if build:
        return {"qualified" if given["op"] == "compose" else "name": build(*parts)}
    if given["op"] == "kind":
        return dict(zip(("vendor", "class"), names.split_kind(value), strict=True))
    if given["op"] == "qualified":
        return qualified(value)
    try:
        checks[given["op"]](value)
    except names.BadName as error:
        return {"valid": False, "error": str(error)}
    return {"valid": True}


def annotation(given: dict[str, Any]) -> dict[str, Any]:
    """Requests in annotations: read, and written."""
    if given["op"] == "key":
        return {"key": requests.key(given["plugin"], given["device_id"])}
    if given["op"] == "value":
        return {"value": requests.value(given["devices"])}
    if given["op"] == "update":
        arguments = [given[part] for part in ("annotations", "plugin", "device_id", "devices")]
        return {"annotations": requests.update(*arguments)}
    found = requests.parse(given["annotations"])
    devices = [device for _, named in found for device in named]
    keys = [key for key, _ in found]
    return {"keys": keys, "by_key": dict(found), "devices": devices, "devices_sorted": sorted(devices)}


def version(given: dict[str, Any]) -> dict[str, Any]:
    """Versions of the specification."""
    if given["op"] == "current":
        return {"current": versions.CURRENT}
    plain = {"kind": "vendor.com/device", "devices": [{"name": "d", "containerEdits": {"env": ["A=0"]}}]}
    document = given.get("spec", plain)
    answer: dict[str, Any] = {"known": versions.known(given.get("version", "")), "minimum": versions.minimum(document)}
    if given["op"] == "minimum":
        return answer
    try:
        versions.check({**document, "cdiVersion": given["version"]})
    except versions.BadVersion as error:
        return answer | {"accepted": False, "error": str(error)}
    return answer | {"accepted": True}


FAMILIES = {
    "inject": inject,
    "cache": cache,
    "specs": specs,
    "names": name,
    "annotations": annotation,
    "version": version,
}


def main() -> int:
    """Read a case, print the answer."""
    question = json.load(sys.stdin)
    try:
        answer = FAMILIES[question["family"]](question["input"])
    except names.BadName as error:
        answer = {"error": str(error)}
    json.dump(answer, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
