"""The cache of features: what it gives back, its size, and how it goes on after a crash."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest
import torch

from spectrie.training.features import FeatureCache, bytes_per_token
from spectrie.training.texts.samples import Sample
from tests.training.plain import PlainFeatures

SAMPLES = [Sample(list(range(5, 5 + length)), [(1, length)], "x") for length in (3, 9, 4, 7)]


class Reader:
    """Gives numbers that follow from the tokens; fails before the text of `fails_at`."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.lengths: list[int] = []
        self._fails_at = fails_at

    def __call__(self, texts: Iterable[Sequence[int]], /) -> Iterator[PlainFeatures]:
        for number, text in enumerate(texts):
            if number == self._fails_at:
                raise KeyboardInterrupt
            self.lengths.append(len(text))
            rows = torch.tensor(text)[:, None]
            yield PlainFeatures(
                (rows * torch.ones(1, 6)).bfloat16(),
                (rows + torch.arange(4)).int(),
                torch.log(torch.tensor([[0.5, 0.25, 0.125, 0.0625]])).repeat(len(text), 1),
            )


def test_a_text_comes_back_as_it_was_read(tmp_path: Path) -> None:
    cache = FeatureCache(tmp_path, SAMPLES, width=6, top=4)
    cache.fill(Reader())
    text = cache.read(2)
    assert text.features[:, 5].tolist() == [5.0, 6.0, 7.0, 8.0]
    assert text.top_ids[3].tolist() == [8, 9, 10, 11]
    torch.testing.assert_close(text.top_probabilities[0], torch.tensor([0.5, 0.25, 0.125, 0.0625]))


def test_the_files_have_the_stated_size(tmp_path: Path) -> None:
    FeatureCache(tmp_path, SAMPLES, width=6, top=4).fill(Reader())
    tokens = sum(len(sample.token_ids) for sample in SAMPLES)
    found = sum(path.stat().st_size for path in tmp_path.glob("*.bin"))
    assert found == tokens * bytes_per_token(6, 4)


def test_only_what_is_missing_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spectrie.training.features._SAVED_EVERY", 2)
    cache = FeatureCache(tmp_path, SAMPLES, width=6, top=4)
    with pytest.raises(KeyboardInterrupt):
        cache.fill(Reader(fails_at=3))
    again = FeatureCache(tmp_path, SAMPLES, width=6, top=4)
    reader = Reader()
    again.fill(reader)
    assert reader.lengths == [4, 7]
    assert again.read(0).features[:, 0].tolist() == [5.0, 6.0, 7.0]
    complete = FeatureCache(tmp_path, SAMPLES, width=6, top=4)
    assert complete.num_done == 4


def test_other_samples_are_read_anew(tmp_path: Path) -> None:
    FeatureCache(tmp_path, SAMPLES, width=6, top=4).fill(Reader())
    other = [*SAMPLES[:3], Sample(list(range(6, 13)), [(1, 7)], "x")]
    assert FeatureCache(tmp_path, other, width=6, top=4).num_done == 0
