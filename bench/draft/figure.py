"""The figure: accepted over drafted tokens, draft times, memory; an SVG without any library."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

from bench.draft.numbers import best_rival
from bench.draft.run import OURS, Results

__all__ = ["draw"]

_PANELS = (
    ("alone", "code", "Source code, own text only"),
    ("corpus", "code", "Source code, 1.7M-token corpus"),
    ("alone", "human_eval_chat", "HumanEval chat, cold"),
    ("alone", "human_eval_raw", "HumanEval raw, cold"),
    ("alone", "programming", "Other programming languages"),
    ("alone", "edits", "Edits with a prediction"),
    ("alone", "questions", "Questions over a text"),
    ("alone", "summaries", "Summaries"),
    ("alone", "translation", "Translation"),
    ("alone", "languages", "Chat in another language"),
    ("alone", "chat", "Chat in English"),
    ("alone", "turns", "Later turns of a chat"),
    ("alone", "maths", "Maths"),
    ("alone", "warm", "Temperature 0.8"),
    ("online", "routing", "Routing, online"),
)
_COLUMNS = 3
# A page shows it some 800 wide, where letters must still be read.
_WIDTH, _HEIGHT = 300, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 50, 12, 40, 46
_FAMILIES = (
    ("Arctic", "#d55e00"),
    ("SGLang", "#0072b2"),
    ("prompt lookup", "#666666"),
    ("vLLM", "#cc79a7"),
    ("Token Recycling", "#e69f00"),
)
_BARS = (
    ("Median draft with the corpus (microseconds)", "draft_us_p50"),
    ("Memory per corpus token (bytes)", "bytes_per_token"),
)
_BAR, _BAR_TOP, _BAR_MARGIN, _BAR_LEFT, _BAR_WIDTH = 20, 44, 12, 252, 132
_LEGEND, _LETTER = 56, 7
_OURS_COLOUR = "#009e73"
_Point = tuple[float, float, str]


def draw(results: Results, path: Path) -> None:
    """Writes the figure: a panel per trace, our frontier over price, and bars of cost and memory."""
    panels = []
    for place, (condition, trace, title) in enumerate(_PANELS):
        reports = results[condition][trace]
        points = [
            (report["drafted_per_step"], report["accepted_per_step"], name)
            for name, report in reports.items()
            if "absent" not in report and not _is_part(name)
        ]
        best, _ = best_rival(reports)
        panels.append(
            f'<g transform="translate({place % _COLUMNS * _WIDTH} {place // _COLUMNS * _HEIGHT})">'
            f"{_panel(title, points, best)}</g>"
        )
    width = _COLUMNS * _WIDTH
    panels_height = -(-len(_PANELS) // _COLUMNS) * _HEIGHT
    below = panels_height + _LEGEND
    reports = {
        name: report
        for name, report in sorted(results["corpus"]["code"].items(), key=_rank)
        if "absent" not in report and not name.startswith(f"{OURS},")
    }
    height = below + _BAR_TOP + _BAR * len(reports)
    for place, (title, key) in enumerate(_BARS):
        bars = _bars(title, [(name, report.get(key)) for name, report in reports.items()])
        x = place * width // len(_BARS)
        panels.append(f'<g transform="translate({x} {below})">{bars}</g>')
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
        ' font-family="sans-serif" font-size="12">'
        f'<rect width="{width}" height="{height}" fill="white"/>'
        f"{''.join(panels)}{_legend(panels_height)}</svg>\n",
        encoding="utf-8",
    )


def _panel(title: str, points: Sequence[_Point], best: str) -> str:
    right = 4.0 * (int(max(x for x, _, _ in points) / 4) + 1)
    top = 0.5 * (int(max(y for _, y, _ in points) / 0.5) + 1)

    def at(x: float, y: float) -> tuple[float, float]:
        return (
            _LEFT + x / right * (_WIDTH - _LEFT - _RIGHT),
            _HEIGHT - _BOTTOM - y / top * (_HEIGHT - _TOP - _BOTTOM),
        )

    parts = [_heading(_LEFT, title)]
    for step in range(int(right / 4) + 1):
        x, y = at(4.0 * step, 0)
        parts.append(f'<text x="{x:.0f}" y="{y + 18:.0f}" text-anchor="middle">{4 * step}</text>')
    for step in range(int(top / 0.5) + 1):
        x, y = at(0, 0.5 * step)
        end, _ = at(right, 0)
        parts.append(f'<path d="M{x:.1f} {y:.1f}H{end:.1f}" stroke="#dddddd"/>')
        parts.append(f'<text x="{x - 6:.0f}" y="{y + 4:.0f}" text-anchor="end">{step / 2:g}</text>')
    middle, base = at(right / 2, 0)
    parts.append(
        f'<text x="{middle:.0f}" y="{base + 36:.0f}" text-anchor="middle">drafted / step</text>'
    )
    parts.append(
        f'<text transform="translate(14 {_HEIGHT / 2:.0f}) rotate(-90)" text-anchor="middle">'
        "accepted / step</text>"
    )
    ours = sorted((x, y) for x, y, name in points if name.startswith(OURS))
    line = " ".join("{:.1f},{:.1f}".format(*at(x, y)) for x, y in ours)
    parts.append(
        f'<polyline points="{line}" fill="none" stroke="{_OURS_COLOUR}" stroke-width="2"/>'
    )
    for drafted, accepted, name in points:
        x, y = at(drafted, accepted)
        radius = 5 if name in (OURS, best) else 3.5
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{_colour(name)}">'
            f"<title>{escape(name)}: {accepted:.3f} of {drafted:.2f}</title></circle>"
        )
    return "".join(parts)


def _bars(title: str, values: Sequence[tuple[str, float | None]]) -> str:
    """One bar per contender, longest at the width of the figure's half."""
    parts = [_heading(_BAR_MARGIN, title)]
    largest = max((value for _, value in values if value is not None), default=0.0) or 1.0
    for place, (name, value) in enumerate(values):
        y = _BAR_TOP + _BAR * place
        parts.append(f'<text x="{_BAR_MARGIN}" y="{y + 4}">{escape(name)}</text>')
        if value is not None:
            length = max(1.0, value / largest * _BAR_WIDTH)
            parts.append(
                f'<rect x="{_BAR_LEFT}" y="{y - 6}" width="{length:.1f}" height="12"'
                f' fill="{_colour(name)}"/>'
                f'<text x="{_BAR_LEFT + length + 6:.1f}" y="{y + 4}">{value:,.1f}</text>'
            )
    return "".join(parts)


def _rank(item: tuple[str, object]) -> tuple[bool, list[tuple[bool, int, str]]]:
    """Ours first, the others by name, numbers in it by value."""
    name = item[0]
    words = [(w.isdigit(), int(w) if w.isdigit() else 0, w) for w in re.findall(r"\d+|\D+", name)]
    return not name.startswith(OURS), words


def _heading(x: int, title: str) -> str:
    return f'<text x="{x}" y="22" font-size="13" font-weight="bold">{escape(title)}</text>'


def _colour(name: str) -> str:
    if name.startswith(OURS):
        return _OURS_COLOUR
    return next((colour for family, colour in _FAMILIES if name.startswith(family)), "#000000")


def _is_part(name: str) -> bool:
    """Whether it is ours without some of its sources."""
    return name.startswith(f"{OURS},") and not name.startswith(f"{OURS}, price")


def _legend(top: int) -> str:
    parts = []
    families = ((f"{OURS}, over its price", _OURS_COLOUR), *_FAMILIES)
    x = _LEFT
    for family, colour in families:
        parts.append(f'<circle cx="{x}" cy="{top + 10}" r="5" fill="{colour}"/>')
        parts.append(f'<text x="{x + 10}" y="{top + 14}">{escape(family)}</text>')
        x += 30 + _LETTER * len(family)
    parts.append(
        f'<text x="{_LEFT - 5}" y="{top + 36}" fill="#555555">'
        f"large: {OURS} at price 0, and the best rival of the panel</text>"
    )
    return "".join(parts)
