"""Triton's interpreter, without what it does again at each call of a device function.

It puts its own forms into `triton.language` when a kernel is launched, and looks for all of them once
more in every call of a helper, which takes a third of the time of the tests.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

__all__ = ["hasten"]


def hasten() -> None:
    """Replaces the language once a launch; results stay the same."""
    import triton.language as tl
    from triton.runtime import interpreter

    # The helpers of Triton's own library see `core`, ours see `tl`.
    everywhere = SimpleNamespace(__globals__={"tl": tl, "core": tl.core})
    replace = interpreter._patch_lang

    def call(function: Any, *args: Any, **kwargs: Any) -> Any:
        rewritten = function.rewrite()
        try:
            return rewritten(*args, **kwargs)
        except Exception as error:
            raise interpreter.InterpreterError(repr(error)) from error

    interpreter._patch_lang = lambda _: replace(everywhere)
    interpreter.InterpretedFunction.__call__ = call
