"""Speculation on over off with a forward counted as ten milliseconds, and what the metric says of it.

Rates are tokens over the time of forwards, as counted, and of the engine's thread between them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.against.samplers import Sample, Sampler
from bench.scale.model import Driver, Script, zipf
from bench.scale.samplers import BIG_TOKENS, TENANTS, scale_engine, teach
from bench.support import builds
from spectrie import _core

__all__ = ["SAMPLERS", "Price"]

ROWS = [1, 16, 64, 512]
FORWARD_MS = [10.0, 10.5, 11.0, 20.0]
PROMPT_TOKENS = 60
ANSWER_TOKENS = 240
FEW_TENANTS = 100
MARKS, LEARNT_MARK = 64, 32
"""Requests of a sample, of which the prefix cache keeps the latter half."""
FIRST_EXTRA, LEAST_EXTRA, MOST_EXTRA = 1_000, 30, 120
"""Samples for the metric alone: the number of the first, and how many."""
FULL_TOKENS = 10_000
"""Of each of a thousand tenants: more than the budget holds."""
PHRASE = (39_990, 39_991, 39_992, 39_993)
"""Four tokens of every six, which makes half of a text predictable."""


@dataclass(slots=True)
class _Total:
    """Tokens and milliseconds of decoding."""

    tokens: int = 0
    milliseconds: float = 0.0

    def rate(self) -> float:
        """Tokens per millisecond."""
        return self.tokens / self.milliseconds


def _forward_ms(rows: int) -> float:
    return float(np.interp(rows, ROWS, FORWARD_MS))


def _half_predictable(random: np.random.Generator, tokens: int) -> NDArray[np.int32]:
    text = zipf(random, tokens)
    places = np.arange(tokens) % 6
    for at, token in enumerate(PHRASE):
        text[places == at] = token
    return text


def _unpredictable(random: np.random.Generator, tokens: int) -> NDArray[np.int32]:
    return random.integers(1, PHRASE[0], tokens, dtype=np.int32)


class Price(Sampler):
    """Answers of one tenant with speculation on and off: alone, beside others, and where nothing helps."""

    def open(self) -> None:
        self.scale = float(self.more.get("share", 1.0))
        self.totals: dict[str, _Total] = {}
        self.off = self._engine(speculation="off")
        self.alone = self._big(0)
        self.beside_few = self._big(self._part(FEW_TENANTS))
        self.beside_many = self._big(self._part(TENANTS))
        self.full = self._engine()
        random = np.random.default_rng(7)
        for tenant in range(self._part(TENANTS)):
            teach(self.full, f"tenant-{tenant}", self._part(FULL_TOKENS), random)

    def take(self, number: int) -> Sample:
        few, many = 8, 32
        figures = self._net_gain(few) if number == 0 else {}
        plain = {count: self._rate(self.off, number, count) for count in (few, many)}
        for name, engine, count in (
            ("beside 100 tenants, 32 requests", self.beside_few, many),
            ("beside 1,000 tenants, 8 requests", self.beside_many, few),
        ):
            beside = self._rate(engine, number, count) / plain[count]
            alone = self._rate(self.alone, number, count) / plain[count]
            figures[f"on/off alone, {count} requests"] = alone
            figures[f"on/off {name}"] = beside
            figures[f"{name}, over alone"] = beside / alone
        for count in (1, few, many):
            off, on = (
                self._rate(engine, number, count, namespace="tenant-0", predictable=False)
                for engine in (self.off, self.full)
            )
            figures[f"on/off nothing predictable, {count} requests"] = on / off
        # Their text takes the place of other text, since the memory is full.
        off, on = (
            self._rate(engine, number, many, namespace="tenant-0", predictable=False, learn=True)
            for engine in (self.off, self.full)
        )
        figures[f"on/off nothing predictable, all learnt, {many} requests"] = on / off
        return figures, {}

    def _net_gain(self, count: int) -> dict[str, float]:
        """How far off the metric is when it first speaks: after some thirty steps held out."""
        for extra in range(MOST_EXTRA):
            for engine in (self.off, self.beside_many):
                self._rate(engine, FIRST_EXTRA + extra, count)
            gain = builds.net_gain(self.beside_many.load())
            if gain is not None and extra >= LEAST_EXTRA:
                truth = self.totals["on"].rate() / self.totals["off"].rate()
                return {"net gain of the metric off by": abs(gain / truth - 1)}
        return {}

    def _rate(
        self,
        engine: _core.Engine,
        number: int,
        count: int,
        *,
        namespace: str = "big",
        predictable: bool = True,
        learn: bool = False,
    ) -> float:
        """Tokens per millisecond of `count` requests at once."""
        random = np.random.default_rng(1_000 * number + count)
        text = _half_predictable if predictable else _unpredictable
        length = PROMPT_TOKENS + self._part(ANSWER_TOKENS)
        scripts = [Script(text(random, length), PROMPT_TOKENS) for _ in range(count)]
        total = _Total()
        driver = Driver(engine, _forward_ms, MARKS * number + LEARNT_MARK * learn)
        for cost in driver.run(scripts, namespace=namespace, learn=learn):
            if cost.is_decoding:
                total.tokens += cost.num_tokens
                total.milliseconds += _forward_ms(cost.num_rows)
                total.milliseconds += 1e3 * (cost.plan_s + cost.commit_s)
        side = {id(self.off): "off", id(self.beside_many): "on"}.get(id(engine))
        if side is not None and predictable and count == 8:
            sum_ = self.totals.setdefault(side, _Total())
            sum_.tokens += total.tokens
            sum_.milliseconds += total.milliseconds
        return total.rate()

    def _engine(self, **options: Any) -> _core.Engine:
        engine = scale_engine(holdout_every=100, **options)
        engine.set_costs(ROWS, FORWARD_MS)
        return engine

    def _big(self, tenants: int) -> _core.Engine:
        """An engine with one large tenant beside small ones."""
        engine = self._engine()
        for tenant in range(tenants):
            engine.learn(f"tenant-{tenant}", [1, 2, 3, 4])
        teach(engine, "big", self._part(BIG_TOKENS), np.random.default_rng(2))
        return engine

    def _part(self, count: int) -> int:
        """That many, or fewer where only a part is wanted."""
        return max(1, round(count * self.scale))


SAMPLERS: dict[str, type[Sampler]] = {"price": Price}
