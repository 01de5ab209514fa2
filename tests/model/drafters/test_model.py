"""A model as a drafter: it answers what it would say itself, and only for models of its tokenizer."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from spectrie.errors import ModelError
from spectrie.model import Runner, load_runner, resolve
from spectrie.model.plan import StepPlan
from spectrie.model.runner.text_features import text_features
from tests.model.drafters.heads import VOCABULARY
from tests.model.drafters.models import tokenizer, with_tokenizer, write_smaller
from tests.model.drafters.session import Request, draft_path, feed
from tests.model.stepping import tokens
from tests.tiny_gguf import write_tiny_gguf

pytestmark = pytest.mark.usefixtures("own_cache")

TOKENS = tokens(75, VOCABULARY, seed=11)
GUESSES = [5, 77, 130, 8]


def load(model: Path, drafter: Path, dtype: str = "float32") -> Runner:
    return load_runner(model, dtype=dtype, num_pages=16, drafter=drafter, threads=2)


def said(model: Path, dtype: str = "float32") -> torch.Tensor:
    """Log-probabilities behind each guess by the model's own forward, [levels, vocabulary]."""
    runner = load_runner(model, dtype=dtype, num_pages=16, threads=1)
    plan = StepPlan.single([*TOKENS, *GUESSES], kv_len=0, pages=range(5))
    return runner.forward(plan)[len(TOKENS) :].log_softmax(-1)


def check_answers(
    runner: Runner, expected: torch.Tensor, size: int = 75, named: int = VOCABULARY
) -> None:
    """Checks the answers of a drafter that was fed chunks of a size, and knows `named` tokens."""
    request = Request(runner, range(16))
    feed(request, TOKENS, size)
    answers = draft_path(request, GUESSES, list(range(VOCABULARY)))
    for level, answer in enumerate(answers):
        likeliest = expected[level].topk(8)
        assert answer.ids[0].tolist() == likeliest.indices.tolist(), level
        np.testing.assert_allclose(answer.probabilities[0], likeliest.values.exp(), rtol=1e-4)
        found = torch.from_numpy(answer.scored)
        torch.testing.assert_close(found[:named], expected[level, :named], atol=1e-4, rtol=1e-4)
        assert torch.isneginf(found[named:]).all()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_model_of_any_family_drafts_for_itself_what_it_says(family: Path, dtype: str) -> None:
    runner = load(family, family, dtype)
    expected = said(family, dtype)
    check_answers(runner, expected)
    check_answers(runner, expected, size=7)


@pytest.mark.parametrize("name", ["llama", "qwen3_yarn_tied", "smollm3_window", "mixtral_window"])
def test_a_smaller_model_of_another_family_drafts_what_it_says_itself(
    tiny: Path, tmp_path: Path, name: str
) -> None:
    target = with_tokenizer(tiny, tmp_path / "target")
    # Heads of other sizes than the target's.
    draft = write_smaller(tmp_path / "draft", name, head_dim=8)
    check_answers(load(target, draft), said(draft), size=16)


def test_a_gguf_file_drafts_for_a_gguf_file(tmp_path: Path) -> None:
    target, draft = tmp_path / "target.gguf", tmp_path / "draft.gguf"
    write_tiny_gguf(target)
    write_tiny_gguf(draft, hidden=128, mlp=64, layers=1)
    info = load(resolve(target).folder, draft).drafter
    assert info is not None
    assert info.kind == "draft_model"
    assert info.name.startswith("draft-")
    with pytest.raises(ModelError, match=r"cannot read the drafter .*nothing\.gguf"):
        load(resolve(target).folder, tmp_path / "nothing.gguf")


def test_the_head_and_the_vectors_of_the_model_itself_are_stored_once(tmp_path: Path) -> None:
    own = write_smaller(tmp_path / "own", tie_word_embeddings=True)
    one = load(own, own).drafter
    other = write_smaller(tmp_path / "other", tie_word_embeddings=True, vocab_size=216)
    two = load(own, other).drafter
    assert one is not None
    assert two is not None
    # Both differ in nothing else, and 200 rows of the other's head are named.
    assert two.num_bytes - one.num_bytes > 200 * 32 * 4


@pytest.mark.parametrize("is_tied", [True, False])
@pytest.mark.parametrize("size", [180, 230])
def test_unused_rows_of_a_vocabulary_may_be_more_or_fewer(
    tiny: Path, tmp_path: Path, size: int, is_tied: bool
) -> None:
    target = with_tokenizer(tiny, tmp_path / "target", tokenizer(170))
    draft = write_smaller(tmp_path / "draft", tie_word_embeddings=is_tied, vocab_size=size)
    (draft / "tokenizer.json").write_text(tokenizer(170))
    # The target's rows behind the tokenizer's tokens have no vector here, as if it were zeros.
    tensors = load_file(draft / "model.safetensors")
    if size < VOCABULARY:
        whole = tmp_path / "whole"
        shutil.copytree(draft, whole)
        padded = {
            name: torch.cat([tensor, torch.zeros(VOCABULARY - size, tensor.shape[1])])
            if len(tensor) == size
            else tensor
            for name, tensor in tensors.items()
        }
        save_file(padded, whole / "model.safetensors", metadata={"format": "pt"})
        config = json.loads((whole / "config.json").read_text()) | {"vocab_size": VOCABULARY}
        (whole / "config.json").write_text(json.dumps(config))
        expected = said(whole)[:, :size].log_softmax(-1)
    else:
        expected = said(draft)[:, :VOCABULARY].log_softmax(-1)
    check_answers(load(target, draft), expected, named=min(size, VOCABULARY))


def test_what_it_is_and_costs_is_said_in_a_line(tiny: Path, tmp_path: Path) -> None:
    target = with_tokenizer(tiny, tmp_path / "target")
    info = load(target, write_smaller(tmp_path / "small")).drafter
    assert info is not None
    assert (info.kind, info.needs_features, info.named_tokens) == ("draft_model", False, VOCABULARY)
    assert info.line.startswith(f"small, draft_model {info.hash} of the same tokenizer, ")
    assert info.costs.upkeep_ms == 0
    assert len(info.costs.fill_ms) == len(info.costs.rows)
    assert info.line.endswith("ms for a token's keys when it is asked")


def test_forwards_compute_nothing_of_it_until_it_is_asked(tiny: Path) -> None:
    runner = load(tiny, tiny)
    expected = said(tiny)[0].log_softmax(-1).topk(8).indices.tolist()
    request = Request(runner, range(16))
    feed(request, TOKENS, 16)
    assert runner.native is not None
    # Had a forward written keys, this would spoil them.
    runner.native.poison_drafter(float("nan"))
    [answer] = draft_path(request, GUESSES[:1])
    assert answer.ids[0].tolist() == expected


def test_the_same_tokenizer_may_be_written_in_another_way(tiny: Path, tmp_path: Path) -> None:
    target = with_tokenizer(tiny, tmp_path / "target")
    draft = write_smaller(tmp_path / "draft")
    values = json.loads(tokenizer())
    last = values["model"]["vocab"].pop("t199")
    values["added_tokens"] = [{"id": last, "content": "t199", "special": True}]
    (draft / "tokenizer.json").write_text(json.dumps(values, indent=1))
    assert load(target, draft).drafter is not None


REFUSED: dict[str, tuple[str | None, str]] = {
    "another token": (
        tokenizer(t17="other"),
        r"draft has another tokenizer \(hash [0-9a-f]{16}\) than the model \(hash [0-9a-f]{16}\): "
        r"id 17 is 'other', expected 't17', and so on for 1 ids",
    ),
    "fewer tokens": (tokenizer(190), "id 190 is None, expected 't190', and so on for 10 ids"),
    "none": (None, r"draft/tokenizer\.json is missing"),
    "damaged": ('{"model": 3}', "cannot read the tokens of .*draft/tokenizer.json"),
}


@pytest.mark.parametrize("case", sorted(REFUSED))
def test_a_model_of_another_tokenizer_is_refused(tiny: Path, tmp_path: Path, case: str) -> None:
    text, message = REFUSED[case]
    target = with_tokenizer(tiny, tmp_path / "target")
    draft = write_smaller(tmp_path / "draft")
    if text is None:
        (draft / "tokenizer.json").unlink()
    else:
        (draft / "tokenizer.json").write_text(text)
    with pytest.raises(ModelError, match=message):
        load(target, draft)


def test_a_model_that_does_not_run_or_is_not_complete_is_refused(
    tiny: Path, tmp_path: Path
) -> None:
    target = with_tokenizer(tiny, tmp_path / "target")

    def changed(name: str, **changes: Any) -> Path:
        draft = write_smaller(tmp_path / name)
        config = json.loads((draft / "config.json").read_text()) | changes
        (draft / "config.json").write_text(json.dumps(config))
        return draft

    with pytest.raises(
        ModelError, match=r"'GemmaForCausalLM'.* complete models of LlamaForCausalLM"
    ):
        load(target, changed("family", architectures=["GemmaForCausalLM"]))
    with pytest.raises(ModelError, match=r"not supported.*logit_scale"):
        load(target, changed("field", logit_scale=3))
    draft = write_smaller(tmp_path / "part")
    tensors = load_file(draft / "model.safetensors")
    more = tensors | {"model.extra.weight": torch.ones(3)}
    save_file(more, draft / "model.safetensors")
    with pytest.raises(ModelError, match=r"unexpected tensors: model\.extra\.weight"):
        load(target, draft)
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, draft / "model.safetensors")
    with pytest.raises(ModelError, match=r"model\.layers\.1\.mlp\.up_proj\.weight is missing"):
        load(target, draft)


def test_features_are_not_read_beside_a_drafter(tiny: Path) -> None:
    runner = load(tiny, tiny)
    with pytest.raises(ValueError, match="features are read without a drafter"):
        list(text_features(runner, [[1, 2]], layers=[0]))
