"""The same requests in several ways on a device: alone, in company, drafted, by drafters too, in other chunks, preempted.

With exact arithmetic all ways must give the same ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from bench.gpu.check import Item, NeedsDevice, Settings, Wrong
from bench.gpu.end_to_end.requests import recorded
from bench.gpu.models.random_head import write_random_block, write_random_head
from bench.gpu.models.shapes import MODELS, TINY, ModelShape
from bench.gpu.steps.loaded import dry_options, folder_of, head_of, on_device
from spectrie import LLM
from spectrie.model.runner.drafter_loading import found_drafter
from spectrie.types import SpeculationOptions

__all__ = ["drafter_items", "items"]

_FAMILIES = ("routing", "human_eval_raw", "questions")
_OF_EACH = 8
# More than the engine keeps room for, so that a small cache preempts.
_TOKENS, _DRY_TOKENS = 128, 100
_TEMPERATURES = (0.0, 0.8)

Ids = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Way:
    """How requests are run.

    Attributes:
        name: What results call it.
        options: Of the engine.
        together: Whether all requests run at once.
        speculation: Whether they are drafted.
        mode: How; None for what ships.
        drafters: What stands beside the model, in the order in which they are named: a `head`, or `another`: the model
            itself, or a head of blocks beside one of drawn weights.
        fill: Share of the prompts and answers of all requests that the cache holds; None for ample room.
    """

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    together: bool = True
    speculation: bool = True
    mode: Literal["prob", "eagle2"] | None = None
    drafters: tuple[Literal["head", "another"], ...] = ()
    fill: float | None = None


_ALONE = _Way("alone, not drafted", together=False, speculation=False)
_WAYS = (
    _Way("together, not drafted", speculation=False),
    _Way("together, drafted"),
    _Way("alone, drafted", together=False),
    _Way("together, drafted, chunks of 32", {"chunk_tokens": 32}),
    _Way("together, drafted, preempted", fill=0.5),
)
# The first drafter that is named is asked at every step, whatever that costs.
_BESIDE_DRAFTERS = (
    _Way("together, a head", mode="eagle2", drafters=("head",)),
    _Way("alone, a head", together=False, mode="eagle2", drafters=("head",)),
    _Way("together, another beside it", mode="eagle2", drafters=("another", "head")),
    _Way("together, both, preempted", mode="eagle2", drafters=("head", "another"), fill=0.5),
)


def items(settings: Settings) -> Iterator[Item]:
    """One item a way, and one for the answers that it is compared with."""
    yield from _items(settings, _WAYS)


def drafter_items(settings: Settings) -> Iterator[Item]:
    """The same of ways with drafters beside the model: a head, another drafter, and both."""
    yield from _items(settings, _BESIDE_DRAFTERS)


def _items(settings: Settings, ways: Sequence[_Way]) -> Iterator[Item]:
    expected: list[Ids] = []
    with on_device(settings):
        yield Item(_ALONE.name, partial(_reference, settings, expected))
        for way in ways:
            yield Item(way.name, partial(_compare, settings, way, expected))


def _reference(settings: Settings, expected: list[Ids]) -> dict[str, Any]:
    values, answers = _answers(settings, _ALONE)
    expected += answers
    return values | {"answers": len(answers), "tokens": sum(map(len, answers))}


def _compare(settings: Settings, way: _Way, expected: list[Ids]) -> dict[str, Any]:
    if not expected:
        raise NeedsDevice("there is nothing to compare with")
    values, answers = _answers(settings, way)
    same = sum(one == other for one, other in zip(answers, expected, strict=True))
    values |= {"identical": same, "of": len(expected), "share": same / len(expected)}
    if same < len(expected):
        arithmetic = "exact" if values["exact"] else "fast"
        raise Wrong(
            f"{len(expected) - same} of {len(expected)} answers differ, with {arithmetic} arithmetic",
            values,
        )
    if way.drafters and not values["drafter_rows"]:
        raise Wrong("no drafter was asked", values)
    return values


def _answers(settings: Settings, way: _Way) -> tuple[dict[str, Any], list[Ids]]:
    """Facts of a run, and the ids of each prompt at each temperature."""
    prompts = [
        request.prompt_ids
        for family in (_FAMILIES[:1] if settings.dry else _FAMILIES)
        for request in recorded(settings, family)[: 3 if settings.dry else _OF_EACH]
    ]
    tokens = _DRY_TOKENS if settings.dry else _TOKENS
    model = Path(settings.model) if settings.model and not settings.dry else None
    folder = model or folder_of(settings, _shape(settings))
    options = dry_options(settings)
    if way.drafters:
        beside = {"head": _head, "another": _another}
        options["drafter"] = [str(beside[one](settings, model)) for one in way.drafters]
    if settings.dry and way.speculation and way.mode is None:
        # Whether drafts pay says nothing there.
        way = replace(way, mode="prob")
    if way.fill is not None:
        pages = [-(-(len(prompt) + tokens) // 16) for prompt in prompts]
        options["num_pages"] = max(int(way.fill * sum(pages)), max(pages) + 2)
        options["max_running"] = len(prompts)
    with LLM(
        folder, device="cuda", bigrams="off", drafting_cost_ms=0.0, **(options | way.options)
    ) as llm:
        answers = [ids for t in _TEMPERATURES for ids in _run(llm, prompts, tokens, t, way)]
        load = llm.load()
        values = {
            "exact": "/exact/" in llm.numeric_fingerprint,
            "weights": "read" if model else "drawn",
            "drafted_tokens": load.drafted_tokens,
            "accepted_tokens": load.accepted_tokens,
            "preemptions": load.preemptions,
            "drafter_rows": load.head_rows,
        }
    return values, answers


def _shape(settings: Settings) -> ModelShape:
    return TINY if settings.dry else MODELS[0]


def _head(settings: Settings, model: Path | None) -> Path:
    """One of drawn weights beside a model of such; what ships for another.

    Raises:
        NeedsDevice: None ships for it.
    """
    if model is None:
        return head_of(settings, _shape(settings), "levels", write_random_head)
    choice = found_drafter(model)
    if choice.folder is None:
        raise NeedsDevice(f"there is no head for {model.name}: {choice.why_none}")
    return choice.folder


def _another(settings: Settings, model: Path | None) -> Path:
    return model or head_of(settings, _shape(settings), "blocks", write_random_block)


def _run(
    llm: LLM, prompts: list[list[int]], tokens: int, temperature: float, way: _Way
) -> list[Ids]:
    groups = [prompts] if way.together else [[prompt] for prompt in prompts]
    found: list[Ids] = []
    for group in groups:
        answers = llm.generate(
            prompt_token_ids=group,
            max_tokens=tokens,
            temperature=temperature,
            seed=11,
            ignore_eos=True,
            speculation=SpeculationOptions(enabled=way.speculation, mode=way.mode),
        )
        found += [tuple(one.token_ids) for one in answers]
    return found
