"""Scalars: a number or boolean as the text of a text field, and the values that a field of integers accepts.

The reference converts numbers and booleans to text (`name: 0`) but never text to a number, and accepts a whole float as
an integer. Both conversions go through decimal text there, so its digits count, not the exact value. Used by both
readers, hence without `re`.
"""

from __future__ import annotations

import math

INT64 = (-(2**63), 2**63 - 1)
UINT32 = (0, 2**32 - 1)
UINT64_MAX = 2**64 - 1


def text_of(value: bool | int | float) -> str:
    """A number or boolean as the text of a text field."""
    if value is True:
        return "true"
    if value is False:
        return "false"
    return str(value) if isinstance(value, int) else _float_text(value)


def _float_text(number: float) -> str:
    """The shortest decimal that differs from its neighbours in single precision, with an exponent from a million on."""
    from struct import error, pack, unpack  # late: needed only for a float in a text field

    try:
        single: float = unpack("f", pack("f", number))[0]
    except (OverflowError, error):
        single = math.copysign(math.inf, number)
    if not math.isfinite(single):
        return "NaN" if math.isnan(single) else "+Inf" if single > 0 else "-Inf"
    digits = 0
    while (
        float(f"{single:.{digits}e}") != single and unpack("f", pack("f", float(f"{single:.{digits}e}")))[0] != single
    ):
        digits += 1
    mantissa, _, exponent = f"{single:.{digits}e}".partition("e")
    power = int(exponent)
    if -4 <= power < max(6, 0):
        return f"{float(mantissa + 'e' + exponent):.{max(digits - power, 0)}f}"
    return f"{mantissa}e{power:+03d}"


def whole(value: object, limits: tuple[int, int]) -> int | None:
    """The integer of a value in a field of integers with limits, or None when the field does not accept the value.

    `432.0` and `4.32e2` are integers; `432.5`, `"432"` and `true` are not.
    """
    if isinstance(value, float):
        value = _whole_float(value, signed=limits[0] < 0)
    if isinstance(value, int) and not isinstance(value, bool) and limits[0] <= value <= limits[1]:
        return value
    return None


def _whole_float(number: float, *, signed: bool) -> int | None:
    # From 1e21 on the reference writes an exponent, which its integers do not accept; nor is "-0" an unsigned integer.
    if not number.is_integer() or abs(number) >= 1e21 or (not signed and math.copysign(1, number) < 0):
        return None
    mantissa, _, exponent = repr(number).partition("e")
    digits, _, fraction = mantissa.partition(".")
    fraction = fraction.rstrip("0")
    return int(digits + fraction) * int(10 ** (int(exponent or 0) - len(fraction)))
