"""The walls' reader: what it takes for a use, and that it finds each thing it is there to find."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tools.walls.graph import circles, upward
from tools.walls.python_paths import python_arrows
from tools.walls.rust_paths import rust_arrows
from tools.walls.sizes import full_folders, long_files, tracked

ORDER = (("error",), ("cache",), ("scheduling",), ("lib",))
CRATE = {
    "lib.rs": "mod cache;\nmod error;\nmod scheduling;\npub use error::Error;\npub use cache::Pages;\n",
    "error.rs": "pub struct Error;\n",
    "cache/mod.rs": "mod pages;\nmod prefix;\npub use pages::Pages;\n",
    "cache/pages.rs": "use crate::Error;\npub struct Pages(Error);\n",
    "cache/prefix.rs": "use super::Pages;\npub fn find(_: &Pages) {}\n",
    "scheduling/mod.rs": "mod queue;\nmod batch;\npub use queue::Queue;\n",
    "scheduling/queue.rs": "use crate::cache::Pages;\npub struct Queue(Pages);\n",
    "scheduling/batch.rs": "use super::queue::Queue;\npub fn f(_: Queue) -> crate::Error { todo!() }\n",
}
PACKAGE = {
    "__init__.py": "from package.engine import Host\n__all__ = ['Host']\n",
    "errors.py": "class Failed(Exception): ...\n",
    "engine/__init__.py": "from package.engine.host import Host\n__all__ = ['Host']\n",
    "engine/host.py": "from package.errors import Failed\nclass Host: ...\n",
    "worker/__init__.py": "",
    "worker/link.py": "from ..engine import Host\n",
}


def written(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def shown(root: Path, arrows: dict[Path, set[Path]]) -> dict[str, list[str]]:
    return {
        file.relative_to(root).as_posix(): sorted(
            one.relative_to(root).as_posix() for one in targets
        )
        for file, targets in arrows.items()
        if targets
    }


def test_a_crate_is_read_to_the_files_that_define_what_is_used(tmp_path: Path) -> None:
    root = written(tmp_path, CRATE)
    assert shown(root, rust_arrows(root)) == {
        "cache/pages.rs": ["error.rs"],
        "cache/prefix.rs": ["cache/pages.rs"],
        "scheduling/queue.rs": ["cache/pages.rs"],
        "scheduling/batch.rs": ["error.rs", "scheduling/queue.rs"],
    }
    assert upward(rust_arrows(root), root, ORDER) == []
    assert circles(rust_arrows(root)) == []


@pytest.mark.parametrize(
    "planted",
    [
        "use crate::scheduling::Queue;\n",
        "use crate::{scheduling::{queue::Queue as Waiting}, Error};\n",
        "use super::super::scheduling::queue;\nfn f(_: queue::Queue) {}\n",
        "use crate::scheduling;\nfn f(_: scheduling::Queue) {}\n",
        "fn f() { let _ = crate::scheduling::queue::Queue; }\n",
        "mod inner { use super::super::super::scheduling::Queue; }\n",
        "#[cfg(not(test))]\nuse crate::scheduling::Queue;\n",
    ],
)
def test_a_planted_arrow_up_inside_a_crate_is_found(tmp_path: Path, planted: str) -> None:
    root = written(tmp_path, CRATE | {"cache/prefix.rs": planted})
    assert "cache/prefix.rs uses scheduling/queue.rs" in upward(rust_arrows(root), root, ORDER)


@pytest.mark.parametrize(
    "harmless",
    [
        "// use crate::scheduling::Queue;\n",
        "/// Like [`crate::scheduling::Queue`].\npub fn f() {}\n",
        'const TEXT: &str = "crate::scheduling::Queue";\n',
        "#[cfg(test)]\nmod tests {\n    use crate::scheduling::Queue;\n}\n",
        "#[cfg(all(test, not(loom)))]\nuse crate::scheduling::{Queue};\n",
        "use other::crate_like::scheduling::Queue;\n",
    ],
)
def test_comments_strings_and_tests_are_no_use(tmp_path: Path, harmless: str) -> None:
    root = written(tmp_path, CRATE | {"cache/prefix.rs": harmless})
    assert "cache/prefix.rs" not in shown(root, rust_arrows(root))


def test_neighbours_and_rooms_without_a_place_are_refused(tmp_path: Path) -> None:
    root = written(tmp_path, CRATE)
    level = (("error",), ("cache", "scheduling"), ("lib",))
    assert upward(rust_arrows(root), root, level) == ["scheduling/queue.rs uses cache/pages.rs"]
    found = upward(rust_arrows(root), root, (("error",), ("cache",), ("lib",)))
    assert "scheduling/batch.rs: the room scheduling has no place in the order" in found


def test_a_planted_circle_in_a_crate_is_found_with_all_its_files(tmp_path: Path) -> None:
    planted = {"cache/pages.rs": "use crate::scheduling::queue::Queue;\npub struct Pages(Queue);\n"}
    root = written(tmp_path, CRATE | planted)
    (circle,) = circles(rust_arrows(root))
    names = [file.relative_to(root).as_posix() for file in circle]
    assert names == ["cache/pages.rs", "scheduling/queue.rs"]


def test_a_package_is_read_to_the_files_that_define_what_is_imported(tmp_path: Path) -> None:
    root = written(tmp_path, PACKAGE)
    assert shown(root, python_arrows(root, "package")) == {
        "engine/host.py": ["errors.py"],
        "worker/link.py": ["engine/host.py"],
    }


@pytest.mark.parametrize(
    "planted",
    [
        "from package.worker.link import Link\n",
        "import package.worker.link\n",
        "def late():\n    from ..worker import link\n",
    ],
)
def test_a_planted_arrow_up_and_its_circle_inside_a_package_are_found(
    tmp_path: Path, planted: str
) -> None:
    root = written(tmp_path, PACKAGE | {"engine/host.py": planted + "class Host: ...\n"})
    arrows = python_arrows(root, "package")
    order = (("errors", "__init__"), ("engine",), ("worker",))
    assert upward(arrows, root, order) == ["engine/host.py uses worker/link.py"]
    (circle,) = circles(arrows)
    assert [file.name for file in circle] == ["host.py", "link.py"]


def test_a_file_of_401_lines_is_found_and_generated_ones_are_not(tmp_path: Path) -> None:
    lines = {"a.rs": 401, "b.py": 400, "made/c.rs": 900, "d.json": 900}
    root = written(tmp_path, {name: "x\n" * count for name, count in lines.items()})
    files = [file.relative_to(root) for file in root.rglob("*.*")]
    assert list(long_files(root, files, 400, ("made",))) == ["a.rs: 401 lines"]


def test_a_17th_entry_of_a_folder_is_found_folders_counted(tmp_path: Path) -> None:
    names = [f"src/f{number}.rs" for number in range(15)]
    files = [Path(name) for name in [*names, "src/room/a.rs", "src/room/b.rs"]]
    assert list(full_folders(files, Path("src"), 16)) == []
    more = [*files, Path("src/f15.rs")]
    assert list(full_folders(more, Path("src"), 16)) == ["src: 17 entries"]
    assert list(full_folders(more, Path("src"), 16, ("src/f15.rs",))) == []


def test_files_that_version_control_ignores_do_not_count(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    written(tmp_path, {".gitignore": "*.so\n", "src/a.py": "", "src/_core.so": "", "b/b.py": ""})
    assert tracked(tmp_path, "src") == [Path("src/a.py")]
