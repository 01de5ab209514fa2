"""Tokens per second with a drafter and without: `python -m bench.draft.heads.speed [--drafter PATH]`.

Engines on the same weights, with the drafter and without, in turn, each with what ships by default but for that. What
the server learns of text is left out, so that each answer meets the same memory; prompts are those of the reported
traces, which no head has seen. Of either kind there are several: what an engine learns of its machine's times differs
from one to the next, and with it how much is drafted, by more than a drafter that sleeps costs.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

from bench.draft import trace
from bench.support import machine, report
from bench.support.namespaces import fresh_namespace
from bench.support.pairs import compare
from spectrie.types import SpeculationOptions

if TYPE_CHECKING:
    from spectrie import LLM
    from spectrie.options import GenerateOptions

__all__ = ["FLOORS", "TEXTS", "Ask", "Side", "measured_before", "run", "tasks_of"]

FLOORS = {"chat": 1.03, "human_eval_chat": 1.0, "edits": 0.99, "routing": 0.99, "random": 0.97}
"""What the drafter must at least be worth."""
_AT_A_TIME = (1, 8, 32)
_RANDOM_PROMPT = 64
_HEADER = ["text", "at a time", "with over without", "95 % interval", "floor", "identical"]
_HEADER += ["accepted/step without", "with", "of it the drafter's", "commit"]
TEXTS = {
    "chat": (1,),
    "human_eval_chat": (1,),
    "human_eval_raw": (1,),
    "questions": (1,),
    "edits": _AT_A_TIME,
    "random": (1, 8),
    "routing": _AT_A_TIME,
}
"""How many requests at a time each text is measured with."""
_KINDS = [(text, number) for text, numbers in TEXTS.items() for number in numbers]


@dataclass(frozen=True, slots=True)
class Ask:
    """One request.

    Attributes:
        prompt_ids: Its prompt.
        prediction_ids: What its answer may resemble.
        temperature: That of its answer.
    """

    prompt_ids: list[int]
    prediction_ids: list[int] | None = None
    temperature: float = 0.0


class Side:
    """Engines of one kind, and what they answered."""

    def __init__(
        self,
        llms: Sequence[LLM],
        max_tokens: int,
        namespace: Callable[[], str] = fresh_namespace,
    ) -> None:
        self.llms = llms
        self._max_tokens = max_tokens
        self._namespace = namespace
        self.answers: dict[int, set[tuple[tuple[int, ...], ...]]] = {}
        self.steps = self.accepted = self.of_drafter = 0

    def rate(self, engine: int, task: int, asks: Sequence[Ask]) -> float:
        """Tokens per second of requests side by side at one of the engines, prompts included."""
        namespace = self._namespace()

        def answer(ask: Ask) -> Any:
            options: GenerateOptions = {
                "max_tokens": self._max_tokens,
                "temperature": ask.temperature,
                "seed": 5,
                "namespace": namespace,
                "speculation": SpeculationOptions(learn=False),
            }
            if ask.prediction_ids is not None:
                options["prediction"] = ask.prediction_ids
            return self.llms[engine].generate(prompt_token_ids=ask.prompt_ids, **options)

        began = perf_counter()
        with ThreadPoolExecutor(len(asks)) as pool:
            answers = list(pool.map(answer, asks))
        seconds = perf_counter() - began
        self.answers.setdefault(task, set()).add(tuple(answer.token_ids for answer in answers))
        for one in answers:
            self.steps += one.speculation.verify_steps
            self.accepted += one.speculation.accepted_tokens
            by_source = one.speculation.accepted_by_source
            self.of_drafter += by_source.get("head", 0) + by_source.get("draft_model", 0)
        return sum(len(answer.token_ids) for answer in answers) / seconds


def main() -> None:
    """Measures, and writes results after each number at a time: `bench/results/draft/head_speed.*` of requests alone,
    `head_speed_many.*` of several at a time."""
    parser = argparse.ArgumentParser(prog="python -m bench.draft.heads.speed", description=__doc__)
    parser.add_argument("--drafter", default="auto", help="the drafter [auto]")
    parser.add_argument("--model", default="smollm2-135m", help="model [smollm2-135m]")
    parser.add_argument("--pairs", type=int, default=24, help="pairs of each text [24]")
    parser.add_argument("--max-tokens", type=int, default=96, help="tokens per answer [96]")
    parser.add_argument("--engines", type=int, default=3, help="engines of either kind [3]")
    parser.add_argument(
        "--at-a-time",
        nargs="+",
        type=int,
        choices=_AT_A_TIME,
        default=list(_AT_A_TIME),
        help="[all]",
    )
    parser.add_argument("--texts", nargs="+", choices=TEXTS, default=list(TEXTS), help="[all]")
    args = parser.parse_args()
    numbers = [
        (text, number) for number in args.at_a_time for text in args.texts if number in TEXTS[text]
    ]
    run(
        args.model,
        args.drafter,
        numbers,
        pairs=args.pairs,
        max_tokens=args.max_tokens,
        engines=args.engines,
    )


def run(
    model: str,
    drafter: str,
    numbers: Sequence[tuple[str, int]],
    *,
    pairs: int,
    max_tokens: int,
    engines: int,
) -> None:
    """Measures each text at a number at a time, and writes the results.

    Args:
        model: The model, as `--model` names it.
        drafter: The drafter, as `--drafter` names it.
        numbers: Names of traces, or `random`, each with requests at a time.
        pairs: Pairs of samples of each.
        max_tokens: Tokens per answer.
        engines: Engines with the drafter, and as many without.
    """
    from spectrie import LLM

    threads = len(os.sched_getaffinity(0))
    options: dict[str, Any] = {"threads": threads, "num_pages": 2048}
    results: dict[str, dict[str, Any]] = {}
    with ExitStack() as stack:
        without, beside = (
            [stack.enter_context(LLM(model, drafter=one, **options)) for _ in range(engines)]
            for one in ("off", drafter)
        )
        facts = machine.facts(
            threads=threads,
            dtype=without[0].dtype,
            model=model,
            drafter=drafter,
            max_tokens=max_tokens,
            engines=engines,
        )
        notes = [
            f"Tokens per second of whole requests, prompts included, {facts['dtype']}, {threads} threads, up to"
            f" {max_tokens} tokens, greedy but for random words at temperature 1.5; drafter: {drafter}; {engines}"
            " engines with and as many without. Nothing is learned from answers. Both draft what ships by default but"
            " for the drafter."
        ]
        for text, at_a_time in numbers:
            sides = Side(without, max_tokens), Side(beside, max_tokens)
            one = _measure(*sides, text, at_a_time, pairs)
            name = "head_speed" if at_a_time == 1 else "head_speed_many"
            # All of it takes more than an hour: what is measured is kept, and the next run takes up the rest.
            found = results.setdefault(name, measured_before(name, facts))
            found[_key(text, at_a_time)] = one | {"commit": facts["commit"]}
            report.write(
                f"draft/{name}",
                "Speed with a drafter over speed without",
                facts,
                _HEADER,
                [_row(*kind, found[key]) for kind in _KINDS if (key := _key(*kind)) in found],
                found,
                notes,
                command="python -m bench.draft.heads.speed",
            )


def measured_before(name: str, facts: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What earlier runs measured alike on such a machine, each with its commit; nothing from a tree with changes."""
    path = report.RESULTS / "draft" / f"{name}.json"
    if not path.exists():
        return {}
    content = json.loads(path.read_text(encoding="utf-8"))
    then: dict[str, Any] = content["machine"]
    of_code = {"date": None, "commit": None}
    if then["uncommitted_changes"] or then | of_code != facts | of_code:
        return {}
    return {key: {"commit": then["commit"]} | one for key, one in content["results"].items()}


def _key(text: str, at_a_time: int) -> str:
    return f"{text}, {at_a_time}"


def _measure(without: Side, beside: Side, text: str, at_a_time: int, pairs: int) -> dict[str, Any]:
    tasks = tasks_of(text, at_a_time)[:pairs]
    engines = len(without.llms)
    # All have then made what is made on first use.
    for side in (without, beside):
        for engine in range(engines):
            side.rate(engine, 0, tasks[0])
    turns = [(n % engines, n % len(tasks)) for n in range(math.lcm(engines, len(tasks)))]
    sides = [
        [lambda side=side, e=e, n=n: side.rate(e, n, tasks[n]) for e, n in turns]
        for side in (without, beside)
    ]
    comparison = compare(*sides, pairs=pairs, title=f"{text} x{at_a_time}")
    same = sum(len(without.answers[n] | beside.answers[n]) == 1 for n in range(len(tasks)))
    return comparison.summary() | {
        "identical": same,
        "tasks": len(tasks),
        "accepted_per_step": without.accepted / without.steps,
        "accepted_per_step_with": beside.accepted / beside.steps,
        "of_drafter_per_step": beside.of_drafter / beside.steps,
    }


def tasks_of(text: str, at_a_time: int) -> list[list[Ask]]:
    """Requests of a text, as many in a task as there are at a time."""
    if text == "random":
        draw = random.Random(11)
        asks = [
            Ask([draw.randrange(1000, 40000) for _ in range(_RANDOM_PROMPT)], temperature=1.5)
            for _ in range(24 * at_a_time)
        ]
    else:
        asks = [
            Ask(list(one.prompt_ids), one.prediction_ids)
            for one in trace.read(trace.TRACES / f"{text}.jsonl.xz")
        ]
    count = max(len(asks) // at_a_time, 1)
    return [asks[n * at_a_time : (n + 1) * at_a_time] for n in range(count)]


def _row(text: str, at_a_time: int, one: dict[str, Any]) -> list[str]:
    floor = FLOORS.get(text)
    return [
        text,
        str(at_a_time),
        f"{one['ratio']:.3f}x",
        f"{one['ratio_low']:.3f} to {one['ratio_high']:.3f}",
        "" if floor is None else f"{floor:.2f}x",
        f"{one['identical']} of {one['tasks']}",
        f"{one['accepted_per_step']:.2f}",
        f"{one['accepted_per_step_with']:.2f}",
        f"{one['of_drafter_per_step']:.2f}",
        one["commit"],
    ]


if __name__ == "__main__":
    main()
