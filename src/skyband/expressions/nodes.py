"""Compiled expressions: typed nodes that turn a batch into a value, and rows that failed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.expressions.failures import code

__all__ = ["Data", "Evaluation", "Failed", "Node", "Value", "fail", "from_numpy", "merged", "node", "to_numpy"]

Data: TypeAlias = Any  # a pa.Array with one value per row, or a pa.Scalar that stands for all rows
Failed: TypeAlias = "np.ndarray[Any, np.dtype[np.uint8]] | None"


@dataclass(frozen=True, slots=True)
class Value:
    """Values of a node. Rows that failed have the number of their condition in `failed`, and null in `data`."""

    data: Data
    failed: Failed = None


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A typed expression. Equal subexpressions of one text are the same node."""

    type: pa.DataType
    run: Callable[[Evaluation], Value]
    literal: Any = None  # the value, if the node is a literal
    is_literal: bool = False
    is_column: bool = False
    unit: str = ""  # of an interval literal


class Evaluation:
    """A batch while it is evaluated; each node is evaluated once."""

    def __init__(self, count: int, columns: dict[str, Data]) -> None:
        self.count = count
        self.columns = columns
        self._values: dict[int, Value] = {}

    def value(self, node: Node) -> Value:
        """Return the value of a node."""
        found = self._values.get(id(node))
        if found is None:
            found = self._values[id(node)] = node.run(self)
        return found


def node(kind: pa.DataType, compute: Callable[..., Any], *args: Node, order: Sequence[int] = ()) -> Node:
    """Build a node that is null where an argument is null.

    `compute` gets the data of the arguments, and returns data or a `Value`. As on Spark, an argument does not fail
    where an argument before it is null; `order` gives another order of evaluation. An argument that is the literal
    null makes the result null before anything is evaluated.
    """
    if any(arg.is_literal and arg.literal is None for arg in args):
        return Node(kind, lambda rows: Value(pa.scalar(None, kind)), is_literal=True)

    def run(rows: Evaluation) -> Value:
        values = [rows.value(arg) for arg in args]
        found = compute(*(value.data for value in values))
        result = found if isinstance(found, Value) else Value(found)
        return merged([values[at] for at in order] if order else values, result)

    return Node(kind, run)


def merged(values: Sequence[Value], result: Value) -> Value:
    """Add the failures of the arguments to those of the result."""
    if all(value.failed is None for value in values):
        return result
    failed: Failed = None
    alive: Any = True
    for value in values:
        if value.failed is not None:
            reached = np.where(alive, value.failed, 0).astype(np.uint8)
            failed = reached if failed is None else np.where(failed, failed, reached)
        alive = np.logical_and(alive, to_numpy(pc.is_valid(value.data))[0])
    return Value(result.data, failed if result.failed is None else np.where(failed, failed, result.failed))  # type: ignore[arg-type]


def fail(data: Data, bad: Any, condition: str) -> Value:
    """Return `data` with null where `bad` is true, and those rows marked as failed."""
    if not np.any(bad):
        return Value(data)
    bad = np.atleast_1d(bad)
    if isinstance(data, pa.Scalar):
        data = pa.scalar(None, data.type) if bad.shape[0] == 1 else pa.repeat(data, len(bad))
    if isinstance(data, pa.Array):
        if bad.shape[0] != len(data):
            bad = np.broadcast_to(bad, len(data))
        data = pc.if_else(pa.array(bad), pa.scalar(None, data.type), data)
    return Value(data, bad.astype(np.uint8) * np.uint8(code(condition)))


def to_numpy(data: Data) -> tuple[Any, Any]:
    """Return the values as a numpy array, and a mask of the valid ones or None. A scalar gives arrays of length 1.

    Dates, timestamps and intervals come as integers. Values at null places are 0.
    """
    if isinstance(data, pa.Scalar):
        data = pa.array([data.as_py()], data.type) if not pa.types.is_temporal(data.type) else pa.repeat(data, 1)
    kind = data.type
    if pa.types.is_null(kind):
        return np.zeros(len(data)), np.zeros(len(data), np.bool_)
    if pa.types.is_temporal(kind):
        data = data.view(pa.int32() if kind == pa.date32() else pa.int64())
    if not data.null_count:
        return data.to_numpy(zero_copy_only=False), None
    valid = pc.is_valid(data).to_numpy(zero_copy_only=False)
    zero = False if pa.types.is_boolean(kind) else 0
    return pc.fill_null(data, zero).to_numpy(zero_copy_only=False), valid


def from_numpy(values: Any, valid: Any, kind: pa.DataType, *sources: Data) -> Data:
    """Return Arrow data of type `kind`; a scalar if all `sources` are scalars."""
    mask = None if valid is None else ~np.broadcast_to(valid, values.shape)
    storage = {pa.date32(): pa.int32()}.get(kind, pa.int64()) if pa.types.is_temporal(kind) else kind
    found = pa.array(values, storage, mask=mask)
    found = found.view(kind) if storage != kind else found
    return found[0] if all(isinstance(source, pa.Scalar) for source in sources) else found
