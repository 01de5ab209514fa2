"""Generates the Python messages and stubs of proto/ into python/spectrie/_proto (`make generate`).

Every `.proto` becomes three flat modules there: `inference_pb2.py` (messages), `inference_pb2.pyi`
(their types) and `inference_pb2_grpc.py` (stubs and servicers, with `.pyi`); likewise `worker_pb2`.
The descriptor keeps its full path (`spectrie/v1/inference.proto`), so reflection and text format
see the same names as Rust does. Pass `--check` to fail when the checked-in files are out of date.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROTO_DIR = ROOT / "proto"
TARGET_DIR = ROOT / "python" / "spectrie" / "_proto"


def compile_protos(output: Path) -> None:
    """Runs protoc over every proto file, leaving protoc's own folder layout in `output`."""
    scripts = Path(sysconfig.get_path("scripts"))
    protos = sorted(str(path.relative_to(PROTO_DIR)) for path in PROTO_DIR.rglob("*.proto"))
    subprocess.run(
        [
            sys.executable,
            "-m",
            "grpc_tools.protoc",
            f"--proto_path={PROTO_DIR}",
            f"--plugin=protoc-gen-mypy={scripts / 'protoc-gen-mypy'}",
            f"--plugin=protoc-gen-mypy_grpc={scripts / 'protoc-gen-mypy_grpc'}",
            f"--python_out={output}",
            f"--grpc_python_out={output}",
            f"--mypy_out=quiet:{output}",
            f"--mypy_grpc_out=quiet:{output}",
            *protos,
        ],
        check=True,
    )


def flatten(generated: Path) -> dict[str, str]:
    """Maps flat file names to contents, with every import of a generated module made absolute.

    protoc imports its modules from the top level (`from spectrie.v1 import inference_pb2`), where
    they would be part of the product's own package.
    """
    from_import = re.compile(r"from spectrie(?:\.\w+)*\.v1 import (\w+_pb2)")
    module_name = re.compile(r"'spectrie(?:\.\w+)*\.v1\.(\w+_pb2)'")
    files: dict[str, str] = {}
    for path in sorted(generated.rglob("*.py*")):
        if path.name.startswith("__init__"):
            continue
        text = from_import.sub(r"from spectrie._proto import \1", path.read_text())
        files[path.name] = module_name.sub(r"'spectrie._proto.\1'", text)
    return files


def main() -> int:
    """Writes the files, or with `--check` compares them; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="write nothing; fail on a difference")
    check = parser.parse_args().check
    with tempfile.TemporaryDirectory() as folder:
        compile_protos(Path(folder))
        files = flatten(Path(folder))
    stale = [n for n, text in files.items() if not _same(TARGET_DIR / n, text)]
    orphans = [p for p in TARGET_DIR.glob("*_pb2*.py*") if p.name not in files]
    if check:
        for name in [*stale, *(p.name for p in orphans)]:
            print(
                f"python/spectrie/_proto/{name} is out of date: run make generate", file=sys.stderr
            )
        return 1 if stale or orphans else 0
    for name in stale:
        (TARGET_DIR / name).write_text(files[name])
    for path in orphans:
        path.unlink()
    print(f"python/spectrie/_proto: {len(stale)} of {len(files)} files changed")
    return 0


def _same(path: Path, text: str) -> bool:
    return path.exists() and path.read_text() == text


if __name__ == "__main__":
    sys.exit(main())
