"""The ways in which a hook's work is done. Another one is another function in RUNNERS: every test here takes it up."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from security import evilroot
from security.stage import Outcome, Stage
from unit.native.calls import hook_call

Runner = Callable[[Stage, Sequence[str]], Outcome]


def by_state(stage: Stage, hooks: Sequence[str]) -> Outcome:
    """As createContainer hooks, in one process."""
    return stage.start_hook([*hooks, *_words(hooks)])


def by_root(stage: Stage, hooks: Sequence[str]) -> Outcome:
    """As a person calls it."""
    return stage.call_hook([*hooks, *_words(hooks)])


# What an engine mounts in every container
MOUNTS = ["/proc", "/dev", "/dev/pts", "/sys", "/etc/hosts", "/etc/resolv.conf", "/var/run/secrets", "/run/../run/x"]


def before_the_container(stage: Stage, hooks: Sequence[str]) -> Outcome:
    """As the shim does a hook's work itself: in this process, whose memory is not the hook's."""
    return _fold(stage, hooks, [])


def before_the_mounts(stage: Stage, hooks: Sequence[str]) -> Outcome:
    """The same, where it is known what will be mounted: each path of the image is compared with that."""
    return _fold(stage, hooks, [(path, "", False) for path in MOUNTS])


def _fold(stage: Stage, hooks: Sequence[str], covers: list[tuple[str, str, bool]]) -> Outcome:
    said = []
    for hook in hooks:
        try:
            hook_call(hook, *_words([hook])).run(hook, str(stage.root), covers=covers)
        except OSError as error:
            said.append(f"shim: warning: hook {hook}: {error}\n")
    return Outcome(0, "", "".join(said), 0)


def _words(hooks: Sequence[str]) -> list[str]:
    return [word for hook in hooks for word in evilroot.WORDS[hook]]


RUNNERS: list[Runner] = [by_state, by_root, before_the_container, before_the_mounts]
