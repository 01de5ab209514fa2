# ---- requests (rust/python/src/request) ----------------------------------------------------------

@final
class Request:
    """One choice of a request, begun or resumed, as the engine takes it.

    Args:
        start: A `spectrie.worker.v1.Start`, serialized.
        handle: The caller's name for it; unique among requests that have not ended.
        now_s: Now, in seconds on the clock of `Engine.plan`.
        now_unix_s: Now, in seconds of Unix time: with `now_s` it moves the message's deadline to
            that clock.
        speculate: Whether anything may be drafted, whatever the message asks for.
        grammar: What `constraint_of(start)` compiles to; None without a constraint.
        tokenizer: The model's, to end the answer at the message's stop texts; None leaves them to
            the caller.

    Raises:
        ValueError: `start` is not such a message, or has an empty stop text. Values out of range make the request end with a
            refused output.
    """

    def __new__(
        cls,
        start: bytes,
        *,
        handle: int,
        now_s: float = 0.0,
        now_unix_s: float = 0.0,
        speculate: bool = True,
        grammar: Grammar | None = None,
        tokenizer: Tokenizer | None = None,
    ) -> Self: ...
    @property
    def handle(self) -> int:
        """The caller's name for it."""

def constraint_of(start: bytes) -> tuple[str, str | list[str] | None] | None:
    """What the answer to a serialized `Start` is held to, as `GrammarCompiler.compile` takes it.

    Raises:
        ValueError: It is not a `Start`, or its constraint is of a kind that this version does not know.
    """

@final
class GenerationConfig:
    """A model's own sampling numbers.

    Args:
        content: Content of its generation_config.json.

    Raises:
        ModelError: `content` is not a JSON object, or a member is not a finite number.
    """

    def __new__(cls, content: bytes) -> Self: ...
    @property
    def unused(self) -> list[tuple[str, float]]:
        """Members that no request may ask for, with their numbers; they are left out."""

@final
class RequestResolver:
    """Converts the options of `LLM` to requests of the engine, as the server does.

    Args:
        tokenizer: The model's.
        model: Its name in messages.
        vocabulary_size: Token ids are below this.
        max_context: Longest prompt plus answer, in tokens.
        compile: Compiles a constraint: `(kind, text or texts, seconds that it may take)`.
        speculate: Whether anything may be drafted.
        has_drafter: Whether a drafter is beside the model; without one, requests that draft from it alone are refused.
        generation_config: The model's own numbers; None without the file.
    """

    def __new__(
        cls,
        tokenizer: Tokenizer,
        *,
        model: str,
        vocabulary_size: int,
        max_context: int,
        compile: Callable[[str, str | list[str] | None, float | None], Grammar],
        speculate: bool = True,
        has_drafter: bool = False,
        generation_config: GenerationConfig | None = None,
    ) -> Self: ...
    def resolve(
        self,
        prompt: object,
        prompt_token_ids: object,
        messages: object,
        options: Mapping[str, object],
        n: object = None,
    ) -> list[Choice]:
        """Checks a request and gives each of its choices.

        Args:
            prompt: Text; exactly one of the three prompts is given, the others are None.
            prompt_token_ids: Token ids.
            messages: A chat.
            options: As `GenerateOptions`; names that it does not have are not looked at.
            n: Answers to give, 1 to 8; None is 1.

        Raises:
            InvalidArgument: With every field that is not allowed.
            ModelError: A chat, and the model has no chat template.
            DeadlineExceeded: The constraint was not compiled within `timeout`.
        """

@final
class Choice:
    """One answer to a request, from its order to its last token; shared between threads."""

    @property
    def index(self) -> int:
        """Which of the `n` answers this is."""
    @property
    def seed(self) -> int:
        """Seed of the request, given or random."""
    @property
    def request_id(self) -> str:
        """Name of the request, given or generated."""
    @property
    def timeout_s(self) -> float | None:
        """Seconds for the whole answer; None without a limit."""
    @property
    def text(self) -> str:
        """All text that is final."""
    @property
    def token_ids(self) -> list[int]:
        """All tokens that count."""
    @property
    def sources(self) -> list[int]:
        """The number of each token's source; empty unless requested."""
    @property
    def logprobs(self) -> list[TokenLogprobs] | None:
        """Log-probabilities of each token; None unless requested."""
    @property
    def prompt_logprobs(self) -> list[TokenLogprobs | None] | None:
        """Log-probabilities of the prompt's tokens, None for the first."""
    def request(self, handle: int, now_s: float) -> Request:
        """What the engine takes; the time for the answer begins at `now_s`."""
    def take(self, output: StepOutput, index: int) -> AnswerPiece:
        """Takes what a step gave the request at `index` of `output.handles`.

        Raises:
            Cancelled: It was cancelled.
            DeadlineExceeded: Its time is over.
            InvalidArgument: The engine refused it.
            Internal: It failed.
        """

@final
class AnswerPiece:
    """What one step added to an answer."""

    @property
    def text(self) -> str:
        """Text that became certain."""
    @property
    def token_ids(self) -> list[int]:
        """The tokens, without those after a stop text."""
    @property
    def sources(self) -> list[int]:
        """The number of each token's source; empty unless requested."""
    @property
    def logprobs(self) -> list[TokenLogprobs] | None:
        """Log-probabilities of each token; None unless requested."""
    @property
    def end(self) -> AnswerEnd | None:
        """The end of the answer, with its last piece."""

@final
class AnswerEnd:
    """How a complete answer ended, and its counts."""

    @property
    def reason(self) -> Literal["stop", "length"]:
        """A stop text or token, or the limit of tokens."""
    @property
    def stop_text(self) -> str | None:
        """The stop text that ended it."""
    @property
    def stop_token_id(self) -> int | None:
        """The token that ended it."""
    @property
    def usage(self) -> tuple[int, int, int, int | None, int | None]:
        """Tokens of the prompt, of the answer, of the prompt's cached beginning, accepted and
        rejected of the prediction (None without one)."""
    @property
    def speculation(self) -> tuple[int, int, int, dict[str, int]]:
        """Verify steps, tokens drafted, tokens accepted, and those by source."""
    @property
    def timing(self) -> tuple[int, int, int]:
        """Nanoseconds in the queue, in prefill and in decoding."""
