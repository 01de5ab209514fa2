"""Trace files: requests as JSON lines, compressed, checked against `SHA256SUMS`."""

from __future__ import annotations

import hashlib
import json
import lzma
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from spectrie import _core

__all__ = [
    "TOP_K",
    "TRACES",
    "TUNING",
    "Request",
    "folder",
    "read",
    "verify",
    "write",
    "write_lines",
    "write_sums",
]

TRACES = Path(__file__).resolve().parent / "traces"
"""The split that is reported."""

TOP_K = _core.CPU_TOP_K
TUNING = Path(__file__).resolve().parent / "tuning" / "traces"
"""The other splits, a folder each."""
_SUMS = "SHA256SUMS"


@dataclass(frozen=True, slots=True)
class Request:
    """One request of a trace.

    Attributes:
        prompt_ids: The prompt.
        output_ids: What the model answered, or for code what follows in the file.
        prediction_ids: What the client said the answer would resemble.
        topk: After each token of prompt and output, the model's likeliest next tokens and their
            probabilities.
    """

    prompt_ids: list[int]
    output_ids: list[int]
    prediction_ids: list[int] | None = None
    topk: list[tuple[list[int], list[float]]] | None = None


def folder(split: str) -> Path:
    """Where the traces of a split lie: `report`, `tune` or `choose`."""
    return TRACES if split == "report" else TUNING / split


def write(path: Path, requests: Iterable[Request]) -> None:
    """Writes a `.jsonl.xz` as `spectrie replay --input` reads it."""
    lines = []
    for request in requests:
        entry: dict[str, object] = {
            "prompt_ids": request.prompt_ids,
            "output_ids": request.output_ids,
        }
        if request.prediction_ids is not None:
            entry["prediction_ids"] = request.prediction_ids
        if request.topk is not None:
            entry["topk"] = request.topk
        lines.append(json.dumps(entry, separators=(",", ":")) + "\n")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_lines(path, lines)


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Writes lines, compressed as far as it goes."""
    path.write_bytes(lzma.compress("".join(lines).encode(), preset=9 | lzma.PRESET_EXTREME))


def read(path: Path) -> list[Request]:
    """The requests of a `.jsonl.xz`, in arrival order."""
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        entries = [json.loads(line) for line in lines]
    return [
        Request(
            entry["prompt_ids"],
            entry["output_ids"],
            entry.get("prediction_ids"),
            [(ids, values) for ids, values in entry["topk"]] if "topk" in entry else None,
        )
        for entry in entries
    ]


def write_sums(folder: Path = TRACES) -> None:
    """Notes the hash of every trace of a folder."""
    lines = [f"{_digest(path)}  {path.name}\n" for path in sorted(_traces(folder))]
    (folder / _SUMS).write_text("".join(lines), encoding="utf-8")


def verify(folder: Path = TRACES) -> None:
    """Checks that the traces of a folder are those that were frozen.

    Raises:
        ValueError: A trace is missing, was added or was changed.
    """
    lines = (folder / _SUMS).read_text(encoding="utf-8").splitlines()
    expected = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    found = {path.name: _digest(path) for path in _traces(folder)}
    wrong = sorted(name for name in expected | found if expected.get(name) != found.get(name))
    if wrong:
        raise ValueError(
            f"{folder}: {', '.join(wrong)} differ from {_SUMS}; restore them from version control"
        )


def _traces(folder: Path) -> list[Path]:
    # Answers of a head that were recorded beside a trace name it by its hash.
    return [path for path in folder.glob("*.jsonl.xz") if not path.name.endswith(".head.jsonl.xz")]


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
