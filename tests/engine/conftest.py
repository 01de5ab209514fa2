"""A tiny model on a simulated GPU."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.gpu.fake_device import FakeDevice
from bench.gpu.simulated import simulated_gpu
from spectrie.model import Runner, load_runner
from spectrie.model.launch import gpu_model
from tests.tiny_model import write_tiny_model


@pytest.fixture(scope="module")
def gpu(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Runner, FakeDevice]]:
    """Its runner, and the device that it works on."""
    device = FakeDevice()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECTRIE_CACHE", str(tmp_path_factory.mktemp("cache")))
        folder = write_tiny_model(tmp_path_factory.mktemp("model") / "tiny")
        with simulated_gpu():
            patch.setattr(gpu_model, "open_device", lambda _: device)
            yield load_runner(folder, dtype="float32", threads=1, num_pages=128), device
