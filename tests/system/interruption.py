"""An answer that a killed process cuts short."""

from __future__ import annotations

import os
import signal

import pytest

from spectrie.client import Client
from spectrie.errors import StreamInterrupted, Unavailable

__all__ = ["assert_interrupted"]


def assert_interrupted(client: Client, pid: int) -> None:
    """Kills a process in the middle of an answer: the stream ends, and says when to ask again."""
    stream = client.stream("def", ignore_eos=True, speculation=False)
    next(stream)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(StreamInterrupted) as caught:
        stream.final()
    cause = caught.value.__cause__
    assert isinstance(cause, Unavailable)
    assert cause.retry_after_s is not None
    assert cause.reason == "WORKER_LOST"
