"""Each wall of this checkout falls when something is planted in a copy of it.

Reading a checkout takes ten seconds, so what cannot hide each other is planted together.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.walls import tree
from tools.walls.detours import detours
from tools.walls.orders import CIRCLES, ROOTS
from tools.walls.sizes import tracked

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources of this checkout, under version control of their own."""
    copy = tmp_path_factory.mktemp("clean")
    subprocess.run(["git", "init", "-q", str(copy)], check=True)
    for pattern in ROOTS:
        for part in ROOT.glob(pattern):
            for file in tracked(ROOT, part.relative_to(ROOT).as_posix()):
                if file.suffix in (".rs", ".py", ".pyi"):
                    (copy / file).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(ROOT / file, copy / file)
    return copy


Copy = Callable[[], Path]
ARROWS = [
    (
        "rust/engine/src/cache/pool.rs",
        "use crate::scheduling::Scheduler;\n",
        "rust/engine/src: cache/pool.rs uses scheduling/scheduler.rs",
    ),
    (
        "rust/trie/src/store/block.rs",
        "use crate::draft::tree::DraftTree;\n",
        "rust/trie/src: store/block.rs uses draft/tree.rs",
    ),
    (
        "python/spectrie/model/plan.py",
        "from spectrie.model.runner.runner import Runner\n",
        "python/spectrie/model: plan.py uses runner/runner.py",
    ),
    (
        "kernels/spectrie_kernels/reference/__init__.py",
        "from spectrie_kernels.device import tree_attention as _mine\n",
        "kernels/spectrie_kernels: reference/__init__.py uses device/tree_attention.py",
    ),
    (
        "python/spectrie/model/config/__init__.py",
        "from spectrie.model.runner.runner import Runner\n__all__ = ['Runner']\n",
        "python/spectrie/model: config/__init__.py uses runner/runner.py",
    ),
    (
        "rust/engine/src/cache/mod.rs",
        "pub use crate::scheduling::Scheduler;\n",
        "rust/engine/src: cache/mod.rs uses scheduling/scheduler.rs",
    ),
    (
        "rust/engine/src/cache/loans.rs",
        '#[cfg(any(test, feature = "x"))]\nuse crate::scheduling::Scheduler;\n',
        "rust/engine/src: cache/loans.rs uses scheduling/scheduler.rs",
    ),
    (
        "rust/engine/src/cache/table.rs",
        '#[path = "../scheduling/hidden.rs"]\nmod hidden;\n',
        "rust/engine/src/cache/table.rs:1: brings a file in by its place on disk",
    ),
    (
        "python/spectrie/worker/link.py",
        "import importlib\n\nROUTER = importlib.import_module('spectrie.cli.router')\n",
        "python/spectrie/worker/link.py:3: imports one of our modules by its name",
    ),
    (
        "bench/routing.py",
        "from importlib import import_module\n\nOURS = import_module(f'spectrie.{1}')\n",
        "bench/routing.py:3: imports one of our modules by its name",
    ),
]
"""What is planted in which file, one in each, and what is then found."""


@pytest.fixture(scope="module")
def copy(clean: Path, tmp_path_factory: pytest.TempPathFactory) -> Copy:
    """Makes one more copy, to plant in."""
    folder = tmp_path_factory.mktemp("copies")

    def made() -> Path:
        return Path(shutil.copytree(clean, folder / str(len(list(folder.iterdir())))))

    return made


@pytest.fixture(scope="module")
def with_arrows(copy: Copy) -> list[str]:
    """What is broken where every arrow of `ARROWS` is planted."""
    assert len({file for file, _, _ in ARROWS}) == len(ARROWS)
    root = copy()
    for file, text, _ in ARROWS:
        plant(root / file, text)
    return broken(root)


@pytest.fixture(scope="module")
def with_circles(copy: Copy) -> list[str]:
    """What is broken where one room has a circle by name, and another by what it hands on and uses."""
    root = copy()
    for one, other in (("priority", "fairness"), ("fairness", "priority")):
        plant(root / f"rust/engine/src/scheduling/{one}.rs", f"use super::{other}::anything;\n")
    cache = root / "rust/engine/src/cache"
    plant(cache / "pool.rs", "use super::Kept;\n")
    with (cache / "mod.rs").open("a", encoding="utf-8") as file:
        file.write("pub use pool::PagePool as Mine;\npub struct Kept(Mine);\n")
    return broken(root)


def broken(root: Path) -> list[str]:
    arrows = tree.arrows_below(root)
    circles = [" ".join(one) for one in tree.all_circles(root, arrows) if one not in CIRCLES]
    return [
        *tree.wrong_arrows(root, arrows),
        *circles,
        *detours(root, arrows),
        *tree.too_long(root),
        *tree.crowded(root),
    ]


def plant(file: Path, text: str) -> None:
    file.write_text(text + file.read_text(encoding="utf-8"), encoding="utf-8")


@pytest.mark.parametrize(("file", "found"), [(file, found) for file, _, found in ARROWS])
def test_an_arrow_up_is_found(with_arrows: list[str], file: str, found: str) -> None:
    assert [line for line in with_arrows if line == found] == [found], file


def test_a_name_that_is_handed_on_and_used_is_a_use(with_circles: list[str]) -> None:
    """`cache/mod.rs` hands on what a file of its room makes, and uses it: the two are a circle."""
    folder = "rust/engine/src/cache"
    assert f"{folder}/mod.rs {folder}/pool.rs" in with_circles


def test_a_circle_is_found(with_circles: list[str]) -> None:
    folder = "rust/engine/src/scheduling"
    assert any(f"{folder}/fairness.rs {folder}/priority.rs" in line for line in with_circles)


def test_files_and_folders_that_are_too_large_are_found_and_nothing_else_is(copy: Copy) -> None:
    root = copy()
    long = root / "rust/sampling/src/typical.rs"
    lines = len(long.read_text(encoding="utf-8").splitlines())
    plant(long, "//\n" * (401 - lines))
    folder = root / "python" / "spectrie" / "engine"
    there = len(list(folder.iterdir()))
    for number in range(17 - there):
        (folder / f"one_more_{number}.py").touch()
    assert broken(root) == [
        "rust/sampling/src/typical.rs: 401 lines",
        "python/spectrie/engine: 17 entries",
    ]
