# ---- engine (rust/python/src/engine.rs) ----------------------------------------------------------

class EngineError(Exception):
    """The engine refused a call; the message names what was given and what is allowed."""

@final
class Grammar:
    """A compiled constraint on an answer; requests may share one."""

@final
class GrammarCompiler:
    """Compiles constraints for one tokenizer and keeps 64 MiB of them; shared between threads.

    Making one takes 0.3 s for 49,152 tokens.

    Args:
        tokenizer: The model's.
        eos_token_ids: Tokens that may end an answer where its grammar accepts it.

    Raises:
        EngineError: An end token that the tokenizer does not know.
    """

    def __new__(cls, tokenizer: Tokenizer, eos_token_ids: Sequence[int]) -> Self: ...
    def compile(self, kind: str, text: str | Sequence[str] | None = None) -> Grammar:
        """Compiles one constraint, in milliseconds or seldom seconds; releases the GIL.

        Args:
            kind: `json_schema`, `json_object` (no text), `regex`, `grammar` (Lark) or `choice`
                (several texts).
            text: At most 64 KiB.

        Raises:
            EngineError: It is over a limit, cannot be compiled, or no text meets it.
        """
