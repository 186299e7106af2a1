"""The functions and operators that can be evaluated on Arrow."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pyarrow as pa

from skyband.errors import UnsupportedError
from skyband.expressions.casts import cast
from skyband.expressions.failures import InvalidExpressionError
from skyband.expressions.nodes import Node
from skyband.expressions.types import is_integral, spark_name, wider

__all__ = ["FUNCTIONS", "Function", "as_type", "common", "constant", "function", "lookup", "mismatch"]


@dataclass(frozen=True, slots=True)
class Function:
    """A function: its names, how it is written, how many arguments it takes, and how it is compiled."""

    names: tuple[str, ...]
    topic: str
    usage: str
    least: int
    most: int
    build: Callable[..., Node]
    note: str = ""

    @property
    def other_names(self) -> list[str]:
        """The names that `usage` does not show."""
        return [name for name in self.names[1:] if f"{name}(" not in self.usage and name.isidentifier()]

    def is_called(self, name: str) -> bool:
        """Whether the function is written with this name and brackets."""
        return f"{name}(" in self.usage or name in self.other_names


FUNCTIONS: dict[str, Function] = {}


def function(
    topic: str, names: str, usage: str, count: int | tuple[int, int], note: str = ""
) -> Callable[[Callable[..., Node]], Callable[..., Node]]:
    """Register the function that compiles calls of these names; `count` is the number of arguments."""

    def register(build: Callable[..., Node]) -> Callable[..., Node]:
        least, most = (count, count) if isinstance(count, int) else count
        entry = Function(tuple(names.split()), topic, usage, least, most, build, note)
        FUNCTIONS.update(dict.fromkeys(entry.names, entry))
        return build

    return register


def lookup(name: str, count: int) -> Function:
    """Return the function of this name, after checking the number of arguments."""
    entry = FUNCTIONS.get(name)
    if entry is None:
        words = sorted(known for known, entry in FUNCTIONS.items() if entry.is_called(known))
        raise UnsupportedError(
            f"function {name!r} is not supported in process; on Spark it may be. "
            f"Supported functions: {', '.join(words)}."
        )
    if not entry.least <= count <= entry.most:
        raise InvalidExpressionError(
            f"{name} got {count} arguments, but it is written {entry.usage}. The expression was not compiled."
        )
    return entry


def mismatch(name: str, args: Iterable[Node], rule: str) -> InvalidExpressionError:
    """Build the error for arguments of the wrong type."""
    return InvalidExpressionError.types(name, " and ".join(spark_name(arg.type) for arg in args), rule)


def as_type(name: str, arg: Node, kind: pa.DataType) -> Node:
    """Return an argument as the type that a function takes; nulls and narrower integers are cast, others rejected."""
    narrower = is_integral(kind) and is_integral(arg.type) and arg.type.bit_width < kind.bit_width
    if arg.type != kind and not pa.types.is_null(arg.type) and not narrower:
        raise mismatch(name, [arg], f"takes {spark_name(kind)} in process")
    return cast(arg, kind)


def constant(name: str, arg: Node, kind: pa.DataType) -> object:
    """Return the value of an argument that must be a literal."""
    if not arg.is_literal or arg.literal is None or arg.type != kind:
        raise UnsupportedError(
            f"{name} takes a literal of type {spark_name(kind)} here in process, got another expression or null. "
            "On Spark it may be any expression."
        )
    return arg.literal


def common(name: str, args: Iterable[Node]) -> list[Node]:
    """Cast the arguments to the type they have in common."""
    found = list(args)
    kind: pa.DataType | None = pa.null()
    for arg in found:
        kind = wider(kind, arg.type) if kind is not None else None
    if kind is None:
        raise mismatch(name, found, "these types have no common type in process")
    return [cast(arg, kind) for arg in found]
