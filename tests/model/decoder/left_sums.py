"""`python -m tests.model.decoder.left_sums FOLDER`: sums that products leave, beside finished products.

In a process of its own, as Triton reads `TRITON_INTERPRET` when it is first imported. Prints, as JSON, how
many products left sums in a step of five rows, whether its logits have the bytes of finished products, and
whether they would have them with the last additions in another order.
"""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from spectrie.model.config.model_config import ModelConfig
from spectrie.model.decoder import decoder as decoders
from spectrie.model.decoder.decoder import Decoder, DecoderWeights
from spectrie.model.decoder.linear import ExactLinear, ExactSegments
from spectrie.model.files.weights import Weights
from spectrie.model.operators import OperatorSettings
from spectrie.model.operators.gpu import GpuOperators
from spectrie.model.plan import StepPlan
from spectrie.model.step.scratch import Scratch
from spectrie_kernels import PartialSums

left: list[int] = []


class Counted(ExactSegments):
    """Remembers how many sums were left."""

    def __call__(self, x: torch.Tensor, scratch: Scratch) -> torch.Tensor | PartialSums:
        result = super().__call__(x, scratch)
        if isinstance(result, PartialSums):
            left.append(result.values.shape[0])
        return result


class Downwards(ExactSegments):
    """Leaves sums in another order."""

    def __call__(self, x: torch.Tensor, scratch: Scratch) -> torch.Tensor | PartialSums:
        result = super().__call__(x, scratch)
        if isinstance(result, PartialSums):
            return replace(result, values=result.values.flip(0).contiguous())
        return result


def logits(folder: Path, segments: Any) -> torch.Tensor:
    """Of a tree, by a model whose projections are `segments`."""
    config, cpu = ModelConfig.from_folder(folder), torch.device("cpu")
    with mock.patch.object(decoders, "ExactSegments", segments):
        weights = DecoderWeights(config, Weights(folder), torch.float32, cpu, exact=True)
    operators = GpuOperators(
        OperatorSettings(
            config=config,
            dtype=torch.float32,
            device=cpu,
            num_pages=1,
            page_size=16,
            max_context=16,
            model_kv_heads=config.num_kv_heads,
            head_norms=weights.head_norms,
        )
    )
    plan = StepPlan.single([1, 2, 3, 4, 5], kv_len=0, pages=[0], parents=[-1, 0, 0, 2, 1])
    return Decoder(weights, operators).forward(plan).logits


def main() -> None:
    """Computes the step in three ways."""
    importlib.import_module("kernels.tests.quick_interpreter").hasten(finds_overflow=False)
    folder = Path(sys.argv[1])
    finished = logits(folder, ExactLinear)
    same = torch.equal(logits(folder, Counted), finished)
    downwards = torch.equal(logits(folder, Downwards), finished)
    print(json.dumps({"left": left, "same": same, "same downwards": downwards}))


if __name__ == "__main__":
    main()
