"""The base class of all queries: comparison, text forms and conversion to plain values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from functools import cache
from typing import Any, ClassVar

from skyband.queries.fields import Axis
from skyband.windows import Windows

__all__ = ["Query"]

_ALWAYS_SHOWN = ("name", "k", "size", "slide", "every")


class Query:
    """A continuous query. Its subclasses are frozen dataclasses that normalize their fields with `_settle`."""

    family: ClassVar[str]
    moment: ClassVar[str] = "window_end"  # the column of the time when an answer became final
    at_least: ClassVar[bool] = False  # whether answers may be more frequent than requested
    starts_whole: ClassVar[bool] = True  # whether a query added to a stream waits for a window that starts later
    name: str
    k: int
    axis: Axis
    window: Windows

    def to_dict(self) -> dict[str, Any]:
        """Return the query as plain values for JSON; ``TopK(**query.to_dict())`` is the same query.

        >>> import skyband as sb
        >>> sb.TopK(k=1, size=10).to_dict()["slide"]
        10
        """
        return {name: _plain(getattr(self, name)) for name in _field_names(type(self))}  # type: ignore[arg-type]

    @property
    def groups(self) -> tuple[str, ...]:
        """The expressions that partition the stream into groups; always empty in some families.

        >>> import skyband as sb
        >>> sb.TopK(k=1, size=10, partition_by="symbol").groups, sb.UncertainTopK(k=1, size=10).groups
        (('symbol',), ())
        """
        return tuple(getattr(self, "partition_by", ()))

    @property
    def ascending(self) -> bool:
        """Whether lower scores are better."""
        return False

    @property
    def whole_rows(self) -> bool:
        """Whether answers contain all columns of a row.

        >>> import skyband as sb
        >>> sb.TopK(k=1, size=10).whole_rows, sb.AggregateTopK(k=1, size=10).whole_rows
        (True, False)
        """
        return False

    @property
    def score_text(self) -> str | None:
        """A short description of the score; None if the input contains it.

        >>> import skyband as sb
        >>> sb.AggregateTopK(k=1, size=10, key="client", value="bytes").score_text
        'sum of bytes'
        """
        return getattr(self, "by", None)

    @property
    def window_text(self) -> str:
        """A short description of the window size and the answer frequency.

        >>> import skyband as sb
        >>> sb.TopK(k=1, size=10_000, slide=100).window_text
        '10,000 rows, every 100 rows'
        """
        fields = self.to_dict()
        every = fields["slide"] if "slide" in fields else fields["every"]
        return f"{_length(fields['size'])}, {'at least ' if self.at_least else ''}every {_length(every)}"

    @property
    def ranked_text(self) -> str:
        """A short description of the ranked items."""
        return f"the {self.k} {'lowest' if self.ascending else 'best'}"

    @property
    def headline(self) -> str:
        """A one-line description of the query, for headings.

        >>> import skyband as sb
        >>> sb.TopK(k=10, size="1 hour", slide="5 minutes", partition_by="symbol").headline
        'the 10 best of 1 hour, every 5 minutes, for each symbol'
        >>> sb.UncertainTopK(k=3, size="20 minutes", every="2 minutes").headline
        'the 3 tuples most likely to be in the top 3 of 20 minutes, at least every 2 minutes'
        """
        each = f", for each {', '.join(self.groups)}" if self.groups else ""
        return f"{self.ranked_text} of {self.window_text}{each}"

    def scan_key(self) -> tuple[Any, ...]:
        """Return the key that queries must have in common to read the stream together: expressions, filter and groups.

        >>> import skyband as sb
        >>> sb.AggregateTopK(k=1, size=10, key="client", value="bytes").scan_key()
        ('client', 'bytes', None, ())
        """
        raise NotImplementedError

    def sharing_key(self) -> tuple[Any, ...]:
        """Return the key that queries must have in common to share state; usually the scan key.

        >>> import skyband as sb
        >>> high, low = (sb.TopK(k=1, size=10, order=order) for order in ("desc", "asc"))
        >>> high.scan_key() == low.scan_key(), high.sharing_key() == low.sharing_key()
        (True, False)
        """
        return self.scan_key()

    def to_sql(self, *, named: bool = False) -> str | None:
        """Return the query as one line of SQL; None if its family has no SQL. `named` includes the default name.

        >>> import skyband as sb
        >>> sb.TopK(k=1, size=10).to_sql(named=True), sb.IncompleteTopK(k=1, size=10).to_sql()
        ('topk: TOPK 1 OVER 10 ROWS', None)
        """
        return None

    @classmethod
    def check_together(cls, queries: Iterable[Any]) -> None:
        """Raise if queries of this family cannot run in one workload."""

    def __str__(self) -> str:
        """Return the query as canonical SQL; as Python if its family has no SQL."""
        return self.to_sql() or repr(self)

    def _settle(self, values: Mapping[str, Any]) -> None:
        """Set frozen fields to their normalized values."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        shown = []
        for item in fields(self):  # type: ignore[arg-type]  # every family is a dataclass
            value = getattr(self, item.name)
            is_default = not value if item.name == "origin" else value == item.default
            if value is None and getattr(self, "gap", None) is not None:
                continue  # sessions have no size and no slide
            if item.init and (item.name in _ALWAYS_SHOWN or not is_default):
                shown.append(f"{item.name}={value!r}")
        return f"{type(self).__name__}({', '.join(shown)})"


def _length(extent: str | int) -> str:
    return extent if isinstance(extent, str) else f"{extent:,} rows"


@cache
def _field_names(kind: type[Any]) -> tuple[str, ...]:
    return tuple(item.name for item in fields(kind) if item.init)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
