@final
class Finish:
    """Why and how a request ended."""

    @property
    def kind(self) -> FinishKind: ...
    @property
    def message(self) -> str | None: ...
    @property
    def keep_tokens(self) -> int | None:
        """Output tokens that count, those of earlier attempts included; all when None."""
    @property
    def stats(self) -> bytes:
        """Counts and durations: a serialized `spectrie.worker.v1.RequestStats`."""

@final
class StepOutput:
    """What requests emitted; each handle appears at most once."""

    @property
    def handles(self) -> list[int]: ...
    @property
    def token_indptr(self) -> list[int]:
        """Tokens of the i-th handle are `token_ids[token_indptr[i] : token_indptr[i + 1]]`."""
    @property
    def token_ids(self) -> list[int]: ...
    @property
    def sources(self) -> list[Source]:
        """The source of each token."""
    @property
    def finishes(self) -> list[Finish | None]:
        """Set for each handle that ended."""
    def logprobs(self, index: int) -> list[TokenLogprobs] | None:
        """Log-probabilities of each token of the `index`-th handle; None unless requested.

        Raises:
            IndexError: There are fewer handles.
        """
    def prompt_logprobs(self, index: int) -> list[TokenLogprobs | None] | None:
        """The same for its prompt's tokens, None for the first; once, with its first token.

        Raises:
            IndexError: There are fewer handles.
        """

@final
class TokenLogprobs:
    """Natural logarithms of the model's probabilities of one token and of the likeliest ones, at
    temperature 1, before bias, penalties and masks."""

    @property
    def token_id(self) -> int: ...
    @property
    def logprob(self) -> float: ...
    @property
    def top_ids(self) -> list[int]:
        """Likeliest first, ties by the lowest id."""
    @property
    def top_logprobs(self) -> list[float]:
        """One per entry of `top_ids`."""

def choice_seed(seed: int, choice: int) -> int:
    """The seed of one choice of a request: the request's own for choice 0, else a hash of both."""
