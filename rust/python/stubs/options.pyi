# ---- options (rust/python/src/options.rs) --------------------------------------------------------

@final
class OptionRow:
    """One line of a table of options: name, values, default, help and where it applies."""

    @property
    def table(self) -> str:
        """The table: server, model, engine, host, sampling or request."""
    @property
    def field(self) -> str:
        """Its name in code: a field of the table's struct, a keyword."""
    @property
    def summary(self) -> str:
        """What it does, in one sentence."""
    @property
    def kind(self) -> str:
        """What values its flag takes: integer, number, duration, size, choice, flag, address, text,
        texts or token_ids."""
    @property
    def names(self) -> list[str]:
        """The names of a choice, or how the value of a text is shown."""
    @property
    def forms(self) -> list[str]:
        """What an address may be beside TCP: unix, off."""
    @property
    def minimum(self) -> float | None:
        """The minimum; None without one."""
    @property
    def maximum(self) -> float | None:
        """The maximum; None without one."""
    @property
    def is_open(self) -> bool:
        """Whether `minimum` itself is not allowed."""
    @property
    def default(self) -> bool | int | float | str | tuple[str, ...] | None:
        """The default value; None if it follows from something else."""
    @property
    def default_text(self) -> str:
        """The default as help shows it."""
    @property
    def unit(self) -> str:
        """The unit of a number, such as tokens; empty without one."""
    @property
    def group(self) -> str:
        """The heading that it is shown under."""
    @property
    def key(self) -> str | None:
        """Its name in a configuration file, from which flag and variable derive; None: no flag."""
    @property
    def commands(self) -> list[str]:
        """The commands that know it."""
    @property
    def is_keyword(self) -> bool:
        """Whether `spectrie.LLM` takes it."""

def check_options(values: Mapping[str, object]) -> None:
    """Checks options of an engine in this process, by the names of `EngineOptions`.

    Raises:
        EngineError: One line for each name that is unknown and each value that is not allowed.
    """

def option_rows() -> list[OptionRow]:
    """Every table, one row after another, in the order in which they are shown."""
