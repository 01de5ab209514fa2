# ---- text (rust/python/src/text.rs) --------------------------------------------------------------

@final
class Tokenizer:
    """A model's tokenizer and chat template; shared between threads."""

    @staticmethod
    def from_folder(path: str | PathLike[str]) -> Tokenizer:
        """Reads tokenizer.json and, if there, tokenizer_config.json and chat_template.jinja.

        Raises:
            spectrie.errors.ModelError: A file is missing or cannot be used.
        """

    def encode(self, text: str, add_special_tokens: bool = False) -> list[int]:
        """Gives the token ids of `text`; special tokens written out in it are recognised.

        Args:
            text: Any text.
            add_special_tokens: Also add those the model expects around a text, such as BOS.

        Raises:
            ValueError: The tokenizer refuses the text.
        """

    def encode_batch(
        self, texts: Sequence[str], add_special_tokens: bool = False
    ) -> list[list[int]]:
        """Gives the token ids of each text as `encode` does, on all cores; other threads go on.

        Raises:
            ValueError: The tokenizer refuses one of the texts.
        """

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """Gives the text of `ids`; ids outside the vocabulary add nothing.

        Raises:
            ValueError: The tokenizer's decoder fails.
        """

    def apply_chat_template(
        self, messages: Sequence[Mapping[str, object]], add_generation_prompt: bool = True
    ) -> str:
        """Gives the prompt of `messages`, each with `role` and `content`.

        Raises:
            ValueError: The template refuses the messages or fails on them.
            spectrie.errors.ModelError: The model has no chat template.
        """

    def token_id(self, token: str) -> int | None:
        """Gives the id of the token written `token`, such as `<|im_end|>`."""

    @property
    def vocabulary_size(self) -> int:
        """One more than the largest token id; the model's own vocabulary may be larger."""

    @property
    def has_chat_template(self) -> bool:
        """Whether `apply_chat_template` can be called."""

@final
class TextDelta:
    """Text that became certain by a push."""

    @property
    def text(self) -> str:
        """May be empty while a character or a stop string is undecided."""

    @property
    def stop(self) -> str | None:
        """The stop string that ended the answer; the text ends before it."""

    @property
    def keep_tokens(self) -> int | None:
        """With `stop`: output tokens of the answer, the one completing the stop string included."""

@final
class TextStream:
    """Turns output tokens into text as they come, up to the first stop string.

    The texts of all deltas and `finish()`, joined, equal `decode` of all ids, or its beginning up
    to the first stop string. No delta ends within a character.

    Raises:
        ValueError: A stop string is empty.
    """

    def __new__(
        cls, tokenizer: Tokenizer, stop: Sequence[str] = ..., skip_special_tokens: bool = True
    ) -> TextStream: ...
    def push(self, ids: Sequence[int]) -> TextDelta:
        """Takes the next output tokens; after a stop string it takes none and reports the stop again."""

    def finish(self) -> str:
        """Gives the text that was held back; empty after a stop string."""

def tokenizer_fingerprint(path: str | PathLike[str]) -> str:
    """Names a tokenizer, so that ids of one are never read as those of another.

    Args:
        path: tokenizer.json, or the folder it lies in.

    Returns:
        The first 16 hexadecimal digits of the SHA-256 of the file.

    Raises:
        spectrie.errors.ModelError: The file cannot be read.
    """
