"""Triton's interpreter, without what it does again and again: half of the time of the tests.

- It puts its own forms into `triton.language` when a kernel is launched, and looks for all of them once
  more in every call of a helper.
- It makes a name of every type, and a type of every shape, of which nobody asks.
- It computes sums of int32 a second time in int64, to find those that overflow.

This is written for the Triton of requirements.lock. A newer one runs as it is, but for what is wrong in it.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

__all__ = ["hasten"]

_KNOWN = "3.6."


def hasten(*, finds_overflow: bool = True) -> None:
    """Replaces the language once a launch, and keeps what types are; results stay the same.

    A second call only changes whether overflows are found.

    Args:
        finds_overflow: Whether sums of integers that overflow are still errors.
    """
    import triton
    from triton.language.semantic import TritonSemantic
    from triton.runtime import interpreter

    if not finds_overflow:
        TritonSemantic.binary_op_sanitize_overflow_impl = lambda *_: None
    if not triton.__version__.startswith(_KNOWN):
        _keep_truth(interpreter)
        return
    if interpreter._patch_attr.__module__ == __name__:
        return
    _replace_once(interpreter)
    _pass_directly(interpreter)
    _keep_types()
    interpreter._get_np_dtype = _kept_numpy_types(interpreter._get_np_dtype)
    TritonSemantic.broadcast_impl_value = _broadcast(TritonSemantic.broadcast_impl_value)


def _keep_truth(interpreter: Any) -> None:
    """What compares scalars stays a truth value in a block: Triton 3.7 to 3.9 make it an int32, no mask then."""
    from triton.language import core

    spread = interpreter.InterpreterBuilder.create_splat
    if spread.__module__ == __name__:
        return

    def create_splat(self: Any, type: Any, value: Any) -> Any:
        if value.data.dtype == bool:
            value = interpreter.TensorHandle(value.data, core.int1)
        return spread(self, type, value)

    interpreter.InterpreterBuilder.create_splat = create_splat


def _replace_once(interpreter: Any) -> None:
    import triton.language as tl

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


def _pass_directly(interpreter: Any) -> None:
    """Calls what a function of the language does without the wrappers round it."""

    def patch(target: Any, name: str, member: Any, builder: Any, scope: Any) -> None:
        semantic = interpreter.TritonSemantic(builder)
        inner = getattr(member, "__wrapped__", member)

        def call(*args: Any, **kwargs: Any) -> Any:
            kwargs["_semantic"] = semantic
            return inner(*args, **kwargs)

        scope.set_attr(target, name, call)

    interpreter._patch_attr = patch


def _keep_types() -> None:
    from triton.language import core

    shapes: dict[tuple[int, ...], tuple[Any, int]] = {}
    sizes: dict[tuple[int, ...], tuple[Any, Any]] = {(): (core.tuple([]), core.constexpr(1))}
    make_block = core.block_type.__init__

    def init_tuple(self: Any, args: Any, type: Any = None) -> None:
        self.values = list(args)
        is_made = type is None or isinstance(type, core.tuple_type)
        self._type = type if is_made else core.tuple_type(type)

    def type_of(self: Any) -> Any:
        if self._type is None:
            self._type = core._type_for_tuple_values(self.values)
        return self._type

    def init_block(self: Any, element_ty: Any, shape: Any) -> None:
        key = tuple(core._unwrap_shape(shape))
        if key not in shapes:
            make_block(self, element_ty, shape)
            shapes[key] = (self.shape, self.numel)
        self.element_ty = element_ty
        self.shape, self.numel = shapes[key]

    def init_tensor(self: Any, handle: Any, type: Any) -> None:
        key = tuple(type.shape.values) if type.is_block() else ()
        if key not in sizes:
            values = core.tuple([core.constexpr(size) for size in key])
            sizes[key] = (values, core.constexpr(type.numel))
        self.handle, self.type, self.dtype = handle, type, type.scalar
        self.shape, self.numel = sizes[key]

    core.tuple.__init__ = init_tuple
    core.tuple.type = property(type_of, lambda self, value: setattr(self, "_type", value))
    core.block_type.__init__ = init_block
    core.block_type.name = property(
        lambda self: f"<{self.shape}, {self.element_ty}>", lambda self, value: None
    )
    core.tensor.__init__ = init_tensor


def _kept_numpy_types(find: Callable[[Any], Any]) -> Callable[[Any], Any]:
    from triton.language import core

    known: dict[Any, Any] = {}

    def found(type: Any) -> Any:
        scalar = type.element_ty if isinstance(type, core.block_type) else type
        if isinstance(scalar, core.pointer_type):
            return find(scalar)
        if scalar not in known:
            known[scalar] = find(scalar)
        return known[scalar]

    return found


def _broadcast(compute: Callable[[Any, Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
    def broadcast(self: Any, lhs: Any, rhs: Any) -> Any:
        is_same = lhs.type.is_block() and rhs.type.is_block()
        if is_same and lhs.type.shape.values == rhs.type.shape.values:
            return lhs, rhs
        return compute(self, lhs, rhs)

    return broadcast
