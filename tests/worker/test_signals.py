"""A worker hears the signals that end it."""

from __future__ import annotations

import subprocess
import sys

# The signal comes to another thread, as one does in effect that comes just before the main thread waits.
DEAF = """
import os, signal, threading, time
from spectrie.supervise.signals import wait_for
from spectrie.worker import process

signals = process._Signals(drain_s=1.0)
signals.warm = True
other = threading.Thread(target=time.sleep, args=(60,), daemon=True)
other.start()
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM)).start()
wait_for(signals.drain)
print("drains")
"""


def test_a_signal_that_does_not_end_the_wait_is_heard() -> None:
    # The timer's thread inherits the mask, the other one was there before.
    done = subprocess.run(
        [sys.executable, "-c", DEAF], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "drains\n"
