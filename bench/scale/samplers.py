"""What is measured of one build. A sample gives figures by name; `measured.ROWS` says what each means."""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from bench.against.samplers import Draft, Sample, Sampler
from bench.draft.trace import TRACES, read
from bench.scale.model import VOCABULARY, Driver, Script, StepCost, zipf
from bench.support import builds
from spectrie import _core

__all__ = ["BIG_TOKENS", "SAMPLERS", "TENANTS", "scale_engine", "teach"]

MIB = 1 << 20
BUDGET = 256 * MIB
"""Default of `--memory`."""
TEACH_TOKENS = 250_000
PROMPT_TOKENS = 100
ANSWER_TOKENS = 40
DRAFTERS = 4
TENANTS = 1_000
TAUGHT_TOKENS = 5_000
BIG_TOKENS = 4_000_000
SIZES = (1_000_000, 100_000_000)
SIZED_BUDGET = 4096 * MIB
LONG_TOKENS = 128 << 10
CHUNK_TOKENS = 2_048
COSTS = ([1, 2, 64, 512, 2 * CHUNK_TOKENS], [10.0, 10.001, 10.1, 11.0, 20.0])


def scale_engine(
    *, memory_bytes: int = BUDGET, num_pages: int = 8_000, **options: Any
) -> _core.Engine:
    """An engine of the default budget, and forwards whose rows are nearly free."""
    options = {"max_context": 4_096, "max_running": 64, "holdout_every": 0} | options
    engine = builds.engine(
        vocabulary_size=VOCABULARY,
        eos_token_ids=[],
        num_pages=num_pages,
        memory_bytes=memory_bytes,
        overlap=False,
        **options,
    )
    engine.set_costs(*COSTS)
    return engine


def teach(engine: _core.Engine, namespace: str, tokens: int, random: np.random.Generator) -> None:
    """Teaches a namespace so many tokens that no text predicts."""
    for first in range(0, tokens, TEACH_TOKENS):
        engine.learn(namespace, zipf(random, min(TEACH_TOKENS, tokens - first)).tolist())


def _scripts(number: int, count: int = DRAFTERS) -> list[Script]:
    random = np.random.default_rng(1_000 + number)
    texts = [zipf(random, PROMPT_TOKENS + ANSWER_TOKENS) for _ in range(count)]
    return [Script(text, PROMPT_TOKENS) for text in texts]


def _draft_us(costs: list[StepCost]) -> float:
    """Median over steps of the engine's time in a plan for each draft that it asked for."""
    return statistics.median(
        1e6 * cost.plan_s / cost.draft_calls for cost in costs if cost.draft_calls
    )


class Held(Sampler):
    """A thousand tenants, each taught and asked once: whose text is there, and what recycling is worth."""

    def open(self) -> None:
        recorded = read(TRACES / "chat.jsonl.xz")
        scripts = [_recorded(one.prompt_ids, one.output_ids, one.topk) for one in recorded]
        # What tenants answered before is not asked again.
        self.answered, self.asked = scripts[::2], scripts[1::2]

    def take(self, number: int) -> Sample:
        driver = Driver(scale_engine())
        answered = {f"tenant-{tenant}": self._begin(driver, tenant) for tenant in range(TENANTS)}
        held = sum(
            min(max(one.num_tokens - answered[one.name], 0), TAUGHT_TOKENS)
            for one in driver.engine.namespaces()
        )
        last, lone = TENANTS - 1, Driver(scale_engine())
        self._begin(lone, last)
        engine = driver.engine
        gain_of_last, gain_of_lone = (self._gain(one, last) for one in (driver, lone))
        return {
            "tokens held": held / (TENANTS * TAUGHT_TOKENS),
            "recycling in the last tenant": gain_of_last / gain_of_lone,
            "bytes of budget": engine.load().memory_bytes / BUDGET,
        }, {}

    def _begin(self, driver: Driver, tenant: int) -> int:
        """Teaches a tenant and asks it once; gives the tokens that this adds to those taught."""
        name, script = f"tenant-{tenant}", self.answered[tenant % len(self.answered)]
        teach(driver.engine, name, TAUGHT_TOKENS, np.random.default_rng(tenant))
        driver.run([script], namespace=name, learn=True)
        return len(script.tokens)

    def _gain(self, driver: Driver, tenant: int) -> float:
        """What recycling adds to the tokens accepted a step: over a lone tenant without it."""
        plain = Driver(scale_engine(recycle="off"))
        self._begin(plain, tenant)
        return self._accepted(driver, tenant) - self._accepted(plain, tenant)

    def _accepted(self, driver: Driver, tenant: int) -> float:
        before = driver.engine.load().accepted_tokens
        name = f"tenant-{tenant}"
        steps = sum(len(driver.run([one], namespace=name, learn=True)) for one in self.asked)
        return (driver.engine.load().accepted_tokens - before) / steps


class Beside(Sampler):
    """A draft of a large tenant, alone and beside a thousand small ones."""

    def open(self) -> None:
        self.alone, self.beside = scale_engine(), scale_engine()
        for tenant in range(TENANTS):
            self.beside.learn(f"tenant-{tenant}", [1, 2, 3, 4])
        for engine in (self.alone, self.beside):
            teach(engine, "big", BIG_TOKENS, np.random.default_rng(2))
        self.take(0)

    def take(self, number: int) -> Sample:
        alone, beside = (
            _draft_us(Driver(engine).run(_scripts(number), namespace="big"))
            for engine in (self.alone, self.beside)
        )
        return {
            "draft, 4M tokens alone, us": alone,
            "draft, 4M tokens beside 1,000 tenants, us": beside,
            "beside 1,000 tenants over alone": beside / alone,
        }, {}


class Size(Sampler):
    """A draft in one namespace of a million and of a hundred million tokens."""

    def open(self) -> None:
        self.engines = []
        for size in SIZES:
            engine = scale_engine(memory_bytes=SIZED_BUDGET)
            teach(engine, "one", size, np.random.default_rng(3))
            self.engines.append(engine)
        self.take(0)

    def take(self, number: int) -> Sample:
        small, large = (
            _draft_us(Driver(engine).run(_scripts(number), namespace="one"))
            for engine in self.engines
        )
        return {
            "draft, 1M tokens, us": small,
            "draft, 100M tokens, us": large,
            "100M tokens over 1M": large / small,
        }, {"tokens": [one.namespaces()[0].num_tokens > 0 for one in self.engines]}


class DraftTime(Draft):
    """A draft from a request's own text, and with the code corpus, by `spectrie replay`."""

    def take(self, number: int) -> Sample:
        rates, facts = super().take(number)
        return {f"{what}, us": 1e6 / rate for what, rate in rates.items()}, facts


class Ends(Sampler):
    """The longest pauses that a long request makes: its end, its preemption, its chunks, its return."""

    def open(self) -> None:
        text = zipf(np.random.default_rng(4), LONG_TOKENS)
        self.text = text

    def take(self, number: int) -> Sample:
        pages = LONG_TOKENS // 16
        options = {
            "max_context": LONG_TOKENS + 1,
            "chunk_tokens": CHUNK_TOKENS,
            "max_batch_rows": 2 * CHUNK_TOKENS,
            "num_pages": pages + 64,
        }
        driver = Driver(scale_engine(**options))
        long = [Script(self.text, LONG_TOKENS - 64)]
        ended = driver.run(long, namespace="long", learn=True)
        driver.repeat()
        returned = driver.run(long, namespace="long", learn=True)
        # Two that do not fit together: the later one is preempted while both decode.
        half = LONG_TOKENS // 2
        engine = scale_engine(**options | {"num_pages": pages - 64})
        pair = [Script(self.text[:half], half - 2_048), Script(self.text[half:], half - 2_048)]
        preempted = Driver(engine).run(pair, namespace="long", learn=True)
        return {
            "longest plan or commit, end of 128k, ms": _longest_ms(_pauses(ended)),
            "longest plan or commit, preemption, ms": _longest_ms(_pauses(preempted)),
            "longest plan or commit, chunk of 2,048, ms": _longest_ms(
                [cost for cost in ended if not cost.is_decoding]
            ),
            "longest plan or commit, 128k from the prefix cache, ms": _longest_ms(returned),
        }, {"preempted": engine.load().preemptions > 0}


class Disk(Sampler):
    """Bytes that a save of nothing new writes, and those read to open a corpus."""

    def open(self) -> None:
        self.folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory(dir=Path.home())))
        self.tokens = int(self.more["corpus_tokens"])
        self.corpus = self.folder / "scale.corpus"
        with _progress(f"building a corpus of {self.tokens:,} tokens"):
            builder = _core.CorpusBuilder("scale", "scale")
            random = np.random.default_rng(5)
            for first in range(0, self.tokens, TEACH_TOKENS):
                builder.push(zipf(random, min(TEACH_TOKENS, self.tokens - first)).tolist())
            builder.finish(str(self.corpus))

    def take(self, number: int) -> Sample:
        engine = scale_engine()
        teach(engine, "one", 1_000_000, np.random.default_rng(6))
        place = self.folder / f"state-{number}"
        engine.save(str(place), "scale")
        first = _files(place)
        engine.save(str(place), "scale")
        second = _files(place)
        again = sum(
            size for name, (size, stamp) in second.items() if first.get(name) != (size, stamp)
        )
        _drop_from_cache(self.corpus)
        before = _bytes_read()
        opened = scale_engine()
        opened.add_corpus(str(self.corpus))
        return {
            "bytes of a second save of nothing new": float(again),
            "bytes read to open a corpus": float(_bytes_read() - before),
            "bytes of the corpus": float(self.corpus.stat().st_size),
        }, {}


def _recorded(prompt: list[int], output: list[int], topk: Any) -> Script:
    tokens = np.array([*prompt, *output], np.int32)
    ids = np.full((len(tokens), 8), -1, np.int32)
    probabilities = np.zeros((len(tokens), 8), np.float32)
    for at, (likely, given) in enumerate(topk or []):
        ids[at, : len(likely)], probabilities[at, : len(given)] = likely, given
    return Script(tokens, len(prompt), (ids, probabilities))


def _pauses(costs: list[StepCost]) -> list[StepCost]:
    """The steps in which a request ended or was preempted, and the one after each."""
    befores = [None, *costs[:-1]]
    return [
        cost
        for before, cost in zip(befores, costs, strict=True)
        if any(one is not None and (one.ends or one.preempts) for one in (before, cost))
    ]


def _longest_ms(costs: list[StepCost]) -> float:
    return 1e3 * max(max(cost.plan_s, cost.commit_s) for cost in costs)


def _files(folder: Path) -> dict[str, tuple[int, tuple[int, int]]]:
    stats = {
        str(file.relative_to(folder)): file.stat() for file in folder.rglob("*") if file.is_file()
    }
    return {name: (one.st_size, (one.st_ino, one.st_mtime_ns)) for name, one in stats.items()}


def _drop_from_cache(file: Path) -> None:
    with file.open("rb") as opened:
        os.fsync(opened.fileno())
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _bytes_read() -> int:
    """Bytes that this process has fetched from disks."""
    lines = Path("/proc/self/io").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("read_bytes:"))


@contextmanager
def _progress(what: str) -> Iterator[None]:
    print(f"scale: {what}", flush=True)
    yield


SAMPLERS: dict[str, type[Sampler]] = {
    "held": Held,
    "beside": Beside,
    "size": Size,
    "scale-draft": DraftTime,
    "ends": Ends,
    "disk": Disk,
}
