"""What COPY takes: the files that a builder is sent, or those of another stage."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from tools.image.root import Failed, Root

__all__ = ["Context", "copy"]


class Context:
    """The folder of a build, of which `.dockerignore` says what is sent.

    Its rules are names with `*`, which takes no slash, `**`, which does, and `?`; `!` stands before one that is sent after
    all. The last that fits holds, for a folder's content too.

    Args:
        folder: The folder.

    Raises:
        Failed: A rule has another sign of a pattern.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        path = folder / ".dockerignore"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        rules = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
        self._rules = [
            (_pattern(rule.removeprefix("!").strip("/")), rule.startswith("!")) for rule in rules
        ]

    def is_sent(self, path: Path) -> bool:
        """Whether a file of the folder is sent."""
        name = path.relative_to(self.folder).as_posix()
        is_sent = True
        for pattern, is_exception in self._rules:
            if pattern.fullmatch(name):
                is_sent = is_exception
        return is_sent

    def files(self, source: str) -> list[Path]:
        """The files that are sent of a file or folder, with the folder's name before them."""
        path = self.folder / source
        found = [path] if path.is_file() else sorted(path.rglob("*"))
        return [one for one in found if one.is_file() and self.is_sent(one)]


def _pattern(rule: str) -> re.Pattern[str]:
    """What a rule fits: names, and all that lies in folders of these names."""
    if re.search(r"[\[\\]", rule):
        raise Failed(f".dockerignore: '{rule}' has a sign that is not known here")
    signs = {"**/": "(.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", rule)
    return re.compile("".join(signs.get(one, re.escape(one)) for one in parts) + "(/.*)?")


def copy(line: str, context: Context, stages: Mapping[str, Root], root: Root) -> None:
    """Does what a COPY says.

    Args:
        line: What follows the word.
        context: Where it copies from, unless from a stage.
        stages: The roots of stages, by name.
        root: Where it copies to.

    Raises:
        Failed: It has another option than `--from`, or there is nothing to copy.
    """
    words = line.split()
    options = [word for word in words if word.startswith("--")]
    *sources, place = [word for word in words if not word.startswith("--")]
    if len(options) > 1 or any(not one.startswith("--from=") for one in options):
        raise Failed(f"COPY {line}: only --from is known")
    to = root.path / place.lstrip("/")
    for source in sources:
        if options:
            origin = stages[options[0].removeprefix("--from=")].path / source.lstrip("/")
            _copy_all(origin, to, place, root)
        elif _send(context, source, to, place) == 0:
            raise Failed(f"COPY {line}: there is no {source}, or it is not sent")


def _copy_all(source: Path, to: Path, place: str, root: Root) -> None:
    is_folder = source.is_dir()
    (to if is_folder or place.endswith("/") else to.parent).mkdir(parents=True, exist_ok=True)
    # A folder's content is copied, as a builder does; links stay links.
    origin = f"{source}/." if is_folder else str(source)
    root.command("cp", "-a", "--no-preserve=ownership", origin, str(to))


def _send(context: Context, source: str, to: Path, place: str) -> int:
    """Copies what is sent of a file or folder; how many files it was."""
    files = context.files(source)
    whole = context.folder / source
    for file in files:
        if whole.is_dir():
            at = to / file.relative_to(whole)
        else:
            at = to / file.name if place.endswith("/") else to
        at.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, at)
        at.chmod(0o755 if at.stat().st_mode & 0o100 else 0o644)
        os.chown(at, 0, 0)
    return len(files)
