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

def tokenizer_fingerprint(path: str | PathLike[str]) -> str:
    """Names a tokenizer, so that ids of one are never read as those of another.

    Args:
        path: tokenizer.json, or the folder it lies in.

    Returns:
        The first 16 hexadecimal digits of the SHA-256 of the file.

    Raises:
        spectrie.errors.ModelError: The file cannot be read.
    """
