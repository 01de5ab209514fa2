"""Traces as the 32-bit words that `fit` of spectrie-trie reads."""

from __future__ import annotations

import array
from typing import Any

from bench.draft import trace

__all__ = ["answer_words", "request_words"]


def request_words(request: trace.Request, *, recycle: bool) -> bytes:
    """One request; without `recycle` it has no likeliest tokens of the model."""
    top = (request.topk or []) if recycle else []
    prediction = request.prediction_ids or []
    counts = [len(request.prompt_ids), len(request.output_ids), len(prediction), len(top)]
    ids = [*counts, *request.prompt_ids, *request.output_ids, *prediction]
    words = array.array("I", ids)
    for tokens, given in top:
        padding = [0] * (trace.TOP_K - len(tokens))
        _extend(words, [*tokens, *padding], [*given, *padding])
    return words.tobytes()


def answer_words(head: list[list[list[list[Any]]]]) -> bytes:
    """What a head answered along the output of one request."""
    words = array.array("I")
    for levels in head:
        words.append(len(levels))
        for ids, probabilities, others, scores in levels:
            words.extend([len(ids), len(others)])
            _extend(words, ids, probabilities)
            _extend(words, others, scores)
    return words.tobytes()


def _extend(words: array.array[int], ids: list[int], probabilities: list[float]) -> None:
    words.extend(ids)
    words.frombytes(array.array("f", probabilities).tobytes())
