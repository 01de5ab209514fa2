"""The asynchronous client: `Client`'s methods, awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Self, Unpack

import grpc

from spectrie._proto import inference_pb2 as pb
from spectrie.client.base import BaseClient
from spectrie.client.channel import channel_options, credentials
from spectrie.client.policy import Attempts
from spectrie.client.replies import completion_of, model_of
from spectrie.client.requests import chat_prompt, set_ids
from spectrie.client.stream import AsyncGenerationStream
from spectrie.options import GenerateOptions
from spectrie.types import Completion, Message, ModelInfo

__all__ = ["AsyncClient"]


class AsyncClient(BaseClient):
    """Talks to a Spectrie server over one gRPC connection, from one event loop.

    Example:
        >>> async with AsyncClient("127.0.0.1:50051") as client:  # doctest: +SKIP
        ...     async for delta in client.stream("Once upon a time"):
        ...         print(delta.text, end="")
    """

    async def generate(
        self,
        prompt: str | None = None,
        *,
        prompt_token_ids: Sequence[int] | None = None,
        **options: Unpack[GenerateOptions],
    ) -> Completion:
        """Continues a prompt, given as text or as token ids.

        Raises:
            SpectrieError: One class per cause; see `spectrie.errors`.
        """
        return (await self._generate(prompt, prompt_token_ids, None, None, options))[0]

    async def generate_choices(
        self,
        prompt: str | None = None,
        *,
        n: int,
        prompt_token_ids: Sequence[int] | None = None,
        **options: Unpack[GenerateOptions],
    ) -> list[Completion]:
        """Continues a prompt `n` times independently; at most 8."""
        return await self._generate(prompt, prompt_token_ids, None, n, options)

    async def chat(
        self, messages: Sequence[Message], **options: Unpack[GenerateOptions]
    ) -> Completion:
        """Answers a chat: messages of `role` (system, user, assistant) and `content`."""
        return (await self._generate(None, None, messages, None, options))[0]

    def stream(
        self,
        prompt: str | None = None,
        *,
        prompt_token_ids: Sequence[int] | None = None,
        messages: Sequence[Message] | None = None,
        **options: Unpack[GenerateOptions],
    ) -> AsyncGenerationStream:
        """Continues a prompt or answers a chat; yields pieces as tokens are verified."""
        return AsyncGenerationStream(
            *self._stream_call(prompt, prompt_token_ids, messages, options)
        )

    async def tokenize(
        self, text: str, *, add_special_tokens: bool = False, model: str | None = None
    ) -> list[int]:
        """Converts text to token ids."""
        request = pb.TokenizeRequest(
            text=text, add_special_tokens=add_special_tokens, model=model or self._config.model
        )
        reply: pb.TokenizeResponse = await self._call("Tokenize", request, self._attempts())
        return list(reply.token_ids)

    async def detokenize(
        self,
        token_ids: Sequence[int],
        *,
        skip_special_tokens: bool = True,
        model: str | None = None,
    ) -> str:
        """Converts token ids to text."""
        request = pb.DetokenizeRequest(
            skip_special_tokens=skip_special_tokens, model=model or self._config.model
        )
        set_ids(request.token_ids, token_ids, "token_ids")
        reply: pb.DetokenizeResponse = await self._call("Detokenize", request, self._attempts())
        return reply.text

    async def apply_chat_template(
        self, messages: Sequence[Message], *, model: str | None = None
    ) -> str:
        """Renders a chat with the model's template; returns the prompt text."""
        request = pb.ApplyChatTemplateRequest(
            chat=chat_prompt(messages), model=model or self._config.model
        )
        reply: pb.ApplyChatTemplateResponse = await self._call(
            "ApplyChatTemplate", request, self._attempts()
        )
        return reply.text

    async def list_models(self) -> list[ModelInfo]:
        """Lists the models that can answer now."""
        reply: pb.ListModelsResponse = await self._call(
            "ListModels", pb.ListModelsRequest(), self._attempts()
        )
        return [model_of(model) for model in reply.models]

    async def close(self) -> None:
        """Closes the connection; running streams end. Does nothing for a `with_options` copy."""
        for channel in self._disconnected():
            await channel.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _generate(
        self,
        prompt: str | None,
        prompt_token_ids: Sequence[int] | None,
        messages: Sequence[Message] | None,
        n: int | None,
        options: GenerateOptions,
    ) -> list[Completion]:
        request = self._generate_request(prompt, prompt_token_ids, messages, options, n)
        reply: pb.GenerateResponse = await self._call(
            "Generate", request, self._attempts(**options)
        )
        return [completion_of(reply.started, choice) for choice in reply.choices]

    async def _call(self, method: str, request: Any, attempts: Attempts) -> Any:
        while True:
            target = self.target
            try:
                return await getattr(self._stub(target), method)(
                    request, timeout=attempts.remaining_s(), metadata=self._metadata()
                )
            except grpc.RpcError as failure:
                error = self._error_of(failure, attempts.timeout_s, target)
                self._move_on(target, error)
                delay = attempts.delay_before_retry(error)
                if delay is None:
                    raise error from None
                await asyncio.sleep(delay)

    def _make_channel(self, target: str) -> grpc.aio.Channel:
        options = channel_options(self._config, target)
        secure = credentials(self._config)
        if secure is not None:
            return grpc.aio.secure_channel(target, secure, options)
        return grpc.aio.insecure_channel(target, options)
