"""What queries of all families have in common: frozen, comparable, shown as written, plain values in JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, ClassVar

from skyband.queries.fields import Axis
from skyband.windows import Windows

__all__ = ["Query"]

_ALWAYS_SHOWN = ("name", "k", "size", "slide", "every")


class Query:
    """A continuous query. Its families are frozen dataclasses; `_settle` is how they normalise their own fields."""

    family: ClassVar[str]
    moment: ClassVar[str] = "window_end"  # the column of an answer that says when it was final
    name: str
    k: int
    axis: Axis
    window: Windows

    def to_dict(self) -> dict[str, Any]:
        """The query as plain values, ready for JSON; ``TopK(**query.to_dict())`` is the same query.

        >>> import skyband as sb
        >>> sb.TopK(k=1, size=10).to_dict()["slide"]
        10
        """
        values = {item.name: getattr(self, item.name) for item in fields(self) if item.init}  # type: ignore[arg-type]
        return {name: _plain(value) for name, value in values.items()}

    @property
    def groups(self) -> tuple[str, ...]:
        """The expressions by which the stream is cut into groups; those of some families never are.

        >>> import skyband as sb
        >>> sb.TopK(k=1, size=10, partition_by="symbol").groups, sb.UncertainTopK(k=1, size=10).groups
        (('symbol',), ())
        """
        return tuple(getattr(self, "partition_by", ()))

    def to_sql(self, *, named: bool = False) -> str | None:
        """The query as one line of SQL; None where its family has no SQL yet. `named` writes the default name, too.

        >>> import skyband as sb
        >>> sb.TopK(k=1, size=10).to_sql(named=True), sb.AggregateTopK(k=1, size=10).to_sql()
        ('topk: TOPK 1 OVER 10 ROWS', None)
        """
        return None

    @classmethod
    def check_together(cls, queries: Iterable[Any]) -> None:
        """Refuse queries of this family that cannot run in one workload; most can."""

    def __str__(self) -> str:
        """The query as SQL, its canonical form; as Python where its family has no SQL yet."""
        return self.to_sql() or repr(self)

    def _settle(self, values: Mapping[str, Any]) -> None:
        """Give the frozen fields the form they keep."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        shown = []
        for item in fields(self):  # type: ignore[arg-type]  # every family is a dataclass
            value = getattr(self, item.name)
            default = 0 if item.name == "origin" else item.default
            if item.init and (item.name in _ALWAYS_SHOWN or value != default):
                shown.append(f"{item.name}={value!r}")
        return f"{type(self).__name__}({', '.join(shown)})"


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
