"""The syntax tree of an expression: literals, columns, calls and casts. Operators are calls, too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

__all__ = ["Call", "Cast", "ColumnName", "Literal", "Syntax"]


@dataclass(frozen=True, slots=True)
class Literal:
    """A value written in the text."""

    value: Any
    type: pa.DataType
    unit: str = ""  # of an interval: "day" if it has whole days only


@dataclass(frozen=True, slots=True)
class ColumnName:
    """A column by its name as written."""

    name: str


@dataclass(frozen=True, slots=True)
class Call:
    """A function or an operator, by its name in lower case."""

    name: str
    args: tuple[Syntax, ...]


@dataclass(frozen=True, slots=True)
class Cast:
    """A cast; `safe` returns null instead of failing."""

    value: Syntax
    type: pa.DataType
    safe: bool = False


Syntax: TypeAlias = "Literal | ColumnName | Call | Cast"
