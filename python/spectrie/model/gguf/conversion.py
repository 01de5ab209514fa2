"""Converts a GGUF file to a folder in the Hugging Face layout.

Quantised weights become float32, which holds their values exactly; bfloat16 does not. Files whose
matrices are all BF16 or all F16 keep that type. One tensor is in memory at a time.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from spectrie.errors import ModelError
from spectrie.model.files.store import Report, check_space
from spectrie.model.gguf.config import (
    Architecture,
    architecture_of,
    generation_config,
    model_config,
)
from spectrie.model.gguf.file import GgufFile, GgufTensor
from spectrie.model.gguf.tokenizer import tokenizer_config, tokenizer_json

__all__ = ["FORMAT", "convert", "restore_rope_rows"]

FORMAT = 1
"""Version of the layout that `convert` writes; folders of other versions are converted again."""

_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_DTYPES = {"BF16": "bfloat16", "F16": "float16"}
_SAFETENSORS = {"float32": ("F32", 4), "bfloat16": ("BF16", 2), "float16": ("F16", 2)}


@dataclass(frozen=True, slots=True)
class _Stored:
    """A tensor to write to model.safetensors."""

    name: str
    source: GgufTensor
    dtype: str
    num_heads: int | None  # set where rows must be brought back into order

    @property
    def num_bytes(self) -> int:
        return int(np.prod(self.source.shape)) * _SAFETENSORS[self.dtype][1]


def convert(file: GgufFile, folder: Path, provenance: dict[str, Any], report: Report) -> None:
    """Writes `file` as config, tokenizer and weights into `folder`, which must exist.

    Args:
        file: The GGUF file.
        folder: Where the files go; existing ones are replaced.
        provenance: Facts about the origin, for provenance.json; format, licence, dtype and file sizes
            are added.
        report: Receives lines of progress.

    Raises:
        ModelError: Architecture, tokenizer or a tensor is not supported, or the disk is too full.
        OSError: Writing failed.
    """
    architecture = architecture_of(file)
    tensors = list(file.tensors())
    _refuse_unreadable(file, tensors)
    dtype = _storage(tensors)
    plan = [_stored(file, architecture, t, dtype) for t in tensors if t.name != "rope_freqs.weight"]
    check_space(folder, sum(stored.num_bytes for stored in plan) + (64 << 20))
    shapes = {stored.name: stored.source.shape for stored in plan}
    if "model.embed_tokens.weight" not in shapes:
        raise ModelError(f"{file.path} lacks the tensor token_embd.weight")
    vocabulary_size = shapes["model.embed_tokens.weight"][0]
    tied = "lm_head.weight" not in shapes
    _write_json(folder / "config.json", model_config(file, vocabulary_size, tied, dtype))
    _write_json(folder / "generation_config.json", generation_config(file))
    _write_json(folder / "tokenizer.json", tokenizer_json(file))
    _write_json(folder / "tokenizer_config.json", tokenizer_config(file))
    template = file.value("tokenizer.chat_template")
    if template is not None:
        (folder / "chat_template.jinja").write_text(template, encoding="utf-8", newline="")
    _write_safetensors(folder / "model.safetensors", plan, report)
    sizes = {path.name: path.stat().st_size for path in sorted(folder.iterdir()) if path.is_file()}
    licence = file.value("general.license")
    _write_json(
        folder / "provenance.json",
        {"format": FORMAT, "license": licence, "dtype": dtype, **provenance, "files": sizes},
    )


def restore_rope_rows(weight: npt.NDArray[Any], num_heads: int) -> npt.NDArray[Any]:
    """Undoes the row permutation of q and k in llama files.

    These files interleave the two halves of each head (row 2i was row i, row 2i+1 was row
    i + head_dim/2), for RoPE on neighbouring pairs. The Hugging Face layout rotates halves.

    Args:
        weight: [num_heads * head_dim, ...].
        num_heads: Heads of this projection.
    """
    rows, *rest = weight.shape
    if rows % (2 * num_heads):
        raise ModelError(f"{rows} rows cannot be divided into {num_heads} heads of an even size")
    pairs = weight.reshape(num_heads, rows // num_heads // 2, 2, *rest)
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(weight.shape)


def _refuse_unreadable(file: GgufFile, tensors: list[GgufTensor]) -> None:
    first = {tensor.kind: tensor for tensor in reversed(tensors)}
    for kind, tensor in first.items():
        if not tensor.readable:
            raise ModelError(
                f"{file.path}: tensor {tensor.name} has storage type {kind}, which is not supported; "
                "use a file of a common type, such as Q4_K_M, Q8_0 or BF16"
            )


def _storage(tensors: list[GgufTensor]) -> str:
    kinds = {tensor.kind for tensor in tensors if len(tensor.shape) == 2}
    return _DTYPES.get(kinds.pop(), "float32") if len(kinds) == 1 else "float32"


def _stored(file: GgufFile, architecture: Architecture, tensor: GgufTensor, dtype: str) -> _Stored:
    parts = tensor.name.split(".")
    prefix = ""
    if parts[0] == "blk" and len(parts) == 4 and parts[1].isdigit():
        prefix = f"model.layers.{parts[1]}."
        parts = parts[2:]
    if len(parts) != 2 or parts[0] not in _NAMES or parts[1] not in ("weight", "bias"):
        raise ModelError(f"{file.path} has the tensor {tensor.name}, which is not supported")
    num_heads = None
    if architecture.rope_interleaved and parts[0] in ("attn_q", "attn_k"):
        name = file.architecture
        num_heads = int(file.required(f"{name}.attention.head_count"))
        if parts[0] == "attn_k":
            num_heads = int(file.value(f"{name}.attention.head_count_kv", num_heads))
    kept = dtype if len(tensor.shape) == 2 else "float32"
    return _Stored(f"{prefix}{_NAMES[parts[0]]}.{parts[1]}", tensor, kept, num_heads)


def _write_safetensors(path: Path, plan: list[_Stored], report: Report) -> None:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    total = 0
    for stored in plan:
        end = total + stored.num_bytes
        header[stored.name] = {
            "dtype": _SAFETENSORS[stored.dtype][0],
            "shape": list(stored.source.shape),
            "data_offsets": [total, end],
        }
        total = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the data starts aligned
    written, last = 0, -1
    with path.open("wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for stored in plan:
            _write_tensor(out, stored)
            written += stored.num_bytes
            tenth = 10 * written // total
            if tenth != last:
                report(f"converting: {tenth * 10} % of {total / 1e6:.0f} MB")
                last = tenth


def _write_tensor(out: BinaryIO, stored: _Stored) -> None:
    values: npt.NDArray[Any] = stored.source.dequantised()
    if stored.num_heads is not None:
        values = restore_rope_rows(values, stored.num_heads)
    if stored.dtype == "float16":
        values = values.astype(np.float16)
    elif stored.dtype == "bfloat16":
        # Exact: the values were bfloat16, so the lower half of each float32 is zero.
        values = (values.view(np.uint32) >> 16).astype(np.uint16)
    out.write(np.ascontiguousarray(values).data)


def _write_json(path: Path, contents: dict[str, Any]) -> None:
    text = json.dumps(contents, indent=2, ensure_ascii=False) + "\n"
    path.write_text(text, encoding="utf-8")
