"""Values of labels: texts of drivers and firmware made into what Kubernetes takes.

A value has at most 63 letters, digits, dashes, underscores and dots, the first and the last a letter or digit; or it is
empty. The part of a label's name behind the slash has the same form and is not empty.

Source: Kubernetes, "Labels and Selectors", syntax and character set.
"""

from __future__ import annotations

import re

LONGEST = 63

_DROPPED = re.compile(r"[^A-Za-z0-9 ._-]")
_BLANKS = re.compile(r" +")
_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)?")
_ENDS = "-_."


def cleaned(text: str) -> str:
    """A text as a product's or a machine's name is written: other letters dropped, each run of blanks a dash."""
    return _BLANKS.sub("-", _DROPPED.sub("", text).strip(" "))


def is_value(text: str) -> bool:
    """Whether Kubernetes takes a text as the value of a label."""
    return len(text) <= LONGEST and _VALUE.fullmatch(text) is not None


def value(text: str, suffix: str = "") -> str:
    """A value: the text, shortened so that the suffix fits, and without other letters than those of a value.

    Arguments:
        text: for example the name of a model.
        suffix: what follows, kept whole, such as -SHARED.
    """
    whole = _DROPPED.sub("", text).replace(" ", "-") + suffix
    if is_value(whole):
        return whole
    room = LONGEST - len(suffix)
    return (text[:room].rstrip(_ENDS) + suffix).strip(_ENDS) if suffix else whole[:LONGEST].strip(_ENDS)


def model_name(klass: str, name: str) -> str:
    """The beginning of the names of a model's own labels, such as gpu.model.NVIDIA-A10; .memory fits behind it.

    Arguments:
        klass: of the devices, such as gpu.
        name: of the model.
    """
    longest = ".memory"
    return value(f"{klass}.model.{cleaned(name)}", longest).removesuffix(longest)
