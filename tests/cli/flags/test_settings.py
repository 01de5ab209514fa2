"""Options: precedence, kinds, unknown names."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from spectrie.cli.flags.options import TABLE, add_options, options_of
from spectrie.cli.flags.settings import Settings, resolve
from spectrie.errors import ConfigError


def settings(
    *arguments: str, command: str = "serve", environ: dict[str, str] | None = None
) -> Settings:
    parser = argparse.ArgumentParser()
    add_options(parser, command)
    return resolve(command, parser.parse_args(arguments), environ or {})


def config_file(tmp_path: Path, text: str) -> str:
    path = tmp_path / "spectrie.toml"
    path.write_text(text)
    return str(path)


def test_flag_wins_over_environment_over_file_over_default(tmp_path: Path) -> None:
    file = config_file(tmp_path, "workers = 2\nthreads = 3\nmax_running = 4\n")
    found = settings(
        "--config",
        file,
        "--workers",
        "5",
        environ={"SPECTRIE_WORKERS": "6", "SPECTRIE_THREADS": "7"},
    )
    assert (found.workers, found.origins["workers"]) == (5, "flag")
    assert (found.threads, found.origins["threads"]) == (7, "environment")
    assert (found.max_running, found.origins["max_running"]) == (4, "file")
    assert (found.http, found.origins["http"]) == ("127.0.0.1:8000", "default")


def test_config_file_named_by_the_environment(tmp_path: Path) -> None:
    file = config_file(tmp_path, 'log-level = "debug"\nallow_client_namespaces = true\n')
    found = settings(environ={"SPECTRIE_CONFIG": file})
    assert found.log_level == "debug"
    assert found.allow_client_namespaces is True


def test_one_file_serves_several_commands(tmp_path: Path) -> None:
    file = config_file(tmp_path, 'http = "127.0.0.1:0"\ndtype = "float32"\n')
    assert settings("--config", file, command="router").http == "127.0.0.1:0"
    worker = settings("--config", file, command="worker")
    assert worker.dtype == "float32"
    assert "http" not in worker


def test_unknown_key_names_the_nearest(tmp_path: Path) -> None:
    file = config_file(tmp_path, "max_contxt = 5\n")
    with pytest.raises(ConfigError, match="unknown key 'max_contxt'; did you mean 'max_context'"):
        settings("--config", file)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("workers = ", "Invalid value"),
        ("workers = [1]", "a list is not a value"),
        ("workers = 0", "workers: 0 is out of range: from 1 to 64"),
        ('dtype = "int8"', "'int8' is not one of auto, float32, bfloat16, float16"),
    ],
)
def test_bad_file_names_file_and_cause(tmp_path: Path, text: str, message: str) -> None:
    file = config_file(tmp_path, text)
    with pytest.raises(ConfigError, match=message) as caught:
        settings("--config", file)
    assert file in str(caught.value)


def test_missing_file_is_named() -> None:
    with pytest.raises(ConfigError, match=r"/no/such\.toml: No such file"):
        settings("--config", "/no/such.toml")


@pytest.mark.parametrize(
    ("flag", "given", "message"),
    [
        ("--http", "8000", "not an address: give HOST:PORT or off"),
        ("--http", "h:99999", "not an address"),
        ("--http", "::1:80", "not an address"),
        ("--kv-memory", "much", "not a size"),
        ("--kv-memory", "3 XB", "not a size"),
        ("--request-timeout", "soon", "not a duration"),
        ("--max-draft-tokens", "64", "out of range: from 0 to 63"),
        ("--threads", "two", "not a whole number at least 1|from 1 to 1024 or auto"),
    ],
)
def test_bad_flag_names_flag_given_and_allowed(flag: str, given: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        settings(flag, given)
    assert str(caught.value).startswith(f"{flag}: ")


def test_bad_environment_value_names_the_variable() -> None:
    with pytest.raises(ConfigError, match="environment variable SPECTRIE_WORKERS: 'x' is not"):
        settings(environ={"SPECTRIE_WORKERS": "x"})


@pytest.mark.parametrize(
    ("given", "size"),
    [("4G", 4 << 30), ("4GiB", 4 << 30), ("1GB", 10**9), ("1.5 MiB", 3 << 19), ("17", 17)],
)
def test_sizes(given: str, size: int) -> None:
    assert settings("--kv-memory", given).kv_memory == size


def test_auto_reads_as_none() -> None:
    found = settings("--kv-memory", "auto", "--threads", "auto", "--max-context", "auto")
    assert (found.kv_memory, found.threads, found.max_context) == (None, None, None)


def test_durations() -> None:
    assert settings("--request-timeout", "500ms").request_timeout == 0.5
    assert settings("--request-timeout", "2m").request_timeout == 120.0
    assert settings("--request-timeout", "7").request_timeout == 7.0


def test_repeated_option_from_flags_environment_and_file(tmp_path: Path) -> None:
    assert settings("--cors-origin", "a", "--cors-origin", "b").cors_origin == ("a", "b")
    assert settings(environ={"SPECTRIE_CORS_ORIGIN": "a,b"}).cors_origin == ("a", "b")
    file = config_file(tmp_path, 'cors_origin = ["a", "b"]\n')
    assert settings("--config", file).cors_origin == ("a", "b")


def test_empty_variable_counts_as_absent() -> None:
    assert settings(environ={"SPECTRIE_WORKERS": ""}).workers == 1


def test_keys_are_unique_and_defaults_pass_their_own_kind() -> None:
    assert len({option.key for option in TABLE}) == len(TABLE)
    for option in TABLE:
        if option.default is not None and not option.repeated:
            assert option.kind.parse(str(option.default).lower()) == option.default


def test_every_default_of_the_contract() -> None:
    defaults = {option.key: option.default for option in options_of("serve")}
    assert defaults["http"] == "127.0.0.1:8000"
    assert defaults["grpc"] == "127.0.0.1:50051"
    assert defaults["max_draft_tokens"] == 16
    assert defaults["worker_stall_timeout"] == 10.0


def test_settings_are_read_only_and_complete() -> None:
    found = settings()
    with pytest.raises(AttributeError):
        setattr(found, "workers", 3)  # noqa: B010
    with pytest.raises(AttributeError, match="no option 'colour'"):
        _ = found.colour
    assert set(found) == {option.key for option in options_of("serve")}
