"""Markdown tables that also read as plain text."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["render_table"]


def render_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose columns also line up as plain text; numbers stand to the right."""
    widths = [
        max(len(header[column]), *(len(row[column]) for row in rows))
        if rows
        else len(header[column])
        for column in range(len(header))
    ]

    def line(cells: Sequence[str], pad: str = " ") -> str:
        fitted = [
            cell.ljust(width, pad) if index == 0 else cell.rjust(width, pad)
            for index, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return f"| {' | '.join(fitted)} |"

    rule = line(["-" if index == 0 else "-:" for index in range(len(header))], "-")
    return "\n".join([line(header), rule, *(line(row) for row in rows)])
