"""An instruction of the processor: begin to load memory that is read soon, without waiting for it."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, config, types
from numba.extending import intrinsic

__all__ = ["prefetch"]

_SETTINGS: Any = config


def _prefetched(typing: Any, array: Any, index: Any) -> Any:
    """Return the type and the code of a call."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        made = context.make_array(signature.args[0])(context, builder, arguments[0])
        words = cgutils.unpack_tuple(builder, made.strides, signature.args[0].ndim)
        address = builder.add(builder.ptrtoint(made.data, ir.IntType(64)), builder.mul(arguments[1], words[0]))
        pointer = builder.inttoptr(address, ir.IntType(8).as_pointer())
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        builder.call(function, [pointer, number(1), number(3), number(1)])  # to write, keep in all caches, data
        return context.get_dummy_value()

    return types.void(array, types.int64), code


def _nothing(array: Any, index: int) -> None:
    """Do nothing: without compilation, nothing can be loaded early."""


#: Load the row of a C-contiguous array that begins at an index. The index is not checked: the processor ignores
#: addresses that it must not read.
prefetch: Any = _nothing if _SETTINGS.DISABLE_JIT else intrinsic(_prefetched)
