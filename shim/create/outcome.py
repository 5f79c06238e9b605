"""Outcome: what came of a call of the runtime, for the log and for whoever asks why a container was refused. HOT."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shim.base.findings import CdiError, Finding
    from shim.create.recipe import Decision


class Outcome:
    """What came of a call.

    Attributes:
        decision: what was decided, None where nothing was: for exec and update, and after an error before it.
        refusal: why the low-level runtime is not executed, None where it is.
        changed: whether config.json was replaced, or is to be.
        folded: hooks whose work create did itself: hookName, path, args, and the names that were done.
    """

    __slots__ = ("changed", "decision", "folded", "refusal")

    def __init__(self) -> None:
        self.decision: Decision | None = None
        self.refusal: CdiError | None = None
        self.changed = False
        self.folded: list[dict[str, Any]] = []

    @property
    def requests(self) -> dict[str, str]:
        """Qualified name -> what asks for it."""
        return self.decision.requests if self.decision else {}

    @property
    def findings(self) -> list[Finding]:
        """Warnings, then what is refused, each once."""
        found = [*(self.decision.findings if self.decision else ()), *(self.refusal.findings if self.refusal else ())]
        return list({(finding.id, str(finding)): finding for finding in reversed(found)}.values())[::-1]
