"""Floors and goals stand beside what was measured; none of them is a check."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from bench.gpu.goals import GOALS, beside, share_of_copy, share_of_matrix

FOLDER = Path(__file__).resolve().parents[3] / "bench" / "gpu"


@pytest.mark.parametrize(
    ("name", "value", "reached"),
    [
        ("rows 8 over 1", 1.04, True),
        ("rows 8 over 1", 1.06, False),
        ("prefill, share of matrix", 0.5, True),
        ("prefill, share of matrix", 0.4, False),
        ("prefill, share of matrix", None, None),
    ],
)
def test_a_floor_is_reached_from_its_side(
    name: str, value: float | None, reached: bool | None
) -> None:
    assert beside(name, value)["reached"] is reached
    assert beside(name, value)["floor"] == GOALS[name].floor


def attached() -> list[re.Pattern[str]]:
    """The names given to `beside`, anything in place of what is filled in."""
    calls = [
        node
        for file in FOLDER.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "beside"
    ]
    found = []
    for call in calls:
        name = call.args[0]
        parts = name.values if isinstance(name, ast.JoinedStr) else [name]
        texts = [
            re.escape(str(one.value)) if isinstance(one, ast.Constant) else ".*" for one in parts
        ]
        found.append(re.compile("".join(texts)))
    return found


def test_every_goal_stands_beside_a_measurement() -> None:
    patterns = attached()
    assert [name for name in GOALS if not any(one.fullmatch(name) for one in patterns)] == []


def test_shares_are_of_what_the_device_does() -> None:
    device = {"copy_bytes_per_second": 4e12, "matrix_flops_per_second": 8e14}
    assert share_of_copy(1e9, 500, device) == 0.5
    assert share_of_matrix(1e11, 500, device) == 0.25
    assert share_of_copy(1e9, 500, {}) is None
