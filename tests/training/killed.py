"""Trains a head of the tiny target and kills itself in the middle: `python -m tests.training.killed`."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import torch

from tests.training.conftest import Setting
from tests.training.test_trainer import SHORT

if __name__ == "__main__":
    torch.set_num_threads(1)
    folder, out, kind, *rank = sys.argv[1:]
    setting = Setting.of(Path(folder), kind, *map(int, rank))
    trainer = setting.trainer(setting.head_of_kind(), SHORT, Path(out) / "killed.pt")
    trainer.advance(trainer.total_steps // 2)
    trainer.save()
    trainer.advance(3)
    os.kill(os.getpid(), signal.SIGKILL)
