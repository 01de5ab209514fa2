"""The one walk every drafter is replayed with."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from bench.draft.rivals.base import Rival, Setup
from bench.draft.trace import Request

__all__ = ["Outcome", "accepted_tokens", "replay"]


@dataclass(slots=True)
class Outcome:
    """What a replay counted.

    Attributes:
        steps: Drafts asked for.
        drafted: Tokens drafted.
        accepted: Drafted tokens equal to the text that followed.
        emitted: Tokens of all outputs.
        draft_us: Microseconds of each draft.
        update_us: Microseconds of each update after a step.
    """

    steps: int = 0
    drafted: int = 0
    accepted: int = 0
    emitted: int = 0
    draft_us: list[float] = field(default_factory=list)
    update_us: list[float] = field(default_factory=list)

    def report(self) -> dict[str, float]:
        """The counts as `spectrie replay --json` names them."""
        steps = max(self.steps, 1)
        return {
            "steps": self.steps,
            "accepted_per_step": self.accepted / steps,
            "tokens_per_step": self.emitted / steps,
            "drafted_per_step": self.drafted / steps,
            "accepted_per_drafted": self.accepted / max(self.drafted, 1),
            "draft_us_p50": _quantile(self.draft_us, 0.5),
            "draft_us_p99": _quantile(self.draft_us, 0.99),
            "update_us_p50": _quantile(self.update_us, 0.5),
            "update_us_p99": _quantile(self.update_us, 0.99),
        }


def replay(rival: Rival, requests: Sequence[Request], setup: Setup) -> Outcome:
    """Replays requests in order: draft, accept the longest path equal to the text, emit one more.

    The last step of a request may emit fewer: only what is left of the text.

    Raises:
        ValueError: The rival drafts more than its budget.
        Absent: The rival cannot replay this trace.
    """
    outcome = Outcome()
    for number, request in enumerate(requests, 1):
        text = np.asarray(request.prompt_ids + request.output_ids, dtype=np.int32)
        at = len(request.prompt_ids)
        rival.start(request)
        while at < len(text):
            began = time.perf_counter_ns()
            tokens, parents = rival.draft(text[:at])
            drafted = time.perf_counter_ns()
            if len(tokens) > setup.nodes:
                raise ValueError(f"{len(tokens)} tokens drafted, at most {setup.nodes} are allowed")
            accepted = accepted_tokens(tokens, parents, text[at : at + setup.nodes].tolist())
            emitted = min(accepted + 1, len(text) - at)
            at += emitted
            walked = time.perf_counter_ns()
            rival.accept(text[:at], emitted)
            outcome.update_us.append((time.perf_counter_ns() - walked) / 1e3)
            outcome.draft_us.append((drafted - began) / 1e3)
            outcome.steps += 1
            outcome.drafted += len(tokens)
            outcome.accepted += accepted
        rival.finish()
        outcome.emitted += len(request.output_ids)
        if number % 32 == 0:
            print(f"    {number}/{len(requests)} requests", file=sys.stderr, flush=True)
    return outcome


def accepted_tokens(tokens: Sequence[int], parents: Sequence[int], text: Sequence[int]) -> int:
    """Length of the longest path from the root that is a prefix of `text`."""
    if not tokens or not text:
        return 0
    reached: dict[int, int] = {-1: 0}
    best = 0
    # Parents come first, so that one pass sees each node after its parent.
    for node, (token, parent) in enumerate(zip(tokens, parents, strict=True)):
        depth = reached.get(parent)
        if depth is not None and depth < len(text) and token == text[depth]:
            reached[node] = depth + 1
            best = max(best, depth + 1)
    return best


def _quantile(values: list[float], share: float) -> float:
    return sorted(values)[int(len(values) * share)] if values else 0.0
