"""A training from start to end: answers, features, steps, export. Each stage continues where it was."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from spectrie import _core
from spectrie.errors import ConfigError
from spectrie.llm import LLM
from spectrie.model import load_runner, resolve
from spectrie.model.files.fingerprint import model_hash
from spectrie.model.files.measurements import Measurements
from spectrie.model.runner.text_features import text_features
from spectrie.training.evaluation import HeldOut
from spectrie.training.export import export_head, samples_hash
from spectrie.training.features import FeatureCache, Features, bytes_per_token
from spectrie.training.kinds.registry import KINDS, Kind
from spectrie.training.low_rank import CANDIDATES
from spectrie.training.recipe import Recipe, claim
from spectrie.training.target import Target
from spectrie.training.texts.code_prompts import function_chats
from spectrie.training.texts.files import read_data
from spectrie.training.texts.generation import generate_answers
from spectrie.training.texts.overlap import OVERLAP_TOKENS, Unseen, read_unseen
from spectrie.training.texts.prompts import Chat, varied_chats
from spectrie.training.texts.samples import Sample, SampleFile
from spectrie.training.trainer import Trainer
from spectrie.training.vocabulary import coverage, draft_vocabulary
from spectrie.training.worth import report_worth
from spectrie.version import __version__

__all__ = ["TrainedHead", "train_head"]

_TOP = 32
_HELD_OUT_SHARE = 0.03
_PREFIX_TOKENS = 48
_RUNNING = 64
_PAGES = 512

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class TrainedHead:
    """A finished head.

    Attributes:
        folder: Its folder.
        num_bytes: Size of its weights.
        held_out: How often it is right on samples it was not trained on.
        coverage: Share of the answer tokens that it can name.
    """

    folder: Path
    num_bytes: int
    held_out: HeldOut
    coverage: float


def train_head(recipe: Recipe, report: Report) -> TrainedHead:
    """Trains a head; the same call after a kill continues, and ends with the same bytes.

    Args:
        recipe: What to train.
        report: Receives a line per stage and per look at held-out samples, which `train.log` in the work folder
            keeps too.

    Raises:
        ConfigError: The data, the folders or the recipe cannot be used.
        ModelError: The model cannot be read, or no head can be trained for it.
    """
    kind = KINDS[recipe.kind]
    if recipe.settings.levels < kind.least_levels:
        raise ConfigError(
            f"levels is {recipe.settings.levels}; a head of kind {recipe.kind} has at least "
            f"{kind.least_levels}"
        )
    folder = resolve(recipe.model, report).folder
    target = Target(folder)
    rank = recipe.head_rank
    if rank is not None:
        _check_rank(recipe.kind, rank, target.config.hidden_size)
    identity = model_hash(folder, Measurements(None))
    claim(recipe, identity)
    report = _logged(report, recipe.work / "train.log")
    samples = _bounded(recipe, target, _samples(recipe, folder, report), report)
    held_out = [index for index, sample in enumerate(samples) if _is_held_out(sample)]
    trained = [sample for index, sample in enumerate(samples) if index not in set(held_out)]
    if not held_out or not trained:
        raise ConfigError(f"{len(samples)} samples are too few to train on some and look at others")
    taps = kind.taps(target.config.num_layers)
    cache = _features(recipe, folder, samples, kind, target)
    whole = target.config.vocabulary_size
    common = draft_vocabulary(trained, recipe.vocabulary if kind.is_cut else whole, whole)
    vocabulary = common if rank is None else torch.arange(whole)
    covered = coverage([samples[index] for index in held_out], vocabulary)
    if rank is None:
        report(
            f"{len(vocabulary)} tokens can be named, {covered:.1%} of the held-out answers' tokens"
        )
    if recipe.threads is not None:
        torch.set_num_threads(recipe.threads)
    torch.manual_seed(recipe.settings.seed)
    head = kind.make(target, taps, vocabulary, recipe.settings.levels)
    if rank is not None:
        head.common = common
    trainer = Trainer(
        head,
        samples,
        cache,
        held_out=held_out,
        settings=recipe.settings,
        checkpoint=recipe.work / "checkpoint.pt",
    )
    result = trainer.run(report)
    if rank is not None:
        result, covered = trainer.fit(target.head, rank)
        report(
            f"rank {rank} finds {min(CANDIDATES, whole)} of {whole} tokens, among them {covered:.1%} of the held-out "
            "answers' tokens"
        )
    provenance = {
        "kind": recipe.kind,
        "model_hash": identity,
        "namespaces": None if recipe.namespace is None else [recipe.namespace],
        "licence": recipe.licence,
        "commit": recipe.commit,
        "data": recipe.sources(),
        "samples_sha256": samples_hash(trained),
        "answer_tokens": sum(sample.num_answer_tokens for sample in trained),
        "held_out_top_1": [round(share, 4) for share in result.top_1],
        "coverage": round(covered, 4),
        "steps": trainer.step,
        "version": __version__,
    }
    if rank is not None:
        provenance["head_rank"] = rank
    size = export_head(head, recipe.output, dtype=torch.bfloat16, provenance=provenance)
    report(
        f"right on held-out answers, by level: {result} ({result.chain_length:.2f} tokens of a chain); "
        f"{size / 1e6:.1f} MB"
    )
    unseen = [samples[index] for index in held_out]
    report_worth(recipe, folder, target.config.max_context, unseen, report)
    return TrainedHead(recipe.output, size, result, covered)


def _check_rank(name: str, rank: int, hidden: int) -> None:
    if not KINDS[name].is_cut:
        raise ConfigError(
            f"head-rank is {rank}, but a head of kind {name} names all tokens by the target's head; expected a kind "
            f"of {', '.join(name for name, kind in KINDS.items() if kind.is_cut)}"
        )
    if not 1 <= rank <= hidden:
        raise ConfigError(f"head-rank is {rank}, expected 1 to {hidden}, the width of its states")


def _logged(report: Report, path: Path) -> Report:
    """Also appends every line to a file: all runs of one training."""

    def line(text: str) -> None:
        report(text)
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{text}\n")

    return line


def _samples(recipe: Recipe, folder: Path, report: Report) -> list[Sample]:
    """Those of the data and the target's answers, without what must stay unseen."""
    tokenizer = _core.Tokenizer.from_folder(str(folder))
    data = read_data(recipe.data, tokenizer, max_tokens=recipe.sample_tokens)
    chats = [*data.chats, *varied_chats(recipe.prompts, recipe.settings.seed)]
    if recipe.answers:
        files = [path for path in recipe.data if path.suffix == ".py"]
        sources = [path.read_text(encoding="utf-8") for path in files]
        chats += function_chats(sources, recipe.settings.seed)
    if chats and not recipe.answers:
        raise ConfigError(
            f"prompts without an answer: {len(chats)}; --self-generate lets the model answer them"
        )
    samples = data.samples + _answers(recipe, folder, chats)
    if recipe.unseen:
        texts = [text for path in recipe.unseen for text in read_unseen(path, tokenizer.encode)]
        unseen = Unseen(texts, **_template(tokenizer))
        samples, dropped = unseen.split(samples)
        report(
            f"{len(dropped)} samples dropped, {len(samples)} kept: no {OVERLAP_TOKENS} tokens in a row "
            f"are shared with {len(texts)} texts that must stay unseen"
        )
    return samples


def _template(tokenizer: _core.Tokenizer) -> dict[str, Any]:
    """Tokens between the turns of a chat, and what every chat begins with."""
    try:
        empty = tokenizer.encode(tokenizer.apply_chat_template([{"role": "user", "content": "a"}]))
    except Exception:  # a model without a chat template has no turns
        return {}
    return {
        "separators": [token for token in empty if not tokenizer.decode([token])],
        "common": [empty],
    }


def _answers(recipe: Recipe, folder: Path, chats: Sequence[Chat]) -> list[Sample]:
    if not chats:
        return []
    file = SampleFile(recipe.work / "answers.jsonl")
    pages = -(-recipe.sample_tokens // 16) * _RUNNING
    with LLM(
        folder,
        max_running=_RUNNING,
        num_pages=pages,
        max_context=recipe.sample_tokens,
        threads=recipe.threads,
    ) as llm:
        generate_answers(
            llm,
            chats,
            file,
            max_tokens=recipe.answer_tokens,
            max_context=recipe.sample_tokens,
        )
    return list(file)


def _bounded(recipe: Recipe, target: Target, samples: list[Sample], report: Report) -> list[Sample]:
    """The first samples whose features fit on the disk that is allowed."""
    each = bytes_per_token(KINDS[recipe.kind].width(target), _TOP)
    ends = np.cumsum([len(sample.token_ids) for sample in samples]) * each
    fitting = int(np.searchsorted(ends, recipe.disk_bytes, side="right"))
    size = ends[fitting - 1] / 1e9 if fitting else 0.0
    answers = sum(sample.num_answer_tokens for sample in samples[:fitting])
    report(f"{fitting} samples, {answers:,} answer tokens, {size:.2f} GB of features on disk")
    if fitting < len(samples):
        report(f"{len(samples) - fitting} samples are left out: more would not fit --disk")
    return samples[:fitting]


def _is_held_out(sample: Sample) -> bool:
    """Goes by the beginning, which all turns of a chat share."""
    beginning = str(sample.token_ids[:_PREFIX_TOKENS]).encode()
    number = int.from_bytes(hashlib.sha256(beginning).digest()[:4])
    return number < _HELD_OUT_SHARE * 2**32


def _features(
    recipe: Recipe, folder: Path, samples: Sequence[Sample], kind: Kind, target: Target
) -> FeatureCache:
    top, taps = _TOP, kind.taps(target.config.num_layers)
    cache = FeatureCache(recipe.work, samples, width=kind.width(target), top=top)
    if cache.num_done == len(samples):
        return cache
    longest = max(len(sample.token_ids) for sample in samples)
    runner = load_runner(
        folder,
        device="cpu",
        num_pages=max(_PAGES, -(-longest // 16)),
        max_context=max(longest, 16),
        threads=recipe.threads,
    )

    def read(texts: Iterable[Sequence[int]]) -> Iterator[Features]:
        yield from text_features(runner, texts, layers=taps, final_norm=kind.final_norm, top=top)

    try:
        cache.fill(read)
    finally:
        runner.close()
    return cache
