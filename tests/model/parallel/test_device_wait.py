"""A device that waits for a lost rank is not waited for."""

from __future__ import annotations

import itertools

import pytest

from spectrie.errors import RankLost
from spectrie.model.parallel.device_wait import wait_for


class Device:
    """Comes to its mark when it was asked so often; None for never."""

    def __init__(self, asked: int | None) -> None:
        self._asked = asked
        self._counted = itertools.count(1)

    def query(self) -> bool:
        """Whether it has."""
        return self._asked is not None and next(self._counted) >= self._asked


def alive() -> None:
    """All ranks run."""


def test_a_device_that_is_done_is_not_waited_for() -> None:
    def ended() -> None:
        raise RankLost("rank 1 ended")

    wait_for(Device(1), ended, timeout_s=0.0)


def test_a_device_is_waited_for() -> None:
    device = Device(50)
    wait_for(device, alive, timeout_s=300.0)
    assert device.query()


def test_the_end_of_a_rank_ends_the_wait() -> None:
    def ended() -> None:
        raise RankLost("rank 1 ended")

    with pytest.raises(RankLost, match="rank 1 ended"):
        wait_for(Device(None), ended, timeout_s=300.0)


def test_a_silent_rank_ends_the_wait() -> None:
    with pytest.raises(RankLost, match=r"silent for 0\.2 s"):
        wait_for(Device(None), alive, timeout_s=0.2)


def test_a_fault_of_the_device_is_told() -> None:
    class Broken:
        def query(self) -> bool:
            raise RuntimeError("NCCL error: remote process exited")

    with pytest.raises(RuntimeError, match="remote process exited"):
        wait_for(Broken(), alive, timeout_s=300.0)
