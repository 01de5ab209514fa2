"""What a new head gives where it will serve: the answers to held-out prompts, computed on this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

from spectrie.engine.forecast import measure
from spectrie.errors import SpectrieError
from spectrie.llm import LLM
from spectrie.training.recipe import Recipe
from spectrie.training.texts.samples import Sample

__all__ = ["report_worth"]

_PROMPTS = 12
"""Held-out prompts that are answered, one at a time: a minute or two with SmolLM2-135M on two cores."""

_ANSWER_TOKENS = 144
"""Longest answer, however long those that the head learned from may be."""

_TEXT_PROMPT_TOKENS = 32
"""Prompt of a sample that is text, of which every token is to be guessed."""


def report_worth(
    recipe: Recipe,
    folder: Path,
    max_context: int,
    held_out: Sequence[Sample],
    report: Callable[[str], None],
) -> None:
    """Reports what a head costs, what to expect of it, and tokens a step with and without it.

    The head is done by then: where it cannot be measured, the report says so.

    Args:
        recipe: Of the training; its output holds the head.
        folder: The model's.
        max_context: The model's longest.
        held_out: Samples that were not trained on.
        report: Receives the lines.
    """
    longest = min(recipe.sample_tokens, max_context)
    room = min(recipe.answer_tokens, _ANSWER_TOKENS, longest // 2)
    prompts = list(_prompts(held_out, longest - room))[:_PROMPTS]
    if not prompts:
        report("no held-out prompt leaves room for an answer: what the head gives is not measured")
        return
    report(f"answering {len(prompts)} held-out prompts three times, to see what the head gives")
    # Not by a name that means another drafter, such as `mtp`.
    drafter = str(recipe.output.absolute())
    try:
        measured = measure(folder, drafter, recipe.threads)
        for info, expected in measured.drafters:
            report(info.line)
            if expected is not None:
                report(str(expected))
        tokens_per_step = partial(_tokens_per_step, recipe, folder, prompts, room)
        alone = tokens_per_step(drafter, "eagle2")
        text = tokens_per_step("off", "auto")
        both = tokens_per_step(drafter, "auto")
    except (SpectrieError, MemoryError) as error:
        report(f"what the head gives is not measured: {error}")
        return
    report(
        f"tokens a step on held-out prompts: {alone:.2f} with the head alone, asked whatever it costs; served on this "
        f"processor as --speculation auto decides: {text:.2f} from text alone, {both:.2f} with the head too"
    )


def _prompts(samples: Sequence[Sample], max_tokens: int) -> Iterator[list[int]]:
    """What comes before the first answer of each, every prompt once and none that is longer."""
    seen = set()
    for sample in samples:
        num_tokens = sample.answers[0][0] or min(_TEXT_PROMPT_TOKENS, len(sample.token_ids) // 2)
        prompt = sample.token_ids[:num_tokens]
        if 0 < len(prompt) <= max_tokens and tuple(prompt) not in seen:
            seen.add(tuple(prompt))
            yield prompt


def _tokens_per_step(
    recipe: Recipe,
    folder: Path,
    prompts: Sequence[list[int]],
    room: int,
    drafter: str,
    speculation: Literal["auto", "eagle2"],
) -> float:
    """Tokens of a forward after the prefill, over all answers: greedy, as a server with one request at a time."""
    steps = accepted = 0
    with LLM(
        folder,
        drafter=drafter,
        speculation=speculation,
        max_context=max(len(prompt) for prompt in prompts) + room,
        threads=recipe.threads,
        device="cpu",
    ) as llm:
        for prompt in prompts:
            answer = llm.generate(
                prompt_token_ids=prompt,
                max_tokens=room,
                temperature=0.0,
                namespace=recipe.namespace,
            )
            steps += answer.speculation.verify_steps
            accepted += answer.speculation.accepted_tokens
    return 1.0 + accepted / max(steps, 1)
