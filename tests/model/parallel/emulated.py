"""`python -m tests.model.parallel.emulated FOLDER RANKS...`: an exact model on several ranks of one process.

In a process of its own, as Triton reads `TRITON_INTERPRET` when it is first imported. Each rank is a thread;
one computes at a time, until it needs what the others have. Prints, as JSON, for each number of ranks whether
every rank's logits have the bytes of a single rank's, how many exchanges of sums and of columns it took, and, of
four ranks, whether they have those bytes with sums that are added in other pairs.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import torch

from spectrie.model.config.model_config import ModelConfig
from spectrie.model.decoder.decoder import Decoder, DecoderWeights
from spectrie.model.files.weights import Weights
from spectrie.model.operators import OperatorSettings
from spectrie.model.operators.gpu import GpuOperators
from spectrie.model.parallel.group import Group, Seat
from spectrie.model.parallel.partition import Partition
from spectrie.model.plan import StepPlan
from tests.model.parallel.simulated_follower import ascending_products


class Table:
    """Where ranks lay what they send."""

    def __init__(self, ranks: int, hidden: int, *, swaps: bool) -> None:
        self.ranks = ranks
        self.hidden = hidden
        self.swaps = swaps
        self.sent: dict[int, torch.Tensor] = {}
        self.turn = threading.Lock()
        self.meeting = threading.Barrier(ranks)
        self.exchanges: Counter[str] = Counter()

    def exchanged(self, rank: int, own: torch.Tensor) -> torch.Tensor:
        """What all of them sent, once they have."""
        self.sent[rank] = own.clone()
        self.turn.release()
        self.meeting.wait()
        found = torch.stack([self.sent[other] for other in range(self.ranks)])
        self.meeting.wait()
        self.turn.acquire()
        return found


class OneProcess(Group):
    """The exchanges of a rank with others of this process."""

    def __init__(self, rank: int, table: Table) -> None:
        self.seat = Seat(rank, table.ranks, Path(), 1.0)
        self._table = table

    def gather(self, whole: torch.Tensor, shares: Any) -> None:
        super().gather(whole, shares)
        if not self.seat.rank:
            # Beside the sums that `stack` counted.
            self._table.exchanges["sums"] -= 1
            self._table.exchanges["columns"] += 1

    def stack(self, own: torch.Tensor) -> torch.Tensor:
        if not self.seat.rank:
            self._table.exchanges["sums"] += 1
        found = self._table.exchanged(self.seat.rank, own)
        # (0 + 2) + (1 + 3) in place of (0 + 1) + (2 + 3).
        is_sum = own.shape[1] == self._table.hidden
        return found[[0, 2, 1, 3]] if self._table.swaps and is_sum else found


def plans() -> list[StepPlan]:
    """A prompt that is computed in one piece, and a tree behind it."""
    ids = [i * 31 % 200 for i in range(66)]
    pages = range(5)
    tree = StepPlan.single([7, 8, 9, 10], kv_len=66, pages=pages, parents=[-1, 0, 0, 2])
    return [StepPlan.single(ids, kv_len=0, pages=pages, sample_rows=[0, 65]), tree]


def logits(folder: Path, group: OneProcess | None) -> torch.Tensor:
    """Those of a rank, of all steps."""
    config, cpu = ModelConfig.from_folder(folder), torch.device("cpu")
    partition = None if group is None else Partition(config, group)
    split = None if partition is None else partition.own
    weights = DecoderWeights(config, Weights(folder), torch.float32, cpu, split, exact=True)
    operators = GpuOperators(
        OperatorSettings(
            config=config if split is None else split.local(config),
            dtype=torch.float32,
            device=cpu,
            num_pages=5,
            page_size=16,
            max_context=80,
            model_kv_heads=config.num_kv_heads,
            head_norms=weights.head_norms,
        )
    )
    decoder = Decoder(weights, operators, partition)
    return torch.cat([decoder.forward(plan).logits.clone() for plan in plans()])


def shared(folder: Path, ranks: int, *, swaps: bool) -> tuple[list[torch.Tensor], Table]:
    """The logits of each rank."""
    table = Table(ranks, ModelConfig.from_folder(folder).hidden_size, swaps=swaps)
    found: dict[int, torch.Tensor] = {}

    def run(rank: int) -> None:
        with table.turn:
            try:
                found[rank] = logits(folder, OneProcess(rank, table))
            except BaseException:
                table.meeting.abort()
                raise

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [found[rank] for rank in range(ranks)], table


def same(ones: list[torch.Tensor], other: torch.Tensor) -> bool:
    return all(torch.equal(one.view(torch.int32), other.view(torch.int32)) for one in ones)


def main() -> None:
    """Computes the steps on each number of ranks."""
    assert ascending_products()
    folder = Path(sys.argv[1])
    alone = logits(folder, None)
    found: dict[str, Any] = {}
    for ranks in map(int, sys.argv[2:]):
        ones, table = shared(folder, ranks, swaps=False)
        found[str(ranks)] = {"same": same(ones, alone), **table.exchanges}
        if ranks == 4:
            others, _ = shared(folder, ranks, swaps=True)
            found[str(ranks)]["same in other pairs"] = same(others, alone)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
