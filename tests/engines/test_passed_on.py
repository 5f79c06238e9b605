"""What does not ask for a device is the low-level runtime's, byte for byte, and so are signals and their end."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from engines.harness import programs
from engines.harness.device import NAME
from engines.harness.images import WAIT
from engines.harness.runtimes import Bundle, Runtime, RuntimeName
from engines.harness.sandbox import Result, Sandbox, wait_until

pytestmark = pytest.mark.engine

REQUEST = {"cdi.k8s.io/vendor-test_one": NAME}
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")


@pytest.fixture(scope="module")
def plain(sandbox: Sandbox, low_level: RuntimeName) -> Runtime:
    """The low-level runtime called by itself, with the same root."""
    return Runtime(sandbox, programs.find(low_level)[0], low_level)


@pytest.fixture(scope="module")
def behind(sandbox: Sandbox, linked: Path, low_level: RuntimeName) -> Runtime:
    """The low-level runtime behind the launcher."""
    return Runtime(sandbox, linked, low_level)


@pytest.fixture(scope="module")
def running(sandbox: Sandbox, plain: Runtime) -> Iterator[str]:
    """A container that runs."""
    bundle = Bundle(sandbox, "running", WAIT)
    plain("run", "--detach", "--bundle", bundle.directory, bundle.id).ok()
    yield bundle.id
    plain("delete", "--force", bundle.id).ok()


def told(result: Result) -> Result:
    """A result as it can be compared: times that a runtime writes into its messages taken out."""
    return Result(result.status, result.out, TIME.sub("TIME", result.err))


@pytest.mark.parametrize(
    "line",
    [
        "--version",
        "-v",
        "--help",
        "features",
        "list",
        "list --quiet",
        "list -q",
        "list --format json",
        "list --format=other",
        "state ID",
        "state nobody",
        "ps --format json ID",
        "pause ID; pause ID; resume ID; resume ID",
        "update --memory 67108864 --memory-swap 67108864 ID",
        "update --resources /nowhere ID",
        "events --stats nobody",
        "exec ID /bin/cat /etc/passwd",
        "exec ID /bin/sh -c 'exit 7'",
        "exec ID /bin/not-there",
        "exec nobody /bin/true",
        "kill ID 0",
        "kill ID SIGNONE",
        "kill nobody TERM",
        "start ID",
        "start nobody",
        "delete ID",
        "delete nobody",
        "delete --force nobody",
        "create --bundle /nowhere new",
        "run",
        "spec --nonsense",
        "nonsense",
    ],
)
def test_a_verb_says_and_returns_the_same(plain: Runtime, behind: Runtime, running: str, line: str) -> None:
    calls = [
        [running if word == "ID" else word.strip("'") for word in re.findall(r"'[^']*'|\S+", call)]
        for call in line.split("; ")
    ]
    assert [told(behind(*words)) for words in calls] == [told(plain(*words)) for words in calls]


def test_the_state_of_a_container_with_a_device_is_the_runtimes_own(
    sandbox: Sandbox, plain: Runtime, behind: Runtime
) -> None:
    bundle = Bundle(sandbox, "state-device", WAIT, annotations=REQUEST)
    behind("run", "--detach", "--bundle", bundle.directory, bundle.id).ok()
    try:
        for words in (["state", bundle.id], ["list"], ["ps", "--format", "json", bundle.id]):
            assert told(behind(*words)) == told(plain(*words))
        assert json.loads(behind("state", bundle.id).ok())["status"] == "running"
    finally:
        plain("delete", "--force", bundle.id).ok()


class Foreground:
    """`run` in the foreground, as the caller that waits for it sees it.

    Arguments:
        runtime: what is called.
        bundle: whose script writes "ready" to its standard output.
    """

    def __init__(self, sandbox: Sandbox, runtime: Runtime, bundle: Bundle) -> None:
        self._sandbox = sandbox
        self._pid = bundle.directory / "pid"
        self._out = bundle.directory / "out"
        keep_pid = ("/bin/sh", "-c", 'echo $$ > "$0"; exec "$@"', self._pid)
        with self._out.open("wb") as out:
            self._process = subprocess.Popen(
                sandbox.command(*keep_pid, *runtime.argv("run", "--bundle", bundle.directory, bundle.id)),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=sandbox.environment(),
            )
        wait_until(lambda: self._out.read_text().startswith("ready"), f"{bundle.id} runs")

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process that was started, which has become the low-level runtime by now."""
        self._sandbox.run("/bin/kill", f"-{number.value}", self._pid.read_text().strip()).ok()

    def end(self) -> tuple[int, str]:
        """The wait status, a signal as a negative number, and the output; nsenter dies of what its child died of."""
        return self._process.wait(30), self._out.read_text()


TRAPS = 'trap "echo usr1" USR1; trap "echo term; exit 7" TERM; echo ready; while :; do sleep 3600 & wait $!; done'


@pytest.mark.parametrize("asks", [False, True], ids=["nothing asked", "a device asked"])
@pytest.mark.parametrize(
    "numbers",
    [
        pytest.param([signal.SIGTERM], id="TERM, which the container hears and ends with 7"),
        pytest.param([signal.SIGUSR1, signal.SIGTERM], id="USR1, which it hears, then TERM"),
        pytest.param([signal.SIGKILL], id="KILL, of which the runtime dies"),
    ],
)
def test_a_signal_to_run_in_the_foreground_has_the_same_end(
    sandbox: Sandbox, plain: Runtime, behind: Runtime, numbers: list[signal.Signals], asks: bool
) -> None:
    ends: list[tuple[int, str]] = []
    for runtime in (plain, behind):
        name = f"signal-{len(numbers)}-{numbers[0]}-{asks}-{len(ends)}"
        bundle = Bundle(sandbox, name, TRAPS, annotations=REQUEST if asks else {})
        process = Foreground(sandbox, runtime, bundle)
        for number in numbers:
            process.send(number)
            if number == signal.SIGUSR1:
                wait_until(lambda: "usr1" in (bundle.directory / "out").read_text(), "it has heard")  # noqa: B023 - at once
        ends.append(process.end())
        plain("delete", "--force", bundle.id)  # KILL leaves the container
    assert ends[0][0] in {7, -signal.SIGKILL}
    assert ends[1] == ends[0]


@pytest.mark.parametrize(("word", "status"), [("TERM", 7), ("KILL", 137)])
def test_a_kill_reaches_the_container_and_its_run_ends_the_same(
    sandbox: Sandbox, plain: Runtime, behind: Runtime, word: str, status: int
) -> None:
    ends: list[tuple[Result, tuple[int, str]]] = []
    for runtime in (plain, behind):
        bundle = Bundle(sandbox, f"kill-{word}-{len(ends)}", TRAPS)
        process = Foreground(sandbox, runtime, bundle)
        killed = runtime("kill", bundle.id, word)
        ends.append((killed, process.end()))
    assert ends[0] == (Result(0, "", ""), (status, "ready\n" + ("term\n" if word == "TERM" else "")))
    assert ends[1] == ends[0]
