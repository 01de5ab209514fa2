"""A real Redis on a private socket, without persistence."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
from pathlib import Path
from typing import Self

from tests.waiting import wait_until

__all__ = ["RedisServer"]

WAIT_S = 60.0


class RedisServer:
    """A `redis-server`, running until the block ends.

    Args:
        folder: Of its socket and its working files.
        options: Further ones of its command line.
    """

    def __init__(self, folder: Path, *options: str) -> None:
        program = shutil.which("redis-server")
        assert program, "there is no redis-server: `make test-system` installs it"
        self._program = program
        self._folder = folder
        self._options = options
        self._socket = folder / "redis.sock"
        self.address = f"unix:{self._socket}"
        """As `--redis` takes it."""
        self.start()

    def start(self) -> None:
        """Starts it, empty."""
        self._socket.unlink(missing_ok=True)
        command = [self._program, "--port", "0", "--unixsocket", str(self._socket)]
        command += ["--save", "", "--appendonly", "no", "--dir", str(self._folder)]
        command += self._options
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)

        def answers() -> bool:
            assert self._process.poll() is None, "redis-server ended"
            try:
                # While it loads, or without a password, it answers something else.
                return self.ask("PING") != ""
            except OSError:
                return False

        wait_until(answers, WAIT_S, lambda: "redis-server does not answer")

    def kill(self) -> None:
        """Kills it, with all that it holds."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Stops it where it is: it takes connections and says nothing."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Lets it go on."""
        self._process.send_signal(signal.SIGCONT)

    def ask(self, *words: str) -> object:
        """The answer to a command: a text, a number, or a list of these."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(WAIT_S)
            connection.connect(str(self._socket))
            message = f"*{len(words)}\r\n"
            message += "".join(f"${len(word.encode())}\r\n{word}\r\n" for word in words)
            connection.sendall(message.encode())
            with connection.makefile("rb") as lines:
                return self._read(lines)

    def _read(self, lines: object) -> object:
        line = lines.readline().decode().rstrip("\r\n")  # type: ignore[attr-defined]
        kind, rest = line[:1], line[1:]
        if kind == "*":
            return [self._read(lines) for _ in range(int(rest))]
        if kind == "$":
            length = int(rest)
            if length < 0:
                return None
            content = lines.read(length + 2)[:-2]  # type: ignore[attr-defined]
            return content.decode(errors="replace")
        return int(rest) if kind == ":" else rest

    def keys(self) -> list[str]:
        """All keys."""
        keys = self.ask("KEYS", "*")
        assert isinstance(keys, list)
        return keys

    def num_texts(self) -> int:
        """Entries of all streams."""
        lengths = [self.ask("XLEN", key) for key in self.keys() if ":text:" in key]
        return sum(length for length in lengths if isinstance(length, int))

    def spoil(self) -> None:
        """Puts a text in place of every key."""
        for key in self.keys():
            self.ask("SET", key, "garbage")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.go_on()
        self.kill()
