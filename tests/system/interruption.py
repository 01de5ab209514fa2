"""An answer whose worker is killed in the middle."""

from __future__ import annotations

import os
import signal
from typing import Any

from spectrie.client import Client

__all__ = ["assert_goes_on"]


def assert_goes_on(client: Client, pid: int) -> None:
    """Kills a process in the middle of an answer: it goes on at the next worker, token for token."""
    options: dict[str, Any] = {
        "seed": 7,
        "max_tokens": 200,
        "ignore_eos": True,
        "speculation": False,
        "timeout": 240,
    }
    whole = client.generate("def", **options)
    stream = client.stream("def", **options)
    next(stream)
    os.kill(pid, signal.SIGKILL)
    answer = stream.final()
    assert answer.token_ids == whole.token_ids
    assert answer.text == whole.text
    assert answer.usage == whole.usage
    assert not answer.numerics_changed
