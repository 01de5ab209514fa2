"""Draft memory of a served model: corpora, privacy, forgetting, restarts; the tokens never change.

The server grows trees by `prob`, whose drafts follow from text alone and from no timing.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spectrie import AdminClient, Client, Completion, SpeculationOptions, _core
from spectrie.errors import FailedPrecondition, NotFound
from tests.system.server import Program, serve
from tests.waiting import wait_until

PROMPT = "def in the"
NUM_TOKENS = 96
TENANTS = ("ann", "bob", "carl", "dora", "erin")


class Served:
    """A server with a state folder and a tenant for each test, which can be restarted."""

    def __init__(self, model: Path, folder: Path) -> None:
        self.model = model
        self.folder = folder
        self.state = folder / "state"
        keys = "".join(f"key-of-{tenant} {tenant}\n" for tenant in TENANTS)
        (folder / "keys").write_text(keys)
        self.start()

    def start(self, *arguments: str) -> None:
        """Starts it on what the state folder holds."""
        self.program: Program = serve(
            self.model,
            "--speculation=prob",
            f"--state-dir={self.state}",
            "--snapshot-every=0",
            "--drafting-cost-ms=0",
            f"--api-keys={self.folder / 'keys'}",
            *arguments,
        )
        self.facts: dict[str, Any] = self.program.wait_ready()

    def stop(self) -> None:
        """Lets it end in good order."""
        self.program.signal(signal.SIGTERM)
        assert self.program.wait() == 0, self.program.output

    def admin(self) -> AdminClient:
        """An operators' client."""
        return AdminClient(self.facts["admin"])

    def answer(self, tenant: str, *, learn: bool = True) -> Completion:
        """The answer to the prompt, which is the same for all."""
        with Client(self.facts["grpc"], api_key=f"key-of-{tenant}") as client:
            return client.generate(
                PROMPT,
                max_tokens=NUM_TOKENS,
                temperature=0,
                ignore_eos=True,
                speculation=SpeculationOptions(learn=learn),
            )

    def num_tokens(self, tenant: str) -> int:
        """Tokens held of a tenant's text."""
        with self.admin() as admin:
            return sum(one.num_tokens for one in admin.list_namespaces() if one.name == tenant)

    def forget(self, tenant: str) -> None:
        """Forgets a tenant's text, if there is any."""
        if self.num_tokens(tenant):
            with self.admin() as admin:
                admin.forget_namespace(tenant)


@pytest.fixture(scope="module")
def served(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    server = Served(tiny, tmp_path_factory.mktemp("memory"))
    yield server
    server.program.__exit__(None, None, None)


@pytest.fixture(scope="module")
def plain(served: Served) -> tuple[int, ...]:
    """The tokens of the answer, before anything was learnt."""
    return served.answer("dora", learn=False).token_ids


@pytest.fixture(scope="module")
def fingerprint(served: Served) -> str:
    """Of the served model's tokenizer."""
    return _core.tokenizer_fingerprint(served.model / "tokenizer.json")


@pytest.fixture(scope="module")
def document(served: Served, plain: tuple[int, ...]) -> list[int]:
    """The prompt and its answer."""
    with Client(served.facts["grpc"], api_key="key-of-carl") as client:
        return [*client.tokenize(PROMPT), *plain]


def accepted(completion: Completion, source: str) -> int:
    return completion.speculation.accepted_by_source.get(source, 0)


def write_corpus(folder: Path, name: str, document: list[int], fingerprint: str) -> str:
    builder = _core.CorpusBuilder(name, fingerprint)
    builder.push(document)
    builder.finish(folder / f"{name}.corpus")
    return str(folder / f"{name}.corpus")


def test_tenant_drafts_from_its_own_earlier_text_and_never_from_anothers(
    served: Served, plain: tuple[int, ...]
) -> None:
    first, second = served.answer("ann"), served.answer("ann")
    assert accepted(first, "shared") == 0
    assert accepted(second, "shared") > NUM_TOKENS // 2
    other = served.answer("bob")
    assert accepted(other, "shared") == 0
    assert first.token_ids == second.token_ids == other.token_ids == plain


def test_request_that_is_not_to_be_learnt_leaves_no_trace(
    served: Served, plain: tuple[int, ...]
) -> None:
    for _ in range(2):
        answer = served.answer("carl", learn=False)
        assert accepted(answer, "shared") == 0
        assert answer.token_ids == plain
    assert served.num_tokens("carl") == 0
    with served.admin() as admin:
        (snapshot,) = admin.save_snapshot()
    assert Path(snapshot.folder) == served.state / "draft" / "0"
    written = [path.read_bytes() for path in Path(snapshot.folder).rglob("*") if path.is_file()]
    assert written and not any(b"carl" in content for content in written)


def test_text_behind_a_stop_that_comes_with_the_last_token_is_not_learnt(
    served: Served, plain: tuple[int, ...]
) -> None:
    with Client(served.facts["grpc"], api_key="key-of-erin") as client:
        text = client.detokenize(plain)
        stop = next(word for word in re.findall("[a-z]{2,}", text) if text.index(word) > 20)
        options: dict[str, Any] = {"temperature": 0, "ignore_eos": True, "stop": [stop]}
        unlearnt = SpeculationOptions(learn=False)
        kept = len(
            client.generate(PROMPT, max_tokens=90, speculation=unlearnt, **options).token_ids
        )
        for more in range(1, 6):
            served.forget("erin")
            answer = client.generate(PROMPT, max_tokens=kept + more, prediction=text, **options)
            assert answer.token_ids == plain[:kept]
            assert (answer.finish_reason, answer.usage.completion_tokens) == ("stop", kept)
            learnt = answer.usage.prompt_tokens + kept
            wait_until(lambda: served.num_tokens("erin") > 0, 60, lambda: "nothing is learnt")
            assert served.num_tokens("erin") == learnt


def test_corpus_is_added_and_removed_while_a_stream_runs(
    served: Served,
    plain: tuple[int, ...],
    document: list[int],
    fingerprint: str,
    tmp_path: Path,
) -> None:
    path = write_corpus(tmp_path, "seen", document, fingerprint)
    with Client(served.facts["grpc"], api_key="key-of-carl") as client:
        stream = client.stream(
            PROMPT,
            max_tokens=1500,
            temperature=0,
            ignore_eos=True,
            speculation=SpeculationOptions(learn=False, enabled=False),
        )
        next(stream)
        with served.admin() as admin:
            added = admin.add_corpus(path, readers=["carl"])
            assert (added.num_tokens, added.workers) == (len(document), 1)
            drafted = served.answer("carl", learn=False)
            assert accepted(served.answer("dora", learn=False), "corpus") == 0
            (listed,) = admin.list_corpora()
            assert listed.accepted_tokens == accepted(drafted, "corpus")
            assert admin.remove_corpus("seen") == 1
            without = served.answer("carl", learn=False)
            assert accepted(without, "corpus") == 0
            with pytest.raises(NotFound, match="'seen'"):
                admin.remove_corpus("seen")
            foreign = write_corpus(tmp_path, "foreign", document, "0" * 16)
            with pytest.raises(FailedPrecondition, match=fingerprint):
                admin.add_corpus(foreign)
        whole = stream.final()
    assert drafted.token_ids == without.token_ids == plain
    assert whole.token_ids[:NUM_TOKENS] == plain
    assert whole.usage.completion_tokens == 1500


def test_corpus_added_while_serving_outlives_a_restart_and_gives_way_to_the_option(
    served: Served,
    plain: tuple[int, ...],
    document: list[int],
    fingerprint: str,
    tmp_path: Path,
) -> None:
    path = write_corpus(tmp_path, "seen", document, fingerprint)
    fleeting = write_corpus(tmp_path, "fleeting", document[:4], fingerprint)
    with served.admin() as admin:
        admin.add_corpus(path, readers=["carl"])
        admin.add_corpus(fleeting)
    served.stop()
    Path(fleeting).unlink()
    served.start()
    served.program.wait_line("corpus added again")
    skipped = served.program.wait_line("is skipped")
    assert fleeting in skipped and "neither a file" in skipped
    again = served.answer("carl", learn=False)
    assert accepted(again, "corpus") > NUM_TOKENS // 2
    assert accepted(served.answer("dora", learn=False), "corpus") == 0
    served.stop()
    served.start(f"--corpus={path}")
    served.program.wait_line("it stays")
    optional = served.answer("dora", learn=False)
    assert accepted(optional, "corpus") > NUM_TOKENS // 2
    with served.admin() as admin:
        assert admin.remove_corpus("fleeting") == 0
        assert admin.remove_corpus("seen") == 1
    assert again.token_ids == optional.token_ids == plain


def test_restart_is_warm_until_forgotten_and_cold_after_damage(
    served: Served, plain: tuple[int, ...]
) -> None:
    served.answer("ann")
    served.answer("bob")
    served.stop()
    served.start()
    served.program.wait_line("restored draft memory")
    warm = served.answer("ann")
    assert accepted(warm, "shared") > NUM_TOKENS // 2
    with served.admin() as admin:
        assert admin.forget_namespace("ann") == 1
        with pytest.raises(NotFound, match="'ann'"):
            admin.forget_namespace("ann")
    forgotten = served.answer("ann", learn=False)
    assert accepted(forgotten, "shared") == 0
    assert accepted(served.answer("bob"), "shared") > NUM_TOKENS // 2
    served.stop()
    files = [path for path in (served.state / "draft" / "0").rglob("*") if path.is_file()]
    assert any(path.name == "manifest" for path in files)
    for path in files:
        content = bytearray(path.read_bytes())
        assert b"ann" not in content
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    (served.state / "corpora.json").write_text("{")
    served.start()
    served.program.wait_line("starting without the corpora")
    served.program.wait_line("draft memory starts empty")
    cold = served.answer("bob")
    assert accepted(cold, "shared") == 0
    assert warm.token_ids == forgotten.token_ids == cold.token_ids == plain


def test_state_folder_is_its_owners_alone(served: Served) -> None:
    assert (served.state / "draft" / "0").stat().st_mode & 0o777 == 0o700
    address = served.facts["admin"].removeprefix("unix:")
    assert Path(address).stat().st_mode & 0o777 == 0o600
