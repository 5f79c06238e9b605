"""Watch: the labels again whenever the host changes, until a signal ends it.

The signals are blocked and waited for with the pause between two looks, so that none arrives in the middle of a change
of the file: SIGHUP means read the configuration again, SIGTERM and SIGINT mean the end.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from shim.base.findings import CdiError
from shim.discover.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Callable

    from shim.host.host import Host

_END = frozenset({signal.SIGTERM, signal.SIGINT})
SIGNALS = _END | {signal.SIGHUP}


class _ReloadError(Exception):
    """SIGHUP came."""


class _EndError(Exception):
    """SIGTERM or SIGINT came."""


def block() -> None:
    """Block the signals of this process; they are taken by `pause`."""
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)


def pause(seconds: float) -> None:
    """Wait. Raises when one of the blocked signals comes."""
    info = signal.sigtimedwait(SIGNALS, seconds)
    if info is not None:
        raise _EndError if info.si_signo in _END else _ReloadError


def repeat(host: Host, update: Callable[[], object], interval: float, wait: Callable[[float], object] = pause) -> None:
    """Update now and at each change of the host, until a signal ends it.

    Arguments:
        host: the machine.
        update: writes the labels.
        interval: seconds after which it is done without a change, too.
        wait: waits for seconds, see `pause`.
    """
    while True:
        pause_or_change = _waits(host, wait)
        update()
        try:
            pause_or_change(interval)
        except _ReloadError:
            continue
        except _EndError:
            return


def _waits(host: Host, wait: Callable[[float], object]) -> Callable[[float], object]:
    """What waits for a change of the host; for the time alone where the list of specs, which counts, is damaged."""
    try:
        watched = Watch(host, wait)
    except CdiError:
        return wait

    def waited(seconds: float) -> None:
        try:
            watched.wait(seconds)
        except CdiError:
            wait(seconds)

    return waited
