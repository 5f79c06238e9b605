"""What differs from run to run although nothing was changed, and what stands for it. The one place for that.

Everything else of a case is fixed by the machine it runs on (machine.py), so the list is short. A rule holds for the
parts that its pattern of names matches, and takes out no more than its own words.
"""

from __future__ import annotations

import fnmatch
import re
from typing import NamedTuple


class Rule(NamedTuple):
    """One thing that is not compared.

    Attributes:
        name: of the rule.
        why: what makes it differ.
        parts: pattern of the parts of a result in which it stands.
        pattern: what is replaced; its groups stay.
        instead: what stands for it, with \\1 for the groups.
    """

    name: str
    why: str
    parts: str
    pattern: re.Pattern[str]
    instead: str


RULES = (
    Rule("time", "the clock", "*log*", re.compile(r'(time"?[:=] ?")\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"'), r'\1<time>"'),
    Rule("nanoseconds", "the clock", "file:/var/lib/shim/*", re.compile(r'("time": ?)\d{19}\b'), r'\1"<time>"'),
    Rule(
        "identity",
        "what a config.json is called by the kernel; what is in it is a part of its own",
        "record",
        re.compile(r'("identity":\[)(?:\d+|"<dev>"),(?:\d+|"<ino>"),\d+,(?:\d+|"<mtime>"),(?:\d+|"<ctime>")\]'),
        r'\1"<dev>","<ino>","<size>","<mtime>","<ctime>"]',
    ),
    Rule(
        "process",
        "numbers that the kernel gives to processes and namespaces",
        "record",
        re.compile(r'"mnt:\[\d+\]",\d+,\d+\]'),
        '"mnt:[<number>]","<process>","<parent>"]',
    ),
    Rule("socket", "numbers that the kernel gives", "exec", re.compile(r"(pipe|socket|anon_inode):\[\d+\]"), r"\1"),
    Rule("terminal", "numbers that the kernel gives", "exec", re.compile(r"/dev/pts/\d+"), "/dev/pts/<number>"),
    Rule("memory file", "the kernel's name for it", "exec", re.compile(r"/memfd:(\w+) \(deleted\)"), r"/memfd:\1"),
    Rule("python", "the interpreter of the build", "stdout", re.compile(r"\b3\.1\d\.\d+\b"), "<python>"),
    Rule("site-packages", "the interpreter of the build", "*", re.compile(r"lib/python3\.1\d/"), "lib/<python>/"),
    Rule("place", "where in our code", "*", re.compile(r"\bat (?:\S*/)?shim/\S+\.py:\d+"), "at <place>"),
    Rule("version", "the version of the build", "stdout", re.compile(r"\b0\.\d\.\d(\.dev\d+)?(?=\b)"), "<version>"),
)


def normal(part: str, text: str) -> str:
    """A part of a result without what differs from run to run."""
    for rule in RULES:
        if fnmatch.fnmatchcase(part, rule.parts):
            text = rule.pattern.sub(rule.instead, text)
    return text
