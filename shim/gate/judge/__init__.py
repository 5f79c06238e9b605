"""The judgement: from a request, a policy and grants to a decision. Pure, and of the standard library alone.

`decide` is the whole of it. A server that has not read the body yet calls `admit` with the head, reads the body of a
route that is judged, and calls `decide` with both. What depends on the outside is asked by two functions: `inspect` (a
container as the daemon has stored it) and `realpath` (a path with its links resolved as the daemon will resolve them).
"""

from __future__ import annotations

from shim.gate.judge.decision import admit, decide
from shim.gate.judge.messages import REASONS, Denied
from shim.gate.judge.model import Admission, Decision, Policy, Request

__all__ = ["REASONS", "Admission", "Decision", "Denied", "Policy", "Request", "admit", "decide"]
