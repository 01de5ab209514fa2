"""Trains a head of the tiny target and kills itself in the middle: `python -m tests.training.killed`."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import torch

from spectrie.training.features import FeatureCache
from spectrie.training.kinds.eagle3 import default_taps
from spectrie.training.target import Target
from spectrie.training.vocabulary import draft_vocabulary
from tests.training import tiny
from tests.training.conftest import TOP, Setting
from tests.training.test_trainer import SHORT

if __name__ == "__main__":
    torch.set_num_threads(1)
    folder, out = map(Path, sys.argv[1:])
    samples = tiny.samples(folder, 2, 400)
    taps = default_taps(tiny.SHAPE.layers)
    cache = FeatureCache(folder / "cache", samples, width=len(taps) * tiny.SHAPE.hidden, top=TOP)
    setting = Setting(Target(folder), samples, cache, draft_vocabulary(samples, 256, 352), taps)
    trainer = setting.trainer(setting.head(), SHORT, out / "killed.pt")
    trainer.advance(trainer.total_steps // 2)
    trainer.save()
    trainer.advance(3)
    os.kill(os.getpid(), signal.SIGKILL)
