"""A plugin of pytest for a run by qemu-user: it leaves out what qemu cannot do, and ends a test that does not end.

A test is left out by its name, with a reason; a name that no test has any more is an error, so that the list stays
true. A skip is counted with its reason, and is an error where that is not in the list. All are printed at the end.
"""

from __future__ import annotations

import fnmatch
import signal
from collections import Counter
from collections.abc import Iterator
from types import FrameType

import hypothesis
import pytest

LIMIT = 300  # seconds for a test
EXAMPLES = 50  # of generated cases for a test, of which some have thousands

# Patterns of names of tests -> why they are not run. An asterisk alone is special: names of cases have brackets.
LEFT_OUT: dict[str, tuple[str, ...]] = {
    "the hook knows a network namespace by NS_GET_NSTYPE, an ioctl that qemu does not pass on": (
        "tests/unit/hooks/test_netdevices.py::*",
    ),
    "the executable of each process is qemu, as other processes see it in /proc/PID/exe": (
        "tests/unit/host/test_host.py::test_a_daemon_of_roots_is_seen_with_its_start",
        "tests/unit/host/test_host.py::test_one_file_with_many_names_is_the_one_by_which_it_was_called",
        "tests/unit/host/test_host.py::test_one_that_was_upgraded_since_is_still_seen",
        "tests/unit/host/test_host.py::test_a_process_in_another_pid_namespace_does_not_count",
    ),
    "qemu orders the variables of the environment anew, and has signals and descriptors of its own": (
        "tests/unit/native/test_launcher.py::test_the_runtime_gets_everything_as_it_was[*",
        "tests/unit/native/test_launcher.py::test_the_runtime_gets_everything_as_it_was_behind_python_too[*",
        "tests/unit/native/test_launcher.py::test_python_gets_the_environment_in_order_with_loader_variables_renamed",
    ),
    "an emulated compiler with sanitizers takes longer than a test may": ("tests/unit/native/test_fuzz.py::*",),
    "qemu has no ptrace": (
        "tests/unit/native/test_hooks.py::test_two_hooks_on_one_root_do_not_rename_each_other_s_files",
        "tests/unit/native/test_hooks.py::test_what_a_killed_hook_left_is_removed_by_the_next_one",
        "tests/unit/native/test_hooks.py::test_no_program_is_run_and_no_namespace_entered",
    ),
    "a link to the launcher: the status of /proc/self/exe is that of qemu, and the launcher executes itself for ever": (
        "tests/unit/native/test_lowlevel.py::test_without_a_link[a link to the launcher is passed over-by_launcher]",
        "tests/unit/native/test_lowlevel.py::test_without_a_link[and crun taken where runc is *-by_launcher]",
        "tests/unit/native/test_lowlevel.py::test_without_a_link[never itself-by_launcher]",
        "tests/unit/native/test_lowlevel.py::test_without_a_link[itself in PATH-by_launcher]",
        "tests/unit/native/test_lowlevel.py::test_with_a_link[a link to the launcher is wrong-by_launcher]",
        "tests/unit/native/test_launcher.py::test_a_program_that_replaces_the_runtime_finds_the_one_behind_it",
        "tests/unit/native/test_launcher.py::test_a_launcher_that_finds_only_itself_says_so",
        "tests/unit/native/test_launcher.py::test_a_link_that_leads_nowhere_says_so[{bin}/shim-*",
    ),
}

# Markers -> why their tests are not run
MARKERS = {
    "engine": "start a runtime or an engine, which need cgroups and device nodes of the machine",
    "rootful": "are about what shim does as the host's root",
    "other_user": "start the command as another user of the machine",
    "nightly": "are too long",
}

# The beginnings of reasons of skips
SKIPS = ("left out: device nodes need root of the machine",)

_counts: Counter[str] = Counter()
_errors: list[str] = []


def _matches(name: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(name, pattern.replace("[", "[[]"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is in the list, and count what has a marker."""
    reasons: dict[pytest.Item, str] = {}
    files = {item.nodeid.partition("::")[0] for item in items}
    for reason, patterns in LEFT_OUT.items():
        for pattern in patterns:
            these = [item for item in items if _matches(item.nodeid, pattern)]
            if not these and pattern.partition("::")[0] in files:
                _errors.append(f"no test is named {pattern}, which is left out")
            reasons |= dict.fromkeys(these, reason)
    for item in items:
        for marker, reason in MARKERS.items():
            if item.get_closest_marker(marker):
                reasons.setdefault(item, reason)
    _counts.update(reasons.values())
    config.hook.pytest_deselected(items=list(reasons))
    items[:] = [item for item in items if item not in reasons]
    for item in items:
        _bound(item)


def _bound(item: pytest.Item) -> None:
    """Bound the number of a test's generated cases, for which hypothesis has no public way."""
    function = getattr(item, "function", None)
    own = getattr(function, "_hypothesis_internal_use_settings", None) or hypothesis.settings()
    if getattr(function, "is_hypothesis_test", False):
        bounded = hypothesis.settings(own, max_examples=min(own.max_examples, EXAMPLES), deadline=None)
        vars(function)["_hypothesis_internal_use_settings"] = bounded
        _counts[f"these have at most {EXAMPLES} generated cases"] += own.max_examples > EXAMPLES


def _late(number: int, frame: FrameType | None) -> None:
    del number, frame
    pytest.fail(f"it did not end within {LIMIT} s")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """End a test that does not end by itself."""
    signal.signal(signal.SIGALRM, _late)
    signal.alarm(LIMIT)
    try:
        return (yield)
    finally:
        signal.alarm(0)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Count a skip with its reason."""
    if report.skipped and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        _counts[reason] += 1
        if not reason.startswith(SKIPS):
            _errors.append(f"{report.nodeid} is skipped, and its reason is not in the list: {reason}")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """What the list does not agree with is a failure."""
    if _errors and session.exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The list, with counts."""
    for reason, count in sorted(_counts.items()):
        terminalreporter.write_line(f"not run: {count} tests: {reason}")
    for error in _errors:
        terminalreporter.write_line(f"error: {error}")
