"""Rank 0 reads nothing from a GPU before it knows that the other ranks are there."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch

from spectrie.errors import RankLost
from spectrie.model.config.model_config import ModelConfig
from spectrie.model.decoder.decoder import Decoder, DecoderWeights
from spectrie.model.files.weights import Weights
from spectrie.model.operators import OperatorSettings
from spectrie.model.operators.gpu import GpuOperators
from spectrie.model.parallel.lead import LeadDecoder
from spectrie.model.parallel.message import Message
from spectrie.model.parallel.split import Share
from spectrie.model.plan import StepPlan

READING = ("cpu", "to", "item", "tolist", "numpy", "__bool__", "__int__")
"""What waits for a GPU."""


class Stream:
    """A GPU that stands still behind a gather, until rank 0 has waited for the others."""

    def __init__(self) -> None:
        self.gathers = 0
        self.waits = False
        self.read: list[str] = []

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Notes whatever is read of it while it stands still."""

        def noting(name: str, sound: Callable[..., Any]) -> Callable[..., Any]:
            def note(*arguments: Any, **options: Any) -> Any:
                # Kernels have a form here that reads what it computes.
                caller = sys._getframe(1).f_globals["__name__"]
                if self.waits and not caller.startswith("spectrie_kernels"):
                    self.read.append(name)
                return sound(*arguments, **options)

            return note

        noted: dict[str, Any] = {
            name: noting(name, getattr(torch.Tensor, name)) for name in READING
        }
        with mock.patch.multiple(torch.Tensor, **noted):
            yield


class Alone:
    """A partition whose other ranks have no columns."""

    attended: tuple[Share, ...] = ()
    hidden = inner = expert = vocabulary = attended

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def gathered(self, part: torch.Tensor, shares: Any) -> torch.Tensor:
        """The part, and a device that waits for the others."""
        self._stream.gathers += 1
        self._stream.waits = True
        return part


class Ranks:
    """Processes, of which one may have ended."""

    def __init__(self, lost: bool) -> None:
        self._lost = lost

    def check(self) -> None:
        """See `Ranks`."""
        if self._lost:
            raise RankLost("rank 1 ended")

    def describe(self) -> str:
        """See `Ranks`."""
        return "rank 1 (process 7) ended"


class Group:
    """Waits as a group on GPUs does."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.sent: list[Message] = []
        self.is_lost = False

    def watch(self, check: Callable[[], None]) -> None:
        """See `Group`."""

    def send(self, message: Message) -> None:
        """See `Group`."""
        if self.is_lost:
            raise RankLost("rank 1 is gone")
        self.sent.append(message)

    def wait(self, check: Callable[[], None]) -> None:
        """See `Group`."""
        check()
        self._stream.waits = False


def lead(folder: Path, stream: Stream, *, lost: bool) -> LeadDecoder:
    config, cpu = ModelConfig.from_folder(folder), torch.device("cpu")
    weights = DecoderWeights(config, Weights(folder), torch.float32, cpu)
    settings = OperatorSettings(
        config=config,
        dtype=torch.float32,
        device=cpu,
        num_pages=4,
        page_size=16,
        max_context=64,
        model_kv_heads=config.num_kv_heads,
        head_norms=weights.head_norms,
    )
    partition: Any = Alone(stream)
    group: Any = Group(stream)
    ranks: Any = Ranks(lost)
    return LeadDecoder(Decoder(weights, GpuOperators(settings), partition), group, ranks)


# Likeliest tokens of none, of the sample rows, and of more.
TOPS = [(), (1, 3), (0, 1, 2, 3)]


@pytest.mark.parametrize("tops", TOPS)
def test_results_are_read_behind_the_wait_for_the_other_ranks(
    tiny: Path, tops: tuple[int, ...]
) -> None:
    stream = Stream()
    decoder = lead(tiny, stream, lost=False)
    plan = StepPlan.single([1, 2, 3, 4], kv_len=0, pages=[2], sample_rows=[1, 3], top_rows=tops)
    with stream.watched():
        result = decoder.forward(plan)
    assert stream.gathers > 0
    assert stream.read == []
    assert result.logits.shape == (2, 200)
    assert result.top_ids.shape == (len(tops), 8)
    if 3 in tops:
        assert result.top_ids[-1, 0] == np.argmax(result.logits[1].numpy())


def test_where_a_rank_is_lost_nothing_is_read(tiny: Path) -> None:
    stream = Stream()
    decoder = lead(tiny, stream, lost=True)
    plan = StepPlan.single([1, 2], kv_len=0, pages=[2], top_rows=[0, 1])
    with stream.watched(), pytest.raises(RankLost, match=r"rank 1 ended; rank 1 \(process 7\)"):
        decoder.forward(plan)
    assert stream.waits
    assert stream.read == []


def test_the_other_ranks_copy_the_slots_that_drafters_had_copied(tiny: Path) -> None:
    decoder = lead(tiny, Stream(), lost=False)
    group: Any = decoder._group
    none, slots = np.zeros(0, np.int32), np.array([[17, 4], [1, 2]], np.int32)
    decoder.follow(none, none)
    assert group.sent == []
    decoder.follow(*slots)
    (message,) = group.sent
    sent = Message.read(message.header(8), message.body()).plan
    assert sent is not None
    assert (sent.kv_move_src.tolist(), sent.kv_move_dst.tolist()) == ([17, 4], [1, 2])
    assert len(sent.row_token) == len(sent.request_kv_len) == 0
    group.is_lost = True
    with pytest.raises(RankLost, match=r"rank 1 is gone; rank 1 \(process 7\) ended"):
        decoder.follow(*slots)
