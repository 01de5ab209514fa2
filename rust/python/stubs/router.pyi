# ---- router (rust/python/src/router.rs) ----------------------------------------------------------

class RouterError(Exception):
    """The router could not start or had to end; the message names the option at fault."""

@final
class RouterHandle:
    """Asks a router of this process to end, from any thread."""

    def __init__(self) -> None: ...
    def shutdown(self) -> None:
        """Asks to drain; asked again, to stop at once."""

def run_router(
    config_json: str, on_ready: Callable[[str], object], handle: RouterHandle | None = None
) -> int:
    """Runs a router to its end, on threads of its own; other Python threads go on.

    Args:
        config_json: The router's configuration; absent members take their defaults.
        on_ready: Takes the addresses in use as JSON: `{"http", "grpc", "worker", "metrics"}`, each
            a string or null. Called once, on this thread; what it raises ends the router.
        handle: Asks for the end from another thread. Signals do so too, unless the configuration
            says `runtime.handle_signals: false`.

    Returns:
        0 when every request had ended, 1 when some were cut off.

    Raises:
        RouterError: On a bad configuration, an address that cannot be used, or a server that broke.
    """

def read_api_keys(path: str) -> str:
    """The entries of a file for --api-keys, in its order, as JSON.

    Args:
        path: TOML, or lines `KEY TENANT`.

    Returns:
        A list of objects: `sha256` (of the key, its first twelve digits), `tenant`, `expires` (Unix
        time in seconds), `models`, `max_priority`, `requests_per_minute`, `tokens_per_minute`,
        `requests_at_once`; null where the entry does not say.

    Raises:
        RouterError: The file cannot be used; the message names the line and repeats nothing of it.
    """
