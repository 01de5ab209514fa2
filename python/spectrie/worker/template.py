"""The chat template that older model folders keep inside tokenizer_config.json."""

from __future__ import annotations

import json
from pathlib import Path

__all__ = ["embedded_chat_template"]


def embedded_chat_template(folder: Path) -> str | None:
    """Returns the template of tokenizer_config.json, or None when there is none to read.

    Where that file lists several templates, the one named `default` counts.
    """
    path = folder / "tokenizer_config.json"
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    template = content.get("chat_template") if isinstance(content, dict) else None
    if isinstance(template, list):
        named = {t.get("name"): t.get("template") for t in template if isinstance(t, dict)}
        template = named.get("default")
    return template if isinstance(template, str) else None
