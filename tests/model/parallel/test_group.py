"""A group whose connections do not say that a rank is gone."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import distributed

from spectrie.errors import RankLost
from spectrie.model.parallel.group import Group, Seat
from spectrie.model.parallel.message import Command, Message


class Work:
    """An exchange that is done after so many waits, or fails then."""

    def __init__(self, waits: int, *, fails: bool = False) -> None:
        self._left = waits
        self._fails = fails

    def wait(self, limit: timedelta) -> None:
        """Takes no time."""
        assert limit <= timedelta(seconds=1)
        if self._left:
            self._left -= 1
            raise RuntimeError("Operation timed out!")
        if self._fails:
            raise RuntimeError("Connection closed by peer")

    def is_completed(self) -> bool:
        """Whether it is done or failed."""
        return not self._left


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Group:
    """Rank 0 of two, which never meet."""
    monkeypatch.setattr(distributed, "init_process_group", lambda *args, **named: None)
    monkeypatch.setattr(distributed, "new_group", lambda *args, **named: None)
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    return Group(Seat(0, 2, tmp_path, timeout_s=30.0), "cpu", max_rows=8)


def exchanges(monkeypatch: pytest.MonkeyPatch, *works: Work) -> None:
    """What a group exchanges is this, in turn."""
    left = list(works)

    def begun(*args: Any, async_op: bool, **named: Any) -> Work:
        assert async_op
        return left.pop(0)

    monkeypatch.setattr(distributed, "broadcast", begun)
    monkeypatch.setattr(distributed, "all_gather_into_tensor", begun)


def test_a_process_that_ended_is_found_where_its_connection_does_not_show_it(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = []

    def check() -> None:
        looks.append(0)
        if len(looks) == 3:
            raise RankLost("rank 1 (process 7) ended with exit code -9")

    group.watch(check)
    exchanges(monkeypatch, Work(1000), Work(1000))
    with pytest.raises(RankLost, match=r"^rank 1 .* ended"):
        group.send(Message(Command.STOP))
    assert len(looks) == 3
    with pytest.raises(RankLost, match="gone"):
        # What the connection says comes first.
        exchanges(monkeypatch, Work(0, fails=True))
        group.send(Message(Command.STOP))
    assert len(looks) == 3


def test_who_is_slow_is_waited_for(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []
    group.watch(lambda: looks.append(0))
    exchanges(monkeypatch, Work(4), Work(0))
    group.send(Message(Command.STOP))
    assert group.stack(torch.zeros(1, 2)).shape == (2, 1, 2)
    # Once it came about just as a wait was given up.
    assert len(looks) == 3


def test_what_waits_until_its_group_gives_up_is_a_lost_rank(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchanges(monkeypatch, Work(2, fails=True))
    with pytest.raises(RankLost, match="silent for 30 s: Connection closed"):
        group.stack(torch.zeros(1, 2))
