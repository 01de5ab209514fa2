"""What the demo concludes: speed and steps, and whether any answer depends on how it was made."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from spectrie.cli.console.terminal import Painter
from spectrie.cli.demo.asking import Answer
from spectrie.printing.markdown import render_table
from spectrie.types import Source

__all__ = ["Answers", "conclude"]

_OF_DRAFTERS = (Source.HEAD.label, Source.DRAFT_MODEL.label)


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers to one prompt.

    Attributes:
        title: The prompt's name.
        off: Without speculation.
        on: With it, without a drafter unless the server has one anyhow.
        drafter: With a drafter besides; None if there is none.
    """

    title: str
    off: Answer
    on: Answer
    drafter: Answer | None = None

    @property
    def are_identical(self) -> bool:
        """Whether they are one answer."""
        others = [self.on] if self.drafter is None else [self.on, self.drafter]
        return all(other.essence == self.off.essence for other in others)


def conclude(answers: list[Answers], painter: Painter, drafter: str | None = None) -> int:
    """Prints the tables; 1 when an answer depends on speculation.

    Args:
        answers: One item a prompt.
        painter: Colours stdout.
        drafter: Name of the drafter of the last answers.
    """
    print(render_table(*_speculation(answers)))
    if drafter is not None:
        print(f"\nwith {drafter} besides:")
        print(render_table(*_with_drafter(answers)))
    differing = [one.title for one in answers if not one.are_identical]
    if differing:
        sys.stdout.flush()
        message = f"the answer depends on speculation: {', '.join(differing)}"
        print(f"spectrie: {message}; please report this", file=sys.stderr)
        return 1
    print(painter.dim("tok/s: decoding alone, as the server measured it"))
    return 0


def _speculation(answers: list[Answers]) -> tuple[list[str], list[list[str]]]:
    header = ["prompt", "tokens", "tok/s off", "tok/s on", "speed-up"]
    header += ["tokens/step", "accepted from", "identical"]
    rows = []
    for one in answers:
        on = one.on.completion
        rows.append(
            [
                one.title,
                str(on.usage.completion_tokens),
                f"{one.off.tokens_per_second:.1f}",
                f"{one.on.tokens_per_second:.1f}",
                f"{one.on.tokens_per_second / one.off.tokens_per_second:.2f}x",
                f"{on.speculation.tokens_per_step:.2f}",
                _sources(one.on),
                "yes" if one.on.essence == one.off.essence else "NO",
            ]
        )
    return header, rows


def _with_drafter(answers: list[Answers]) -> tuple[list[str], list[list[str]]]:
    header = ["prompt", "tok/s", "over on", "tokens/step", "steps", "steps saved"]
    header += ["of drafter", "accepted from", "identical"]
    rows = []
    for one in answers:
        if one.drafter is None:
            continue
        found, before = (answer.completion.speculation for answer in (one.drafter, one.on))
        of_drafter = sum(found.accepted_by_source.get(name, 0) for name in _OF_DRAFTERS)
        rows.append(
            [
                one.title,
                f"{one.drafter.tokens_per_second:.1f}",
                f"{one.drafter.tokens_per_second / one.on.tokens_per_second:.2f}x",
                f"{found.tokens_per_step:.2f}",
                str(found.verify_steps),
                str(before.verify_steps - found.verify_steps),
                str(of_drafter),
                _sources(one.drafter),
                "yes" if one.drafter.essence == one.off.essence else "NO",
            ]
        )
    return header, rows


def _sources(answer: Answer) -> str:
    by_source = answer.completion.speculation.accepted_by_source.items()
    return ", ".join(f"{name} {count}" for name, count in by_source if count) or "none"
