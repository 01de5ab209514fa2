"""One line of a table is all an option takes: what follows from it is complete."""

from __future__ import annotations

import argparse
import dataclasses
import re
from pathlib import Path

import pytest

from spectrie import _core
from spectrie.cli.flags.options import REQUEST, TABLE, Option, add_options, options_of
from spectrie.cli.flags.settings import resolve
from spectrie.cli.worker import worker_options
from spectrie.engine.options import ENGINE, HOST, MODEL, EngineOptions
from spectrie.llm.keywords import EngineKeywords
from spectrie.options import GenerateOptions

ROOT = Path(__file__).resolve().parents[3]
COMMANDS = sorted({command for option in TABLE for command in option.commands})
ROWS = [row for row in _core.option_rows() if row.group != "Facts"]
OF_ENGINES = [row for row in ROWS if row.table in ("model", "engine", "host")]


def example(option: Option) -> str:
    """A value that is allowed and, where there is a choice, not the default."""
    kind = option.kind
    if kind.choices:
        return kind.choices[-1]
    metavars = {"N": "17", "X": "17", "TIME": "17s", "SIZE": "17MiB", "ADDR": "localhost:17"}
    texts = [metavars.get(kind.metavar, "true" if kind.is_flag else "text"), "1", "0.5"]
    for text in texts:
        try:
            kind.parse(text)
        except ValueError:
            continue
        return text
    raise AssertionError(f"no example for {option.key}")


@pytest.mark.parametrize("command", COMMANDS)
def test_flag_variable_and_file_set_every_option_of_a_command(command: str, tmp_path: Path) -> None:
    parser = argparse.ArgumentParser()
    add_options(parser, command)
    for option in options_of(command):
        text = example(option)
        expected = option.kind.parse(text)
        expected = (expected,) if option.repeated else expected
        given = [option.flag] if option.kind.is_flag else [option.flag, text]
        file = tmp_path / "options.toml"
        file.write_text(f'{option.key} = "{text}"\n')
        ways = {
            "flag": resolve(command, parser.parse_args(given), {}),
            "environment": resolve(command, parser.parse_args([]), {option.variable: text}),
            "file": resolve(command, parser.parse_args(["--config", str(file)]), {}),
            "default": resolve(command, parser.parse_args([]), {}),
        }
        for origin, settings in ways.items():
            value = option.default if origin == "default" else expected
            assert (settings[option.key], settings.origins[option.key]) == (value, origin)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_range_unit_and_default(command: str) -> None:
    parser = argparse.ArgumentParser(
        formatter_class=lambda prog: argparse.HelpFormatter(prog, width=400)
    )
    add_options(parser, command)
    text = parser.format_help()
    for option in options_of(command):
        assert option.help_text in text
    if command == "worker":
        assert "(16 to 8192 tokens) [256, on a GPU 2048]" in text
        assert "[256MiB]" in text


def test_documentation_lists_every_option_with_its_default() -> None:
    page = (ROOT / "docs/options.md").read_text()
    for option in TABLE:
        (row,) = re.findall(rf"^\| `{option.flag}` .*$", page, re.MULTILINE)
        assert option.default_text in row
        assert all(command in row for command in option.commands)
        assert (f"| `{option.field}` |" in row) is option.is_keyword
    for row in ROWS:
        if row.table in ("sampling", "request"):
            assert f"\n| `{row.field}` |" in page


def test_fields_and_defaults_of_engine_options_are_those_of_the_tables() -> None:
    fields = {field.name: field.default for field in dataclasses.fields(EngineOptions)}
    assert fields == {row.field: row.default for row in OF_ENGINES}
    for table, names in (("model", MODEL), ("engine", ENGINE), ("host", HOST)):
        assert set(names) == {row.field for row in OF_ENGINES if row.table == table}


def test_flags_reach_the_options_of_an_engine() -> None:
    parser = argparse.ArgumentParser()
    add_options(parser, "worker")
    engine_flags = [o for o in options_of("worker") if o.table in ("model", "engine", "host")]
    plain = [option for option in engine_flags if option.key not in ("corpus", "state_dir")]
    flags = [f"{option.flag}={example(option)}" for option in plain]
    settings = resolve("worker", parser.parse_args([*flags, "--router=localhost:1"]), {})
    built = worker_options("model", settings).engine
    for option in plain:
        value = option.kind.parse(example(option))
        expected = (value,) if option.repeated else value
        assert getattr(built, option.field) == expected, option.key


def test_keywords_of_llm_are_the_rows_marked_so() -> None:
    assert set(EngineKeywords.__annotations__) == {
        row.field for row in OF_ENGINES if row.is_keyword
    }


def test_a_keyword_that_does_not_exist_is_answered_with_the_nearest() -> None:
    from spectrie import LLM

    with pytest.raises(TypeError, match="unknown option 'max_runing'; did you mean 'max_running'"):
        LLM("no-such-model", max_runing=3)  # type: ignore[call-arg]
    with pytest.raises(
        _core.EngineError, match="max_runing is no option; did you mean max_running"
    ):
        _core.Engine({"max_runing": 3})
    with pytest.raises(_core.EngineError, match="chunk_token is no option; did you mean chunk_tok"):
        _core.check_options({"chunk_token": 3})


def test_options_of_requests_are_keywords_of_every_client() -> None:
    names = {row.field for row in ROWS if row.table in ("sampling", "request")}
    # n is a parameter of its own, and max_draft_tokens a field of SpeculationOptions.
    assert names - {"n", "max_draft_tokens"} <= set(GenerateOptions.__annotations__)
    assert {option.field for option in REQUEST} <= names


def test_several_drafters_are_kept_in_their_order() -> None:
    parser = argparse.ArgumentParser()
    add_options(parser, "serve")
    several = parser.parse_args(["--drafter", "head", "--drafter", "small"])
    assert resolve("serve", several, {}).drafter == ("head", "small")
    none = parser.parse_args([])
    assert tuple(resolve("serve", none, {}).drafter) == ()
    variable = {"SPECTRIE_DRAFTER": "auto,small"}
    assert resolve("serve", none, variable).drafter == ("auto", "small")
