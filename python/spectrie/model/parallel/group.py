"""The ranks' meeting point: gathers of columns, and orders from rank 0."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import torch
from torch import distributed

from spectrie.errors import ConfigError, RankLost
from spectrie.model.parallel.message import Message, header_length
from spectrie.model.parallel.split import Share

__all__ = ["Group", "Seat"]

JOIN_S = 300.0
"""Time the ranks have to meet once one of them is ready: large weights are read at unequal speed."""

_PATIENCE_S = 365 * 24 * 3600.0
"""Orders may be long in coming; that rank 0 is gone shows in its closed connection."""


@dataclass(frozen=True, slots=True)
class Seat:
    """A place in a group.

    Attributes:
        rank: From 0; rank 0 gives the orders.
        size: Ranks in all.
        folder: A folder that all ranks see, where they find each other.
        timeout_s: How long a rank waits for the others in a forward before it gives up.
    """

    rank: int
    size: int
    folder: Path
    timeout_s: float


class Group:
    """All ranks of one model, on this machine.

    The orders go through gloo on the loopback interface, columns through NCCL on GPUs and else the
    same way.
    """

    def __init__(self, seat: Seat, device: torch.device, max_rows: int) -> None:
        """Waits until all ranks are here.

        Raises:
            ConfigError: This process uses `torch.distributed` for something else.
            RankLost: The others did not come.
        """
        if distributed.is_initialized():
            raise ConfigError(
                "tensor_parallel needs torch.distributed, which this process uses already: "
                "close the other model first, or take another process"
            )
        self.seat = seat
        self._device = device
        self._max_rows = max_rows
        # Nobody outside this machine takes part.
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        with self._losses("did not come"):
            distributed.init_process_group(
                "nccl" if device.type == "cuda" else "gloo",
                init_method=(seat.folder / "meeting").absolute().as_uri(),
                rank=seat.rank,
                world_size=seat.size,
                timeout=timedelta(seconds=JOIN_S),
            )
            ranks = list(range(seat.size))
            self._columns = distributed.new_group(ranks, timeout=timedelta(seconds=seat.timeout_s))
            patience_s = _PATIENCE_S if seat.rank else seat.timeout_s
            self._orders = distributed.new_group(
                ranks, timeout=timedelta(seconds=patience_s), backend="gloo"
            )

    @contextmanager
    def _losses(self, what: str) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            reason = str(error).splitlines()[0] if str(error) else repr(error)
            raise RankLost(f"another rank {what}: {reason}") from error

    def gather(self, whole: torch.Tensor, shares: Sequence[Share]) -> None:
        """Fills the columns of the other ranks in.

        Args:
            whole: [rows, width], contiguous; this rank's columns are there.
            shares: Every rank's columns.

        Raises:
            RankLost: A rank is gone, or did not come within the group's timeout.
        """
        rows, widest = whole.shape[0], max(share.count for share in shares)
        own = shares[self.seat.rank]
        sent = whole.new_empty(rows, widest)
        sent[:, : own.count] = whole[:, own.columns]
        received = whole.new_empty(self.seat.size * rows, widest)
        with self._losses(f"is gone, or silent for {self.seat.timeout_s:g} s"):
            distributed.all_gather_into_tensor(received, sent, group=self._columns)
        for rank, share in enumerate(shares):
            if rank != self.seat.rank:
                part = received[rank * rows : (rank + 1) * rows, : share.count]
                whole[:, share.columns] = part

    def send(self, message: Message) -> None:
        """Gives an order to all other ranks; only rank 0 does.

        Raises:
            RankLost: A rank is gone, or did not take it within the group's timeout.
        """
        with self._losses(f"is gone, or silent for {self.seat.timeout_s:g} s"):
            distributed.broadcast(message.header(self._max_rows), src=0, group=self._orders)
            body = message.body()
            if len(body):
                distributed.broadcast(body, src=0, group=self._orders)

    def receive(self) -> Message:
        """Waits for the next order.

        Raises:
            RankLost: Rank 0 is gone.
        """
        header = torch.zeros(header_length(self._max_rows), dtype=torch.int64)
        with self._losses("is gone"):
            distributed.broadcast(header, src=0, group=self._orders)
            body = torch.empty(Message.body_length(header), dtype=torch.int32)
            if len(body):
                distributed.broadcast(body, src=0, group=self._orders)
        return Message.read(header, body)

    def agree(self, numbers: Sequence[int]) -> list[int]:
        """Gives everybody rank 0's numbers.

        Raises:
            RankLost: A rank is gone.
        """
        tensor = torch.tensor(numbers, dtype=torch.int64)
        with self._losses("is gone"):
            distributed.broadcast(tensor, src=0, group=self._orders)
        return [int(number) for number in tensor]

    def close(self) -> None:
        """Leaves the group; the others need not be there any more."""
        if distributed.is_initialized():
            distributed.destroy_process_group()
