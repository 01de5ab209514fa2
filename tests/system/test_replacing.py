"""Workers that hang or drain are replaced, and a normal stop has nothing to complain of."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from spectrie.cli import main
from spectrie.client import AdminClient, Client
from spectrie.types import Completion
from tests.system.server import END_S, gone, serve
from tests.waiting import wait_until


def answered(client: Client) -> bool:
    """Whether a request is answered, however long it waits for a worker."""
    answer = client.generate("def", max_tokens=4, ignore_eos=True, timeout=120)
    return answer.usage.completion_tokens == 4


def test_a_worker_that_was_stopped_is_killed_and_a_fresh_one_answers(tiny: Path) -> None:
    with serve(tiny, "--worker-stall-timeout=1s") as program:
        facts = program.wait_ready()
        pid = facts["workers"][0]["pid"]
        os.kill(pid, signal.SIGSTOP)
        program.wait_line("worker-0 said nothing for 1 s: killing it")
        program.wait_line("worker-0 ended (signal SIGKILL)")
        assert gone(pid)
        with Client(facts["grpc"], max_retries=0) as client:
            assert answered(client)
        program.signal(signal.SIGINT)
        assert program.wait() == 0


@pytest.mark.parametrize("by", ["the call", "a signal"])
def test_a_worker_drains_with_its_answer_and_a_fresh_one_takes_its_place(
    tiny: Path, by: str
) -> None:
    with serve(tiny) as program:
        facts = program.wait_ready()
        pid = facts["workers"][0]["pid"]
        with (
            Client(facts["grpc"], max_retries=0) as client,
            AdminClient(facts["admin"]) as admin,
        ):
            stream = client.stream("def", ignore_eos=True, max_tokens=1500, speculation=False)
            next(stream)
            answers: list[Completion] = []
            reading = threading.Thread(target=lambda: answers.append(stream.final()))
            reading.start()
            if by == "the call":
                report = admin.drain(str(pid), grace_s=60.0)
                assert report.handed_over == 0
            else:
                os.kill(pid, signal.SIGTERM)
            program.wait_line("worker-0 drained; starting a fresh one")
            reading.join(60.0)
            assert [one.usage.completion_tokens for one in answers] == [1500]
            assert gone(pid)
            assert answered(client)
            # The router may hear of the end of the old one behind that of the answer.
            wait_until(lambda: len(admin.loads()) == 1, END_S, lambda: f"{admin.loads()}")
            (load,) = admin.loads()
            assert load.process_id != pid and not load.is_draining
        program.signal(signal.SIGINT)
        assert program.wait() == 0
        assert "WARN" not in program.output


NUM_STREAMS = 6
STREAMED = {"ignore_eos": True, "max_tokens": 1500, "temperature": 0.9, "timeout": 120}


class Streams:
    """Streams that ask again and again, each for its own answer, and what came of them."""

    def __init__(self, client: Client) -> None:
        self.failures: list[str] = []
        self.num_answers = 0
        self._client = client
        self._expected = [self._answer(seed) for seed in range(NUM_STREAMS)]
        self._ending = threading.Event()
        self._threads = [
            threading.Thread(target=self._ask, args=(seed,), daemon=True)
            for seed in range(NUM_STREAMS)
        ]
        for thread in self._threads:
            thread.start()

    def _answer(self, seed: int) -> tuple[int, ...]:
        stream = self._client.stream(f"def number_{seed}", seed=seed, **STREAMED)  # type: ignore[arg-type]
        return tuple(stream.final().token_ids)

    def _ask(self, seed: int) -> None:
        while not self._ending.is_set():
            try:
                answer = self._answer(seed)
            except Exception as error:
                self.failures.append(f"{seed}: {error!r}")
                return
            if answer != self._expected[seed]:
                self.failures.append(f"{seed}: other tokens")
            self.num_answers += 1

    def end(self) -> None:
        """Lets the answers that run end."""
        self._ending.set()
        for thread in self._threads:
            thread.join(END_S)
            assert not thread.is_alive(), "a stream hangs"


@pytest.mark.parametrize("grace", ["0s", "60s"])
def test_all_workers_are_replaced_in_turn_and_no_stream_notices(
    tiny: Path, grace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with serve(tiny, "--workers=2") as program:
        facts = program.wait_ready()
        with (
            Client(facts["grpc"], max_retries=0) as client,
            AdminClient(facts["admin"]) as admin,
        ):

            def pids() -> set[int]:
                return {one.process_id for one in admin.loads() if not one.is_draining}

            wait_until(lambda: len(pids()) == 2, END_S, lambda: f"{admin.loads()}")
            before = pids()
            streams = Streams(client)
            try:
                begun = streams.num_answers
                wait_until(lambda: streams.num_answers > begun, END_S, lambda: program.output)
                assert main(["drain", "--all", "--grace", grace, "--server", facts["admin"]]) == 0
                after = pids()
                begun = streams.num_answers
                wait_until(lambda: streams.num_answers > begun, END_S, lambda: program.output)
            finally:
                streams.end()
        assert streams.failures == []
        assert len(after) == 2 and not after & before
        assert all(gone(pid) for pid in before)
        # Without grace none is handed over either where none runs just then.
        assert grace == "0s" or "handed over" not in capsys.readouterr().err
        program.signal(signal.SIGINT)
        assert program.wait() == 0
        assert program.output.count("drained; starting a fresh one") == 2
        assert "WARN" not in program.output and "ERROR" not in program.output


def test_a_normal_stop_prints_no_warning(tiny: Path) -> None:
    with serve(tiny, "--workers=2") as program:
        facts = program.wait_ready()
        with Client(facts["grpc"]) as client:
            assert answered(client)
        program.signal(signal.SIGINT)
        assert program.wait() == 0
        assert "WARN" not in program.output and "ERROR" not in program.output


def test_a_start_that_fails_does_not_say_ready_first(tiny: Path) -> None:
    with serve(tiny, "--max-context=100000000") as program:
        assert program.wait() == 1
        assert "worker-0 cannot start" in program.output
        assert "ready" not in program.output
