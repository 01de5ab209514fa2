"""GGUF files run here give the logits that transformers gives for the weights that went into them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from gguf import GGMLQuantizationType as Kind

from spectrie.model import load_runner, resolve
from tests.gguf_blocks import quantised
from tests.model.stepping import in_pieces, tokens
from tests.tiny_gguf import HEADS, KV_HEADS, TOKENS, Weights, write_tiny_gguf

pytestmark = pytest.mark.usefixtures("own_cache")

SIZE = 256


def reference(kind: str, weights: Weights, matrices: Kind, fields: dict[str, Any]) -> Any:
    """The model of `weights`, after the loss of storing them as `matrices`."""
    import transformers

    config = getattr(transformers, f"{kind}Config")(
        hidden_size=SIZE,
        intermediate_size=SIZE,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        vocab_size=len(TOKENS),
        max_position_embeddings=128,
        rms_norm_eps=1e-5,
        pad_token_id=None,
        bos_token_id=0,
        eos_token_id=0,
        **{"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}} | fields,
    )
    config._attn_implementation = "eager"
    model = getattr(transformers, f"{kind}ForCausalLM")(config).float().eval()
    stored = {
        name: torch.from_numpy(quantised(value, matrices)[1] if value.ndim == 2 else value)
        for name, value in weights.items()
    }
    missing, unexpected = model.load_state_dict(stored, strict=False)
    assert not unexpected
    assert set(missing) <= {"lm_head.weight"}
    model.tie_weights()
    return model


@pytest.mark.parametrize(
    ("architecture", "kind", "matrices", "metadata", "fields"),
    [
        ("llama", "Llama", Kind.Q4_K, {}, {}),
        (
            "llama",
            "Mistral",
            Kind.Q8_0,
            {"llama.attention.sliding_window": 8},
            {"sliding_window": 8},
        ),
        ("qwen2", "Qwen2", Kind.Q5_0, {}, {}),
        (
            "qwen3",
            "Qwen3",
            Kind.Q6_K,
            {
                "qwen3.rope.scaling.type": "yarn",
                "qwen3.rope.scaling.factor": 4.0,
                "qwen3.rope.scaling.original_context_length": 32,
            },
            {
                "head_dim": SIZE // HEADS,
                "rope_parameters": {
                    "rope_type": "yarn",
                    "rope_theta": 10000.0,
                    "factor": 4.0,
                    "original_max_position_embeddings": 32,
                },
            },
        ),
        ("smollm3", "SmolLM3", Kind.F16, {}, {}),
    ],
    ids=["llama", "mistral", "qwen2", "qwen3_yarn", "smollm3"],
)
@pytest.mark.parametrize("tied", [True, False])
def test_logits_equal_transformers(
    tmp_path: Path,
    architecture: str,
    kind: str,
    matrices: Kind,
    metadata: dict[str, Any],
    fields: dict[str, Any],
    tied: bool,
) -> None:
    layers = 4 if architecture == "smollm3" else 2
    weights = write_tiny_gguf(
        tmp_path / "m.gguf",
        architecture=architecture,
        matrices=matrices,
        tied=tied,
        metadata=metadata,
        hidden=SIZE,
        mlp=SIZE,
        layers=layers,
        scale=0.1,
    )
    folder = resolve(tmp_path / "m.gguf").folder
    runner = load_runner(folder, dtype="float32", threads=1, num_pages=8)
    ids = tokens(40, runner.vocabulary_size)
    ours = in_pieces(runner, ids, [30, 10], list(range(4)))
    fields = fields | {"tie_word_embeddings": tied, "num_hidden_layers": layers}
    with torch.inference_mode():
        theirs = reference(kind, weights, matrices, fields)(torch.tensor([ids])).logits[0]
    assert theirs.std() > 0.1, "logits too flat to tell anything"
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
