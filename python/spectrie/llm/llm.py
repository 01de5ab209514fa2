"""`spectrie.LLM`: a model in this process, without a server."""

from __future__ import annotations

import atexit
import itertools
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self, Unpack, overload

from spectrie.engine.host import EngineHost
from spectrie.errors import (
    Cancelled,
    Internal,
    SpectrieError,
)
from spectrie.llm import batch
from spectrie.llm.batch import OnError
from spectrie.llm.keywords import EngineKeywords
from spectrie.llm.prompts import Prompt, given_chats, given_prompts
from spectrie.llm.resolver import Resolver
from spectrie.llm.room import Room
from spectrie.llm.settings import engine_options, read_generation_config
from spectrie.llm.stream import LocalStream
from spectrie.options import GenerateOptions, check_names
from spectrie.types import Completion, Message

if TYPE_CHECKING:
    from spectrie import _core

__all__ = ["LLM"]


class LLM:
    """A model in this process, with the server's continuous batching, speculation and sampling.

    Safe to share between threads. On a CPU, answers depend only on prompt, options and seed: never on
    speculation or on other requests. On a GPU the option `gpu_arithmetic` says what they depend on.

    Args:
        model: Folder, `.gguf` file, `smollm2-135m`, or a Hugging Face id.
        progress: Receives one line per stage of loading.
        options: See `EngineKeywords`; `speculation` may be True or False, too.

    Raises:
        TypeError: An option does not exist; the message has the nearest one.
        ModelError: The model cannot be found, read or run.
        ConfigError: An option is out of range, or a corpus cannot be used.

    Example:
        >>> with LLM("smollm2-135m") as llm:  # doctest: +SKIP
        ...     print(llm.generate("The capital of France is", max_tokens=8).text)
    """

    def __init__(
        self,
        model: str | Path,
        *,
        progress: Callable[[str], None] | None = None,
        **options: Unpack[EngineKeywords],
    ) -> None:
        from spectrie import _core
        from spectrie.model import resolve

        # Before a model is fetched for nothing.
        settings = engine_options(options)
        resolved = resolve(str(model), progress)
        self.model_path: Path = resolved.folder
        """Folder of the model's files."""
        self.model_name: str = resolved.name
        """Name of the model."""
        self.tokenizer: _core.Tokenizer = _core.Tokenizer.from_folder(str(resolved.folder))
        """The model's tokenizer: `encode`, `decode`, `apply_chat_template`."""
        generation_config = read_generation_config(resolved.folder / "generation_config.json")
        self._handles = itertools.count(1)
        self._lock = threading.Lock()
        self._streams: dict[int, LocalStream] = {}
        self._room = Room(settings.max_held)
        self._make_error: Callable[[], SpectrieError] | None = None
        self._host = EngineHost(
            resolved.folder,
            options=settings,
            deliver=self._deliver,
            on_death=self._die,
            progress=progress,
        )
        # A step must not run while the interpreter takes torch down.
        atexit.register(self._host.close)
        try:
            self._resolver = Resolver(
                self._host.runner, self.tokenizer, self.model_name, generation_config
            )
        except BaseException:
            self.close()
            raise

    @property
    def max_context(self) -> int:
        """Longest prompt plus answer, in tokens."""
        return self._host.runner.max_context

    @property
    def dtype(self) -> str:
        """Number format in use, such as `float32`."""
        return self._host.runner.dtype_name

    @property
    def threads(self) -> int:
        """CPU threads of a forward."""
        return self._host.runner.threads

    @property
    def numeric_fingerprint(self) -> str:
        """Facts that decide the bits: equal fingerprints give equal tokens."""
        return self._host.runner.numeric_fingerprint

    def load(self) -> _core.Load:
        """How busy the engine is, and its totals since the start."""
        return self._host.engine.load()

    def corpora(self) -> list[_core.CorpusInfo]:
        """The corpora that answers are drafted from."""
        return self._host.engine.corpora()

    @overload
    def generate(
        self,
        prompt: str | None = None,
        *,
        prompt_token_ids: Sequence[int] | None = None,
        n: int = 1,
        progress: bool = False,
        **options: Unpack[GenerateOptions],
    ) -> Completion: ...

    @overload
    def generate(
        self,
        prompt: list[str] | tuple[str, ...],
        *,
        n: int = 1,
        progress: bool = False,
        on_error: Literal["raise"] = "raise",
        **options: Unpack[GenerateOptions],
    ) -> list[Completion]: ...

    @overload
    def generate(
        self,
        prompt: list[str] | tuple[str, ...],
        *,
        n: int = 1,
        progress: bool = False,
        on_error: Literal["return"],
        **options: Unpack[GenerateOptions],
    ) -> list[Completion | SpectrieError]: ...

    @overload
    def generate(
        self,
        *,
        prompt_token_ids: Sequence[Sequence[int]],
        n: int = 1,
        progress: bool = False,
        on_error: Literal["raise"] = "raise",
        **options: Unpack[GenerateOptions],
    ) -> list[Completion]: ...

    @overload
    def generate(
        self,
        *,
        prompt_token_ids: Sequence[Sequence[int]],
        n: int = 1,
        progress: bool = False,
        on_error: Literal["return"],
        **options: Unpack[GenerateOptions],
    ) -> list[Completion | SpectrieError]: ...

    def generate(
        self,
        prompt: str | list[str] | tuple[str, ...] | None = None,
        *,
        prompt_token_ids: Sequence[int] | Sequence[Sequence[int]] | None = None,
        n: int = 1,
        progress: bool = False,
        on_error: OnError = "raise",
        **options: Unpack[GenerateOptions],
    ) -> Completion | list[Completion] | list[Completion | SpectrieError]:
        """Continues one prompt, or every prompt of a list side by side.

        All prompts of a list are checked before any of them runs.

        Args:
            prompt: Text, or a list of texts.
            prompt_token_ids: Token ids instead, or a list of lists; arrays and tensors count as lists.
            n: Independent answers to each prompt, 1 to 8. Returns the first, with all of them as its
                `choices`. Answer `i` has the seed `choice_seed(seed, i)`.
            progress: Whether to show a bar of finished prompts on stderr.
            on_error: What a failed prompt of a list does. `raise` raises `InvalidArgument` before any
                prompt runs, or `BatchFailed` once all others have their answers. `return` puts its
                error in the place of its answer.
            options: See `GenerateOptions`; they apply to every prompt of a list. `timeout` is each
                prompt's own: it counts while the prompt is checked, its grammar included, and from
                where it is started, while it waits for room and is answered. In between, while
                others of the list are checked and started, it does not count.

        Raises:
            InvalidArgument: An option or a prompt is not allowed; see its `field_violations`.
            BatchFailed: Some prompts of a list failed while they ran; it holds the other answers.
            BatchInterrupted: Ctrl-C while a list ran; it holds the answers that were finished.
            SpectrieError: The one prompt failed; of its `n` answers, `finished_choices` has the others.
        """
        prompts, single = given_prompts(prompt, prompt_token_ids)
        return self._run("generate", prompts, single, n, progress, on_error, options)

    @overload
    def chat(
        self,
        messages: Sequence[Message],
        *,
        n: int = 1,
        progress: bool = False,
        **options: Unpack[GenerateOptions],
    ) -> Completion: ...

    @overload
    def chat(
        self,
        messages: Sequence[Sequence[Message]],
        *,
        n: int = 1,
        progress: bool = False,
        on_error: Literal["raise"] = "raise",
        **options: Unpack[GenerateOptions],
    ) -> list[Completion]: ...

    @overload
    def chat(
        self,
        messages: Sequence[Sequence[Message]],
        *,
        n: int = 1,
        progress: bool = False,
        on_error: Literal["return"],
        **options: Unpack[GenerateOptions],
    ) -> list[Completion | SpectrieError]: ...

    def chat(
        self,
        messages: Sequence[Message] | Sequence[Sequence[Message]],
        *,
        n: int = 1,
        progress: bool = False,
        on_error: OnError = "raise",
        **options: Unpack[GenerateOptions],
    ) -> Completion | list[Completion] | list[Completion | SpectrieError]:
        """Answers a chat, or every chat of a list side by side.

        Args:
            messages: The chat so far, messages of `role` (system, user, assistant) and `content`;
                or a list of chats.
            n: Independent answers, as in `generate`.
            progress: As in `generate`.
            on_error: As in `generate`.
            options: See `GenerateOptions`; of a list, as in `generate`.

        Raises:
            InvalidArgument: As `generate`.
            BatchFailed: As `generate`.
            BatchInterrupted: As `generate`.
            SpectrieError: As `generate`.
        """
        prompts, single = given_chats(messages)
        return self._run("chat", prompts, single, n, progress, on_error, options)

    def _run(
        self,
        label: str,
        prompts: Sequence[Prompt],
        single: bool,
        n: int,
        progress: bool,
        on_error: OnError,
        options: GenerateOptions,
    ) -> Completion | list[Completion] | list[Completion | SpectrieError]:
        check_names(options)
        answers = batch.run(
            label,
            prompts,
            single=single,
            progress=progress,
            on_error=on_error,
            resolve=lambda prompt, began_s: self._resolver.resolve(prompt, options, n, began_s),
            submit=self._submit,
        )
        return answers[0] if single else answers  # type: ignore[return-value]

    def stream(
        self,
        prompt: str | None = None,
        *,
        prompt_token_ids: Sequence[int] | None = None,
        messages: Sequence[Message] | None = None,
        **options: Unpack[GenerateOptions],
    ) -> LocalStream:
        """Continues a prompt or answers a chat; returns pieces as tokens are verified.

        Raises:
            InvalidArgument: An option or the prompt is not allowed; see its `field_violations`.
            DeadlineExceeded: `timeout` passed before its grammar was compiled, or while it waited for
                room. Later, reading raises it.
        """
        began_s = time.monotonic()
        check_names(options)
        given = (prompt, prompt_token_ids, messages)
        (choice,) = self._resolver.resolve(given, options, 1, began_s)
        return self._submit(choice, began_s)

    def _submit(self, choice: _core.Choice, began_s: float) -> LocalStream:
        """Starts a choice of a request that began at `began_s`, once the engine has room for it."""
        from spectrie import _core

        self._room.enter(choice, began_s)
        handle = next(self._handles)
        stream = LocalStream(choice, lambda: self._host.cancel(handle), model=self.model_name)
        try:
            with self._lock:
                if self._make_error is not None:
                    raise self._make_error()
                self._streams[handle] = stream
        except BaseException:
            self._room.leave()
            raise
        try:
            self._host.submit(choice.request(handle, began_s))
        except BaseException as error:
            self._remove(handle)
            if isinstance(error, _core.EngineError):
                raise Internal(str(error)) from error
            raise
        return stream

    def _remove(self, handle: int) -> LocalStream | None:
        """A stream that has ended, which makes room for another; None if it was removed before."""
        with self._lock:
            stream = self._streams.pop(handle, None)
        if stream is not None:
            self._room.leave()
        return stream

    def close(self) -> None:
        """Stops the model; running answers fail with `Cancelled`."""
        atexit.unregister(self._host.close)
        self._host.close()
        self._fail_all(lambda: Cancelled("the model was closed"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _deliver(self, output: _core.StepOutput) -> None:
        for index, (handle, finish) in enumerate(zip(output.handles, output.finishes, strict=True)):
            if finish is None:
                with self._lock:
                    stream = self._streams.get(handle)
            else:
                stream = self._remove(handle)
            if stream is not None:
                stream.push((output, index))

    def _die(self, error: BaseException) -> None:
        message = f"the model stopped working: {error}"
        self._fail_all(lambda: Internal(message))

    def _fail_all(self, make_error: Callable[[], SpectrieError]) -> None:
        """Ends every answer with an error of its own."""
        with self._lock:
            self._make_error = make_error
            handles = list(self._streams)
        for handle in handles:
            if (stream := self._remove(handle)) is not None:
                stream.push(make_error())
