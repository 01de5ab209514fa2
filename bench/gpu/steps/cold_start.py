"""What a model's start takes in a process of its own that finds no kernel compiled."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.gpu.check import Settings
from bench.gpu.goals import beside
from bench.gpu.models.shapes import MODELS, TINY, ModelShape
from bench.gpu.steps.loaded import LoadedModel, on_device

__all__ = ["cold_start"]

_LIMIT_S = 140.0


def cold_start(settings: Settings, model: ModelShape) -> dict[str, Any]:
    """Seconds from the read weights to the first request, progress shown; without a device in this
    process, where nothing is compiled."""
    if settings.dry:
        return _with_goal(_seconds(settings, model))
    empty = Path(settings.scratch) / "no kernels"
    task = json.dumps({"model": model.name, "settings": asdict(settings)})
    done = subprocess.run(
        [sys.executable, "-m", "bench.gpu.steps.cold_start", task],
        env=os.environ | {"TRITON_CACHE_DIR": str(empty)},
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return _with_goal(float(done.stdout.splitlines()[-1]))


def _with_goal(seconds: float) -> dict[str, Any]:
    return {"goals": [beside("start with nothing compiled, seconds", seconds)]}


def _seconds(settings: Settings, model: ModelShape) -> float:
    with on_device(settings):
        loaded = LoadedModel(settings, model, "exact")
        assert loaded.runner is not None
        seconds = loaded.seconds_from("computing") or loaded.load_seconds
        loaded.close()
    return seconds


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    named = {one.name: one for one in (*MODELS, TINY)}
    tests = tuple(given["settings"]["tests"])
    print(_seconds(Settings(**(given["settings"] | {"tests": tests})), named[given["model"]]))
