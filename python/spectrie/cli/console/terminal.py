"""What the terminal can show: colours by source, plain text where there are none."""

from __future__ import annotations

import os
import sys
from typing import TextIO

from spectrie.types import Source

__all__ = ["Painter", "print_progress"]

_COLOURS = {
    Source.MODEL: "",
    Source.PREDICTION: "32",
    Source.REQUEST: "36",
    Source.SHARED: "34",
    Source.CORPUS: "35",
    Source.RECYCLED: "33",
    Source.GRAMMAR: "91",
    Source.HEAD: "94",
    Source.DRAFT_MODEL: "95",
}
_RESET = "\x1b[0m"


def print_progress(line: str) -> None:
    """Prints a line of progress on stderr."""
    print(line, file=sys.stderr, flush=True)


class Painter:
    """Colours text for one output stream; does nothing where colours would be noise.

    Colours are on for terminals; the environment's NO_COLOR and TERM=dumb turn them off.

    Attributes:
        enabled: Whether it colours at all.
    """

    def __init__(self, stream: TextIO | None = None, enabled: bool | None = None) -> None:
        stream = sys.stdout if stream is None else stream
        if enabled is None:
            dumb = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
            enabled = stream.isatty() and not dumb
        self.enabled = enabled

    def source(self, text: str, source: Source) -> str:
        """`text` in the colour of its source."""
        return self._wrap(text, _COLOURS[source])

    def dim(self, text: str) -> str:
        """`text`, subdued."""
        return self._wrap(text, "2")

    def bold(self, text: str) -> str:
        """`text`, emphasised."""
        return self._wrap(text, "1")

    def legend(self) -> str:
        """One line that names the colours of the sources; empty without colours."""
        if not self.enabled:
            return ""
        names = [self.source(source.label, source) for source in Source]
        return "tokens by source: " + "  ".join(names)

    def _wrap(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}{_RESET}" if self.enabled and code and text else text
