"""A worker without a model: it joins a router over the real wire and answers by script.

Its tokens are bytes: token id = byte, 256 ends the sequence. What it does depends on a word in
the prompt: REFUSE; FAIL and DIE (after eight tokens, when told; FAIL at once and DIE not at all when the
request is resumed); HANG (after eight tokens, until cancelled). Anything else is answered by `ANSWER`, preceded by the choice's seed when sampling; a
schema is answered by itself, another constraint by a text that meets it, and one that says INVALID
is refused. Token `t` has log-probability -0.25, as the likeliest before `t + 1` and so on.
"""

from __future__ import annotations

import hashlib
import json
import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import grpc

from spectrie._proto import worker_pb2 as pb
from spectrie._proto import worker_pb2_grpc

__all__ = ["ANSWER", "EOS_ID", "MAX_RUNNING", "MODEL", "ScriptedWorker"]

MODEL = "scripted"
ANSWER = "The café is open — 你好, said the quick brown fox.\n"
EOS_ID = 256
MAX_CONTEXT = 2048
MAX_RUNNING = 8
TOKENS_PER_STEP = 4
FAIL_WITHIN_S = 20.0
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


def _byte_tokenizer() -> str:
    """A tokenizer.json whose token ids are bytes."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {byte: chr(byte) for byte in printable}
    others = [byte for byte in range(256) if byte not in letters]
    letters |= {byte: chr(256 + index) for index, byte in enumerate(others)}
    return json.dumps(
        {
            "version": "1.0",
            "added_tokens": [
                {
                    "id": EOS_ID,
                    "content": "<|end|>",
                    "single_word": False,
                    "lstrip": False,
                    "rstrip": False,
                    "normalized": False,
                    "special": True,
                }
            ],
            "pre_tokenizer": {
                "type": "ByteLevel",
                "add_prefix_space": False,
                "trim_offsets": False,
                "use_regex": False,
            },
            "decoder": {
                "type": "ByteLevel",
                "add_prefix_space": False,
                "trim_offsets": False,
                "use_regex": False,
            },
            "model": {
                "type": "BPE",
                "vocab": {letter: byte for byte, letter in letters.items()},
                "merges": [],
            },
        }
    )


def _told(token: int, num_top: int) -> pb.TokenLogprob:
    ranks = range(num_top)
    return pb.TokenLogprob(
        token_id=token,
        logprob=-0.25,
        top_ids=[(token + rank) % (EOS_ID + 1) for rank in ranks],
        top_logprobs=[-0.25 - rank for rank in ranks],
    )


def _meeting(structured: pb.Structured) -> str:
    """A text of the form asked for; the schema itself for a schema."""
    kind = structured.WhichOneof("constraint")
    if kind == "json_schema":
        return structured.json_schema
    if kind == "choice":
        return structured.choice.texts[-1]
    return '{"any": true}' if kind == "json_object" else "aaa"


@dataclass
class _Job:
    """One choice being answered."""

    start: pb.Start
    token_ids: list[int]
    stop_after: int | None = None
    sent: int = 0
    steps: int = 0


@dataclass
class ScriptedWorker:
    """Joins the router at `target` when entered, and leaves at the end.

    `cancelled` holds the ids of the requests that the router cancelled, in order.
    """

    target: str
    cancelled: queue.Queue[str] = field(default_factory=queue.Queue)

    def __enter__(self) -> ScriptedWorker:
        self._leaving = threading.Event()
        self._may_fail = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._leaving.set()
        self._call.cancel()
        self._thread.join(timeout=10)

    def fail(self) -> None:
        """Lets the request that is to fail do so; call it when its first tokens are there."""
        self._may_fail.set()

    def _run(self) -> None:
        while not self._leaving.is_set():
            self._outgoing: queue.SimpleQueue[pb.WorkerMessage | None] = queue.SimpleQueue()
            self._held: dict[str, _Job] = {}
            # A socket's path is no authority that the router's HTTP/2 takes.
            options = [("grpc.default_authority", "localhost")]
            with grpc.insecure_channel(self.target, options=options) as channel:
                stub = worker_pb2_grpc.WorkerHubStub(channel)
                self._call = stub.Connect(self._messages())
                try:
                    for message in self._call:
                        self._receive(message)
                except grpc.RpcError:
                    self._leaving.wait(0.05)
                finally:
                    self._outgoing.put(None)

    def _messages(self) -> Iterator[pb.WorkerMessage]:
        yield pb.WorkerMessage(
            hello=pb.Hello(
                protocol=1,
                version="0",
                model=MODEL,
                model_hash="0" * 64,
                numeric_fingerprint="scripted",
                capacity=pb.Capacity(
                    max_context=MAX_CONTEXT,
                    max_running=MAX_RUNNING,
                    num_pages=1024,
                    page_size=16,
                    max_draft_tokens=16,
                ),
                vocabulary_size=EOS_ID + 1,
                eos_token_ids=[EOS_ID],
                instance="scripted",
                process_id=1,
            )
        )
        artifacts = {"tokenizer.json": _byte_tokenizer(), "chat_template.jinja": CHAT_TEMPLATE}
        for name, text in artifacts.items():
            data = text.encode()
            digest = hashlib.sha256(data).hexdigest()
            yield pb.WorkerMessage(artifact=pb.ArtifactChunk(name=name, data=data, sha256=digest))
        yield pb.WorkerMessage(ready=pb.Ready())
        steps = 0
        while True:
            try:
                message = self._outgoing.get(timeout=1.0)
            except queue.Empty:
                steps += 1
                message = pb.WorkerMessage(heartbeat=pb.Heartbeat(steps=steps))
            if message is None:
                return
            yield message

    def _receive(self, message: pb.RouterMessage) -> None:
        if message.HasField("start"):
            self._answer(message.start)
        elif message.HasField("cancel"):
            self.cancelled.put(message.cancel.request_id)
            job = self._held.pop(message.cancel.request_id, None)
            if job is not None:
                self._finish(job, pb.FINISH_CANCELLED)

    def _answer(self, start: pb.Start) -> None:
        # Ids that a client made up need not be text.
        prompt = bytes(token for token in start.prompt_ids if token < EOS_ID).decode(
            errors="replace"
        )
        text = ANSWER
        if start.sampling.temperature > 0:
            text = f"{start.choice_seed} {text}"
        if start.HasField("structured"):
            text = _meeting(start.structured)
        job = _Job(start, list(text.encode()), sent=len(start.emitted_token_ids))
        if start.HasField("structured") and "INVALID" in text:
            self._finish(job, pb.FINISH_INVALID, "the script cannot compile it")
        elif "REFUSE" in prompt:
            self._finish(job, pb.FINISH_REFUSED, "the script refuses")
        elif "FAIL" in prompt and start.attempt > 0:
            self._finish(job, pb.FINISH_FAILED, "the script fails")
        elif "FAIL" in prompt or ("DIE" in prompt and start.attempt == 0):
            self._may_fail.clear()
            self._send(job, 8)
            self._may_fail.wait(FAIL_WITHIN_S)
            if "FAIL" in prompt:
                self._finish(job, pb.FINISH_FAILED, "the script fails")
            else:
                self._outgoing.put(None)
        elif "HANG" in prompt:
            self._held[start.request_id] = job
            self._send(job, 8)
        else:
            self._complete(job)

    def _complete(self, job: _Job) -> None:
        limit = job.start.max_tokens
        ids = job.token_ids
        if job.start.ignore_eos:
            job.token_ids = (ids * (limit // len(ids) + 1))[:limit]
        else:
            job.token_ids = [*ids, EOS_ID][:limit]
        self._send(job, len(job.token_ids))
        ended = job.token_ids[-1] == EOS_ID
        self._finish(job, pb.FINISH_EOS if ended else pb.FINISH_LENGTH)

    def _send(self, job: _Job, end: int) -> None:
        while job.sent < end:
            ids = job.token_ids[job.sent : min(end, job.sent + TOKENS_PER_STEP)]
            job.sent += len(ids)
            job.steps += 1
            sources = [1] + [3] * (len(ids) - 1)
            output = pb.RequestOutput(token_ids=ids, sources=sources)
            start = job.start
            if start.HasField("logprobs"):
                output.logprobs.extend(_told(token, start.logprobs) for token in ids)
            if start.HasField("prompt_logprobs") and job.steps == 1:
                first, *others = start.prompt_ids
                output.prompt_logprobs.add(token_id=first)
                output.prompt_logprobs.extend(_told(id, start.prompt_logprobs) for id in others)
            self._put(job, output)

    def _finish(self, job: _Job, kind: pb.FinishKind.ValueType, message: str | None = None) -> None:
        accepted = job.sent - job.steps
        prediction = list(job.start.prediction_ids)
        pairs = zip(prediction, job.token_ids[: job.sent], strict=False)
        stats = pb.RequestStats(
            verify_steps=max(0, job.steps - 1),
            drafted_tokens=accepted + 1,
            accepted_tokens=accepted,
            accepted_by_source=[0, 0, 0, accepted],
            prefill_ns=2_000_000,
            decode_ns=3_000_000,
            cached_tokens=1,
            accepted_prediction_tokens=sum(one == other for one, other in pairs),
        )
        self._put(job, pb.RequestOutput(finish=kind, message=message, stats=stats))

    def _put(self, job: _Job, output: pb.RequestOutput) -> None:
        output.request_id = job.start.request_id
        output.attempt = job.start.attempt
        step = pb.StepOutput(step=job.steps, outputs=[output])
        self._outgoing.put(pb.WorkerMessage(step_output=step))
