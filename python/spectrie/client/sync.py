"""The synchronous client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from spectrie._proto import inference_pb2 as pb
from spectrie.client.blocking import BlockingClient
from spectrie.client.replies import completion_of, model_of
from spectrie.client.requests import chat_prompt, set_ids
from spectrie.client.stream import GenerationStream
from spectrie.options import GenerateOptions
from spectrie.types import Completion, Message, ModelInfo

__all__ = ["Client"]


class Client(BlockingClient):
    """Talks to a Spectrie server over one gRPC connection; safe to share between threads.

    Example:
        >>> with Client("127.0.0.1:50051") as client:  # doctest: +SKIP
        ...     print(client.generate("The capital of France is", max_tokens=8).text)
    """

    def generate(
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
        return self._generate(prompt, prompt_token_ids, None, None, options)[0]

    def generate_choices(
        self,
        prompt: str | None = None,
        *,
        n: int,
        prompt_token_ids: Sequence[int] | None = None,
        **options: Unpack[GenerateOptions],
    ) -> list[Completion]:
        """Continues a prompt `n` times independently; at most 8."""
        return self._generate(prompt, prompt_token_ids, None, n, options)

    def chat(self, messages: Sequence[Message], **options: Unpack[GenerateOptions]) -> Completion:
        """Answers a chat: messages of `role` (system, user, assistant) and `content`."""
        return self._generate(None, None, messages, None, options)[0]

    def stream(
        self,
        prompt: str | None = None,
        *,
        prompt_token_ids: Sequence[int] | None = None,
        messages: Sequence[Message] | None = None,
        **options: Unpack[GenerateOptions],
    ) -> GenerationStream:
        """Continues a prompt or answers a chat; yields pieces as tokens are verified."""
        return GenerationStream(*self._stream_call(prompt, prompt_token_ids, messages, options))

    def tokenize(
        self, text: str, *, add_special_tokens: bool = False, model: str | None = None
    ) -> list[int]:
        """Converts text to token ids."""
        request = pb.TokenizeRequest(
            text=text, add_special_tokens=add_special_tokens, model=model or self._config.model
        )
        reply: pb.TokenizeResponse = self._call("Tokenize", request, self._attempts())
        return list(reply.token_ids)

    def detokenize(
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
        reply: pb.DetokenizeResponse = self._call("Detokenize", request, self._attempts())
        return reply.text

    def apply_chat_template(self, messages: Sequence[Message], *, model: str | None = None) -> str:
        """Renders a chat with the model's template; returns the prompt text."""
        request = pb.ApplyChatTemplateRequest(
            chat=chat_prompt(messages), model=model or self._config.model
        )
        reply: pb.ApplyChatTemplateResponse = self._call(
            "ApplyChatTemplate", request, self._attempts()
        )
        return reply.text

    def list_models(self) -> list[ModelInfo]:
        """Lists the models that can answer now."""
        reply: pb.ListModelsResponse = self._call(
            "ListModels", pb.ListModelsRequest(), self._attempts()
        )
        return [model_of(model) for model in reply.models]

    def _generate(
        self,
        prompt: str | None,
        prompt_token_ids: Sequence[int] | None,
        messages: Sequence[Message] | None,
        n: int | None,
        options: GenerateOptions,
    ) -> list[Completion]:
        request = self._generate_request(prompt, prompt_token_ids, messages, options, n)
        reply: pb.GenerateResponse = self._call("Generate", request, self._attempts(**options))
        return [completion_of(reply.started, choice) for choice in reply.choices]
