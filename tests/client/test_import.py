"""What `import spectrie` loads."""

from __future__ import annotations

import subprocess
import sys


def loaded_after(statement: str) -> set[str]:
    """Top-level modules in a fresh interpreter after `statement`."""
    code = f"{statement}\nimport sys\nprint(*{{name.split('.')[0] for name in sys.modules}})"
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    )
    return set(done.stdout.split())


def test_import_loads_neither_grpc_nor_torch() -> None:
    assert not loaded_after("import spectrie; spectrie.errors; spectrie.Completion") & {
        "grpc",
        "torch",
    }


def test_client_loads_grpc_and_no_torch() -> None:
    loaded = loaded_after("import spectrie; spectrie.Client")
    assert "grpc" in loaded
    assert "torch" not in loaded


def test_command_line_help_loads_neither() -> None:
    loaded = loaded_after("from spectrie.cli import main; main(['--help'])")
    assert not loaded & {"grpc", "torch"}


def test_unknown_attribute_is_named() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import spectrie; spectrie.Klient"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "has no attribute 'Klient'" in done.stderr
