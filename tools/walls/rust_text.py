"""Rust source without what is no code: comments, strings and test modules become blanks."""

from __future__ import annotations

import re
from functools import cache

__all__ = ["code_of", "inline_modules", "matching_brace", "without_tests"]

_SKIPPED = re.compile(
    r"""
    //[^\n]*                                 # a line comment
  | /\*.*?\*/                                # a block comment
  | b?r(?P<hashes>\#*)"(.*?)"(?P=hashes)     # a raw string
  | b?"(?:\\.|[^"\\])*"                      # a string
  | b?'(?:\\.[^']*|[^'\\\n])'                # a character; a lifetime has no second quote
    """,
    re.VERBOSE | re.DOTALL,
)
# What a condition with `any` or `not` lets through is compiled without tests as well.
_TEST_ITEM = re.compile(r"#\[cfg\(\s*(?:test|all\(\s*test\b[^\]]*\))\s*\)\]\s*(?:#\[[^\]]*\]\s*)*")
_MODULE = re.compile(r"\bmod\s+(\w+)\s*\{")


@cache
def code_of(text: str) -> str:
    """The text with comments, strings and items for tests alone replaced by blanks; lines stay."""
    code = _SKIPPED.sub(lambda found: _blank(found[0]), text)
    for begin, end in _test_items(code):
        code = code[:begin] + _blank(code[begin:end]) + code[end:]
    return code


def without_tests(text: str) -> str:
    """The text without items for tests alone."""
    for begin, end in reversed(_test_items(_SKIPPED.sub(lambda found: _blank(found[0]), text))):
        text = text[:begin] + text[end:]
    return text


def inline_modules(code: str) -> list[tuple[int, int, str]]:
    """Begin, end and name of each `mod name { ... }`."""
    return [
        (found.end(), matching_brace(code, found.end() - 1), found[1])
        for found in _MODULE.finditer(code)
    ]


def matching_brace(code: str, at: int) -> int:
    """The place of the brace that closes the one at `at`; the end of the text if none does."""
    depth = 0
    for place in range(at, len(code)):
        depth += {"{": 1, "}": -1}.get(code[place], 0)
        if depth == 0:
            return place
    return len(code)


def _test_items(code: str) -> list[tuple[int, int]]:
    items = []
    at = 0
    while found := _TEST_ITEM.search(code, at):
        at = _item_end(code, found.end())
        items.append((found.start(), at))
    return items


def _item_end(code: str, at: int) -> int:
    """Where an item ends: its semicolon, or the brace that closes it."""
    for place in range(at, len(code)):
        if code[place] == ";":
            return place + 1
        if code[place] == "{":
            end = matching_brace(code, place) + 1
            # `use a::{b, c};` continues after its brace.
            return end + 1 if code[end : end + 1] == ";" else end
    return len(code)


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)
