"""Names: vendor, class, device, kind and qualified name, split, checked and put together.

The rules are those of the CDI reference library (SPEC.md, "Kind" and "CDI Device"), which are looser than the written
text: no length limit and no DNS rule. Text that came from bytes which are no UTF-8 (surrogate escapes) fails like any
other character that is not allowed. HOT: imports nothing, so that the create path pays for no regular expressions.
"""

from __future__ import annotations

_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_DIGITS = frozenset("0123456789")
_ENDS = _LETTERS | _DIGITS
_INNER = _ENDS | frozenset("_-.")
_LONGEST = 100  # letters of a text that a message quotes
_INNER_DEVICE = _INNER | frozenset(":")


class BadName(ValueError):  # noqa: N818 - named after what it is about; every caller reads `except BadName`
    """A name that the rules refuse.

    Arguments:
        rule: short code of the rule that failed, for example "vendor-first-char" or "missing-vendor".
        text: a sentence that names the part, the text and what would be right.
    """

    def __init__(self, rule: str, text: str) -> None:
        self.rule = rule
        super().__init__(text)


def quoted(text: str) -> str:
    """A text in quotes, for a message: cut when it is long, so that the rest of the message stays readable."""
    return repr(text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}...")


def _check(part: str, text: str, first: frozenset[str], inner: frozenset[str], allowed: str) -> None:
    if not text:
        raise BadName(f"{part}-empty", f"the {part} is empty")
    if text[0] not in first:
        kinds = "a letter" if first is _LETTERS else "a letter or digit"
        raise BadName(
            f"{part}-first-char", f"{part} {quoted(text)} starts with {text[0]!r}, but must start with {kinds}"
        )
    if not inner.issuperset(before_last(text)):
        wrong = next(letter for letter in text if letter not in inner)
        raise BadName(f"{part}-char", f"{part} {quoted(text)} contains {wrong!r}; allowed are {allowed}")
    if text[-1] not in _ENDS:
        raise BadName(
            f"{part}-last-char", f"{part} {quoted(text)} ends in {text[-1]!r}, but must end in a letter or digit"
        )


def before_last(text: str) -> str:
    """The text before the last byte: the reference counts bytes, so it has a part of a last letter beyond ASCII."""
    return text[:-1] if text[-1] < "\x80" or "\udc80" <= text[-1] <= "\udcff" else text


def check_vendor(vendor: str) -> None:
    """Raise BadName unless `vendor` is a vendor: a letter first, a letter or digit last, `_ - .` only between."""
    _check("vendor", vendor, _LETTERS, _INNER, "letters, digits, '_', '-' and '.'")


def check_class(klass: str) -> None:
    """Raise BadName unless `klass` is a class; the rules are those of a vendor."""
    _check("class", klass, _LETTERS, _INNER, "letters, digits, '_', '-' and '.'")


def check_device(device: str) -> None:
    """Raise BadName unless `device` is a device name: like a vendor, but a digit may be first and `:` inside."""
    _check("device", device, _ENDS, _INNER_DEVICE, "letters, digits, '_', '-', '.' and ':'")


def split_kind(kind: str) -> tuple[str, str]:
    """Cut a kind at its first slash into (vendor, class), unchecked; vendor is "" when there are not two parts."""
    vendor, slash, klass = kind.partition("/")
    return (vendor, klass) if vendor and slash and klass else ("", kind)


def split_qualified(name: str) -> tuple[str, str, str]:
    """Cut VENDOR/CLASS=DEVICE into (vendor, class, device), unchecked; ("", "", name) unless it has three parts."""
    kind, equals, device = name.partition("=")
    if kind and equals and device and not name.startswith("/"):
        vendor, klass = split_kind(kind)
        if vendor:
            return vendor, klass, device
    return "", "", name


def parse_qualified(name: str) -> tuple[str, str, str]:
    """Cut VENDOR/CLASS=DEVICE into (vendor, class, device) and check each part.

    Raises:
        BadName: rule "missing-vendor" for a text of another form, else that of the part that is wrong.
    """
    vendor, klass, device = split_qualified(name)
    if not vendor:
        raise BadName("missing-vendor", f"{quoted(name)} is not a qualified name: the form is VENDOR/CLASS=DEVICE")
    try:
        check_vendor(vendor)
        check_class(klass)
        check_device(device)
    except BadName as bad:
        raise BadName(bad.rule, f"{quoted(name)} is not a qualified name: {bad}") from None
    return vendor, klass, device


def compose(vendor: str, klass: str, device: str) -> str:
    """Put a qualified name together; nothing is checked."""
    return f"{vendor}/{klass}={device}"


def spec_name(vendor: str, klass: str) -> str:
    """File name, without its ending, for the spec of a kind; nothing is checked."""
    return f"{vendor}-{klass}"


def transient_spec_name(vendor: str, klass: str, transient_id: str) -> str:
    """File name, without its ending, for a spec that lives as long as `transient_id`; slashes of the id become `_`."""
    return f"{vendor}-{klass}_{transient_id.replace('/', '_')}"


def spec_name_for_kind(kind: str) -> str:
    """Like spec_name, from a kind. Raises BadName ("bad-kind") when the kind has not two parts."""
    return spec_name(*_parts(kind))


def transient_spec_name_for_kind(kind: str, transient_id: str) -> str:
    """Like transient_spec_name, from a kind. Raises BadName ("bad-kind") when the kind has not two parts."""
    return transient_spec_name(*_parts(kind), transient_id)


def _parts(kind: str) -> tuple[str, str]:
    vendor, klass = split_kind(kind)
    if not vendor:
        raise BadName("bad-kind", f"{quoted(kind)} is not a kind: the form is VENDOR/CLASS")
    return vendor, klass
