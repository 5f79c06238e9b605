"""The model of runc's reader follows the documented rules of Go's encoding/json."""

from __future__ import annotations

from typing import Any

import pytest
from unit.create import golike

RULES: dict[str, tuple[bytes, Any]] = {
    "the exact name counts where both are there, in their order": (
        b'{"Hostname":"a","hostname":"b"}',
        {"hostname": "b"},
    ),
    "another case alone": (b'{"HOSTNAME":"a"}', {"hostname": "a"}),
    "a long s": ('{"ho\u017ftname":"a"}'.encode(), {"hostname": "a"}),
    "a Kelvin sign": ('{"hoo\u212as":{}}'.encode(), {"hooks": {}}),
    "an escaped long s": (b'{"ho\\u017ftname":"a"}', {"hostname": "a"}),
    "a dotless i is no i": ('{"l\u0131nux":{}}'.encode(), {}),
    "keys of maps as they are": (b'{"annotations":{"A":"1","a":"2"}}', {"annotations": {"A": "1", "a": "2"}}),
    "maps merge": (b'{"annotations":{"a":"1"},"Annotations":{"b":"2"}}', {"annotations": {"a": "1", "b": "2"}}),
    "structs merge": (b'{"root":{"path":"a"},"root":{"readonly":true}}', {"root": {"path": "a", "readonly": True}}),
    "arrays begin anew": (b'{"process":{"env":["a"],"env":["b"]}}', {"process": {"env": ["b"]}}),
    "the last text": (b'{"hostname":"a","hostname":"b"}', {"hostname": "b"}),
    "null empties a map": (b'{"annotations":{"a":"1"},"annotations":null}', {}),
    "null empties a pointer": (b'{"root":{"path":"a"},"root":null}', {}),
    "null leaves a text": (b'{"hostname":"a","hostname":null}', {"hostname": "a"}),
    "null in a map": (b'{"annotations":{"a":null}}', {"annotations": {"a": ""}}),
    "what follows the value": (b'{"hostname":"a"} {"hostname":"b"}', {"hostname": "a"}),
    "a lone surrogate": (b'{"hostname":"\\ud800"}', {"hostname": "\ufffd"}),
    "no UTF-8": (b'{"hostname":"\xff"}', {"hostname": "\ufffd"}),
    "an unknown member": (b'{"other":[1]}', {}),
    "null": (b"null", {}),
}


@pytest.mark.parametrize(("data", "expected"), RULES.values(), ids=RULES.keys())
def test_it_reads_as_go_does(data: bytes, expected: Any) -> None:
    assert golike.decode(data) == expected


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b'{"hostname":1}',
        b'{"process":{"user":{"uid":-1}}}',
        b'{"process":{"user":{"uid":1.0}}}',
        b'{"process":{"user":{"uid":4294967296}}}',
        b'{"annotations":{"a":{}}}',
        b'{"mounts":{}}',
        b'{"a":NaN}',
        b"\xef\xbb\xbf{}",
        b'{"a":"\n"}',
    ],
)
def test_runc_refuses_what_it_cannot_decode(data: bytes) -> None:
    with pytest.raises(golike.RefusedError):
        golike.decode(data)
