# ---- engine (rust/python/src/engine.rs) ----------------------------------------------------------

class EngineError(Exception):
    """The engine refused a call; the message names what was given and what is allowed."""

@final
class Request:
    """One choice of a request, begun or resumed.

    Raises:
        EngineError: On an unknown `speculation`. Other values out of range make the request end
            with a refused output.
    """

    def __new__(
        cls,
        *,
        handle: int,
        prompt_ids: Sequence[int],
        max_tokens: int,
        emitted_token_ids: Sequence[int] = ...,
        prediction_ids: Sequence[int] = ...,
        namespace: str = ...,
        learn: bool = True,
        temperature: float = 1.0,
        top_p: float = 1.0,
        top_k: int = 0,
        min_p: float = 0.0,
        frequency_penalty: float = 0.0,
        presence_penalty: float = 0.0,
        repetition_penalty: float = 1.0,
        logit_bias: Mapping[int, float] = ...,
        seed: int = 0,
        min_tokens: int = 0,
        stop_token_ids: Sequence[int] = ...,
        ignore_eos: bool = False,
        deadline_s: float | None = None,
        priority: int = 0,
        speculation: str | None = None,
        max_draft_tokens: int | None = None,
        typical_p: float = 1.0,
        bad_words: Sequence[Sequence[int]] = ...,
        logprobs: int | None = None,
        prompt_logprobs: int | None = None,
        grammar: Grammar | None = None,
        tenant: str | None = None,
    ) -> Self: ...
    @property
    def handle(self) -> int:
        """The caller's name for it; unique among requests that have not ended."""

@final
class Grammar:
    """What an answer must be a text of, compiled; requests may share one."""

@final
class GrammarCompiler:
    """Compiles constraints for one tokenizer and keeps the last 64; shared between threads.

    Making one takes 0.3 s for 49,152 tokens.

    Args:
        tokenizer: The model's.
        eos_token_ids: Tokens that may end an answer where its grammar accepts it.

    Raises:
        EngineError: An end token that the tokenizer does not know.
    """

    def __new__(cls, tokenizer: Tokenizer, eos_token_ids: Sequence[int]) -> Self: ...
    def compile(self, kind: str, text: str | Sequence[str] | None = None) -> Grammar:
        """Compiles one constraint, in milliseconds to, seldom, seconds; other Python threads go on.

        Args:
            kind: `json_schema`, `json_object` (no text), `regex`, `grammar` (Lark) or `choice`
                (several texts).
            text: At most 64 KiB.

        Raises:
            EngineError: It is over a limit, cannot be compiled, or no text meets it.
        """
