"""A router with certificates, and the clients of Python."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from dataclasses import dataclass

import httpx
import pytest

from bench.router.certificates import Authority, Issued
from spectrie.cli import main
from spectrie.client import AdminClient, AsyncClient, Client
from spectrie.errors import ConfigError, ConnectFailed, NotFound, SpectrieError
from tests.http.certificates import needs_openssl
from tests.http.scripted_worker import MODEL, ScriptedWorker
from tests.http.server import router
from tests.waiting import wait_until

pytestmark = needs_openssl


@dataclass(frozen=True, slots=True)
class Secured:
    """A router that asks its clients for certificates."""

    facts: dict[str, str]
    authority: Authority
    own: Issued

    def context(self, own: Issued | None) -> ssl.SSLContext:
        """What a client by HTTPS trusts and shows."""
        context = ssl.create_default_context(cafile=str(self.authority.cert))
        if own is not None:
            context.load_cert_chain(own.cert, own.key)
        return context

    def keywords(self, own: Issued | None) -> dict[str, bytes]:
        """The same for a client by gRPC."""
        trusted = {"root_certificates": self.authority.cert.read_bytes()}
        if own is None:
            return trusted
        shown = {"private_key": own.key.read_bytes(), "certificate_chain": own.cert.read_bytes()}
        return trusted | shown


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A router with a worker."""
    folder = tmp_path_factory.mktemp("secured")
    authority = Authority(folder)
    served = authority.issue("router")
    options = ["--tls-cert", str(served.cert), "--tls-key", str(served.key)]
    options += ["--tls-client-ca", str(authority.cert), "--metrics-listen", "127.0.0.1:0"]
    options += ["--admin", "127.0.0.1:0"]
    with router(folder, *options) as facts, ScriptedWorker(facts["worker"]):
        ready = f"http://{facts['metrics']}/readyz"
        wait_until(
            lambda: httpx.get(ready, timeout=30).status_code == 200, 60.0, lambda: "no worker"
        )
        yield Secured(facts, authority, authority.issue("client"))


def test_https_serves_who_shows_a_certificate(secured: Secured) -> None:
    url = f"https://{secured.facts['http']}/v1/models"
    with httpx.Client(verify=secured.context(secured.own)) as client:
        assert client.get(url).json()["data"][0]["id"] == MODEL
    with (
        httpx.Client(verify=secured.context(None)) as client,
        # Whether it hears of the end as it connects, writes or reads.
        pytest.raises((httpx.NetworkError, httpx.RemoteProtocolError)),
    ):
        client.get(url)


def test_client_shows_its_certificate(secured: Secured) -> None:
    target = secured.facts["grpc"]
    with Client(target, **secured.keywords(secured.own)) as client:  # type: ignore[arg-type]
        assert client.generate("hello", max_tokens=8).token_ids
    with (
        Client(target, max_retries=0, **secured.keywords(None)) as client,  # type: ignore[arg-type]
        pytest.raises(SpectrieError),
    ):
        client.generate("hello", max_tokens=8)


async def _generate(client: AsyncClient) -> list[int]:
    async with client:
        return list((await client.generate("hello", max_tokens=8)).token_ids)


def test_asynchronous_client_shows_its_certificate(secured: Secured) -> None:
    import asyncio

    target = secured.facts["grpc"]
    client = AsyncClient(target, **secured.keywords(secured.own))  # type: ignore[arg-type]
    assert asyncio.run(_generate(client))


def test_commands_show_the_certificates_of_their_flags(
    secured: Secured, capsys: pytest.CaptureFixture[str]
) -> None:
    server = ["--server", secured.facts["grpc"], "--tls-ca", str(secured.authority.cert)]
    shown = ["--tls-cert", str(secured.own.cert), "--tls-key", str(secured.own.key)]
    asked = ["generate", MODEL, "hello", "--max-tokens", "8", "--json", *server]
    assert main([*asked, *shown]) == 0
    assert json.loads(capsys.readouterr().out)["token_ids"]
    assert main(asked) == 1
    capsys.readouterr()
    measured = ["bench", *server, *shown, "--num-prompts", "2", "--max-tokens", "4"]
    assert main(measured) == 0
    assert "speculation off" in capsys.readouterr().out


def test_operators_show_theirs(secured: Secured) -> None:
    target = secured.facts["admin"]
    for own, error in ((secured.own, NotFound), (None, ConnectFailed)):
        keywords = secured.keywords(own)
        with (
            AdminClient(target, model="none", timeout=10, **keywords) as admin,  # type: ignore[arg-type]
            pytest.raises(error),
        ):
            admin.list_corpora()


def test_certificate_without_its_key_is_refused() -> None:
    with pytest.raises(ConfigError, match="private_key and certificate_chain"):
        Client("localhost:1", certificate_chain=b"pem")
