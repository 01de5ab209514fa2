"""What the processes of a server log at their most talkative: neither prompts nor answers nor secrets."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from spectrie.client import AdminClient, Client, LoadReport
from spectrie.errors import InvalidArgument, NotFound, SpectrieError
from spectrie.types import Completion
from tests.system.server import END_S, Program, serve
from tests.tiny_model import CHAT_TEMPLATE, write_tiny_model
from tests.waiting import wait_until

# No two of their words occur in a log for another reason.
PROMPT = "quokkas vex jinxed zebras beneath mauve obelisks"
QUOTED = "jackdaws hum fizzy wyvern ballads"
"""What is wrong in a request, and quoted in the error that the client gets."""
KEY = "wombat-kinglet-4711-sesame"
WRONG_KEY = "bandicoot-ouzel-1174-sesame"
ADMIN_TOKEN = "numbat-plover-8128-sesame"
WORKER_TOKEN = "potoroo-avocet-6174-sesame"
SECRETS = (KEY, WRONG_KEY, ADMIN_TOKEN, WORKER_TOKEN)
TEMPLATE = (
    "{% for message in messages %}{% if message['role'] == 'system' %}"
    "{{ raise_exception('no system prompts: ' + message['content']) }}{% endif %}{% endfor %}"
)
OPENED: dict[str, Any] = {"max_tokens": 3900, "ignore_eos": True, "speculation": False, "seed": 5}
PIECE = 12
"""Characters of an answer that no log has by chance: answers are random."""
LOOKED_AT = 240
"""Characters of an answer that are looked for: a log at trace has many megabytes."""


@dataclass
class Recorded:
    """The log of a run, and what it must not say.

    Attributes:
        text: All lines of serve, router and workers.
        commands: The command lines of the processes, while they ran.
        answers: Texts that clients got.
        token_ids: Of prompts and answers.
        resume_tokens: Secrets by which clients go on with streams.
    """

    text: str = ""
    commands: list[list[str]] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    token_ids: list[tuple[int, ...]] = field(default_factory=list)
    resume_tokens: list[str] = field(default_factory=list)

    def keep(self, answer: Completion) -> None:
        """Notes an answer."""
        self.answers.append(answer.text)
        self.token_ids.append(tuple(answer.token_ids))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """A run with every kind of call, at trace."""
    folder = tmp_path_factory.mktemp("talkative")
    model = write_tiny_model(folder / "tiny", max_context=4096)
    (model / "chat_template.jinja").write_text(TEMPLATE + CHAT_TEMPLATE)
    for name, secret in (("admin", ADMIN_TOKEN), ("worker", WORKER_TOKEN)):
        (folder / name).write_text(secret + "\n")
    (folder / "keys").write_text(f"{KEY} team-a\n")
    found = Recorded()
    with serve(
        model,
        "--workers=2",
        "--log-level=trace",
        f"--api-keys={folder}/keys",
        "--admin=127.0.0.1:0",
        f"--admin-token-file={folder}/admin",
        "--worker-listen=127.0.0.1:0",
        f"--worker-token-file={folder}/worker",
        f"--state-dir={folder}/state",
    ) as program:
        facts = program.wait_ready()
        found.commands = commands(program)
        with (
            Client(facts["grpc"], api_key=KEY, max_retries=0) as client,
            AdminClient(facts["admin"], token=ADMIN_TOKEN) as admin,
        ):
            wait_until(lambda: len(admin.loads()) == 2, END_S, lambda: program.output)
            ask(client, found)
            ask_wrongly(client)
            ask_over_http(facts["http"], found)
            lose_workers(client, admin, found)
            operate(client, admin, facts["admin"])
        program.signal(signal.SIGINT)
        assert program.wait() == 0
        found.text = program.output
    return found


def commands(program: Program) -> list[list[str]]:
    """The command lines of a server's children."""
    children = Path(f"/proc/{program.process.pid}/task").glob("*/children")
    pids = [pid for file in children for pid in file.read_text().split()]
    return [Path(f"/proc/{pid}/cmdline").read_text().split("\0") for pid in pids]


def ask(client: Client, found: Recorded) -> None:
    """Asks in every way that is answered."""
    found.token_ids.append(tuple(client.tokenize(PROMPT)))
    short: dict[str, Any] = {"max_tokens": 60, "ignore_eos": True, "seed": 5}
    found.keep(client.generate(PROMPT, logprobs=2, prompt_logprobs=1, **short))
    found.keep(client.generate(PROMPT, prediction=PROMPT, cache_salt=PROMPT, **short))
    found.keep(client.generate(PROMPT, bad_words=["obelisks"], stop="mauve", **short))
    found.keep(client.generate(prompt_token_ids=found.token_ids[0], **short))
    found.keep(client.chat([{"role": "user", "content": PROMPT}], **short))
    found.keep(client.stream(PROMPT, **short).final())
    for held in (
        {"regex": "quokkas [a-z]{30}"},
        {"choice": [PROMPT, PROMPT + "!"]},
        {"json_schema": {"const": {"obelisks": PROMPT}}},
        {"grammar": 'start: "quokkas " /[a-z]{30}/'},
    ):
        found.keep(client.generate(PROMPT, max_tokens=200, seed=5, **held))
    stream = client.stream(PROMPT, **OPENED)
    found.answers.append(next(delta.text for delta in stream if delta.text))
    stream.cancel()


def ask_wrongly(client: Client) -> None:
    """Asks for what is refused."""
    for wrong in (
        {"regex": f"({QUOTED}"},
        {"grammar": f"start: {QUOTED}"},
        {"json_schema": {"type": QUOTED}},
        {"stop": [PROMPT] * 40},
        {"logit_bias": {1: 1e9}},
    ):
        with pytest.raises(InvalidArgument):
            client.generate(PROMPT, **wrong)
    with pytest.raises(InvalidArgument):
        client.chat([{"role": "system", "content": QUOTED}])
    with pytest.raises(NotFound):
        client.generate(PROMPT, model="another")


def ask_over_http(address: str, found: Recorded) -> None:
    """The same over HTTP, and with a key that is refused."""
    headers = {"authorization": f"Bearer {KEY}"}
    with httpx.Client(base_url=f"http://{address}", headers=headers, timeout=60) as client:
        messages = [{"role": "user", "content": PROMPT}]
        for path, body in (
            ("/v1/chat/completions", {"messages": messages, "max_tokens": 40}),
            ("/v1/completions", {"prompt": PROMPT, "max_tokens": 40, "min_tokens": 40}),
        ):
            body |= {"model": "tiny", "seed": 5}
            (choice,) = client.post(path, json=body).raise_for_status().json()["choices"]
            found.answers.append(choice.get("text") or choice["message"]["content"])
            with client.stream("POST", path, json=body | {"stream": True}) as answer:
                name, token = resumable(answer.iter_lines())
            found.resume_tokens.append(token)
            # The connection was cut behind the first event.
            rest = client.get(f"/v1/streams/{name}", headers={"x-spectrie-resume-token": token})
            assert "[DONE]" in rest.raise_for_status().text
            for wrong in ({"temperature": PROMPT}, {"stop": {"text": PROMPT}}):
                assert client.post(path, json=body | wrong).status_code == 400
            assert client.post(path, content=json.dumps(body)[:-4]).status_code == 400
            refused = {"authorization": f"Bearer {WRONG_KEY}"}
            assert client.post(path, json=body, headers=refused).status_code == 401
        path, system = "/v1/chat/completions", [{"role": "system", "content": QUOTED}]
        answer = client.post(path, json={"model": "tiny", "messages": system})
        assert answer.status_code == 400 and QUOTED in answer.text


def resumable(lines: Iterator[str]) -> tuple[str, str]:
    """By what a client goes on with a stream: the id and the token of its first event."""
    first = json.loads(next(line[6:] for line in lines if line.startswith("data: ")))
    return first["id"], first["resume_token"]


def lose_workers(client: Client, admin: AdminClient, found: Recorded) -> None:
    """Kills, then drains, the worker of a stream, which goes on at the other one."""
    whole = client.generate(PROMPT, **OPENED)
    found.keep(whole)
    for by in ("a kill", "a drain"):
        wait_until(lambda: len(admin.loads()) == 2, END_S, lambda: f"{admin.loads()}")
        stream = client.stream(PROMPT, **OPENED)
        next(stream)
        worker = busy(admin)
        if by == "a kill":
            os.kill(worker.process_id, signal.SIGKILL)
        else:
            admin.drain(worker.worker, grace_s=0.0)
        assert stream.final().token_ids == whole.token_ids


def busy(admin: AdminClient) -> LoadReport:
    """The worker that runs something."""
    return max(admin.loads(), key=lambda one: one.choices)


def operate(client: Client, admin: AdminClient, address: str) -> None:
    """Operators' calls, wrong ones and one of another secret among them."""
    wait_until(lambda: len(admin.loads()) == 2, END_S, lambda: f"{admin.loads()}")
    assert admin.stats() and admin.list_namespaces() and admin.list_corpora() == []
    assert admin.save_snapshot()
    with pytest.raises(SpectrieError):
        admin.add_corpus("no-such-corpus")
    stream = client.stream(PROMPT, request_id="ended-by-operator", **OPENED)
    next(stream)
    with contextlib.suppress(NotFound):
        admin.abort("ended-by-operator", tenant="team-a")
    with contextlib.suppress(SpectrieError):
        stream.final()
    assert admin.forget_namespace("team-a") > 0
    with AdminClient(address, token=WRONG_KEY) as other, pytest.raises(SpectrieError):
        other.loads()


def test_router_and_workers_are_at_trace(run: Recorded) -> None:
    spoken = [command for command in run.commands if "--log-level=trace" in command]
    assert len(spoken) == len(run.commands) == 3
    lines = run.text.splitlines()
    assert any(line.startswith("[router]") and " TRACE " in line for line in lines)
    # Python has no level below DEBUG: workers at trace log all that they can.
    for name in ("worker-0", "worker-1"):
        assert any(line.startswith(f"[{name}]") and "joined the router" in line for line in lines)
    for text in (
        "request refused",
        "attempts=2",
        'outcome="CANCELLED"',
        "signal SIGKILL",
    ):
        assert text in run.text, text


def test_no_line_has_a_part_of_a_prompt(run: Recorded) -> None:
    for word in PROMPT.split():
        assert word not in run.text


def test_no_line_quotes_what_was_wrong(run: Recorded) -> None:
    for word in QUOTED.split():
        assert word not in run.text


def test_no_line_has_a_part_of_an_answer(run: Recorded) -> None:
    assert len(run.answers) >= 14 and all(run.answers)
    for answer in run.answers:
        for start in range(0, min(len(answer), LOOKED_AT) - PIECE + 1, PIECE):
            assert answer[start : start + PIECE] not in run.text


def test_no_line_has_token_ids_of_prompts_and_answers(run: Recorded) -> None:
    for token_ids in run.token_ids:
        for between in (",", ", ", " "):
            assert between.join(map(str, token_ids[:6])) not in run.text


def test_no_line_has_a_secret(run: Recorded) -> None:
    assert len(run.resume_tokens) == 2
    for secret in (*SECRETS, *run.resume_tokens):
        assert secret not in run.text
    for word in ("wombat", "bandicoot", "numbat", "potoroo"):
        assert word not in run.text
