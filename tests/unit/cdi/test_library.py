"""The public surface of the library: what its documentation shows is run."""

from __future__ import annotations

import doctest
import subprocess
import sys

import pytest

from shim import cdi


def test_the_example_of_the_documentation_runs() -> None:
    result = doctest.testmod(cdi)
    assert result.attempted > 10
    assert result.failed == 0


@pytest.mark.parametrize("name", cdi.__all__)
def test_a_public_name_is_the_same_before_and_after_all_modules_are_loaded(name: str) -> None:
    program = f"""
from shim import cdi
first = cdi.{name}
for other in cdi.__all__:
    getattr(cdi, other)
assert cdi.{name} is first and callable(first), first
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_an_unknown_name_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        cdi.no_such_name  # noqa: B018 - looking it up is the test
