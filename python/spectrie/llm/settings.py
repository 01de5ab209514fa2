"""What a model in this process starts with: its engine's options, and the model's own numbers."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from spectrie.engine.options import EngineOptions
from spectrie.errors import ModelError
from spectrie.llm.keywords import EngineKeywords
from spectrie.options import check_names

if TYPE_CHECKING:
    from spectrie import _core

__all__ = ["engine_options", "read_generation_config"]

log = logging.getLogger("spectrie.llm")

# More than any memory has.
_UNBOUNDED_BYTES = 1 << 62


def read_generation_config(path: Path) -> _core.GenerationConfig | None:
    """The model's own sampling numbers; what no request may ask for is logged.

    Raises:
        ModelError: The file cannot be read or understood.
    """
    from spectrie import _core

    if not path.is_file():
        return None
    try:
        config = _core.GenerationConfig(path.read_bytes())
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror}") from error
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from error
    for name, given in config.unused:
        log.warning("%s: %s is %s, which is not allowed and not used", path, name, given)
    return config


def engine_options(given: EngineKeywords) -> EngineOptions:
    """The engine's options, from keywords that may be of wider types.

    Raises:
        TypeError: An option does not exist; the message has the nearest one.
        ConfigError: An option is out of range.
    """
    check_names(given, EngineKeywords)
    options = dict(given)
    if isinstance(speculation := options.get("speculation"), bool):
        options["speculation"] = "auto" if speculation else "off"
    if (folder := options.get("state_dir")) is not None:
        options["state_dir"] = str(folder)
    # Its prompts are the caller's, in memory already, and a call bounds how many wait.
    options["waiting_bytes"] = _UNBOUNDED_BYTES
    options["corpora"] = tuple(str(corpus) for corpus in given.get("corpora", ()))
    drafter = given.get("drafter", ())
    named = [drafter] if isinstance(drafter, str | Path) else drafter
    options["drafter"] = tuple(str(one) for one in named)
    return EngineOptions(**options)  # type: ignore[arg-type]
