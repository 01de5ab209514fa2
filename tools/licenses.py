"""Writes THIRD_PARTY_LICENSES.md: every crate inside the wheel with its licence texts.

Reads `cargo metadata` for the dependency graph of `spectrie-py` without development dependencies,
and the licence files of each crate's source folder, those of C libraries inside it too. A crate that
comes without a text has that of a crate of the same repository and version, or one of
`tools/license_texts`, copied from its repository. Texts that several crates share are printed once.
`--check` writes nothing and fails when the file is out of date. A crate without a text is an error.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "THIRD_PARTY_LICENSES.md"
TEXTS = ROOT / "tools" / "license_texts"
LICENSE_FILE = re.compile(r"^(licen[cs]e|copying|notice|unlicense)", re.IGNORECASE)


def linked_packages() -> list[dict[str, object]]:
    """The third-party packages that end up in the extension module, sorted by name and version."""
    run = subprocess.run(
        ["cargo", "metadata", "--format-version", "1", "--locked"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    metadata = json.loads(run.stdout)
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    packages = {package["id"]: package for package in metadata["packages"]}
    pending = [one["id"] for one in metadata["packages"] if one["name"] == "spectrie-py"]
    seen: set[str] = set()
    while pending:
        current = pending.pop()
        if current in seen:
            continue
        seen.add(current)
        for dependency in nodes[current]["deps"]:
            if any(kind["kind"] != "dev" for kind in dependency["dep_kinds"]):
                pending.append(dependency["pkg"])
    found = [packages[one] for one in seen if packages[one]["source"] is not None]
    return sorted(found, key=lambda package: (package["name"], package["version"]))


def own_texts(package: dict[str, object]) -> list[str]:
    """The texts in a crate's folder and in the folders directly inside it, where C libraries lie."""
    folder = Path(str(package["manifest_path"])).parent
    files = [path for path in sorted([*folder.glob("*"), *folder.glob("*/*")]) if path.is_file()]
    found = [path for path in files if LICENSE_FILE.match(path.name)]
    # Some name their licence and holders there alone.
    found = found or [path for path in files if path.name == "AUTHORS"]
    found = found or [
        path for path in [TEXTS / f"{name_of(package).replace(' ', '-')}.txt"] if path.is_file()
    ]
    return list(dict.fromkeys(path.read_text(errors="replace").strip() for path in found))


def name_of(package: dict[str, object]) -> str:
    return f"{package['name']} {package['version']}"


def texts_of(packages: list[dict[str, object]]) -> dict[str, list[str]]:
    """The texts of each crate by its name and version.

    Raises:
        LookupError: A crate has none.
    """
    own = {name_of(package): own_texts(package) for package in packages}
    siblings: dict[object, list[str]] = {}
    for package in packages:
        key = package["repository"], package["version"]
        if own[name_of(package)]:
            siblings.setdefault(key, own[name_of(package)])
    texts = {
        name_of(one): own[name_of(one)] or siblings.get((one["repository"], one["version"]), [])
        for one in packages
    }
    missing = [name for name, found in texts.items() if not found]
    if missing:
        raise LookupError(f"no licence text of {', '.join(missing)}: add it to {TEXTS}")
    return texts


def table_line(package: dict[str, object]) -> str:
    return f"| {package['name']} | {package['version']} | {package['license'] or 'see text'} |"


def render(packages: list[dict[str, object]]) -> str:
    holders: dict[str, list[str]] = defaultdict(list)
    for name, texts in texts_of(packages).items():
        for text in texts:
            holders[text].append(name)
    lines = [
        "# Third-party licences",
        "",
        "Crates compiled into the `spectrie` wheel. Made by `make licenses`.",
        "",
        "| crate | version | licence |",
        "|---|---|---|",
        *(table_line(package) for package in packages),
        "",
    ]
    for text, names in sorted(holders.items(), key=lambda item: item[1]):
        lines += [f"## {', '.join(names)}", "", "```text", text.replace("```", "'''"), "```", ""]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail when the list is out of date")
    packages = linked_packages()
    if parser.parse_args().check:
        is_stale = render(packages) != TARGET.read_text()
        if is_stale:
            print("THIRD_PARTY_LICENSES.md is out of date: run `make licenses`")
        return 1 if is_stale else 0
    TARGET.write_text(render(packages))
    return 0


if __name__ == "__main__":
    sys.exit(main())
