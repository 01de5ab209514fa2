"""The models that one server serves, and their names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from spectrie.cli.flags.settings import Settings
from spectrie.errors import ConfigError

__all__ = ["Served", "check_several", "served_models", "state_folder"]

_FLAG = "--served-model-name"


@dataclass(frozen=True, slots=True)
class Served:
    """A model that is served.

    Attributes:
        name: The model as clients write it.
        folder: Its files.
    """

    name: str
    folder: Path


def served_models(
    models: Sequence[str], names: Sequence[str], resolve: Callable[[str], Served]
) -> list[Served]:
    """Names the models of a server, in the order given.

    Args:
        models: As written at the command line.
        names: Values of `--served-model-name`: `NAME` where one model is served, or `NAME=MODEL`.
        resolve: Finds a model, under its own name.

    Raises:
        ConfigError: A model is given twice, a name is of no model, or two models have one name.
    """
    twice = next((model for model in models if models.count(model) > 1), None)
    if twice is not None:
        raise ConfigError(f"MODEL: {twice!r} is given twice")
    by_model: dict[str, str] = {}
    for text in names:
        name, model = _pair(text, models)
        if model in by_model:
            raise ConfigError(f"{_FLAG}: {model!r} is named {by_model[model]!r} and {name!r}")
        by_model[model] = name
    served: dict[str, Served] = {}
    for model in models:
        found = resolve(model)
        name = by_model.get(model, found.name)
        if name in served:
            raise ConfigError(
                f"two models are named {name!r}: name one otherwise with {_FLAG} NAME={model}"
            )
        served[name] = Served(name, found.folder)
    return list(served.values())


def _pair(text: str, models: Sequence[str]) -> tuple[str, str]:
    """A name and its model as the command line has it."""
    name, equals, model = text.partition("=")
    if not equals and len(models) == 1:
        return text, models[0]
    if not equals:
        raise ConfigError(
            f"{_FLAG} {text}: several models are served, write {_FLAG} NAME=MODEL for each"
        )
    if not name or model not in models:
        raise ConfigError(f"{_FLAG} {text}: allowed: NAME=MODEL, with one of {', '.join(models)}")
    return name, model


def check_several(settings: Settings) -> None:
    """Refuses options that belong to one model where several are served.

    Raises:
        ConfigError: Corpora or a drafter were given.
    """
    if settings.corpus:
        raise ConfigError(
            "--corpus: a corpus is made for one model's tokenizer; with several models, add it to"
            " the running server: spectrie corpus add CORPUS --model NAME --server ADMIN"
        )
    if any(name != "off" for name in settings.drafter):
        raise ConfigError("--drafter: a drafter is made for one model; allowed with several: off")


def state_folder(folder: str | None, name: str, num_models: int) -> str | None:
    """The folder in which a model's workers keep their state: one of its own among several."""
    if folder is None or num_models == 1:
        return folder
    return str(Path(folder) / "models" / quote(name, safe="").replace(".", "%2E"))
