"""Communication of the ranks: gathers of columns and sums, and commands from rank 0."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import torch
from torch import distributed

from spectrie.errors import ConfigError, RankLost
from spectrie.model import gpu
from spectrie.model.parallel.device_wait import wait_for
from spectrie.model.parallel.message import Message, header_length
from spectrie.model.parallel.split import Share

__all__ = ["Group", "Seat"]

JOIN_S = 300.0
"""Time for all ranks to join once the first is ready: they read large weights at different speeds."""

_PATIENCE_S = 365 * 24 * 3600.0
"""Commands may take long to arrive; a closed connection shows that rank 0 ended."""

_CHECK_S = 0.5
"""How long rank 0 waits for a connection to say that its rank is gone before it looks itself."""


@dataclass(frozen=True, slots=True)
class Seat:
    """A place in a group.

    Attributes:
        rank: Number from 0; rank 0 sends the commands.
        size: Number of ranks.
        folder: Shared folder through which the ranks find each other.
        timeout_s: Seconds a rank waits for the others in a forward before it gives up.
    """

    rank: int
    size: int
    folder: Path
    timeout_s: float


class Group:
    """All ranks of one model, on this machine.

    Commands use gloo on the loopback interface; columns use NCCL on GPUs, else gloo too.
    """

    def __init__(self, seat: Seat, device: str, max_rows: int) -> None:
        """Waits until all ranks have joined.

        Raises:
            ConfigError: This process uses `torch.distributed` for something else.
            RankLost: The others did not join.
        """
        if distributed.is_initialized():
            raise ConfigError(
                "tensor_parallel needs torch.distributed, which this process uses already: "
                "close the other model first, or use another process"
            )
        self.seat = seat
        self._check: Callable[[], None] = lambda: None
        self._device = torch.device(device)
        self._max_rows = max_rows
        # NCCL's own watchdog would end this process, and every answer in it, where a rank is lost.
        os.environ.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0")
        # No other machine takes part.
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        with self._losses("did not come"):
            distributed.init_process_group(
                "nccl" if self._device.type == "cuda" else "gloo",
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

    def watch(self, check: Callable[[], None]) -> None:
        """Has `check` called now and then while the others are waited for: a connection may break unnoticed.

        Args:
            check: Raises `RankLost` where the process of a rank has ended.
        """
        self._check = check

    def _finish(self, work: distributed.Work | None) -> None:
        """Waits for what the ranks exchange, at most as long as its group allows."""
        if work is None:
            return
        limit = timedelta(seconds=_CHECK_S)
        try:
            work.wait(limit)
        except RuntimeError:
            while not work.is_completed():
                self._check()
                with suppress(RuntimeError):
                    work.wait(limit)
            # It may have come about just then, or failed.
            work.wait(limit)

    def gather(self, whole: torch.Tensor, shares: Sequence[Share]) -> None:
        """Gathers the columns of the other ranks.

        Args:
            whole: [rows, width], contiguous; this rank's columns are set.
            shares: Columns of every rank.

        Raises:
            RankLost: A rank ended, or did not join within the group's timeout.
        """
        rows, widest = whole.shape[0], max(share.count for share in shares)
        own = shares[self.seat.rank]
        sent = whole.new_empty(rows, widest)
        sent[:, : own.count] = whole[:, own.columns]
        received = self.stack(sent)
        for rank, share in enumerate(shares):
            if rank != self.seat.rank:
                whole[:, share.columns] = received[rank, :, : share.count]

    def stack(self, own: torch.Tensor) -> torch.Tensor:
        """Returns what every rank gives, in their order: [ranks, rows, width].

        Args:
            own: [rows, width], contiguous, of one shape on all ranks.

        Raises:
            RankLost: A rank ended, or did not join within the group's timeout.
        """
        rows, width = own.shape
        received = own.new_empty(self.seat.size, rows, width)
        with self._losses(f"is gone, or silent for {self.seat.timeout_s:g} s"):
            whole = received.view(self.seat.size * rows, width)
            if self._device.type == "cuda":
                distributed.all_gather_into_tensor(whole, own, group=self._columns)
            else:
                self._finish(
                    distributed.all_gather_into_tensor(
                        whole, own, group=self._columns, async_op=True
                    )
                )
        return received

    def wait(self, check: Callable[[], None]) -> None:
        """Waits until this rank's GPU has done what it was given; on a CPU that is so already.

        NCCL's calls return before the other ranks have sent anything.

        Args:
            check: Raises `RankLost` where the process of a rank has ended.

        Raises:
            RankLost: A rank ended, or did not join within the group's timeout.
        """
        if self._device.type == "cuda":
            with self._losses("is gone"):
                wait_for(gpu.mark(self._device), check, self.seat.timeout_s)

    def send(self, message: Message) -> None:
        """Sends a command to all other ranks; called by rank 0 only.

        Raises:
            RankLost: A rank ended, or did not accept it within the group's timeout.
        """
        with self._losses(f"is gone, or silent for {self.seat.timeout_s:g} s"):
            for part in (message.header(self._max_rows), message.body()):
                if len(part):
                    self._finish(
                        distributed.broadcast(part, src=0, group=self._orders, async_op=True)
                    )

    def receive(self) -> Message:
        """Waits for the next command.

        Raises:
            RankLost: Rank 0 ended.
        """
        header = torch.zeros(header_length(self._max_rows), dtype=torch.int64)
        with self._losses("is gone"):
            distributed.broadcast(header, src=0, group=self._orders)
            body = torch.empty(Message.body_length(header), dtype=torch.int32)
            if len(body):
                distributed.broadcast(body, src=0, group=self._orders)
        return Message.read(header, body)

    def agree(self, numbers: Sequence[int]) -> list[int]:
        """Broadcasts rank 0's numbers.

        Raises:
            RankLost: A rank ended.
        """
        tensor = torch.tensor(numbers, dtype=torch.int64)
        with self._losses("is gone"):
            distributed.broadcast(tensor, src=0, group=self._orders)
        return [int(number) for number in tensor]

    def close(self, *, lost: bool = False) -> None:
        """Leaves the group; the others may have left already.

        Args:
            lost: Whether a rank is lost: what the GPU still waits for is then given up.
        """
        if lost and self._device.type == "cuda":
            self._columns.abort()
        if distributed.is_initialized():
            distributed.destroy_process_group()
