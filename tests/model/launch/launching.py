"""A model on a fake device, and the same in plain torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from bench.gpu.fake_device import FakeDevice
from spectrie.model.config.model_config import ModelConfig
from spectrie.model.decoder.decoder import Decoder, DecoderWeights
from spectrie.model.files.weights import Weights
from spectrie.model.launch.launcher import Launcher
from spectrie.model.operators import OperatorSettings
from spectrie.model.operators.gpu import GpuOperators
from spectrie.model.operators.reference import ReferenceOperators

__all__ = ["PAGES", "Launching"]

PAGES = (3, 1, 4, 9)
"""A page table of a cache of 16 pages."""


@dataclass(frozen=True)
class Launching:
    """A launcher for steps of up to 128 rows, and what its answers are compared with."""

    launcher: Launcher
    reference: Decoder
    operators: GpuOperators
    device: FakeDevice

    @classmethod
    def of(cls, folder: Path, *, recorded: bool = False, exact: bool = False) -> Launching:
        """Loads a model in float32."""
        config = ModelConfig.from_folder(folder)
        cpu = torch.device("cpu")
        weights = DecoderWeights(config, Weights(folder), torch.float32, cpu, exact=exact)
        settings = OperatorSettings(
            config=config,
            dtype=torch.float32,
            device=cpu,
            num_pages=16,
            page_size=16,
            max_context=200,
            model_kv_heads=config.num_kv_heads,
            head_norms=weights.head_norms,
        )
        operators = GpuOperators(settings)
        device = FakeDevice()
        launcher = Launcher(Decoder(weights, operators), operators, device, max_rows=128)
        if recorded:
            launcher.record(lambda line: None)
        return cls(launcher, Decoder(weights, ReferenceOperators(settings)), operators, device)
