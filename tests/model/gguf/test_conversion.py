"""GGUF files become folders that mean the same model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Kind
from safetensors.torch import load_file

from spectrie._core import Tokenizer
from spectrie.errors import ModelError
from spectrie.model.config.model_config import ModelConfig
from spectrie.model.gguf.conversion import convert
from spectrie.model.gguf.file import GgufFile
from tests.gguf_blocks import quantised
from tests.tiny_gguf import HEAD_DIM, write_tiny_gguf


def converted(path: Path, folder: Path) -> dict[str, torch.Tensor]:
    folder.mkdir()
    convert(GgufFile(path), folder, {}, lambda _line: None)
    tensors: dict[str, torch.Tensor] = load_file(folder / "model.safetensors")
    return tensors


def read(path: Path) -> dict[str, Any]:
    contents: dict[str, Any] = json.loads(path.read_text())
    return contents


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3", "smollm3"])
@pytest.mark.parametrize("tied", [True, False])
def test_float32_weights_come_back_bit_for_bit_in_their_own_order(
    tmp_path: Path, architecture: str, tied: bool
) -> None:
    expected = write_tiny_gguf(tmp_path / "m.gguf", architecture=architecture, tied=tied)
    tensors = converted(tmp_path / "m.gguf", tmp_path / "out")
    assert tensors.keys() == expected.keys()
    for name, values in expected.items():
        assert torch.equal(tensors[name], torch.from_numpy(values)), name
    assert read(tmp_path / "out/config.json")["tie_word_embeddings"] is tied


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        (Kind.BF16, torch.bfloat16),
        (Kind.F16, torch.float16),
        *(
            (kind, torch.float32)
            for kind in (Kind.Q4_0, Kind.Q4_1, Kind.Q5_0, Kind.Q5_1, Kind.Q8_0)
        ),
        *((kind, torch.float32) for kind in (Kind.Q4_K, Kind.Q5_K, Kind.Q6_K)),
    ],
    ids=lambda value: value.name if isinstance(value, Kind) else None,
)
@pytest.mark.parametrize("architecture", ["llama", "qwen3"])
def test_matrices_keep_half_types_and_quantised_ones_become_float32(
    tmp_path: Path, architecture: str, kind: Kind, dtype: torch.dtype
) -> None:
    source = write_tiny_gguf(
        tmp_path / "m.gguf", architecture=architecture, matrices=kind, hidden=256, mlp=512, layers=1
    )
    tensors = converted(tmp_path / "m.gguf", tmp_path / "out")
    for name in ("self_attn.q_proj", "self_attn.v_proj", "mlp.down_proj"):
        name = f"model.layers.0.{name}.weight"
        # Rows are permuted after the loss, and each row's blocks are its own.
        expected = quantised(source[name], kind)[1]
        assert tensors[name].dtype == dtype
        assert torch.equal(tensors[name].float(), torch.from_numpy(expected)), name
    assert tensors["model.norm.weight"].dtype == torch.float32
    assert read(tmp_path / "out/config.json")["torch_dtype"] == str(dtype).removeprefix("torch.")


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3"])
def test_transformers_loads_the_folder_whole(tmp_path: Path, architecture: str) -> None:
    from transformers import AutoModelForCausalLM

    metadata = {f"{architecture}.attention.key_length": HEAD_DIM}
    write_tiny_gguf(tmp_path / "m.gguf", architecture=architecture, metadata=metadata)
    tensors = converted(tmp_path / "m.gguf", tmp_path / "out")
    model, info = AutoModelForCausalLM.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    assert model.config.model_type == architecture
    state = model.state_dict()
    assert all(torch.equal(state[name], tensors[name]) for name in tensors)


def test_the_tokenizer_merges_knows_special_tokens_and_adds_none(tmp_path: Path) -> None:
    write_tiny_gguf(tmp_path / "m.gguf")
    converted(tmp_path / "m.gguf", tmp_path / "out")
    tokenizer = Tokenizer.from_folder(tmp_path / "out")
    ids = tokenizer.encode("ab ab<|end|>\n<|user|>c", add_special_tokens=True)
    names = ["ab", "Ġab", "<|end|>", "Ċ", "<|user|>", "c"]
    assert ids == [tokenizer.token_id(name) for name in names]
    assert tokenizer.decode(ids) == "ab ab\n<|user|>c"  # a user-defined token is text
    assert tokenizer.apply_chat_template([{"role": "user", "content": "hi"}]) == "hi"


def test_a_beginning_of_text_token_is_added_where_the_file_says_so(tmp_path: Path) -> None:
    write_tiny_gguf(tmp_path / "m.gguf", pre="llama-bpe")
    reader = GgufFile(tmp_path / "m.gguf")
    assert reader.value("tokenizer.ggml.add_bos_token") is False
    # Without the key, llama-bpe means yes.
    bytes_ = (tmp_path / "m.gguf").read_bytes()
    (tmp_path / "n.gguf").write_bytes(bytes_.replace(b"ggml.add_bos_token", b"ggml.xxx_bos_token"))
    converted(tmp_path / "n.gguf", tmp_path / "out")
    tokenizer = Tokenizer.from_folder(tmp_path / "out")
    assert tokenizer.encode("c", add_special_tokens=True) == [0, tokenizer.token_id("c")]
    assert tokenizer.encode("c") == [tokenizer.token_id("c")]


def test_a_sentencepiece_tokenizer_joins_by_score_and_falls_back_to_bytes(tmp_path: Path) -> None:
    write_tiny_gguf(tmp_path / "m.gguf", tokenizer="llama")
    converted(tmp_path / "m.gguf", tmp_path / "out")
    tokenizer = Tokenizer.from_folder(tmp_path / "out")

    def ids(*pieces: str) -> list[int | None]:
        return [tokenizer.token_id(piece) for piece in pieces]

    assert tokenizer.encode("abc ab") == ids("▁a", "bc", "▁ab")
    assert tokenizer.encode("a", add_special_tokens=True) == ids("<s>", "▁a")
    assert tokenizer.encode("aé") == ids("▁a", "<0xC3>", "<0xA9>")
    for text in ("abc ab", " a  é🙂\r\nb "):
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_tekken_splits_words_by_case_and_keeps_whole_words(tmp_path: Path) -> None:
    write_tiny_gguf(tmp_path / "m.gguf", pre="tekken")
    converted(tmp_path / "m.gguf", tmp_path / "out")
    contents = read(tmp_path / "out/tokenizer.json")
    assert contents["model"]["ignore_merges"] is True
    split = Tokenizer.from_folder(tmp_path / "out")
    assert split.encode("ab ab") == [split.token_id("ab"), split.token_id("Ġab")]


def test_a_sliding_window_makes_a_llama_file_a_mistral(tmp_path: Path) -> None:
    write_tiny_gguf(tmp_path / "m.gguf", metadata={"llama.attention.sliding_window": 8})
    converted(tmp_path / "m.gguf", tmp_path / "out")
    assert ModelConfig.from_folder(tmp_path / "out").layer_windows == (8, 8)


def test_biases_of_the_file_are_announced(tmp_path: Path) -> None:
    biases = {
        f"blk.{layer}.{name}.bias": np.ones(size, np.float32)
        for layer in range(2)
        for name, size in (("attn_q", 64), ("attn_k", 32), ("attn_v", 32), ("attn_output", 64))
    }
    write_tiny_gguf(tmp_path / "m.gguf", extra=biases)
    tensors = converted(tmp_path / "m.gguf", tmp_path / "out")
    assert ModelConfig.from_folder(tmp_path / "out").output_bias
    assert "model.layers.1.self_attn.o_proj.bias" in tensors


def test_yarn_scaling_is_taken_over(tmp_path: Path) -> None:
    prefix = "llama.rope.scaling."
    metadata = {
        prefix + "type": "yarn",
        prefix + "factor": 4.0,
        prefix + "original_context_length": 128,
        prefix + "yarn_beta_fast": 16.0,
    }
    write_tiny_gguf(tmp_path / "m.gguf", metadata=metadata)
    converted(tmp_path / "m.gguf", tmp_path / "out")
    config = ModelConfig.from_folder(tmp_path / "out")
    assert (config.rope.kind, config.rope.fast_turns, config.max_context) == ("yarn", 16.0, 512)


def test_rope_scaling_is_taken_over(tmp_path: Path) -> None:
    metadata = {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0}
    write_tiny_gguf(tmp_path / "m.gguf", metadata=metadata)
    converted(tmp_path / "m.gguf", tmp_path / "out")
    config = read(tmp_path / "out/config.json")
    assert config["rope_scaling"] == {"rope_type": "linear", "factor": 4.0}


def test_frequency_factors_of_llama3_are_recognised_and_others_refused(tmp_path: Path) -> None:
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    scaling = {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    reference = LlamaConfig(
        hidden_size=64,
        num_attention_heads=4,
        max_position_embeddings=131072,
        rope_parameters={"rope_theta": 10000.0, **scaling},
    )
    scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](reference, "cpu")
    plain = 10000.0 ** -(np.arange(0, HEAD_DIM, 2) / HEAD_DIM)
    factors = (plain / scaled.numpy()).astype(np.float32)
    write_tiny_gguf(tmp_path / "m.gguf", extra={"rope_freqs.weight": factors})
    converted(tmp_path / "m.gguf", tmp_path / "out")
    found = read(tmp_path / "out/config.json")["rope_scaling"]
    assert found == {**scaling, "factor": pytest.approx(8.0, rel=1e-5)}

    write_tiny_gguf(tmp_path / "n.gguf", extra={"rope_freqs.weight": factors[::-1].copy()})
    with pytest.raises(ModelError, match="frequency factors"):
        converted(tmp_path / "n.gguf", tmp_path / "other")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"architecture": "gemma"}, "'gemma'; supported: llama, qwen2, qwen3, smollm3"),
        (
            {"metadata": {"llama.expert_count": 8}},
            "mixture of 8 experts, .* use the model's safetensors",
        ),
        ({"metadata": {"llama.logit_scale": 8.0}}, r"not supported .* llama.logit_scale \(8\.0\)"),
        ({"metadata": {"llama.attn_logit_softcapping": 50.0}}, "attn_logit_softcapping"),
        ({"metadata": {"llama.rope.dimension_count": 8}}, "rope.dimension_count is 8; .* keys, 16"),
        ({"metadata": {"llama.attention.value_length": 8}}, "value_length is 8"),
        ({"metadata": {"llama.attention.sliding_window": [8, 4]}}, "one positive number for all"),
        ({"metadata": {"split.count": 3}}, "one of 3 parts: merge them with"),
        (
            {
                "metadata": {
                    "llama.rope.scaling.type": "yarn",
                    "llama.rope.scaling.factor": 2.0,
                    "llama.rope.scaling.original_context_length": 64,
                    "llama.rope.scaling.attn_factor": 1.5,
                }
            },
            "scaling.attn_factor is 1.5",
        ),
        (
            {"metadata": {"llama.rope.scaling.type": "longrope", "llama.rope.scaling.factor": 1.0}},
            "'longrope'",
        ),
        ({"pre": "falcon"}, "pre-tokenizer 'falcon'"),
        ({"tokenizer": "rwkv"}, "tokenizer of type 'rwkv'"),
        ({"extra": {"blk.0.ssm_a.weight": np.zeros((2, 2), np.float32)}}, "ssm_a"),
    ],
)
def test_what_cannot_be_converted_is_named(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    write_tiny_gguf(tmp_path / "m.gguf", **options)
    with pytest.raises(ModelError, match=message):
        converted(tmp_path / "m.gguf", tmp_path / "out")


def test_storage_types_that_cannot_be_read_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = np.zeros(4)
    write_tiny_gguf(tmp_path / "m.gguf", extra={"blk.0.attn_norm.bias": numbers})
    with pytest.raises(ModelError, match=r"attn_norm\.bias has storage type F64.*such as Q4_K_M"):
        converted(tmp_path / "m.gguf", tmp_path / "out")

    def refuse(*_arguments: object) -> None:
        raise ValueError("97 is not a valid GGMLQuantizationType")

    monkeypatch.setattr(gguf, "GGUFReader", refuse)
    with pytest.raises(ModelError, match="storage type number 97, which the installed gguf"):
        GgufFile(tmp_path / "m.gguf")


@pytest.mark.parametrize("kept", [3, 64, 900, 60_000])
def test_a_truncated_file_is_refused(tmp_path: Path, kept: int) -> None:
    write_tiny_gguf(tmp_path / "m.gguf")
    whole = (tmp_path / "m.gguf").read_bytes()
    assert kept < len(whole)
    (tmp_path / "cut.gguf").write_bytes(whole[:kept])
    with pytest.raises(ModelError, match=r"cut\.gguf (is not a GGUF file|is truncated)"):
        GgufFile(tmp_path / "cut.gguf")


def test_a_file_that_is_not_gguf_is_refused(tmp_path: Path) -> None:
    (tmp_path / "page.gguf").write_text("<html>")
    with pytest.raises(ModelError, match="starts with b'<htm'"):
        GgufFile(tmp_path / "page.gguf")
    with pytest.raises(ModelError, match="No such file"):
        GgufFile(tmp_path / "absent.gguf")
