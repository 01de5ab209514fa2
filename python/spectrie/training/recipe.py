"""What a training is asked for, and its identity: a folder of half-done work belongs to one of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from spectrie.errors import ConfigError
from spectrie.training.settings import TrainSettings
from spectrie.training.texts.prompts import PROMPT_PARTS

__all__ = ["Recipe", "claim"]


@dataclass(frozen=True, slots=True)
class Recipe:
    """One training.

    Attributes:
        model: The target, as `spectrie.LLM` takes it.
        output: Folder of the finished head.
        work: Folder of answers, features and checkpoints; what a killed training continues from.
        kind: A name of `KINDS`.
        data: Files of chats, prompts and text.
        prompts: How many built-in prompts are answered too.
        answers: Whether the target answers prompts; without it the data must hold the answers.
        unseen: Files whose text must not be trained on.
        namespace: Whose text the data is; None if it is no tenant's.
        licence: Licence of the data and so of the head.
        commit: Commit of the code that trains it; None if that is not known.
        answer_tokens: Longest answer.
        sample_tokens: Longest sample.
        vocabulary: Tokens that the head can name; of low rank, those that every step of training weighs.
        head_rank: Rank of the factors by which the head finds its tokens among all; None: it names a cut.
        disk_bytes: Maximum size of the features on disk.
        threads: CPU threads; None takes what the model would be served with, and torch's own number.
        settings: How to train.
    """

    model: str
    output: Path
    work: Path
    kind: str = "eagle3"
    data: tuple[Path, ...] = ()
    prompts: int = 0
    answers: bool = False
    unseen: tuple[Path, ...] = ()
    namespace: str | None = None
    licence: str = "unknown"
    commit: str | None = None
    answer_tokens: int = 144
    sample_tokens: int = 512
    vocabulary: int = 8192
    head_rank: int | None = None
    disk_bytes: int = 4 << 30
    threads: int | None = None
    settings: TrainSettings = field(default_factory=TrainSettings)

    def sources(self) -> list[dict[str, str]]:
        """Name and SHA-256 of each data file, and the built-in prompts.

        Raises:
            ConfigError: A file cannot be read.
        """
        found = [{"name": path.name, "sha256": _digest(path)} for path in self.data]
        if self.prompts:
            name = f"{self.prompts} built-in prompts"
            found.append({"name": name, "sha256": _digest(PROMPT_PARTS)})
        return found


def claim(recipe: Recipe, model_hash: str) -> None:
    """Makes the work folder this training's own.

    Raises:
        ConfigError: It belongs to another training, or cannot be written.
    """
    path = recipe.work / "recipe.json"
    wanted = dict(_facts(recipe, model_hash))
    try:
        recipe.work.mkdir(parents=True, exist_ok=True)
        if path.exists():
            _check(path, json.loads(path.read_text(encoding="utf-8")), wanted)
        else:
            path.write_text(json.dumps(wanted, indent=1) + "\n", encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot use {recipe.work}: {error}") from error


def _check(path: Path, found: Any, wanted: dict[str, Any]) -> None:
    there = found if isinstance(found, dict) else {}
    other = [name for name in wanted if there.get(name) != wanted[name]]
    if other:
        raise ConfigError(
            f"{path.parent} holds the work of another training (other: {', '.join(other)}); "
            "remove it, or name another with --work"
        )


def _facts(recipe: Recipe, model_hash: str) -> Iterator[tuple[str, Any]]:
    """What the answers, features and weights follow from."""
    yield "model", model_hash
    yield "data", recipe.sources()
    yield "unseen", [_digest(path) for path in recipe.unseen]
    for name in ("kind", "answers", "answer_tokens", "sample_tokens", "vocabulary", "disk_bytes"):
        yield name, getattr(recipe, name)
    yield "head_rank", recipe.head_rank
    yield "settings", asdict(recipe.settings)


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
