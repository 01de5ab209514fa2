"""Tiny random GGUF files with known weights, and wheels around them."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt

from spectrie.model.sources.catalog import Alias
from tests.gguf_blocks import quantised

__all__ = ["HEAD_DIM", "KV_HEADS", "Weights", "tiny_alias", "write_tiny_gguf"]

Weights = dict[str, npt.NDArray[np.float32]]

HIDDEN, HEADS, KV_HEADS, HEAD_DIM, MLP, LAYERS = 64, 4, 2, 16, 96, 2
TOKENS = ["<|end|>", "<|user|>", *"abcdefgh", "Ġ", "Ċ", "ab", "Ġab"]
MERGES = ["a b", "Ġ ab"]
# SentencePiece: `bc` scores higher than `ab`, so `abc` is `a` and `bc`.
PIECES = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
PIECES += ["▁", "a", "b", "c", "bc", "ab", "▁a", "▁ab"]
SCORES = [0.0] * 259 + [-9.0, -9.0, -9.0, -9.0, -1.0, -2.0, -3.0, -4.0]
TEMPLATE = "{% for m in messages %}{{ m.content }}{% endfor %}"


def write_tiny_gguf(
    path: Path,
    *,
    architecture: str = "llama",
    matrices: gguf.GGMLQuantizationType = gguf.GGMLQuantizationType.F32,
    tied: bool = True,
    pre: str | None = "smollm",
    tokenizer: str = "gpt2",
    metadata: dict[str, Any] | None = None,
    extra: dict[str, npt.NDArray[Any]] | None = None,
    hidden: int = HIDDEN,
    mlp: int = MLP,
    layers: int = LAYERS,
    scale: float = 1.0,
) -> Weights:
    """Writes a small model and returns its tensors in the Hugging Face layout.

    Args:
        path: The file.
        architecture: `llama` and `smollm3` (q and k rows are permuted, as llama.cpp's converter
            does), `qwen2` (with biases) or `qwen3` (with q and k norms).
        matrices: Storage of the matrices; vectors are float32.
        tied: Whether the output projection is left out.
        pre: The pre-tokenizer named in the file, None for no such key.
        tokenizer: Kind of tokenizer: `gpt2` (byte-level BPE), `llama` (SentencePiece), or a name
            alone.
        metadata: Further keys: integers, floats and strings.
        extra: Further tensors, by GGUF name.
        hidden: Width of the rows; quantised types need multiples of their blocks.
        mlp: Width of the inner rows.
        layers: Number of layers.
        scale: Standard deviation of the weights.
    """
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(128)
    writer.add_embedding_length(hidden)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(mlp)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_license("mit")
    writer.add_tokenizer_model(tokenizer)
    if tokenizer == "llama":
        _add_pieces(writer)
    else:
        _add_tokenizer(writer, pre)
    for key, value in (metadata or {}).items():
        add = {
            bool: writer.add_bool,
            int: writer.add_uint32,
            float: writer.add_float32,
            str: writer.add_string,
            list: writer.add_array,
        }
        add[type(value)](key, value)
    vocabulary = len(PIECES if tokenizer == "llama" else TOKENS)
    shapes = _shapes(architecture, tied, vocabulary, (hidden, mlp, layers))
    random = np.random.default_rng(7)
    weights = {
        name: (random.standard_normal(shape) * scale).astype(np.float32)
        for name, shape in shapes.items()
    }
    for name, values in weights.items():
        stored = values
        if architecture in ("llama", "smollm3") and (".q_proj" in name or ".k_proj" in name):
            stored = _permuted(values, HEADS if ".q_proj" in name else KV_HEADS)
        kind = matrices if values.ndim == 2 else gguf.GGMLQuantizationType.F32
        writer.add_tensor(_gguf_name(name), quantised(stored, kind)[0], raw_dtype=kind)
    for name, values in (extra or {}).items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return weights


def tiny_alias(folder: Path, **changes: Any) -> tuple[Path, Alias]:
    """Writes a wheel with a tiny model into `folder`; gives it and an alias that pins it."""
    source = folder / "tiny.gguf"
    write_tiny_gguf(source)
    wheel = folder / "spectrie_tiny_model-1.0-py3-none-any.whl"
    info = "spectrie_tiny_model-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(source, "spectrie_tiny_model/tiny.gguf")
        archive.writestr(f"{info}/LICENSE", "the licence\n")
        archive.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: spectrie-tiny-model\nVersion: 1.0\n"
        )
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    source.unlink()
    facts = {
        "name": "tiny",
        "package": "spectrie-tiny-model",
        "version": "1.0",
        "wheel_sha256": hashlib.sha256(wheel.read_bytes()).hexdigest(),
        "wheel_bytes": wheel.stat().st_size,
        "member": "spectrie_tiny_model/tiny.gguf",
        "title": "Tiny",
        "license": "MIT",
    }
    return wheel, Alias(**{**facts, **changes})


def _add_tokenizer(writer: gguf.GGUFWriter, pre: str | None) -> None:
    if pre is not None:
        writer.add_tokenizer_pre(pre)
    writer.add_token_list(TOKENS)
    writer.add_token_types([3, 4] + [1] * (len(TOKENS) - 2))
    writer.add_token_merges(MERGES)
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE)


def _add_pieces(writer: gguf.GGUFWriter) -> None:
    writer.add_token_list(PIECES)
    writer.add_token_scores(SCORES)
    writer.add_token_types([2, 3, 3] + [6] * 256 + [1] * (len(PIECES) - 259))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)


def _shapes(
    architecture: str, tied: bool, vocabulary: int, sizes: tuple[int, int, int]
) -> dict[str, tuple[int, ...]]:
    hidden, mlp, layers = sizes
    head_dim = hidden // HEADS
    q_rows, kv_rows = HEADS * head_dim, KV_HEADS * head_dim
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (vocabulary, hidden)}
    for layer in range(layers):
        prefix = f"model.layers.{layer}."
        shapes |= {
            prefix + "input_layernorm.weight": (hidden,),
            prefix + "self_attn.q_proj.weight": (q_rows, hidden),
            prefix + "self_attn.k_proj.weight": (kv_rows, hidden),
            prefix + "self_attn.v_proj.weight": (kv_rows, hidden),
            prefix + "self_attn.o_proj.weight": (hidden, q_rows),
            prefix + "post_attention_layernorm.weight": (hidden,),
            prefix + "mlp.gate_proj.weight": (mlp, hidden),
            prefix + "mlp.up_proj.weight": (mlp, hidden),
            prefix + "mlp.down_proj.weight": (hidden, mlp),
        }
        if architecture == "qwen2":
            shapes |= {
                prefix + "self_attn.q_proj.bias": (q_rows,),
                prefix + "self_attn.k_proj.bias": (kv_rows,),
                prefix + "self_attn.v_proj.bias": (kv_rows,),
            }
        if architecture == "qwen3":
            shapes |= {
                prefix + "self_attn.q_norm.weight": (head_dim,),
                prefix + "self_attn.k_norm.weight": (head_dim,),
            }
    shapes["model.norm.weight"] = (hidden,)
    if not tied:
        shapes["lm_head.weight"] = (vocabulary, hidden)
    return shapes


def _permuted(values: npt.NDArray[np.float32], heads: int) -> npt.NDArray[np.float32]:
    """Row 2i of a head from row i, row 2i + 1 from row i + half."""
    head_dim = len(values) // heads
    half = head_dim // 2
    order = [
        head * head_dim + part * half + i
        for head in range(heads)
        for i in range(half)
        for part in range(2)
    ]
    return np.ascontiguousarray(values[order])


def _gguf_name(name: str) -> str:
    whole = {
        "model.embed_tokens.weight": "token_embd.weight",
        "model.norm.weight": "output_norm.weight",
        "lm_head.weight": "output.weight",
    }
    if name in whole:
        return whole[name]
    _, _, layer, *parts = name.split(".")
    inner = {
        "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm",
        "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output",
        "self_attn.q_norm": "attn_q_norm",
        "self_attn.k_norm": "attn_k_norm",
        "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down",
    }[".".join(parts[:-1])]
    return f"blk.{layer}.{inner}.{parts[-1]}"
