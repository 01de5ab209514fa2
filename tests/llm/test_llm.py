"""`spectrie.LLM` on a tiny random model: answers, options, errors, lifetime."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import spectrie.model
from spectrie import _core
from spectrie.errors import (
    Cancelled,
    ConfigError,
    DeadlineExceeded,
    Internal,
    InvalidArgument,
    ModelError,
    StreamInterrupted,
)
from spectrie.llm import LLM
from spectrie.model import load_runner
from spectrie.types import Source, SpeculationOptions
from tests.tiny_model import write_tiny_model
from tests.waiting import wait_until

PROMPT = "def print the class"
WAIT_S = 30.0


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What is measured and computed of tiny models stays out of the user's cache."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECTRIE_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture(scope="module")
def llm(folder: Path) -> Iterator[LLM]:
    with LLM(folder, dtype="float32", threads=1, num_pages=128) as llm:
        yield llm


def wait_idle(llm: LLM) -> None:
    wait_until(
        lambda: not llm.load().running + llm.load().waiting, WAIT_S, lambda: "requests still run"
    )


def test_a_closed_model_that_nobody_holds_is_freed(folder: Path) -> None:
    def close() -> weakref.ref[LLM]:
        with LLM(folder, dtype="float32", threads=1, num_pages=128) as llm:
            llm.generate(PROMPT, max_tokens=4)
        return weakref.ref(llm)

    closed = close()
    # Parts of a model refer to each other.
    gc.collect()
    assert closed() is None


def test_threads_of_the_process_take_turns_as_before(folder: Path) -> None:
    before_s = sys.getswitchinterval()
    with LLM(folder, dtype="float32", threads=1, num_pages=128) as llm:
        llm.generate(PROMPT, max_tokens=4)
        assert sys.getswitchinterval() == before_s


def test_model_is_named_after_its_folder(llm: LLM, folder: Path) -> None:
    assert llm.model_path == folder
    assert llm.model_name == "tiny"
    assert llm.dtype == "float32"
    assert llm.numeric_fingerprint


def test_answer_has_text_tokens_usage_and_seed(llm: LLM) -> None:
    answer = llm.generate(PROMPT, max_tokens=12, seed=5, ignore_eos=True)
    assert len(answer.token_ids) == answer.usage.completion_tokens == 12
    assert answer.usage.prompt_tokens == len(llm.tokenizer.encode(PROMPT))
    assert answer.text == llm.tokenizer.decode(list(answer.token_ids))
    assert (answer.finish_reason, answer.seed, answer.model) == ("length", 5, "tiny")
    stats = answer.speculation
    assert stats.verify_steps + stats.accepted_tokens == 11
    assert sum(stats.accepted_by_source.values()) == stats.accepted_tokens


def test_same_seed_same_tokens_and_drawn_seed_is_told(llm: LLM) -> None:
    first = llm.generate(PROMPT, max_tokens=16)
    again = llm.generate(PROMPT, max_tokens=16, seed=first.seed)
    other = llm.generate(PROMPT, max_tokens=16, seed=(first.seed or 0) + 1)
    assert again.token_ids == first.token_ids
    assert other.token_ids != first.token_ids


def test_list_of_prompts_gives_the_answers_each_would_get_alone(llm: LLM) -> None:
    texts = ["def a", "class the", "for it in", "return not"]
    alone = [llm.generate(text, max_tokens=20, seed=1) for text in texts]
    together = llm.generate(texts, max_tokens=20, seed=1)
    assert [a.token_ids for a in together] == [a.token_ids for a in alone]
    ids = [llm.tokenizer.encode(text) for text in texts]
    by_ids = llm.generate(prompt_token_ids=ids, max_tokens=20, seed=1)
    assert [a.token_ids for a in by_ids] == [a.token_ids for a in alone]
    assert llm.generate([]) == []


def test_answers_do_not_depend_on_speculation(llm: LLM) -> None:
    for temperature in (0.0, 0.9):
        options: dict[str, Any] = {"temperature": temperature, "seed": 3, "max_tokens": 64}
        off = llm.generate(PROMPT, speculation=False, **options)
        assert off.speculation.drafted_tokens == 0
        for wish in (True, SpeculationOptions(mode="bfs"), SpeculationOptions(mode="prob")):
            on = llm.generate(PROMPT, speculation=wish, **options)
            assert on.token_ids == off.token_ids


def test_right_prediction_is_accepted_and_wrong_one_changes_nothing(llm: LLM) -> None:
    plain = llm.generate(PROMPT, max_tokens=40, temperature=0, ignore_eos=True)
    right = llm.generate(
        PROMPT, max_tokens=40, temperature=0, ignore_eos=True, prediction=plain.token_ids
    )
    assert right.token_ids == plain.token_ids
    assert right.usage.accepted_prediction_tokens == 40
    assert right.usage.rejected_prediction_tokens == 0
    wrong = llm.generate(
        PROMPT, max_tokens=40, temperature=0, ignore_eos=True, prediction="something else"
    )
    assert wrong.token_ids == plain.token_ids
    assert plain.usage.accepted_prediction_tokens is None
    count = len(llm.tokenizer.encode("something else"))
    usage = wrong.usage
    assert (usage.accepted_prediction_tokens or 0) + (
        usage.rejected_prediction_tokens or 0
    ) == count


def test_stop_text_ends_the_answer_before_it(llm: LLM) -> None:
    options: dict[str, Any] = {"max_tokens": 60, "temperature": 0, "ignore_eos": True}
    whole = llm.generate(PROMPT, **options)
    # Letters only: a piece of an undecodable byte sequence reads the same wherever it is cut.
    stop = re.findall("[a-z]{2,}", whole.text)[2]
    first = whole.text.index(stop)
    for speculation in (False, True):
        answer = llm.generate(PROMPT, stop=[stop], speculation=speculation, **options)
        assert answer.text == whole.text[:first]
        assert (answer.finish_reason, answer.stop_text) == ("stop", stop)
        assert answer.token_ids == whole.token_ids[: len(answer.token_ids)]
        assert stop in llm.tokenizer.decode(list(answer.token_ids))
        assert stop not in llm.tokenizer.decode(list(answer.token_ids[:-1]))


def test_stop_token_ends_the_answer_and_is_part_of_its_tokens(llm: LLM) -> None:
    whole = llm.generate(PROMPT, max_tokens=30, temperature=0, ignore_eos=True)
    stop = whole.token_ids[10]
    answer = llm.generate(
        PROMPT, max_tokens=30, temperature=0, ignore_eos=True, stop_token_ids=[stop]
    )
    assert answer.token_ids == whole.token_ids[: whole.token_ids.index(stop) + 1]
    assert (answer.finish_reason, answer.stop_token_id) == ("stop", stop)


def test_chat_uses_the_models_template(llm: LLM) -> None:
    answer = llm.chat([{"role": "user", "content": "the def"}], max_tokens=4)
    rendered = "<|im_start|>user\nthe def<|im_end|>\n<|im_start|>assistant\n"
    assert answer.usage.prompt_tokens == len(llm.tokenizer.encode(rendered))


def test_stream_pieces_add_up_to_the_answer(llm: LLM) -> None:
    stream = llm.stream(PROMPT, max_tokens=40, seed=2, sources=True, request_id="mine")
    deltas = list(stream)
    answer = stream.final()
    assert "".join(delta.text for delta in deltas) == answer.text == stream.text_so_far
    assert sum((delta.token_ids for delta in deltas), ()) == answer.token_ids
    assert sum((delta.sources for delta in deltas), ()) == answer.sources
    assert len(answer.sources) == len(answer.token_ids)
    assert Source.MODEL in answer.sources
    assert stream.request_id == answer.request_id == "mine"


def test_absent_max_tokens_is_the_rest_of_the_context(llm: LLM) -> None:
    answer = llm.generate("a", temperature=0, ignore_eos=True)
    assert answer.usage.total_tokens == llm.max_context == 512
    assert answer.finish_reason == "length"


def test_leaving_a_stream_early_cancels_its_request(llm: LLM) -> None:
    with llm.stream(PROMPT, ignore_eos=True) as stream:
        next(stream)
    with pytest.raises(StreamInterrupted):
        stream.final()
    wait_idle(llm)


def test_deadline_fails_the_request_alone(llm: LLM) -> None:
    with pytest.raises(DeadlineExceeded) as caught:
        llm.generate(PROMPT, ignore_eos=True, timeout=0.001)
    assert caught.value.timeout_s == 0.001
    assert llm.generate(PROMPT, max_tokens=2).token_ids
    wait_idle(llm)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"temperature": -1}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"top_k": -1}, "top_k"),
        ({"top_k": 1.5}, "top_k"),
        ({"min_p": 2}, "min_p"),
        ({"typical_p": 0}, "typical_p"),
        ({"n": 9}, "n"),
        ({"n": True}, "n"),
        ({"logprobs": 21}, "logprobs"),
        ({"logprobs": True}, "logprobs"),
        ({"prompt_logprobs": -1}, "prompt_logprobs"),
        ({"bad_words": ["a", ""]}, "bad_words[1]"),
        ({"bad_words": ["a"] * 65}, "bad_words"),
        ({"bad_words": ["§" * 40]}, "bad_words[0]"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 100_000}, "max_tokens"),
        ({"min_tokens": 9, "max_tokens": 8}, "min_tokens"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**64}, "seed"),
        ({"stop": ""}, "stop[0]"),
        ({"stop": ["x"] * 17}, "stop"),
        ({"stop_token_ids": [352]}, "stop_token_ids[0]"),
        ({"logit_bias": {1: 101}}, "logit_bias[1]"),
        ({"repetition_penalty": 0}, "repetition_penalty"),
        ({"ignore_eos": 1}, "ignore_eos"),
        ({"prediction": [1, 352]}, "prediction[1]"),
        ({"prediction": [1] * 513}, "prediction"),
        ({"speculation": "yes"}, "speculation"),
        ({"speculation": SpeculationOptions(max_draft_tokens=64)}, "speculation.max_draft_tokens"),
        ({"timeout": 0}, "timeout"),
    ],
)
def test_option_out_of_range_is_refused_by_name(
    llm: LLM, options: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        llm.generate(PROMPT, **options)
    assert [violation.field for violation in caught.value.field_violations] == [field]
    assert "given" in caught.value.message
    assert "allowed" in caught.value.message


def test_every_wrong_option_is_named_at_once(llm: LLM) -> None:
    with pytest.raises(InvalidArgument) as caught:
        llm.generate(PROMPT, top_p=7, min_p=-1, max_tokens=-2)
    fields = {violation.field for violation in caught.value.field_violations}
    assert fields == {"top_p", "min_p", "max_tokens"}


def test_unknown_option_is_refused_with_the_nearest_name(llm: LLM) -> None:
    with pytest.raises(TypeError, match="temperature"):
        llm.generate(PROMPT, temprature=1.0)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ({"prompt": "a", "prompt_token_ids": [1]}, "exactly one"),
        ({}, "exactly one"),
        ({"prompt": ""}, "given no text"),
        ({"prompt_token_ids": [1, -5]}, "given -5"),
        ({"prompt_token_ids": [1] * 512}, "given a prompt of 512 tokens; allowed: 1 to 511"),
        ({"messages": []}, "given 0 messages"),
        ({"messages": [{"role": "user"}]}, "messages\\[0\\].content"),
    ],
)
def test_wrong_prompt_is_refused_precisely(llm: LLM, prompt: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        llm.stream(**prompt)


def test_many_threads_share_one_model(llm: LLM) -> None:
    expected = [llm.generate("def", max_tokens=16, seed=s).token_ids for s in range(8)]
    got: dict[int, tuple[int, ...]] = {}

    def ask(seed: int) -> None:
        got[seed] = llm.generate("def", max_tokens=16, seed=seed).token_ids

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert [got[seed] for seed in range(8)] == expected


def test_failing_forward_fails_what_it_held_and_nothing_else(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load_small(*arguments: Any, **options: Any) -> Any:
        runner = load_runner(*arguments, **(options | {"max_batch_rows": 64}))
        runner.info = replace(runner.info, max_batch_rows=512)
        return runner

    # The engine plans for more rows than the model takes.
    monkeypatch.setattr(spectrie.model, "load_runner", load_small, raising=False)
    with LLM(folder, dtype="float32", threads=1, num_pages=128) as llm:
        with pytest.raises(Internal) as caught:
            llm.generate(prompt_token_ids=[5] * 65, max_tokens=4)
        assert "64" not in str(caught.value)
        assert llm.generate(PROMPT, max_tokens=4).token_ids
        wait_idle(llm)


def test_closing_ends_running_answers_and_refuses_new_ones(tmp_path: Path) -> None:
    # An answer of few tokens may end before this thread closes the model.
    long = write_tiny_model(tmp_path / "long", max_context=16384)
    llm = LLM(long, dtype="float32", threads=1, num_pages=1040)
    stream = llm.stream(PROMPT, ignore_eos=True, speculation=False)
    next(stream)
    llm.close()
    with pytest.raises(Cancelled):
        stream.final()
    with pytest.raises(Cancelled):
        llm.generate(PROMPT)
    llm.close()


def test_requests_wait_for_pages_and_survive_preemption(folder: Path) -> None:
    texts = [f"{word} the" for word in ("def", "class", "for", "while", "if", "not")]
    options: dict[str, Any] = {"max_tokens": 100, "seed": 4, "ignore_eos": True}
    with LLM(folder, dtype="float32", threads=1, num_pages=128) as ample:
        expected = [answer.token_ids for answer in ample.generate(texts, **options)]
    with LLM(
        folder,
        dtype="float32",
        threads=1,
        num_pages=12,
        max_running=6,
        max_context=128,
        chunk_tokens=16,
    ) as scarce:
        # Where this thread is held up, steps end some requests before it has sent the others.
        for _ in range(20):
            assert [a.token_ids for a in scarce.generate(texts, **options)] == expected
            if scarce.load().preemptions:
                break
        assert scarce.load().preemptions > 0


def test_missing_model_is_a_model_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"config\.json"):
        LLM(tmp_path)


def test_leaving_without_close_ends_cleanly_with_an_answer_still_running(folder: Path) -> None:
    program = (
        "import sys, spectrie\n"
        "llm = spectrie.LLM(sys.argv[1], threads=1, num_pages=40)\n"
        "stream = llm.stream('def', max_tokens=300, ignore_eos=True)\n"
        "print(len(next(iter(stream)).token_ids) > 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert (done.returncode, done.stdout.strip()) == (0, "True"), done.stderr


def build_corpus(path: Path, name: str, fingerprint: str) -> Path:
    builder = _core.CorpusBuilder(name, fingerprint)
    builder.push(list(range(5, 60)))
    builder.finish(str(path))
    return path


def test_corpora_are_loaded_by_path_and_listed(folder: Path, tmp_path: Path) -> None:
    fingerprint = _core.tokenizer_fingerprint(folder / "tokenizer.json")
    path = build_corpus(tmp_path / "mine.corpus", "mine", fingerprint)
    with LLM(folder, dtype="float32", threads=1, num_pages=16, corpora=[path]) as llm:
        (corpus,) = llm.corpora()
        assert (corpus.name, corpus.num_tokens, corpus.readers) == ("mine", 55, None)
        assert llm.load().corpus_bytes == corpus.bytes == path.stat().st_size


def test_corpora_that_cannot_be_used_are_refused_at_the_start(folder: Path, tmp_path: Path) -> None:
    foreign = build_corpus(tmp_path / "foreign.corpus", "foreign", "0123456789abcdef")
    for corpus, message in (
        (foreign, "built with tokenizer 0123456789abcdef, the model's is"),
        ("no-such-corpus", "no corpus 'no-such-corpus'"),
    ):
        with pytest.raises(ConfigError, match=message):
            LLM(folder, dtype="float32", threads=1, num_pages=16, corpora=[corpus])


def test_memory_outlives_the_process_unless_its_file_is_damaged(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def accepted_and_ids() -> tuple[int, list[int]]:
        with LLM(
            folder,
            dtype="float32",
            threads=1,
            num_pages=64,
            state_dir=tmp_path,
            drafting_cost_ms=0.0,
        ) as llm:
            answer = llm.generate(PROMPT, max_tokens=40, ignore_eos=True, temperature=0)
            return llm.load().accepted_by_source[Source.SHARED], list(answer.token_ids)

    cold, ids = accepted_and_ids()
    warm, again = accepted_and_ids()
    assert warm > cold == 0
    assert again == ids

    def damage(pattern: str) -> Path:
        for path in tmp_path.rglob(pattern):
            data = bytearray(path.read_bytes())
            data[len(data) // 2] ^= 1
            path.write_bytes(data)
        return path

    part = damage("part-*")
    with caplog.at_level("WARNING", logger="spectrie.worker"):
        assert accepted_and_ids()[1] == ids
    assert f"tokens are lost; first: {part}: " in caplog.text
    manifest = damage("manifest*").with_name("manifest")
    with caplog.at_level("WARNING", logger="spectrie.worker"):
        assert accepted_and_ids() == (cold, ids)
    assert f"draft memory starts empty: {manifest} cannot be used" in caplog.text


def test_memory_that_cannot_be_kept_is_told_and_answers_go_on(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "state").write_text("a file where the folder should be")
    state = tmp_path / "state" / "draft"
    with LLM(folder, dtype="float32", threads=1, num_pages=16, state_dir=state) as llm:
        assert llm.generate(PROMPT, max_tokens=4).token_ids
    assert "draft memory was not saved" in caplog.text
