"""Speculation on against off by category, with what ships by default, transformers beside it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.speculation.off_on import LOOKUP_TOKENS, Sample, measure_ours, measure_rival
from bench.speculation.reader import Question, read
from bench.support import machine, report
from bench.support.pairs import Comparison, shown_interval
from bench.support.rival import Rival
from spectrie.printing.markdown import render_table

if TYPE_CHECKING:
    from spectrie import LLM

__all__ = ["run"]

_HEADER = (
    *("category", "prompts", "off tok/s", "on tok/s", "speed-up", "95 %", "tokens/step"),
    *("identical", "transformers tok/s", "lookup tok/s", "lookup speed-up"),
)


def run(
    file: Path, model: str, *, per_category: int, max_tokens: int, threads: int, dtype: str = "auto"
) -> str:
    """Measures the questions of a file and gives the table, which it also prints.

    Every turn is a prompt of its own, with the answers that the model gave before.

    The rival runs once ours is closed: an idle engine would compute the model's bigrams on its cores. For
    the same reason, and so that ours drafts from all of them throughout, they are computed first.

    Args:
        file: Spec-Bench's `question.jsonl`, or a file of ShareGPT.
        model: Name or folder of the model.
        per_category: Conversations taken of each category, the first ones.
        max_tokens: Longest answer.
        threads: Threads of a forward.
        dtype: Arithmetic of the weights.

    Raises:
        ValueError: `per_category` is below 1, the file is in neither form, or no question fits into the
            model's context.
    """
    from spectrie import LLM
    from spectrie.model import resolve

    if per_category < 1:
        raise ValueError(f"--per-category: given {per_category}; allowed: 1 or more")
    questions = _first(read(file), per_category)
    folder = Path(resolve(model).folder)
    _complete_bigrams(folder)
    ours: dict[str, tuple[list[Sample], Comparison, dict[str, Any]]] = {}
    left_out = 0
    with LLM(folder, dtype=dtype, threads=threads) as llm:
        facts = machine.facts(threads=threads, dtype=llm.dtype)
        for category, chosen in questions.items():
            samples, too_long = _samples(llm, chosen, max_tokens)
            left_out += too_long
            if samples:
                on, counts = measure_ours(
                    llm, samples, pairs=len(samples), max_tokens=max_tokens, title=category
                )
                ours[category] = samples, on, counts
    if not ours:
        raise ValueError(f"{file}: no question fits into the context of {model}")
    rows: list[list[str]] = []
    rival = Rival(folder, facts["dtype"], threads)
    for category, (samples, on, counts) in ours.items():
        lookup, _ = measure_rival(
            rival, samples, pairs=len(samples), max_tokens=max_tokens, title=category
        )
        rows.append(_row(category, on.summary(), counts, lookup.summary()))
    table = render_table(list(_HEADER), rows)
    text = (
        f"{table}\nWhole requests, prefill included, greedy, at most {max_tokens} tokens;"
        f" {left_out} turns were left out as too long. Options as they ship, each request in a"
        " namespace of its own, so that none learns from another. Lookup: transformers'"
        f" prompt_lookup_num_tokens={LOOKUP_TOKENS} over its own plain decoding.\n"
        f"{report.where(facts)}.\n"
    )
    print(text)
    return text


def _complete_bigrams(folder: Path) -> None:
    """Minutes for a model that was never served, seconds else."""
    command = [sys.executable, "-m", "spectrie", "models", "bigrams", str(folder)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def _first(questions: Sequence[Question], per_category: int) -> dict[str, list[Question]]:
    """The first questions of each category, categories as they come."""
    chosen: dict[str, list[Question]] = {}
    for question in questions:
        of_category = chosen.setdefault(question.category, [])
        if len(of_category) < per_category:
            of_category.append(question)
    return chosen


def _samples(llm: LLM, questions: Sequence[Question], max_tokens: int) -> tuple[list[Sample], int]:
    """A prompt for each turn, and how many turns did not fit into the context."""
    samples: list[Sample] = []
    left_out = 0
    for question in questions:
        messages: list[dict[str, str]] = []
        for number, turn in enumerate(question.turns, 1):
            messages.append({"role": "user", "content": turn})
            ids = list(llm.tokenizer.encode(llm.tokenizer.apply_chat_template(messages)))
            if len(ids) + max_tokens > llm.max_context:
                left_out += len(question.turns) - number + 1
                break
            samples.append(Sample(f"{question.name}/{number}", ids))
            if number < len(question.turns):
                answer = llm.generate(prompt_token_ids=ids, max_tokens=max_tokens, temperature=0.0)
                messages.append({"role": "assistant", "content": answer.text})
        print(f"  asked {question.name}", file=sys.stderr, flush=True)
    return samples, left_out


def _row(
    category: str, ours: dict[str, Any], counts: dict[str, Any], lookup: dict[str, Any]
) -> list[str]:
    return [
        category,
        str(counts["prompts"]),
        f"{ours['base_median']:.1f}",
        f"{ours['ours_median']:.1f}",
        f"{ours['ratio']:.2f}x",
        shown_interval(ours["ratio_low"], ours["ratio_high"], ours["ratio"]),
        f"{counts['tokens_per_step']:.2f}",
        f"{counts['identical']}/{counts['prompts']}",
        f"{lookup['base_median']:.1f}",
        f"{lookup['ours_median']:.1f}",
        f"{lookup['ratio']:.2f}x",
    ]
