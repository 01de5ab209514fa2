"""A drafter beside a runner's decoder: its answers, and what they cost."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from spectrie.model import machine
from spectrie.model.drafters import Answers, Drafter, DraftPlan, Drafts, LevelPlan, Origin
from spectrie.model.files.measurements import Measurements
from spectrie.model.plan import StepPlan
from spectrie.model.runner.info import RunnerInfo

__all__ = ["DraftCosts", "DrafterInfo", "Drafting"]

_ROWS = (1, 2, 4, 8, 16, 32, 64)
_ROUNDS = 5
_CONTEXT = 256


@dataclass(frozen=True, slots=True)
class DraftCosts:
    """What a drafter takes, measured behind forwards of the model, which leave the caches cold.

    Attributes:
        rows: Numbers of rows, ascending.
        first_ms: Milliseconds of a first level of so many rows, each of another request.
        later_ms: Milliseconds of a later level of so many rows.
        upkeep_ms: Milliseconds that taps and entries add to a forward of one row; 0 if it reads no features.
        fill_ms: Milliseconds in which it makes keys of so many committed tokens, if it reads no features.
    """

    rows: list[int]
    first_ms: list[float]
    later_ms: list[float]
    upkeep_ms: float
    fill_ms: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class DrafterInfo:
    """Facts about a loaded drafter.

    Attributes:
        name: Name of its folder.
        kind: Such as `eagle3`.
        hash: Identity of its configuration and weights, 16 hex characters.
        max_levels: Levels that it answers in a step at most.
        max_rows: Draft rows of a step at most, all levels together.
        max_requests: Running requests that it has room for.
        num_bytes: Memory of its weights.
        costs: What it takes.
        named_tokens: Tokens that it can name; None for all of the model's.
        origin: Where it comes from, if its files say so.
        is_for_model: Whether it was trained for the model it stands beside; None if its files do not say.
        needs_features: Whether it reads the model's features; one that does not is a model of its own.
        entries_stand_alone: Whether its keys and values of a token depend on no other tokens than the one before.
    """

    name: str
    kind: str
    hash: str
    max_levels: int
    max_rows: int
    max_requests: int
    num_bytes: int
    costs: DraftCosts
    named_tokens: int | None = None
    origin: Origin | None = None
    is_for_model: bool | None = None
    needs_features: bool = True
    entries_stand_alone: bool = True

    @property
    def namespaces(self) -> tuple[str, ...] | None:
        """Namespaces whose requests may draft from it; None for all."""
        return None if self.origin is None else self.origin.namespaces

    @property
    def line(self) -> str:
        """One line for people."""
        costs = self.costs
        trained = {
            True: "this model",
            False: "another model or a copy of it",
            None: "a model not named",
        }
        whose = "of the same tokenizer"
        if self.needs_features:
            whose = f"trained for {trained[self.is_for_model]}"
        kept = f"{costs.upkeep_ms:.2f} ms of upkeep a step"
        if costs.fill_ms:
            kept = f"{costs.fill_ms[0]:.2f} ms for a token's keys when it is asked"
        named = "all tokens" if self.named_tokens is None else f"{self.named_tokens:,} tokens"
        text = (
            f"{self.name}, {self.kind} {self.hash} {whose}, "
            f"{self.num_bytes / (1 << 20):.0f} MiB, names {named}, up to {self.max_levels} levels: "
            f"{costs.first_ms[0]:.2f} ms for the first of a row, {costs.later_ms[0]:.2f} ms for a later "
            f"one, {kept}"
        )
        if self.namespaces is not None:
            text += f"; only for {', '.join(self.namespaces)}, whose text it learned"
        return text


class Drafting:
    """A drafter that shares the decoder's slots."""

    def __init__(
        self, drafts: Drafts, drafter: Drafter, info: RunnerInfo, *, name: str, digest: str
    ) -> None:
        """Takes a drafter that is beside its decoder.

        Args:
            drafts: Answers levels.
            drafter: What it was made of.
            info: Facts about the model.
            name: Name of the drafter.
            digest: Its identity.
        """
        self._drafts = drafts
        self._info = info
        # Not the drafter itself: it keeps tensors alive that were copied.
        self._kind, self._max_levels = drafter.kind, drafter.max_levels
        self._named_tokens, self._origin = drafter.named_tokens, drafter.origin
        self._needs_features = drafter.taps > 0
        self._entries_stand_alone = drafter.entries_stand_alone
        self._name, self._digest = name, digest

    @property
    def number(self) -> int:
        """Its number among the decoder's drafters."""
        return self._drafts.number

    @property
    def digest(self) -> str:
        """Identity of its configuration and weights, 16 hex characters."""
        return self._digest

    @property
    def needs_features(self) -> bool:
        """Whether the drafter reads the model's features."""
        return self._needs_features

    def draft(self, plan: DraftPlan) -> Answers:
        """Answers the rows of one level that asks it.

        Raises:
            ValueError: The plan is inconsistent.
        """
        return self._drafts.draft(plan)

    def close(self) -> None:
        """Takes the drafter away from the decoder."""
        self._drafts.close()

    def describe(self, costs: DraftCosts) -> DrafterInfo:
        """Returns what there is to know."""
        origin = self._origin
        return DrafterInfo(
            name=self._name,
            kind=self._kind,
            hash=self._digest,
            max_levels=self._max_levels,
            max_rows=self._drafts.max_rows,
            max_requests=self._drafts.seats,
            num_bytes=self._drafts.num_bytes,
            costs=costs,
            named_tokens=self._named_tokens,
            origin=origin,
            is_for_model=None if origin is None else origin.model_hash == self._info.model_hash,
            needs_features=self._needs_features,
            entries_stand_alone=self._entries_stand_alone,
        )

    def measure(
        self, measurements: Measurements, threads: int, step: Callable[[StepPlan], object]
    ) -> DraftCosts:
        """Measures levels and upkeep, or what it takes to make keys, each behind a forward of the model.

        Takes about as long as 60 forwards, and half a second or 20 forwards more for upkeep on a CPU. The result is kept as that of `CostTimer.forwards`. Overwrites
        the cache's first pages: call it before serving.
        """
        # Two levels of one row, or the one level that there is room for.
        rows = [n for n in _ROWS if n <= self._drafts.max_rows // 2] or [1]
        has_later = self._drafts.max_rows > 1
        kind = f"draft costs {rows}" if has_later else "draft cost of one row"
        key = f"{kind}, upkeep by pairs, threads{threads} {self._digest} {self._info.arithmetic}"
        key = f"{key} on {machine.cpu_class()}"
        stored = measurements.get(key, is_busy=machine.is_busy)
        n = len(rows)
        if isinstance(stored, list) and len(stored) in (2 * n + 1, 3 * n + 1):
            times = [float(value) for value in stored]
            first, later, fills = times[:n], times[n : 2 * n], times[2 * n + 1 :]
            if bool(fills) != self._needs_features:
                return DraftCosts(rows, first, later, times[2 * n], fills)
        competition = machine.Competition()
        timer = _Timer(self._drafts, self._info, step)
        both = [timer.levels(n, has_later=has_later) for n in rows]
        first = _ascending([one for one, _ in both])
        later = _ascending([other for _, other in both])
        upkeep, fills = 0.0, list[float]()
        if self._needs_features:
            upkeep = self._drafts.upkeep_ms(timer.forward, timer.settle)
        else:
            fills = _ascending([timer.keys(n) for n in rows])
        stored = [*first, *later, upkeep, *fills]
        measurements.put(key, stored, is_rough=competition.is_there())
        return DraftCosts(rows, first, later, upkeep, fills)


class _Timer:
    def __init__(
        self, drafts: Drafts, info: RunnerInfo, step: Callable[[StepPlan], object]
    ) -> None:
        self._drafts = drafts
        self._step = step
        most = min(info.max_context, info.num_pages * info.page_size)
        self._kv_len = max(1, min(_CONTEXT, most - 2))
        self._pages = list(range(-(-(self._kv_len + 1) // info.page_size)))
        self._store = info.num_pages
        self._most_rows = info.max_batch_rows
        self._forward = self._plan(1)

    def _plan(self, rows: int) -> StepPlan:
        kv_len = max(0, self._kv_len - rows + 1)
        return StepPlan.single([0] * rows, kv_len=kv_len, pages=self._pages, feature=self._store)

    def levels(self, rows: int, *, has_later: bool) -> tuple[float, float]:
        """Returns the milliseconds of a first and a later level of so many rows; twice those of a first one
        where there is no room for another.
        """
        requests = [(self._kv_len, self._store, self._pages)] * rows
        at = self._kv_len
        drafter = self._drafts.number
        first = LevelPlan.of(requests, [(0, at, row, -1) for row in range(rows)], drafter=drafter)
        later = LevelPlan.of(
            requests,
            [(0, at + 1, row, row) for row in range(rows)],
            level=2,
            row_index=rows,
            drafter=drafter,
        )
        times = []
        for _ in range(_ROUNDS):
            self._step(self._forward)
            start = time.perf_counter()
            self._drafts.draft(first)
            between = time.perf_counter()
            if has_later:
                self._drafts.draft(later)
            first_s = between - start
            times.append((first_s, time.perf_counter() - between if has_later else first_s))
        return min(one for one, _ in times) * 1e3, min(other for _, other in times) * 1e3

    def keys(self, tokens: int) -> float:
        """Returns the milliseconds in which keys of so many tokens, the last ones of a text, are made."""
        count = min(tokens, self._kv_len)
        fills = [(self._kv_len - count, [0] * count)]
        request = (self._kv_len, self._store, self._pages)
        plan = LevelPlan.of([request], [], fills=fills, drafter=self._drafts.number)
        times = []
        for _ in range(_ROUNDS):
            self._step(self._forward)
            start = time.perf_counter()
            self._drafts.draft(plan)
            times.append(time.perf_counter() - start)
        return min(times) * 1e3

    def forward(self, rows: int) -> int:
        """Computes a forward of so many rows, or of as many as there is room for, and gives their number."""
        rows = min(rows, self._kv_len, self._most_rows)
        self._step(self._plan(rows))
        return rows

    def settle(self) -> None:
        """Has entries computed that wait for those of other forwards."""
        request = (self._kv_len, self._store, self._pages)
        self._drafts.draft(LevelPlan.of([request], [], drafter=self._drafts.number))


def _ascending(times: list[float]) -> list[float]:
    """More rows never cost less; where they seem to, something else ran meanwhile."""
    for index in range(len(times) - 1, 0, -1):
        times[index - 1] = min(times[index - 1], times[index])
    return times
