"""Products of fast arithmetic."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from spectrie.model.config.model_config import ModelConfig
from spectrie.model.decoder.decoder import DecoderWeights
from spectrie.model.decoder.linear import WideLinear
from spectrie.model.files.weights import Weights
from spectrie.model.step.scratch import Scratch


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_a_head_of_fast_arithmetic_rounds_no_logit(tiny: Path, dtype: torch.dtype) -> None:
    config, cpu = ModelConfig.from_folder(tiny), torch.device("cpu")
    weights = DecoderWeights(config, Weights(tiny), dtype, cpu)
    x = torch.randn(3, config.hidden_size, generator=torch.Generator().manual_seed(1)).to(dtype)
    logits = weights.head(x, Scratch(cpu))
    assert logits.dtype == torch.float32
    head = Weights(tiny).tensor("lm_head.weight", (config.vocabulary_size, config.hidden_size))
    exact = x.double() @ head.to(dtype).double().t()
    torch.testing.assert_close(logits.double(), exact, rtol=1e-5, atol=1e-5)


def test_a_gpu_multiplies_in_half_precision_and_writes_float32() -> None:
    device = torch.device("meta")
    head = WideLinear("head", torch.empty(200, 48, dtype=torch.bfloat16, device=device))
    logits = head(torch.empty(3, 48, dtype=torch.bfloat16, device=device), Scratch(device))
    assert logits.dtype == torch.float32
    assert list(logits.shape) == [3, 200]
