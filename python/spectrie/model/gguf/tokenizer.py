"""Builds tokenizer.json and tokenizer_config.json from the metadata of a GGUF file."""

from __future__ import annotations

from typing import Any

from spectrie.errors import ModelError
from spectrie.model.gguf.file import GgufFile

__all__ = ["tokenizer_config", "tokenizer_json"]

_UNKNOWN, _CONTROL, _USER_DEFINED = 2, 3, 4  # values of tokenizer.ggml.token_type

_BYTE_LEVEL = {
    "type": "ByteLevel",
    "add_prefix_space": False,
    "trim_offsets": True,
    "use_regex": True,
}
_LLAMA3_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_TEKKEN_PATTERN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN2_PATTERN = _LLAMA3_PATTERN.replace(r"\p{N}{1,3}", r"\p{N}")


def _split(pattern: str) -> dict[str, Any]:
    split = {
        "type": "Split",
        "pattern": {"Regex": pattern},
        "behavior": "Isolated",
        "invert": False,
    }
    return {"type": "Sequence", "pretokenizers": [split, _BYTE_LEVEL | {"use_regex": False}]}


# `smollm` is read as transformers reads it. The original tokenizer also isolates digits before the
# byte-level split; that differs only where two or more spaces precede a digit.
_PRE_TOKENIZERS: dict[str, dict[str, Any]] = {
    "default": _BYTE_LEVEL,
    "gpt-2": _BYTE_LEVEL,
    "smollm": _BYTE_LEVEL,
    "llama-bpe": _split(_LLAMA3_PATTERN),
    "llama3": _split(_LLAMA3_PATTERN),
    "llama-v3": _split(_LLAMA3_PATTERN),
    "qwen2": _split(_QWEN2_PATTERN),
    "tekken": _split(_TEKKEN_PATTERN),
}
# They look a word up before they merge, and begin with a token where the file is silent.
_WHOLE_WORDS = ("llama-bpe", "llama3", "llama-v3", "tekken")


def tokenizer_json(file: GgufFile) -> dict[str, Any]:
    """Returns the contents of tokenizer.json.

    Raises:
        ModelError: The tokenizer's type or pre-tokenizer is not supported, or a key is absent.
    """
    kind = file.required("tokenizer.ggml.model")
    if kind not in ("gpt2", "llama"):
        raise ModelError(
            f"{file.path} has a tokenizer of type {kind!r}; supported: gpt2 (byte-level BPE), "
            "llama (SentencePiece). Use the model's original folder with its tokenizer.json"
        )
    tokens: list[str] = file.required("tokenizer.ggml.tokens")
    types: list[int] = file.value("tokenizer.ggml.token_type", [1] * len(tokens))
    form = _byte_level(file, tokens) if kind == "gpt2" else _sentence_piece(file, tokens)
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            _added_token(index, tokens[index], special=kind != _USER_DEFINED)
            for index, kind in enumerate(types)
            if kind in (_UNKNOWN, _CONTROL, _USER_DEFINED)
        ],
        **form,
    }


def _byte_level(file: GgufFile, tokens: list[str]) -> dict[str, Any]:
    pre = file.value("tokenizer.ggml.pre", "default")
    if pre not in _PRE_TOKENIZERS:
        raise ModelError(
            f"{file.path} has pre-tokenizer {pre!r}; supported: {', '.join(_PRE_TOKENIZERS)}. "
            "Use the model's original folder with its tokenizer.json"
        )
    merges: list[str] = file.required("tokenizer.ggml.merges")
    return {
        "normalizer": {"type": "NFC"} if pre == "qwen2" else None,
        "pre_tokenizer": _PRE_TOKENIZERS[pre],
        "post_processor": _post_processor(file, tokens, default=pre in _WHOLE_WORDS),
        "decoder": _BYTE_LEVEL | {"add_prefix_space": True},
        "model": _bpe(tokens, [merge.split(" ", 1) for merge in merges])
        | {"continuing_subword_prefix": "", "end_of_word_suffix": ""}
        | {"ignore_merges": pre in _WHOLE_WORDS},
    }


def _sentence_piece(file: GgufFile, tokens: list[str]) -> dict[str, Any]:
    """Returns a byte-pair model with merges ordered by score, spaces as `▁` and byte fallback."""
    scores: list[float] = file.required("tokenizer.ggml.scores")
    unknown = file.value("tokenizer.ggml.unknown_token_id", 0)
    prefixed = bool(file.value("tokenizer.ggml.add_space_prefix", True))
    spaces = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    normalizers = [{"type": "Prepend", "prepend": "▁"}, spaces] if prefixed else [spaces]
    decoders: list[dict[str, Any]] = [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
    ]
    if prefixed:
        decoders.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    return {
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "pre_tokenizer": None,
        "post_processor": _post_processor(file, tokens, default=True),
        "decoder": {"type": "Sequence", "decoders": decoders},
        "model": _bpe(tokens, _merges(tokens, scores))
        | {"unk_token": tokens[int(unknown)], "fuse_unk": True, "byte_fallback": True},
    }


def _merges(tokens: list[str], scores: list[float]) -> list[list[str]]:
    """Returns every split of a piece into two others, best score first.

    SentencePiece joins the neighbours whose union scores highest; byte-pair merges in this order have
    the same effect.
    """
    index_of = {token: index for index, token in enumerate(tokens)}
    merges: list[tuple[float, int, int, int]] = []
    for index, token in enumerate(tokens):
        for cut in range(1, len(token)):
            left, right = index_of.get(token[:cut]), index_of.get(token[cut:])
            if left is not None and right is not None:
                merges.append((-scores[index], index, left, right))
    return [[tokens[left], tokens[right]] for _, _, left, right in sorted(merges)]


def _bpe(tokens: list[str], merges: list[list[str]]) -> dict[str, Any]:
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": False,
        "vocab": {token: index for index, token in enumerate(tokens)},
        "merges": merges,
    }


def tokenizer_config(file: GgufFile) -> dict[str, Any]:
    """Returns the contents of tokenizer_config.json, without the chat template."""
    tokens: list[str] = file.required("tokenizer.ggml.tokens")
    config: dict[str, Any] = {
        "clean_up_tokenization_spaces": False,
        "model_max_length": int(file.required(f"{file.architecture}.context_length")),
        "tokenizer_class": "PreTrainedTokenizerFast",
    }
    names = {"bos": "bos", "eos": "eos", "unknown": "unk", "padding": "pad"}
    for theirs, ours in names.items():
        index = file.value(f"tokenizer.ggml.{theirs}_token_id")
        if index is not None and 0 <= int(index) < len(tokens):
            config[f"{ours}_token"] = tokens[int(index)]
    return config


def _added_token(index: int, content: str, *, special: bool) -> dict[str, Any]:
    return {
        "id": index,
        "content": content,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": special,
    }


def _post_processor(file: GgufFile, tokens: list[str], *, default: bool) -> dict[str, Any] | None:
    bos = file.value("tokenizer.ggml.bos_token_id")
    if bos is None or not file.value("tokenizer.ggml.add_bos_token", default):
        return None
    start = tokens[int(bos)]
    special = {"SpecialToken": {"id": start, "type_id": 0}}
    first, second = ({"Sequence": {"id": name, "type_id": 0}} for name in "AB")
    return {
        "type": "TemplateProcessing",
        "single": [special, first],
        "pair": [special, first, special, second],
        "special_tokens": {start: {"id": start, "ids": [int(bos)], "tokens": [start]}},
    }
