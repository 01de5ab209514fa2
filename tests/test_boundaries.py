"""The walls: arrows between and inside crates and packages, circles, lengths of files, full folders."""

from __future__ import annotations

import ast
import json
import re
import subprocess
from pathlib import Path

import pytest

from tools.walls import tree
from tools.walls.detours import detours
from tools.walls.graph import Arrows
from tools.walls.orders import CIRCLES
from tools.walls.python_paths import imported_names
from tools.walls.rust_text import code_of

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "python" / "spectrie"
KERNELS = ROOT / "kernels" / "spectrie_kernels"

# Which of our crates a crate may depend on, tests and build scripts included.
CRATES: dict[str, set[str]] = {
    "spectrie-types": set(),
    "spectrie-trie": {"spectrie-types"},
    "spectrie-simd": set(),
    "spectrie-cpu": {"spectrie-simd"},
    "spectrie-text": set(),
    "spectrie-proto": set(),
    "spectrie-codegen": {"spectrie-types"},
    "spectrie-sampling": {"spectrie-types", "spectrie-simd", "spectrie-text"},
    "spectrie-engine": {"spectrie-types", "spectrie-sampling", "spectrie-trie"},
    "spectrie-request": {"spectrie-types", "spectrie-proto", "spectrie-text"},
    "spectrie-router": {"spectrie-types", "spectrie-request", "spectrie-proto", "spectrie-text"},
    "spectrie-py": {
        "spectrie-types",
        "spectrie-trie",
        "spectrie-sampling",
        "spectrie-engine",
        "spectrie-text",
        "spectrie-cpu",
        "spectrie-proto",
        "spectrie-request",
        "spectrie-router",
    },
}
# Libraries that a pure crate must never see.
FORBIDDEN_IN_CORE = {"pyo3", "tokio", "tonic", "axum", "hyper"}
CORE = {
    "spectrie-types",
    "spectrie-simd",
    "spectrie-trie",
    "spectrie-sampling",
    "spectrie-engine",
    "spectrie-cpu",
    "spectrie-text",
}

# Their files that read the time: of steps, of replays, of a grammar's compilation, and the date that a
# chat template may show.
CLOCKS = {
    "rust/engine/src/clock.rs",
    "rust/sampling/src/grammar/background.rs",
    "rust/trie/src/replay/run.rs",
    "rust/text/src/template.rs",
}

# Which rooms a room of the Python package may import; a room is a folder or a single file.
ROOMS: dict[str, set[str]] = {
    "_proto": {"_proto"},
    "_core": set(),
    "version": {"_core"},
    "errors": set(),
    "types": {"errors"},
    "printing": {"printing"},
    "options": {"errors", "types"},
    "client": {"client", "_proto", "errors", "options", "types", "version"},
    "model": {"model", "_core", "errors", "spectrie_kernels", "version"},
    "engine": {"engine", "model", "_core", "errors", "options", "types"},
    "llm": {"llm", "engine", "model", "_core", "errors", "options", "printing", "types"},
    "training": {
        "training",
        "llm",
        "engine",
        "model",
        "_core",
        "errors",
        "options",
        "printing",
        "types",
        "version",
    },
    "supervise": {"supervise", "errors"},
    "worker": {
        "worker",
        "engine",
        "supervise",
        "model",
        "_core",
        "_proto",
        "errors",
        "options",
        "types",
        "version",
    },
    "cli": {
        "cli",
        "client",
        "worker",
        "supervise",
        "engine",
        "model",
        "llm",
        "training",
        "_core",
        "errors",
        "options",
        "printing",
        "types",
        "version",
    },
    "__init__": {"client", "llm", "errors", "options", "types", "version"},
    "__main__": {"cli"},
}
# Rooms that a base install (no torch, no NumPy) must be able to import.
WITHOUT_TORCH = {
    "_proto",
    "version",
    "errors",
    "options",
    "types",
    "client",
    "__init__",
    "__main__",
}
WORKER_LIBRARIES = {"torch", "numpy", "safetensors", "gguf", "transformers", "triton"}


def crate_arrows() -> dict[str, set[str]]:
    result = subprocess.run(
        ["cargo", "metadata", "--format-version", "1", "--no-deps", "--offline"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return {
        package["name"]: {dependency["name"] for dependency in package["dependencies"]}
        for package in json.loads(result.stdout)["packages"]
    }


def python_files(root: Path) -> list[Path]:
    return sorted(root.rglob("*.py"))


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def names_needed_to_load(path: Path) -> set[str]:
    """First components of what a file imports when it is loaded, not inside functions."""
    names: set[str] = set()
    pending: list[ast.AST] = list(ast.parse(path.read_text()).body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.split(".")[0])
        pending.extend(ast.iter_child_nodes(node))
    return names


def test_every_crate_is_listed() -> None:
    assert set(crate_arrows()) == set(CRATES)


@pytest.mark.parametrize("crate", sorted(CRATES))
def test_crate_depends_only_on_allowed_crates(crate: str) -> None:
    ours = {name for name in crate_arrows()[crate] if name.startswith("spectrie-")}
    assert ours <= CRATES[crate]


@pytest.mark.parametrize("crate", sorted(CORE))
def test_core_crate_knows_no_python_and_no_network(crate: str) -> None:
    assert not crate_arrows()[crate] & FORBIDDEN_IN_CORE


def test_core_crates_read_the_time_in_named_files_alone() -> None:
    readers = {
        path.relative_to(ROOT).as_posix()
        for crate in CORE
        for path in (ROOT / "rust" / crate.removeprefix("spectrie-") / "src").rglob("*.rs")
        if re.search(r"\b(?:Instant|SystemTime)\b", code_of(path.read_text(encoding="utf-8")))
    }
    assert readers == CLOCKS


def test_every_python_room_is_listed() -> None:
    rooms = {room_of(path) for path in python_files(PACKAGE)}
    assert rooms <= set(ROOMS), "a new room needs its arrows written down here"


def test_python_rooms_import_only_allowed_rooms() -> None:
    wrong: list[str] = []
    for path in python_files(PACKAGE):
        for name in imported_names(path, PACKAGE, "spectrie"):
            parts = name.split(".")
            target = parts[1] if parts[0] == "spectrie" and len(parts) > 1 else parts[0]
            ours = parts[0] == "spectrie_kernels" or (
                parts[0] == "spectrie" and len(parts) > 1 and target in ROOMS
            )
            if ours and target not in ROOMS[room_of(path)]:
                wrong.append(f"{path.relative_to(ROOT)} imports {name}")
    assert wrong == []


def test_benches_import_no_test_and_no_command() -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in python_files(ROOT / "bench")
        for name in imported_names(path, ROOT / "bench", "bench")
        if name.split(".")[0] == "tests" or name.split(".")[:2] == ["spectrie", "cli"]
    ]
    assert wrong == []


def test_kernels_know_nothing_of_spectrie() -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in python_files(KERNELS)
        for name in imported_names(path, KERNELS, "spectrie_kernels")
        if name.split(".")[0] == "spectrie"
    ]
    assert wrong == []


def test_base_install_rooms_load_without_worker_libraries() -> None:
    wrong = [
        f"{path.relative_to(ROOT)} loads {sorted(heavy)}"
        for path in python_files(PACKAGE)
        if room_of(path) in WITHOUT_TORCH
        if (heavy := names_needed_to_load(path) & WORKER_LIBRARIES)
    ]
    assert wrong == []


def test_nothing_deserializes_code() -> None:
    """Scanners rightly refuse servers that ship a pickle reader; so do we."""
    forbidden = {"pickle", "dill", "marshal", "shelve", "cloudpickle"}
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for root, package in ((PACKAGE, "spectrie"), (KERNELS, "spectrie_kernels"))
        for path in python_files(root)
        for name in imported_names(path, root, package)
        if name.split(".")[0] in forbidden
    ]
    assert wrong == []


def test_nothing_runs_text_as_code_or_in_a_shell() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{call.lineno}"
        for folder in ("python", "kernels", "tools", "bench", "deploy")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for call in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(call, ast.Call) and _runs_text(call)
    ]
    assert wrong == []


def _runs_text(call: ast.Call) -> bool:
    name = ast.unparse(call.func)
    keywords = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
    runs = name in ("eval", "exec", "os.system", "os.popen", "subprocess.getoutput")
    loads_code = name == "torch.load" and keywords.get("weights_only") != "True"
    return runs or loads_code or keywords.get("shell", "False") != "False"


@pytest.fixture(scope="module")
def arrows() -> dict[str, Arrows]:
    return tree.arrows_below(ROOT)


def test_no_arrow_inside_a_crate_or_package_points_up(arrows: dict[str, Arrows]) -> None:
    assert list(tree.wrong_arrows(ROOT, arrows)) == []


def test_every_crate_and_package_with_rooms_declares_their_order(arrows: dict[str, Arrows]) -> None:
    assert list(tree.without_order(ROOT, arrows)) == []


def test_every_room_of_an_order_exists(arrows: dict[str, Arrows]) -> None:
    assert list(tree.unlisted_rooms(ROOT, arrows)) == []


def test_circles_stay_in_one_room_and_are_listed_with_a_reason(arrows: dict[str, Arrows]) -> None:
    found = tree.all_circles(ROOT, arrows)
    assert set(found) == set(CIRCLES), "list it in tools/walls/orders.py only if nothing cuts it"
    assert all(CIRCLES.values())
    assert [one for one in found if tree.across_rooms(one)] == []


def test_nothing_is_brought_in_around_the_walls(arrows: dict[str, Arrows]) -> None:
    assert detours(ROOT, arrows) == []


def test_no_file_is_too_long() -> None:
    assert tree.too_long(ROOT) == []


def test_no_folder_has_more_than_16_entries() -> None:
    assert tree.crowded(ROOT) == []
