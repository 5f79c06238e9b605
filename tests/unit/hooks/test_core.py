"""The table of hooks, which C, folding and the command line share."""

from __future__ import annotations

import click
import pytest

from shim.cli.hook import hook
from shim.hooks import core
from shim.hooks._core import ffi, lib

IN_PYTHON = {"netdevices", "precreate"}
REFUSED = {"chmod"}  # known, so that it can be refused with its reason; nothing to offer to people
FORMS = {lib.HOOK_FLAG: "flag", lib.HOOK_TEXT: "text", lib.HOOK_LIST: "list"}
OPTIONS = {ffi.string(row.name).decode(): (FORMS[row.form], bool(row.unusual)) for row in core._rows(lib.hook_options)}


def test_each_hook_in_c_has_a_command_with_its_help() -> None:
    assert {row.name for row in core.HOOKS} - REFUSED == set(hook.commands) - IN_PYTHON


def _form(option: click.Parameter) -> str:
    assert isinstance(option, click.Option)
    return "flag" if option.is_flag else "list" if option.multiple else "text"


@pytest.mark.parametrize("name", sorted(set(hook.commands) - IN_PYTHON))
def test_each_option_of_a_command_is_one_that_c_reads(name: str) -> None:
    told = {word.lstrip("-"): _form(one) for one in hook.commands[name].params for word in one.opts}
    assert told == {word: OPTIONS[word][0] for word in told}


def test_what_makes_libraries_runs_before_what_lists_them() -> None:
    """The order and the properties were written down in create as well, and contradicted the table."""
    makers = [place for place, row in enumerate(core.HOOKS) if row.makes_libraries]
    listers = [place for place, row in enumerate(core.HOOKS) if row.before == core.LIBRARIES]
    assert makers
    assert listers
    assert max(makers) < min(listers)


@pytest.mark.parametrize("option", sorted(OPTIONS))
def test_a_command_line_is_usual_without_the_options_that_no_start_needs(option: str) -> None:
    form, unusual = OPTIONS[option]
    call = core.read_hook(["shim", "hook", "update-ldcache", f"--{option}", *([] if form == "flag" else ["/x"])])
    assert call is not None
    assert call.is_usual is not unusual
    assert list(call.names.values()) == ["update-ldcache"], "the value is no hook"


def test_an_unknown_option_is_passed_over_in_the_vendors_form_alone() -> None:
    """It may ask for work that is not done here, so nothing of such a call is folded."""
    call = core.read_hook(["/usr/bin/nvidia-cdi-hook", "update-ldcache", "--of-tomorrow", "value", "create-symlinks"])
    assert call is not None
    assert not call.is_usual
    assert list(call.names.values()) == ["update-ldcache", "create-symlinks"]
    assert core.read_hook(["shim", "hook", "update-ldcache", "--of-tomorrow"]) is None
