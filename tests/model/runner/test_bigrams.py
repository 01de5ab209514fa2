"""The table of the model's bigrams: its rows, its file, and going on from one that is not complete."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from spectrie.model import Runner, load_runner
from spectrie.model.files.bigram_files import bigrams_file, model_hash_of
from spectrie.model.runner.bigrams import BigramTable

PADDING_ID = 2

pytestmark = pytest.mark.usefixtures("own_cache")


def load(folder: Path, num_pages: int = 64) -> Runner:
    return load_runner(folder, dtype="float32", threads=1, num_pages=num_pages)


def fill(table: BigramTable, max_tokens: int = 63) -> list[int]:
    """Completes the table; the slices it took."""
    slices = []
    while count := table.extend(max_tokens):
        slices.append(count)
    return slices


def without(folder: Path, copy: Path, *names: str) -> Path:
    """A copy of a model whose configuration lacks some values."""
    shutil.copytree(folder, copy)
    for file in ("config.json", "generation_config.json"):
        values = json.loads((copy / file).read_text())
        (copy / file).write_text(json.dumps({k: v for k, v in values.items() if k not in names}))
    return copy


def reference(folder: Path, prefix: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """The 8 likeliest tokens after prefix and each token, by transformers."""
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    )
    tokens = torch.tensor([[*prefix, token] for token in range(model.config.vocab_size)])
    with torch.inference_mode():
        top = model(tokens).logits[:, -1].softmax(-1).topk(8)
    return top.indices.numpy(), top.values.numpy()


@pytest.mark.parametrize(
    ("absent", "prefix"),
    [((), [0]), (("bos_token_id",), [1]), (("bos_token_id", "eos_token_id"), [])],
    ids=["bos", "eos", "neither"],
)
def test_rows_are_what_the_model_says_after_prefix_and_token(
    tiny: Path, tmp_path: Path, absent: tuple[str, ...], prefix: list[int]
) -> None:
    folder = without(tiny, tmp_path / "model", *absent)
    table = BigramTable(load(folder), tmp_path / "a.bigrams")
    assert fill(table) == [63, 63, 63, 11]
    assert table.is_complete
    # The padding token's embedding is 0: alone, it makes all tokens equally likely.
    ids, probabilities = (np.delete(part, PADDING_ID, axis=0) for part in table.freeze().rows())
    expected_ids, expected = (
        np.delete(part, PADDING_ID, axis=0) for part in reference(tiny, prefix)
    )
    np.testing.assert_array_equal(ids, expected_ids)
    np.testing.assert_allclose(probabilities, expected, rtol=0, atol=1e-5)
    assert expected[:, 0].std() > 0.01, "rows too alike to tell anything"


def test_slices_fit_a_small_cache_and_change_no_bit(tiny: Path, tmp_path: Path) -> None:
    whole, small = (
        BigramTable(load(tiny, num_pages), tmp_path / f"{num_pages}.bigrams")
        for num_pages in (64, 1)
    )
    fill(whole)
    assert max(fill(small)) == 15
    for ours, theirs in zip(small.freeze().rows(), whole.freeze().rows(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_later_start_goes_on_where_an_earlier_one_stopped(tiny: Path, tmp_path: Path) -> None:
    path = tmp_path / "folder" / "a.bigrams"
    first = BigramTable(load(tiny), path)
    assert (first.extend(50), first.num_known) == (50, 50)
    assert first.save()
    second = BigramTable(load(tiny), path)
    assert (second.num_known, second.trouble) == (50, None)
    assert sum(fill(second)) == 150
    whole = BigramTable(load(tiny), tmp_path / "whole.bigrams")
    fill(whole)
    for ours, theirs in zip(second.freeze().rows(), whole.freeze().rows(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_file_with_more_rows_is_left_alone(tiny: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.bigrams"
    behind, ahead = BigramTable(load(tiny), path), BigramTable(load(tiny), path)
    behind.extend(10)
    ahead.extend(20)
    ahead.save()
    behind.save()
    assert BigramTable(load(tiny), path).num_known == 20


@pytest.mark.parametrize("damage", ["flipped", "cut", "foreign"])
def test_a_file_that_cannot_be_used_is_told_and_replaced(
    tiny: Path, tmp_path: Path, damage: str
) -> None:
    path = tmp_path / "a.bigrams"
    table = BigramTable(load(tiny), path)
    table.extend(60)
    if damage == "foreign":
        table.freeze().save(path, "another model")
    else:
        table.save()
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data if damage == "flipped" else data[:-9])
    again = BigramTable(load(tiny), path)
    assert again.num_known == 0
    assert again.trouble is not None and str(path) in again.trouble
    fill(again)
    assert again.save()
    whole = BigramTable(load(tiny), path)
    assert (whole.num_known, whole.trouble) == (200, None)


def test_the_file_is_found_by_the_hash_of_the_model(tiny: Path, own_cache: Path) -> None:
    runner = load(tiny)
    assert model_hash_of(tiny) == runner.model_hash
    assert BigramTable(runner).path == own_cache / "bigrams" / f"{runner.model_hash}.bigrams"
    assert model_hash_of(own_cache) is None


def test_without_a_place_for_a_cache_nothing_is_kept(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = load(tiny)
    for name in ("SPECTRIE_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    assert bigrams_file("abc") is None
    table = BigramTable(runner)
    assert table.extend(5) == 5
    assert not table.save()
