"""What queries of all families have in common: frozen, comparable, shown as written, plain values in JSON."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import fields
from typing import Any, ClassVar

from skyband.queries.fields import Axis
from skyband.windows import SlidingWindow

__all__ = ["Query", "moment_among"]

_ALWAYS_SHOWN = ("name", "k", "size", "slide", "every")


class Query:
    """A continuous query. Its families are frozen dataclasses; `_settle` is how they normalise their own fields."""

    family: ClassVar[str]
    moment: ClassVar[str] = "window_end"  # the column of an answer that says when it was final
    name: str
    k: int
    axis: Axis
    window: SlidingWindow

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

    def scan_key(self) -> tuple[Any, ...]:
        """What queries must agree in to read the stream together: expressions, filter and groups.

        >>> import skyband as sb
        >>> sb.AggregateTopK(k=1, size=10, key="client", value="bytes").scan_key()
        ('client', 'bytes', None, ())
        """
        raise NotImplementedError

    def sharing_key(self) -> tuple[Any, ...]:
        """What queries must agree in to share one structure; for most it is what they read.

        >>> import skyband as sb
        >>> high, low = (sb.TopK(k=1, size=10, order=order) for order in ("desc", "asc"))
        >>> high.scan_key() == low.scan_key(), high.sharing_key() == low.sharing_key()
        (True, False)
        """
        return self.scan_key()

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


def moment_among(columns: Container[str]) -> str:
    """The column that says when answers were final, by the columns that they have: `Query.moment` without the query.

    >>> moment_among(["query", "window_start", "window_end", "time"]), moment_among(["query", "time", "rank"])
    ('window_end', 'time')
    """
    # Rows of queries with windows bring columns of their own, of which one may be called time; the others bring none.
    return Query.moment if Query.moment in columns else "time"


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
