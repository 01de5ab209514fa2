"""Training continues after a kill, to the same bytes, and ends where it does not help any more."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from spectrie.errors import ConfigError
from spectrie.training.export import export_head
from spectrie.training.settings import TrainSettings
from spectrie.training.target import Target
from spectrie.training.trainer import Trainer
from tests.training import tiny
from tests.training.conftest import Setting

SHORT = TrainSettings(epochs=1, batch_tokens=1024, learning_rate=3e-3, evaluations=2)


def exported(trainer: Trainer, folder: Path) -> bytes:
    export_head(trainer.head, folder, dtype=torch.bfloat16, provenance={})
    return (folder / "model.safetensors").read_bytes()


# The others draw nothing, or as one of these.
@pytest.mark.parametrize("any_kind", ["dflash", "eagle2", "eagle3", "mtp"], indirect=True)
def test_a_killed_training_ends_with_the_same_bytes(any_kind: Setting, tmp_path: Path) -> None:
    folder = str(any_kind.target.folder)
    whole = any_kind.trainer(any_kind.head_of_kind(), SHORT, tmp_path / "whole.pt")
    whole.run()
    child = subprocess.run(
        [sys.executable, "-m", "tests.training.killed", folder, str(tmp_path), any_kind.kind],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert child.returncode == -signal.SIGKILL, child.stderr
    again = any_kind.trainer(any_kind.head_of_kind(), SHORT, tmp_path / "killed.pt")
    assert 0 < again.step < again.total_steps
    again.run()
    assert [look.step for look in again.looks] == [look.step for look in whole.looks]
    assert exported(again, tmp_path / "again") == exported(whole, tmp_path / "whole")


def test_a_checkpoint_of_other_settings_is_not_continued(setting: Setting, tmp_path: Path) -> None:
    first = setting.trainer(setting.head(), SHORT, tmp_path / "checkpoint.pt")
    first.run()
    other = replace(SHORT, learning_rate=1e-3)
    assert setting.trainer(setting.head(), other, tmp_path / "checkpoint.pt").step == 0
    same = setting.trainer(setting.head(), SHORT, tmp_path / "checkpoint.pt")
    assert same.step == same.total_steps


def test_a_damaged_checkpoint_is_named(setting: Setting, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"
    path.write_bytes(b"no checkpoint")
    with pytest.raises(ConfigError, match=r"checkpoint\.pt is damaged.*remove it"):
        setting.trainer(setting.head(), SHORT, path)


def test_training_that_does_not_help_ends_early_with_the_best_weights(
    any_kind: Setting, tmp_path: Path
) -> None:
    ruinous = replace(SHORT, learning_rate=30.0, warm_up=0.0, patience=1, evaluations=4)
    head = any_kind.head_of_kind()
    before = {name: value.clone() for name, value in head.state_dict().items()}
    trainer = any_kind.trainer(head, ruinous, tmp_path / "checkpoint.pt")
    trainer.run()
    assert trainer.step < trainer.total_steps
    assert all(torch.equal(value, before[name]) for name, value in head.state_dict().items())


def test_copied_parts_move_less_at_first(setting: Setting, tmp_path: Path) -> None:
    head = setting.head()
    before = {name: value.detach().clone() for name, value in head.named_parameters()}
    trainer = setting.trainer(head, replace(SHORT, epochs=2), tmp_path / "checkpoint.pt")
    trainer.advance(1)
    moved = {
        name: float((value.detach() - before[name]).abs().max())
        for name, value in head.named_parameters()
    }
    assert moved["up_proj.weight"] < 0.3 * moved["q_proj.weight"]


def test_a_warm_start_passes_the_deepest_feature_through(setting: Setting) -> None:
    head = setting.head()
    layer = Target(setting.target.folder).layer(tiny.SHAPE.layers - 1)
    feature = torch.randn(5, 3 * tiny.SHAPE.hidden)
    assert torch.equal(head.fc(feature), feature[:, -tiny.SHAPE.hidden :])
    assert torch.equal(head.down_proj.weight, layer["mlp.down_proj.weight"])
    assert torch.equal(head.v_proj.weight[:, tiny.SHAPE.hidden :], layer["self_attn.v_proj.weight"])
