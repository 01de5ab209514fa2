"""Speculation off and on while recorded answers are played, by how many requests run at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from bench.draft.trace import Request
from bench.gpu.check import Item, Settings, Wrong
from bench.gpu.clock import clock_of
from bench.gpu.end_to_end.playback import Playback, thinned
from bench.gpu.end_to_end.requests import recorded
from bench.gpu.goals import beside
from bench.gpu.models.shapes import MODELS, TINY, ModelShape
from bench.gpu.steps.loaded import dry_options, folder_of, on_device
from spectrie import LLM
from spectrie.types import Completion, SpeculationOptions

__all__ = ["items"]

_SEARCHES = 6
_NEAR = 0.03


@dataclass(frozen=True, slots=True)
class _Case:
    """What is played on which model.

    Attributes:
        name: What goals call it.
        model: Whose size the steps have.
        family: The trace.
        warming: Requests of it that memory learns from first.
        seed_length: Accepted length that the reference system reported, to which answers are thinned.
        most: Requests that are played a few at a time.
        few: Requests at a time.
        many: More of them, as recorded alone.
    """

    name: str
    model: ModelShape
    family: str
    warming: int
    seed_length: float
    most: int
    few: tuple[int, ...] = (1, 2, 3, 4)
    many: tuple[int, ...] = ()


_CASES = (
    _Case("routing", MODELS[2], "routing", 128, 4.8, 64, many=(16, 64, 128)),
    _Case("HumanEval", MODELS[3], "human_eval_raw", 0, 1.45, 8),
)
_DRY_CASES = (_Case("routing", TINY, "routing", 2, 2.0, 4, few=(1,), many=(4,)),)


def items(settings: Settings) -> Iterator[Item]:
    """Of each case: as recorded, many at a time, and thinned."""
    with on_device(settings):
        for case in _DRY_CASES if settings.dry else _CASES:
            session = _Session(settings, case)
            few = partial(session.measured, case.few, 0.0, case.most)
            yield Item(f"{case.name} on {case.model.name}, as recorded", few)
            if case.many:
                many = partial(session.measured, case.many, 0.0, None)
                yield Item(f"{case.name} on {case.model.name}, many at a time", many)
            yield Item(f"{case.name} on {case.model.name}, thinned", session.thinned)
            session.close()


class _Session:
    """One model, opened by the first item that runs."""

    def __init__(self, settings: Settings, case: _Case) -> None:
        self._settings = settings
        self._case = case
        self._playback = Playback()
        self._llm: LLM | None = None
        requests = recorded(settings, case.family)
        self._warming, self._requests = requests[: case.warming], requests[case.warming :]

    def measured(
        self, concurrencies: Sequence[int], share: float, most: int | None
    ) -> dict[str, Any]:
        """Off and on at each number of requests at a time, with a share of the tokens replaced; of `most`
        requests, None for all."""
        requests = thinned(self._requests[:most], share, self._case.model.vocabulary)
        found, goals = {}, []
        for concurrency in concurrencies:
            one = {
                name: self._run(requests, concurrency, enabled)
                for name, enabled in (("off", False), ("on", True))
            }
            speedup = one["on"]["tokens_per_second"] / one["off"]["tokens_per_second"]
            found[str(concurrency)] = one | {"speedup": round(speedup, 3)}
            if concurrency <= 4:
                goals.append(beside(f"{self._case.name}, {concurrency} at a time", speedup))
            else:
                goals.append(beside("many at a time, on over off", speedup))
        return {
            "at_a_time": found,
            "replaced_share": round(share, 3),
            "likeliest_tokens": "recorded; rows that leave the recorded text teach nothing",
            "fingerprint": self.llm.numeric_fingerprint,
            "goals": goals,
        }

    def thinned(self) -> dict[str, Any]:
        """With as many tokens replaced as bring the accepted length down to the reference's."""
        wanted = self._case.seed_length

        def accepted(share: float) -> float:
            requests = thinned(
                self._requests[: self._case.most], share, self._case.model.vocabulary
            )
            length: float = self._run(requests, 1, enabled=True)["accepted_length"]
            return length

        share, length = _found_share(accepted, wanted)
        values = self.measured(self._case.few, share, self._case.most)
        return values | {"wanted_length": wanted, "found_length": round(length, 3)}

    @property
    def llm(self) -> LLM:
        """The model, its memory warm."""
        if self._llm is None:
            options = dry_options(self._settings)
            if self._settings.dry:
                options["drafting_cost_ms"] = 0.0
            with self._playback.engines():
                self._llm = LLM(
                    folder_of(self._settings, self._case.model),
                    device="cuda",
                    bigrams="off",
                    **options,
                )
            self._playback.play_on(self._llm)
            if self._warming:
                self._answers(self._llm, self._warming, 8, SpeculationOptions(learn=True))
        return self._llm

    def _run(self, requests: Sequence[Request], concurrency: int, enabled: bool) -> dict[str, Any]:
        """Answers all requests, nothing of them learnt."""
        llm, clock = self.llm, clock_of(self._settings.dry)
        options = SpeculationOptions(enabled=enabled, learn=False)
        replacing, steps = self._playback.replacing_seconds, llm.load().steps
        started = clock.seconds()
        answers = self._answers(llm, requests, concurrency, options)
        seconds = clock.seconds() - started
        wrong = sum(
            list(one.token_ids) != request.output_ids
            for one, request in zip(answers, requests, strict=True)
        )
        tokens = sum(len(one.token_ids) for one in answers)
        # The first of each comes from its prompt.
        later = tokens - len(answers)
        verified = sum(one.speculation.verify_steps for one in answers)
        values = {
            "tokens_per_second": round(tokens / seconds, 2),
            "accepted_length": round(later / max(1, verified), 3),
            "steps": llm.load().steps - steps,
            "replacing_share": 0.0
            if self._settings.dry
            else round((self._playback.replacing_seconds - replacing) / seconds, 4),
        }
        if wrong:
            raise Wrong(f"{wrong} of {len(answers)} answers are not those recorded", values)
        return values

    def _answers(
        self,
        llm: LLM,
        requests: Sequence[Request],
        concurrency: int,
        options: SpeculationOptions,
    ) -> list[Completion]:
        def one(request: Request) -> Completion:
            return self._playback.answer(llm, request, speculation=options)

        with ThreadPoolExecutor(concurrency) as pool:
            return list(pool.map(one, requests))

    def close(self) -> None:
        """Gives the memory back."""
        if self._llm is not None:
            self._llm.close()
        self._llm = None


def _found_share(accepted: Callable[[float], float], wanted: float) -> tuple[float, float]:
    """The share of replaced tokens whose accepted length is near the wanted one, and that length.

    Zero where answers as recorded are not longer.
    """
    share, length = 0.0, accepted(0.0)
    low, high = 0.0, 1.0
    for _ in range(_SEARCHES):
        if length <= wanted * (1 + _NEAR) and (share == 0.0 or length >= wanted * (1 - _NEAR)):
            break
        low, high = (share, high) if length > wanted else (low, share)
        share = (low + high) / 2
        length = accepted(share)
    return share, length
