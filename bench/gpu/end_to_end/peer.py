"""transformers on the same device: the same size of a model, greedy, one answer and many."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from bench.gpu.check import Item, Settings
from bench.gpu.clock import clock_of
from bench.gpu.device import device_of
from bench.gpu.models.shapes import MODELS, TINY, ModelShape
from bench.gpu.steps.loaded import folder_of, on_device

__all__ = ["items"]

_PROMPT, _TOKENS = 256, 64
_AT_A_TIME = (1, 4, 64)
_DRY = (8, 4)


def items(settings: Settings) -> Iterator[Item]:
    """One item a model: that of routing, then the smallest."""
    with on_device(settings):
        for model in (TINY,) if settings.dry else (MODELS[2], MODELS[0]):
            yield Item(model.name, partial(_measure, settings, model))


def _measure(settings: Settings, model: ModelShape) -> dict[str, Any]:
    import transformers

    device = device_of(settings.dry).torch_device
    config = transformers.AutoConfig.from_pretrained(folder_of(settings, model))
    dtype = torch.float32 if settings.dry else torch.bfloat16
    with torch.device(device):
        # Typed as little as it is documented.
        causal: Any = transformers.AutoModelForCausalLM
        peer = causal.from_config(config, dtype=dtype).eval()
    length, tokens = _DRY if settings.dry else (_PROMPT, _TOKENS)
    clock = clock_of(settings.dry)
    rates = {}
    for count in _AT_A_TIME[:1] if settings.dry else _AT_A_TIME:
        prompts = torch.randint(0, model.vocabulary - 1, (count, length), device=device)
        times = []
        for _ in range(2):  # the first one warms up
            started = clock.seconds()
            peer.generate(
                prompts,
                attention_mask=torch.ones_like(prompts),
                do_sample=False,
                min_new_tokens=tokens,
                max_new_tokens=tokens,
                pad_token_id=0,
            )
            times.append(clock.seconds() - started)
        rates[str(count)] = round(count * tokens / times[-1], 2)
    return {
        "version": transformers.__version__,
        "tokens_per_second": rates,
        "prompt": length,
        "tokens": tokens,
    }
