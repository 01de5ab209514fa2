"""The figures of the house, for one checkout or several side by side: `house_figures.py CHECKOUT...`."""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tools.walls import tree
from tools.walls.graph import Arrows
from tools.walls.orders import GENERATED, ROOTS
from tools.walls.rust_text import without_tests
from tools.walls.sizes import SOURCES, long_files, tracked

WRITTEN = ("proto", "rust/*/src", "rust/*/stubs", "python/spectrie", "kernels/spectrie_kernels")
"""Where an option is written by hand."""
FOREIGN = ("python/spectrie/model/config_fields.py", "python/spectrie/model/config/fields.py")
"""Fields of other programs' `config.json`, some of which are named like options of ours."""
DRAFT_MEMORY_DEFAULT = re.compile(
    r"\b256\s*<<\s*20\b|\b268_?435_?456\b|\b256\s*\*\s*(?:1024|MIB)\b"
)
REQUEST_TWINS = ("request", "checker", "prompt", "defaults", "generation")
_GENERATED = re.compile(r"@generated|generated (?:by|from)|do not edit", re.IGNORECASE)
_GENERATED_FOLDERS = ("rust/proto/src/generated", "python/spectrie/_proto")
_HEAD = 600


@dataclass(frozen=True)
class House:
    """One checkout."""

    root: Path

    @cached_property
    def arrows(self) -> dict[str, Arrows]:
        """Which file uses which; files for tests alone are none of them."""
        return tree.arrows_below(self.root)

    @cached_property
    def written(self) -> dict[Path, str]:
        """Text of the files written by hand where options are, without tests inside."""
        return {
            file: without_tests(text) if file.suffix == ".rs" else text
            for file, text in self._texts(WRITTEN, (*SOURCES, ".proto"))
            if not self._is_test(file)
        }

    def option_files(self, option: str) -> int:
        """Files written by hand that name an option, `_` or `-` between its words."""
        word = re.compile(rf"(?<!\w)(?<!\w-){option.replace('_', '[_-]')}(?!-?\w)")
        return sum(
            bool(word.search(text))
            for file, text in self.written.items()
            if file.as_posix() not in FOREIGN
        )

    def draft_memory_defaults(self) -> int:
        """Files written by hand that state the default of the draft memory."""
        return sum(bool(DRAFT_MEMORY_DEFAULT.search(text)) for text in self.written.values())

    def request_lines(self) -> tuple[int, str]:
        """Lines of Python that understand a request for `LLM`, and in which files."""
        worker = self.root / "python" / "spectrie" / "worker"
        files = [worker / f"{name}.py" for name in REQUEST_TWINS]
        llm = self.root / "python" / "spectrie" / "llm"
        files += [file for file in sorted(llm.glob("*.py")) if file.stem not in ("__init__", "llm")]
        there = [file for file in files if file.exists() and not _is_generated(file)]
        names = ", ".join(f"{file.parent.name}/{file.name}" for file in there)
        return sum(map(_lines, there)), names

    def largest_folder(self) -> str:
        """The source folder with the most entries."""
        entries = {
            place
            for pattern in ROOTS
            for part in self.root.glob(pattern)
            for file in tracked(self.root, part.relative_to(self.root).as_posix())
            if not file.as_posix().startswith(GENERATED)
            for place in (file, *file.parents)
            if place.is_relative_to(part.relative_to(self.root)) and self.root / place != part
        }
        folder, count = Counter(place.parent for place in entries).most_common(1)[0]
        files = sum(place.parent == folder and place.suffix in SOURCES for place in entries)
        return f"{count} ({files} files, {folder})"

    def long_files(self) -> int:
        """Source files of more than 400 lines."""
        files = [file for file, _ in self._texts(ROOTS, SOURCES)]
        return len(list(long_files(self.root, files, 400, GENERATED)))

    def circles(self) -> str:
        """Groups of files that import each other, and how many of them leave their folder."""
        found = tree.all_circles(self.root, self.arrows)
        across = sum(map(tree.across_rooms, found))
        return f"{len(found)} ({across} across rooms)"

    def scheduler(self) -> str:
        """Files with an `impl Scheduler`, and the fields of the struct."""
        texts = [
            without_tests(file.read_text(encoding="utf-8"))
            for file in sorted((self.root / "rust" / "engine" / "src").rglob("*.rs"))
        ]
        impls = sum(bool(re.search(r"^impl(?:<[^>]*>)? Scheduler\b", text, re.M)) for text in texts)
        body = next(
            (
                found[1]
                for text in texts
                if (found := re.search(r"struct Scheduler[^{;]*\{(.*?)^\}", text, re.M | re.S))
            ),
            "",
        )
        fields = re.findall(r"^    (?:pub(?:\([^)]*\))? )?\w+:", body, re.M)
        return f"{impls}; {len(fields)}"

    def readme_words(self) -> int:
        """Words of the README."""
        return len((self.root / "README.md").read_text(encoding="utf-8").split())

    def source_lines(self) -> int:
        """Lines of the crates, their stubs and the package, without tests inside and generated code."""
        texts = self._texts(("rust/*/src", "rust/*/stubs", "python/spectrie"), SOURCES)
        return sum(
            len((without_tests(text) if file.suffix == ".rs" else text).splitlines())
            for file, text in texts
            if not self._is_test(file)
        )

    def _is_test(self, file: Path) -> bool:
        """Whether a file among the sources of a crate is compiled for tests alone."""
        crate = "/".join(file.parts[:3])
        return (
            crate in self.arrows
            and self.root / file not in self.arrows[crate]
            and file.suffix == ".rs"
        )

    def _texts(
        self, patterns: Sequence[str], suffixes: Sequence[str]
    ) -> Iterator[tuple[Path, str]]:
        for pattern in patterns:
            for part in sorted(self.root.glob(pattern)):
                for file in tracked(self.root, part.relative_to(self.root).as_posix()):
                    if file.suffix not in suffixes:
                        continue
                    text = (self.root / file).read_text(encoding="utf-8")
                    folder = file.as_posix().startswith(_GENERATED_FOLDERS)
                    if not folder and not _is_generated(self.root / file):
                        yield file, text


def rows(house: House) -> Iterator[tuple[str, str]]:
    """Name and value of each figure."""
    options = [str(house.option_files(one)) for one in ("typical_p", "max_step_ms")]
    lines, files = house.request_lines()
    yield (
        "files written by hand for `typical_p`, `max_step_ms`, default of draft memory",
        ", ".join([*options, str(house.draft_memory_defaults())]),
    )
    yield "lines of Python that understand a request", f"{lines} ({files})"
    yield (
        "entries of the largest source folder; files over 400 lines",
        (f"{house.largest_folder()}; {house.long_files()}"),
    )
    yield "import circles between files", house.circles()
    yield "files with `impl Scheduler`; its fields", house.scheduler()
    yield "README words", f"{house.readme_words():,}"
    yield "lines of `rust/*/{src,stubs}` and `python/spectrie`", f"{house.source_lines():,}"


def main(arguments: Sequence[str]) -> None:
    """Prints one table, a column for each checkout."""
    parser = argparse.ArgumentParser(description="Prints the figures of the house.")
    parser.add_argument("checkouts", nargs="*", metavar="CHECKOUT", help="by default this folder")
    checkouts: list[str] = parser.parse_args(arguments).checkouts or ["."]
    for one in checkouts:
        if not (Path(one) / "python" / "spectrie").is_dir():
            parser.error(f"{one} is no checkout of Spectrie: it has no folder python/spectrie")
    columns = [dict(rows(House(Path(one).resolve()))) for one in checkouts]
    print(f"| | {' | '.join(checkouts)} |")
    print(f"|---|{'---|' * len(columns)}")
    for name in columns[0]:
        print(f"| {name} | {' | '.join(column[name] for column in columns)} |")


def _is_generated(file: Path) -> bool:
    return bool(_GENERATED.search(file.read_text(encoding="utf-8")[:_HEAD]))


def _lines(file: Path) -> int:
    return len(file.read_text(encoding="utf-8").splitlines())


if __name__ == "__main__":
    main(sys.argv[1:])
