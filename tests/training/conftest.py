from __future__ import annotations

import fcntl
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from spectrie.training.features import FeatureCache
from spectrie.training.kinds.base import Head
from spectrie.training.kinds.eagle3 import Eagle3
from spectrie.training.kinds.registry import KINDS
from spectrie.training.settings import TrainSettings
from spectrie.training.target import Target
from spectrie.training.texts.samples import Sample
from spectrie.training.trainer import Trainer
from spectrie.training.vocabulary import draft_vocabulary
from tests.training import tiny
from tests.training.plain import PlainTarget

TOP = 16
HELD_OUT = 48
LEVELS = 3


@dataclass(frozen=True, slots=True)
class Setting:
    """A tiny target, and samples with features for a kind of head; the last are held out."""

    target: Target
    samples: list[Sample]
    cache: FeatureCache
    vocabulary: torch.Tensor
    taps: tuple[int, ...]
    kind: str
    rank: int | None = None

    @classmethod
    def of(cls, folder: Path, kind: str = "eagle3", rank: int | None = None) -> Setting:
        """Of the target in a folder; features that are not there yet are read."""
        made, target = KINDS[kind], Target(folder)
        samples, taps = tiny.samples(folder, 2, 400), made.taps(tiny.SHAPE.layers)
        name = "cache of the final norm" if made.final_norm else "cache"
        cache = FeatureCache(folder / name, samples, width=made.width(target), top=TOP)
        cache.fill(PlainTarget(target, taps, TOP, final_norm=made.final_norm))
        vocabulary = draft_vocabulary(samples, 256 if made.is_cut else 352, 352)
        return cls(target, samples, cache, vocabulary, taps, kind, rank)

    @property
    def held_out(self) -> range:
        return range(len(self.samples) - HELD_OUT, len(self.samples))

    def head(self, *, warm: bool = True) -> Eagle3:
        torch.manual_seed(0)
        return Eagle3(self.target, self.taps, self.vocabulary, warm=warm)

    def head_of_kind(self) -> Head:
        torch.manual_seed(0)
        make = KINDS[self.kind].make
        if self.rank is None:
            return make(self.target, self.taps, self.vocabulary, LEVELS)
        head = make(self.target, self.taps, torch.arange(len(self.target.head)), LEVELS)
        head.common = self.vocabulary[:64]
        return head

    def trainer(self, head: Head, settings: TrainSettings, checkpoint: Path) -> Trainer:
        return Trainer(
            head,
            self.samples,
            self.cache,
            held_out=self.held_out,
            settings=settings,
            checkpoint=checkpoint,
        )


@pytest.fixture(scope="session")
def setting(tmp_path_factory: pytest.TempPathFactory) -> Setting:
    torch.set_num_threads(1)
    base = tmp_path_factory.getbasetemp()
    # The processes of a run train it once, and read features of their own.
    trained = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "trained-target"
    with trained.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not trained.exists():
            tiny.trained_target(base / "target")
            (base / "target").rename(trained)
    folder = tmp_path_factory.mktemp("tiny")
    shutil.copytree(trained, folder, dirs_exist_ok=True)
    return Setting.of(folder)


@pytest.fixture(params=sorted(KINDS))
def any_kind(request: pytest.FixtureRequest, setting: Setting) -> Setting:
    """The same target and samples, for each kind of head."""
    kind: str = request.param
    return Setting.of(setting.target.folder, kind)


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps measurements out of the user's cache."""
    monkeypatch.setenv("SPECTRIE_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


@dataclass(frozen=True, slots=True)
class Trained:
    """A head after some seconds of training."""

    head: Eagle3
    trainer: Trainer


SETTINGS = TrainSettings(epochs=10, batch_tokens=1024, learning_rate=6e-3, evaluations=1)


@pytest.fixture(scope="session")
def trained(setting: Setting, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    head = setting.head()
    trainer = setting.trainer(head, SETTINGS, tmp_path_factory.mktemp("run") / "checkpoint.pt")
    trainer.run()
    return Trained(head, trainer)
