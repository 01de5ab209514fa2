"""The fake worker answers, stands still and dies as a bench wants it to."""

from __future__ import annotations

import asyncio
from pathlib import Path

from bench.router.process import router
from bench.router.worker import Worker
from spectrie.client import AsyncClient
from spectrie.types import Completion
from tests.tiny_model import write_tiny_tokenizer

NUM_TOKENS = 5


async def _ask(client: AsyncClient) -> Completion:
    return await client.generate("one two", max_tokens=NUM_TOKENS, ignore_eos=True, timeout=60)


async def _has_joined(client: AsyncClient, count: int) -> None:
    while sum(one.workers for one in await client.list_models()) < count:
        await asyncio.sleep(0.01)


async def _play(own: Path) -> tuple[Completion, Completion]:
    folder = write_tiny_tokenizer(own / "tokenizer")
    socket = f"unix:{own}/worker.sock"
    with router(own) as process:
        async with (
            AsyncClient(str(process.facts["grpc"]), max_retries=0) as client,
            Worker(socket, folder, places=2, token_s=0.001) as first,
        ):
            await _has_joined(client, 1)
            plain = await _ask(client)
            assert first.num_running == 0
            first.stall()
            waiting = asyncio.create_task(_ask(client))
            while first.num_running == 0:
                await asyncio.sleep(0.01)
            async with Worker(socket, folder, places=2, token_s=0.001):
                await _has_joined(client, 2)
                assert not waiting.done()
                first.die()
                return plain, await waiting


def test_a_worker_that_stands_still_holds_its_answer_and_one_that_dies_leaves_it(
    tmp_path: Path,
) -> None:
    plain, left = asyncio.run(_play(tmp_path))
    assert len(plain.token_ids) == NUM_TOKENS
    assert left.token_ids == plain.token_ids
