"""Features of texts: the states that transformers gives, the same bits in any company."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from spectrie.model import load_runner
from spectrie.model.runner.runner import Runner
from spectrie.model.runner.text_features import TextFeatures, text_features
from tests.model.stepping import tokens

LENGTHS = (70, 1, 16, 130, 33)
VOCABULARY = 200


@pytest.fixture
def texts() -> list[list[int]]:
    return [tokens(length, VOCABULARY, seed=length) for length in LENGTHS]


def _loaded(folder: Path, dtype: str = "float32", num_pages: int = 64, rows: int = 512) -> Runner:
    return load_runner(folder, dtype=dtype, num_pages=num_pages, max_batch_rows=rows, threads=2)


def _equal(one: TextFeatures, other: TextFeatures) -> bool:
    return all(
        torch.equal(getattr(one, name), getattr(other, name)) for name in TextFeatures.__slots__
    )


@pytest.mark.usefixtures("own_cache")
def test_features_are_the_outputs_of_layers_and_of_the_last_norm(
    family: Path, texts: list[list[int]]
) -> None:
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(family, dtype=torch.float32)
    found = list(text_features(_loaded(family), texts, layers=[1, 0], final_norm=True, top=9))
    assert [len(text.tokens) for text in found] == list(LENGTHS)
    for ids, text in zip(texts, found, strict=True):
        with torch.inference_mode():
            theirs = model(torch.tensor([ids]), output_hidden_states=True)
        states = theirs.hidden_states
        expected = torch.cat([states[2][0], states[1][0], states[3][0]], dim=-1)
        torch.testing.assert_close(text.features, expected, rtol=1e-3, atol=2e-3)
        log_probabilities = theirs.logits[0].log_softmax(-1)
        at = log_probabilities.gather(1, text.top_ids.long())
        torch.testing.assert_close(text.top_log_probabilities, at, rtol=1e-3, atol=2e-3)
        assert torch.equal(text.top_ids[:, 0].long(), log_probabilities.argmax(-1))


@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_text_has_the_same_bits_alone_in_company_and_in_chunks(
    tiny: Path, texts: list[list[int]], dtype: str
) -> None:
    together = list(text_features(_loaded(tiny, dtype), texts, layers=[0, 2], final_norm=True))
    # Chunks of 17 rows that cross texts, in a cache that holds one long text at a time.
    small = _loaded(tiny, dtype, num_pages=9, rows=17)
    apart = list(text_features(small, texts, layers=[0, 2], final_norm=True))
    assert together[0].features.dtype == getattr(torch, dtype)
    assert all(map(_equal, together, apart))


@pytest.mark.usefixtures("own_cache")
def test_taps_change_no_logit_and_end_with_the_reading(tiny: Path, texts: list[list[int]]) -> None:
    from tests.model.stepping import in_pieces

    runner = _loaded(tiny)
    before = in_pieces(runner, texts[0], [70], list(range(8)))
    list(text_features(runner, texts, layers=[1], top=0))
    assert torch.equal(in_pieces(runner, texts[0], [70], list(range(8))), before)
    assert runner.native is not None
    with pytest.raises(ValueError, match="nothing is tapped"):
        runner.native.features()


@pytest.mark.usefixtures("own_cache")
def test_what_cannot_be_read_is_refused(tiny: Path) -> None:
    runner = _loaded(tiny, num_pages=2)
    with pytest.raises(ValueError, match="tapped layer is 3; allowed: below the number of layers"):
        list(text_features(runner, [[1]], layers=[3]))
    with pytest.raises(ValueError, match="a text has 0 tokens; allowed: 1 to 32"):
        list(text_features(runner, [[]], layers=[0]))
    with pytest.raises(ValueError, match="a text has 33 tokens"):
        list(text_features(runner, [[1] * 33], layers=[0]))
