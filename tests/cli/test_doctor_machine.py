"""What `spectrie doctor` says of memory, limits, folders, addresses and the chosen device."""

from __future__ import annotations

import json
import resource
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from spectrie.cli import main
from spectrie.cli.doctor import resources
from spectrie.cli.doctor.addresses import check_address
from spectrie.model import machine


@pytest.fixture
def taken() -> Iterator[str]:
    """An address that something listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def checks(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, list[str]]]:
    """Exit code, and state and text of each check."""
    code = main(["doctor", "--json", *arguments])
    found = json.loads(capsys.readouterr().out)
    assert found["ok"] == (code == 0)
    return code, {one["name"]: [one["state"], one["text"]] for one in found["checks"]}


def test_addresses_are_checked_as_asked(taken: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = checks(capsys, "--http", taken, "--grpc", "127.0.0.1:0", "--device", "cpu")
    assert code == 0
    assert found["http"][0] == "note" and taken in found["http"][1]
    assert "choose another with --http" in found["http"][1]
    assert found["grpc"] == ["ok", "127.0.0.1:0: a free port"]


def test_variables_set_addresses_as_they_do_for_a_server(
    taken: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECTRIE_GRPC", taken)
    assert checks(capsys, "--device", "cpu")[1]["grpc"][0] == "note"


def test_lines_and_json_have_the_same_checks(capsys: pytest.CaptureFixture[str]) -> None:
    _, found = checks(capsys, "--device", "cpu")
    main(["doctor", "--device", "cpu"])
    lines = capsys.readouterr().out.splitlines()
    assert [line[6:17].strip() for line in lines] == list(found)


@pytest.mark.parametrize(
    ("address", "state", "text"),
    [
        ("off", "ok", "not listened on"),
        ("no.such.host.invalid:80", "fail", "give an address of this machine"),
        ("unix:/no/such/folder/s.sock", "fail", "there is no folder /no/such/folder"),
    ],
)
def test_addresses_of_each_form(address: str, state: str, text: str) -> None:
    found = check_address("--grpc", address)
    assert (found.name, found.state) == ("grpc", state)
    assert text in found.text


def test_a_socket_can_be_made_in_a_folder_that_is_there(tmp_path: Path) -> None:
    assert check_address("--grpc", f"unix:{tmp_path}/s.sock").state == "ok"


def test_a_processor_that_was_chosen_is_what_is_checked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, found = checks(capsys, "--device", "cpu")
    assert found["gpu"] == ["ok", "not asked for: --device cpu"]
    assert "compiled into the core" in found["kernels"][1]
    assert "the CPU computes each row alone" in found["exactness"][1]


def test_a_gpu_that_was_chosen_and_is_not_there_fails(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    from spectrie.model import gpu

    monkeypatch.setattr(gpu, "is_available", lambda: False)
    code, found = checks(capsys, "--device", "cuda")
    assert code == 1
    assert found["gpu"][0] == "fail" and "--device cpu" in found["gpu"][1]


def test_few_open_files_are_noted_with_the_way_to_raise_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits = {resource.RLIMIT_NOFILE: (256, 4096), resource.RLIMIT_AS: (2**30, 2**31)}
    free = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    monkeypatch.setattr(resource, "getrlimit", lambda kind: limits.get(kind, free))
    found = resources.check_limits()
    assert found.state == "note"
    assert "256 open files" in found.text and "ulimit -n 4096" in found.text
    assert "1.0 GiB of address space" in found.text and "ulimit -v unlimited" in found.text
    limits.clear()
    assert resources.check_limits().state == "ok"


@pytest.mark.parametrize(
    ("file", "content", "limit"),
    [
        ("memory.max", "1073741824", 2**30),
        ("memory/memory.limit_in_bytes", "1073741824", 2**30),
        ("memory.max", "max", None),
        ("memory/memory.limit_in_bytes", "9223372036854771712", None),
    ],
)
def test_memory_is_the_containers_by_either_version_of_cgroups(
    file: str, content: str, limit: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(content + "\n")
    monkeypatch.setattr(machine, "_CGROUP", tmp_path)
    monkeypatch.setattr(machine, "_OWN_CGROUP", tmp_path / "none")
    assert machine.memory_limit_bytes() == limit
    assert ("1.0 GiB (limit of the container)" in resources.check_memory().text) == bool(limit)


def test_folder_for_state_is_checked_where_it_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "state"
    _, found = checks(capsys, "--device", "cpu", "--state-dir", str(folder))
    assert found["state"][1].startswith(f"{folder}, ")
    assert not folder.exists()
