"""How the head that ships could name tokens: `python -m bench.draft.heads.vocabularies`.

Its trunk stays as it is. Cuts of the vocabulary, the target's whole head, and candidates of low rank that the target's
head weighs are set side by side: what they can name, how often they are right, what they take, and what text and head
in one tree accept. Factors are fitted to states of the tuning split; what is reported no head and no factor has seen.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import torch

from bench.draft import trace
from bench.draft.bigrams import read_bigrams
from bench.draft.heads.forms import Form, load_head, ranked, write_form
from bench.draft.ours import replay_ours
from bench.draft.recording.answers import record_answers
from bench.support import machine, report
from spectrie import _core
from spectrie.model.drafters import LevelPlan
from spectrie.model.plan import StepPlan
from spectrie.model.runner.text_features import text_features
from spectrie.training.batches import Batch, batches, collate
from spectrie.training.evaluation import second_moment
from spectrie.training.features import FeatureCache
from spectrie.training.kinds.eagle3 import Eagle3
from spectrie.training.low_rank import fit_low_rank
from spectrie.training.target import Target
from spectrie.training.texts.samples import Sample

if TYPE_CHECKING:
    from spectrie.model import Runner

__all__ = ["Counted", "count"]

HEAD = Path(__file__).resolve().parents[3] / "python/spectrie/model/sources/heads"
_NAME = "smollm2-135m-eagle3"
_FITTED = ("chat", "human_eval_chat", "human_eval_raw", "questions", "maths", "programming")
_COUNTED = ("chat", "human_eval_chat", "human_eval_raw", "questions")
_PLAYED = ("chat", "human_eval_chat")
_CUTS = (4096, 8192, 16384)
_RANKS = (64, 128, 256)
_LEVELS, _TOP, _TOP_IDS, _BATCH_TOKENS, _PAGES = 3, 8, 32, 1024, 512
_ROWS, _ROUNDS, _CONTEXT = (1, 4, 8), 25, 256
_NODES = 16
_HEADER = ["names by", "weights a row", "weighs the target's", "all's first", "all's first 8"]
_HEADER += ["right at level 1", "ms of 1 row", "4 rows", "8 rows"]
_HEADER += [f"accepted/step, {name}" for name in _PLAYED]


@dataclass(slots=True)
class Counted:
    """What a form named at the first level, in rows, and in tokens for `eight`.

    Attributes:
        rows: All rows.
        named: Rows of which it weighs the target's likeliest token.
        first: Rows of which it weighs the one that the trunk finds likeliest with the target's whole head.
        eight: Of its eight likeliest with that head, those that it weighs.
        right: Rows of which the token that it finds likeliest is the target's.
    """

    rows: int = 0
    named: int = 0
    first: int = 0
    eight: int = 0
    right: int = 0


def main() -> None:
    """Measures, and writes `bench/results/draft/head_vocabularies.*`."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.draft.heads.vocabularies", description=__doc__
    )
    parser.add_argument("--model", default="smollm2-135m", help="model [smollm2-135m]")
    parser.add_argument("--requests", type=int, default=8, help="so many of each text [8]")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads [1]")
    args = parser.parse_args()
    from spectrie.model import resolve

    torch.set_num_threads(args.threads)
    model, shipped = Path(resolve(args.model).folder), HEAD / _NAME
    with tempfile.TemporaryDirectory() as folder:
        # Costs of heads that are gone in a minute are not kept.
        os.environ["SPECTRIE_CACHE"] = folder
        _run(model, shipped, Path(folder), args.requests, args.threads)


def _run(model: Path, shipped: Path, folder: Path, requests: int, threads: int) -> None:
    target = Target(model)
    head = load_head(shipped, target)
    fitted = _samples("tune", _FITTED, None)
    answers = [one.token_ids[start:end] for one in fitted for start, end in one.answers]
    order = ranked(head.vocabulary, [t for one in answers for t in one], len(target.head))
    learned = _batches(model, head, fitted, folder / "tune", threads)
    moment = second_moment(head, learned, 1 << 30)
    size = (target.head.shape[0], target.head.shape[1])
    forms = [Form(f"cut of {count:,}", size, tokens=order[:count]) for count in _CUTS]
    forms.append(Form("the target's head", size))
    for rank in _RANKS:
        forms.append(Form(f"rank {rank}", size, low_rank=fit_low_rank(target.head, moment, rank)))
    seen = _batches(model, head, _samples("report", _COUNTED, requests), folder / "report", threads)
    counted = count(head, target.head, forms, seen)
    runners = _load(model, shipped, forms, folder, threads)
    try:
        facts = machine.facts(threads=threads, dtype=runners[0].dtype_name)
        times, foreign = machine.foreign_cores(lambda: _times(runners))
        played = [{name: _play(one, name, requests) for name in _PLAYED} for one in runners]
    finally:
        for runner in runners:
            runner.close()
    text = {name: _accepted(name, requests, None) for name in _PLAYED}
    data: dict[str, Any] = {"text": text, "foreign_cores": foreign, "forms": {}}
    rows = []
    for form, found, ms, accepted in zip(forms, counted, times, played, strict=True):
        data["forms"][form.name] = one = _summary(form, found, ms) | {"accepted": accepted}
        rows.append(_row(form, one))
    rank_rows = sum(len(level.rows) for batch in learned for level in batch.levels)
    notes = [
        f"{_NAME} with its trunk as it ships, trained with the cut of 8,192; other cuts add or drop the tokens that are"
        " rarest in the tuning split's answers, then those of the highest number. Ranks: 64 candidates, then the target's"
        f" rows, by factors in bfloat16 fitted to {rank_rows:,} states of the tuning split, at levels 1 to 3. Weights are"
        f" those of naming alone. Shares of {counted[0].rows:,} places of {', '.join(_COUNTED)}, in float32: where the target's"
        " likeliest token is among those weighed, so that it can be named; those that this trunk finds likeliest with the"
        " target's whole head; and where the likeliest of those weighed is the target's. A rank weighs 64 tokens a place, among"
        " them no more of the target's than the whole head has among its first 64. Times: a first level,"
        f" trunk and all, behind a forward of the model, the least of {_ROUNDS} in turn, as a server measures its own;"
        f" threads: {threads}, {facts['dtype']}; others used {foreign:.1f} cores meanwhile. Accepted tokens: text, bigrams, recycling and head in"
        f" one tree of {_NODES} nodes at most, asked in every step, on {requests} requests of each text; without a head"
        f" {' and '.join(f'{one:.3f}' for one in text.values())}.",
    ]
    report.write(
        "draft/head_vocabularies",
        "How a head can name tokens",
        facts,
        _HEADER,
        rows,
        data,
        notes,
        command="python -m bench.draft.heads.vocabularies",
    )


def _samples(split: str, names: Sequence[str], requests: int | None) -> list[Sample]:
    return [
        Sample(ids, [(len(one.prompt_ids), len(ids))], name)
        for name in names
        for one in trace.read(trace.folder(split) / f"{name}.jsonl.xz")[:requests]
        for ids in [[*one.prompt_ids, *one.output_ids]]
    ]


def _batches(
    model: Path, head: Eagle3, samples: Sequence[Sample], folder: Path, threads: int
) -> list[Batch]:
    """Texts with the target's features of them, as a head is trained on."""
    from spectrie.model import load_runner

    hidden = len(head.norm)
    cache = FeatureCache(folder, samples, width=len(head.taps) * hidden, top=_TOP_IDS)
    runner = load_runner(model, num_pages=_PAGES, threads=threads)
    try:
        cache.fill(lambda texts: text_features(runner, texts, layers=head.taps, top=_TOP_IDS))
    finally:
        runner.close()
    lengths = [len(sample.token_ids) for sample in samples]
    return [collate(samples, cache, group, _LEVELS) for group in batches(lengths, _BATCH_TOKENS)]


@torch.no_grad()
def count(
    head: Eagle3, rows: torch.Tensor, forms: Sequence[Form], seen: Sequence[Batch]
) -> list[Counted]:
    """Counts what each form names at the first level, in the arithmetic of training.

    Args:
        head: The trunk.
        rows: The target's head, [vocabulary, hidden].
        forms: Ways to name.
        seen: Texts.
    """
    found = [Counted() for _ in forms]
    for batch in seen:
        level, states = batch.levels[0], next(head.named_states(batch))
        logits, right = states @ rows.T, level.top_ids[:, :1]
        likeliest = logits.topk(_TOP, dim=1).indices
        for form, one in zip(forms, found, strict=True):
            weighed = form.weighed(states)
            best = logits.masked_fill(~weighed, -torch.inf).argmax(1)
            one.rows += len(states)
            one.named += int(weighed.gather(1, right).sum())
            one.first += int(weighed.gather(1, likeliest[:, :1]).sum())
            one.eight += int(weighed.gather(1, likeliest).sum())
            one.right += int((best == right.flatten()).sum())
    return found


def _load(
    model: Path, shipped: Path, forms: Sequence[Form], folder: Path, threads: int
) -> list[Runner]:
    """A model beside each form, as a server has it."""
    from spectrie.model import load_runner

    return [
        load_runner(
            model,
            num_pages=_PAGES,
            threads=threads,
            drafter=write_form(shipped, form, folder / f"form {number}"),
        )
        for number, form in enumerate(forms)
    ]


def _times(runners: Sequence[Runner]) -> list[list[float]]:
    """Milliseconds of a first level of each number of rows, by runner: the least of rounds in turn."""
    taken: list[list[list[float]]] = [[[] for _ in _ROWS] for _ in runners]
    for _ in range(_ROUNDS):
        for runner, of_runner in zip(runners, taken, strict=True):
            for rows, times in zip(_ROWS, of_runner, strict=True):
                times.append(_level_ms(runner, rows))
    return [[min(times) for times in of_runner] for of_runner in taken]


def _level_ms(runner: Runner, rows: int) -> float:
    """Behind a forward of a row, which leaves the caches cold, as between two steps of a server."""
    pages, seat = list(range(-(-(_CONTEXT + 1) // runner.page_size))), runner.num_pages
    runner.step(StepPlan.single([0], kv_len=_CONTEXT, pages=pages, feature=seat))
    requests = [(_CONTEXT, seat, pages)] * rows
    plan = LevelPlan.of(requests, [(0, _CONTEXT, row, -1) for row in range(rows)])
    began = perf_counter()
    runner.draft(plan)
    return (perf_counter() - began) * 1e3


def _play(runner: Runner, name: str, requests: int) -> float:
    """Accepted tokens a step, of text and what the runner's head answers."""
    sources = _core.Replay(bigrams=read_bigrams())
    answers = []
    for one in trace.read(trace.TRACES / f"{name}.jsonl.xz")[:requests]:
        before = len(one.prompt_ids) - 1
        top = [([], []) if at < before else entry for at, entry in enumerate(one.topk or [])]
        served = ([ids for ids, _ in top], [given for _, given in top]) if top else None
        names = sources.names(one.prompt_ids, one.output_ids, served)
        answers.append(record_answers(runner, one.prompt_ids, one.output_ids, names))
    return _accepted(name, requests, answers)


def _accepted(name: str, requests: int, answers: list[Any] | None) -> float:
    chosen = trace.read(trace.TRACES / f"{name}.jsonl.xz")[:requests]
    found = replay_ours(
        chosen,
        nodes=_NODES,
        bigrams=read_bigrams(),
        head="off" if answers is None else "on",
        answers=answers,
    )
    accepted: float = found["accepted_per_step"]
    return accepted


def _summary(form: Form, found: Counted, ms: Sequence[float]) -> dict[str, Any]:
    rows = found.rows
    return {
        "weights": form.weights,
        "named": found.named / rows,
        "first": found.first / rows,
        "eight": found.eight / rows / _TOP,
        "right": found.right / rows,
        "ms": dict(zip(map(str, _ROWS), ms, strict=True)),
    }


def _row(form: Form, one: dict[str, Any]) -> list[str]:
    shares = [f"{100 * one[name]:.1f} %" for name in ("named", "first", "eight", "right")]
    times = [f"{value:.2f}" for value in one["ms"].values()]
    accepted = [f"{value:.3f}" for value in one["accepted"].values()]
    return [form.name, f"{one['weights'] / 1e6:.2f} M", *shares, *times, *accepted]


if __name__ == "__main__":
    main()
