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
    def compile(
        self, kind: str, text: str | Sequence[str] | None = None, timeout_s: float | None = None
    ) -> Grammar:
        """Compiles one constraint, in milliseconds or seldom seconds; releases the GIL.

        At most four are compiled at once, on threads that give way to forwards; others wait in line.

        Args:
            kind: `json_schema`, `json_object` (no text), `regex`, `grammar` (Lark) or `choice`
                (several texts).
            text: At most 64 KiB.
            timeout_s: Longest time, waiting included. None: no limit.

        Raises:
            EngineError: It is over a limit, cannot be compiled, or no text meets it.
            TimeoutError: `timeout_s` passed.
        """
    def cached(self, kind: str, text: str | Sequence[str] | None = None) -> Grammar | None:
        """The constraint if it was compiled lately; waits for nobody.

        Raises:
            EngineError: There is no constraint of this kind with so many texts.
        """
