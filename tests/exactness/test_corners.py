"""No answer depends on drafts where they come from other namespaces, corpora, late readers or long contexts."""

from __future__ import annotations

import dataclasses
import random
from dataclasses import dataclass
from pathlib import Path

import pytest

from bench.support import prompts
from spectrie._core import Tokenizer
from tests.exactness.comparison import same
from tests.exactness.corners import CORNERS, UNLEARNT, Ask, Found, asks, run, write_corpus
from tests.exactness.matrix import Combination
from tests.exactness.runners import native
from tests.model.families import save_family
from tests.tiny_model import EOS_ID, VOCABULARY_SIZE, write_tiny_tokenizer

REAL_TOKENS = 1024
"""A real model reads 4096 tokens in half a minute: these wait for the deep tests."""

REFERENCE = Combination(concurrency=8)
AUTO = Combination(speculation="auto", concurrency=8)
PROB = Combination(speculation="prob", concurrency=8)
"""Drafts whatever this machine's time says of it, so that something is compared."""

OTHERS = (
    Combination(speculation="bfs", concurrency=8, chunk_tokens=48),
    Combination(speculation="prob", concurrency=2, overlap="on"),
    Combination(speculation="tiers", concurrency=8, threads=1),
    Combination(speculation="auto", concurrency=3, chunk_tokens=32, overlap="on"),
)
FAMILIES = ("mistral_window", "qwen3")
OTHER_FAMILIES = ("llama3_rope", "mixtral_window", "qwen3_moe_window", "smollm3_window")


@dataclass(frozen=True)
class Subject:
    """A model and its requests, with their answers without speculation and a corpus of those."""

    folder: Path
    chosen: list[Ask]
    reference: Found
    corpus: Path


def subject(folder: Path, chosen: list[Ask], way: Combination, scratch: Path) -> Subject:
    reference = run(folder, way, chosen)
    corpus = write_corpus(scratch / f"{way.dtype}.corpus", folder, chosen, reference)
    return Subject(folder, chosen, reference, corpus)


def family(name: str, scratch: Path) -> tuple[Path, list[Ask]]:
    """A model of random weights with contexts up to 4096 tokens, and its requests."""
    folder = write_tiny_tokenizer(scratch / name)
    save_family(
        name,
        folder,
        vocab_size=VOCABULARY_SIZE,
        max_position_embeddings=8192,
        bos_token_id=1,
        eos_token_id=EOS_ID,
        pad_token_id=0,
    )
    draw = random.Random(name)
    texts = [draw.choices(range(3, VOCABULARY_SIZE), k=count) for count in (12, 40, 70, 130)]
    return folder, asks(texts, ["e", "a", "in"], 4096)


def real(model: Path, longest: int) -> list[Ask]:
    """Requests of the real model: code to continue."""
    tokenizer = Tokenizer.from_folder(model)
    texts = [prompt.text or "" for prompt in prompts.load("code", 4)]
    return asks([tokenizer.encode(text) for text in texts], ["\n\n", "return"], longest)


def check(one: Subject, way: Combination) -> None:
    """Answers the requests that way and compares each answer of each round, and that there was something to compare."""
    found = run(one.folder, way, one.chosen, one.corpus)
    differing = [
        f"{name}, round {index}: {got} instead of {one.reference.answers[name][0]}"
        for name, answers in found.answers.items()
        for index, got in enumerate(answers)
        if not same(got, one.reference.answers[name][0])
    ]
    assert differing == []
    # Without these the comparison would have compared nothing.
    assert all(len(answers) == 2 for answers in found.answers.values())
    # Mode auto drafts nothing where it measured, beside other work, that it does not pay.
    if way.speculation != "auto":
        assert all(found.accepted[corner].total() > 0 for corner in CORNERS), found.accepted
        assert found.accepted["namespaces"]["shared"] > 0, found.accepted
        assert found.accepted["corpus"]["corpus"] > 0, found.accepted
    assert found.learnt.get("client-a", 0) > 0 and found.learnt.get("client-b", 0) > 0
    assert found.learnt.get(UNLEARNT, 0) == 0


def check_reference(one: Subject) -> None:
    """The answers to compare with are those of the matrix's corners, and the same each time."""
    answers = one.reference.answers
    assert all(same(first, second) for first, second in answers.values())
    assert {ask.corner for ask in one.chosen} == set(CORNERS)
    assert all(counts.total() == 0 for counts in one.reference.accepted.values())
    late = [answers[ask.id][0] for ask in one.chosen if ask.corner == "late"]
    assert any(answer.stop_text is not None for answer in late)
    longest = max(len(ask.prompt_ids) for ask in one.chosen)
    assert longest >= REAL_TOKENS - 64


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps what is measured of models that nobody uses out of the user's cache."""
    monkeypatch.setenv("SPECTRIE_CACHE", str(tmp_path / "cache"))


@pytest.mark.model
@pytest.mark.timeout(1800)
def test_corners_of_the_real_model_give_the_same_answers(model: Path, tmp_path: Path) -> None:
    one = subject(model, real(model, REAL_TOKENS), REFERENCE, tmp_path)
    check_reference(one)
    check(one, PROB)


@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize("name", FAMILIES)
def test_corners_of_another_family_give_the_same_answers(name: str, tmp_path: Path) -> None:
    folder, chosen = family(name, tmp_path)
    one = subject(folder, chosen, REFERENCE, tmp_path)
    check_reference(one)
    for way in (AUTO, PROB):
        check(one, way)


@pytest.mark.deep
@pytest.mark.model
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_corners_of_the_real_model_give_the_same_answers_in_every_mode(
    model: Path, tmp_path: Path, dtype: str
) -> None:
    reference = Combination(dtype=native(dtype), concurrency=8)
    one = subject(model, real(model, 4096), reference, tmp_path)
    check_reference(one)
    for way in (AUTO, *OTHERS):
        check(one, dataclasses.replace(way, dtype=native(dtype)))


@pytest.mark.deep
@pytest.mark.timeout(7200)
@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize("name", [*FAMILIES, *OTHER_FAMILIES])
def test_corners_of_other_families_give_the_same_answers_in_every_mode(
    name: str, tmp_path: Path
) -> None:
    folder, chosen = family(name, tmp_path)
    one = subject(folder, chosen, REFERENCE, tmp_path)
    check_reference(one)
    for way in (AUTO, *OTHERS):
        check(one, way)
