"""Recorded requests: lines with a prompt and the answer that the model gave to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from spectrie.cli.corpus.records import Record, RecordError, describe, token_ids
from spectrie.cli.corpus.vocabulary import Vocabulary

__all__ = ["RecordedRequest", "TopK", "read_request"]

TopK = tuple[list[list[int]], list[list[float]]]
"""Ids and probabilities by position of prompt ++ output; empty rows where nothing was recorded."""


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """A request and its answer, as token ids.

    Attributes:
        prompt_ids: The prompt.
        output_ids: What the model answered.
        prediction_ids: What the caller expected it to answer, or None.
        namespace: Whose memory it uses.
        topk: What the model gave after each token, or None.
    """

    prompt_ids: list[int]
    output_ids: list[int]
    prediction_ids: list[int] | None
    namespace: str
    topk: TopK | None


def read_request(record: Record, vocabulary: Callable[[], Vocabulary]) -> RecordedRequest:
    """Reads a request from the object of its line; fields of other names are ignored.

    Args:
        record: Has `prompt_ids` and `output_ids`, or `prompt` and `output` as text; may have
            `prediction_ids` or `prediction`, `namespace`, and `topk`.
        vocabulary: Called for text alone.

    Raises:
        RecordError: A field is missing or not what it should be.
        ConfigError: From `vocabulary`.
    """
    prompt = _required(_ids(record, "prompt", vocabulary, add_special_tokens=True), "prompt")
    output = _required(_ids(record, "output", vocabulary), "output")
    namespace = record.get("namespace")
    namespace = "default" if namespace is None else namespace
    if not isinstance(namespace, str):
        raise RecordError(f"namespace: expected text, got {describe(namespace)}")
    topk = record.get("topk")
    return RecordedRequest(
        prompt_ids=prompt,
        output_ids=output,
        prediction_ids=_ids(record, "prediction", vocabulary),
        namespace=namespace,
        topk=None if topk is None else _topk(topk, len(prompt) + len(output)),
    )


def _required(ids: list[int] | None, field: str) -> list[int]:
    if ids is None:
        raise RecordError(f"{field}_ids is required: give ids, or {field} as text")
    return ids


def _ids(
    record: Record,
    field: str,
    vocabulary: Callable[[], Vocabulary],
    add_special_tokens: bool = False,
) -> list[int] | None:
    ids = record.get(f"{field}_ids")
    if ids is not None:
        return token_ids(ids, f"{field}_ids")
    text = record.get(field)
    if text is None:
        return None
    if not isinstance(text, str):
        raise RecordError(f"{field}: expected text, got {describe(text)}")
    try:
        return vocabulary().tokenizer.encode(text, add_special_tokens)
    except ValueError as error:
        raise RecordError(f"{field}: {error}") from None


def _topk(value: object, expected: int) -> TopK:
    if not isinstance(value, list) or len(value) != expected:
        got = f"{len(value)} of them" if isinstance(value, list) else describe(value)
        raise RecordError(
            f"topk: expected a list of {expected} entries, one for each token of prompt and output,"
            f" got {got}"
        )
    ids: list[list[int]] = []
    probabilities: list[list[float]] = []
    for index, entry in enumerate(value):
        row_ids, row_probabilities = _entry([[], []] if entry is None else entry, f"topk[{index}]")
        ids.append(row_ids)
        probabilities.append(row_probabilities)
    return ids, probabilities


def _entry(entry: Any, field: str) -> tuple[list[int], list[float]]:
    if not isinstance(entry, list) or len(entry) != 2 or not isinstance(entry[1], list):
        raise RecordError(f"{field}: expected [ids, probabilities] or null, got {describe(entry)}")
    ids, probabilities = token_ids(entry[0], f"{field}[0]"), entry[1]
    if len(ids) != len(probabilities):
        raise RecordError(
            f"{field}: expected as many probabilities as ids, got {len(probabilities)} for {len(ids)}"
        )
    for probability in probabilities:
        if type(probability) not in (int, float) or not 0 <= probability <= 1:
            raise RecordError(
                f"{field}[1]: expected probabilities of 0..1, got {describe(probability)}"
            )
    return ids, probabilities
