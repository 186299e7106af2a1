"""When the answers of a stream are emitted: once, when they are final; before that; or again, after late rows.

An open window that is answered before its end is *provisional*. A final window that is answered again, because late
rows have changed it, is *corrected*. Both are options of a stream, and columns of its answers mark the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

from skyband.durations import format_duration, parse_duration
from skyband.errors import InvalidInputError, type_name
from skyband.queries.answer_schema import FINAL, REVISION, AnswerColumn, moment_of
from skyband.queries.families import Feature

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["FINAL", "ONCE", "REVISION", "Emission", "Emit", "marks_in", "marks_of"]

Emit = Literal["final", "provisional"]
_MILLISECOND = 1000


@dataclass(frozen=True)
class Emission:
    """What a stream emits in addition to the answers of windows that have become final. Durations in microseconds."""

    provisional: bool = False  # whether open windows are answered
    every: int = 0  # event time between two provisional answers; 0: in every micro-batch
    lateness: int = 0  # how far behind the watermark a row can be and still correct final windows

    @classmethod
    def parsed(
        cls,
        emit: object = "final",
        provisional_every: str | timedelta | None = None,
        allowed_lateness: str | timedelta | None = None,
    ) -> Emission:
        """Return the emission that a user requested.

        >>> Emission.parsed("provisional", "10 seconds")
        Emission(provisional=True, every=10000000, lateness=0)
        """
        if emit not in ("final", "provisional"):
            raise InvalidInputError(
                "emit must be 'final' (a window is emitted once) or 'provisional' (an open window is emitted again "
                f"whenever its answer changes), got {emit!r}."
            )
        if provisional_every is not None and emit != "provisional":
            raise InvalidInputError(
                f"provisional_every={provisional_every!r} requires emit='provisional'; no window is emitted before its "
                "end. Set emit='provisional', or omit provisional_every=."
            )
        every = 0 if provisional_every is None else _duration(provisional_every, "provisional_every")
        lateness = 0 if allowed_lateness is None else _duration(allowed_lateness, "allowed_lateness")
        # Late rows are counted by whole milliseconds.
        return cls(emit == "provisional", every, -(-lateness // _MILLISECOND) * _MILLISECOND)

    @property
    def features(self) -> list[tuple[bool, Feature, str]]:
        """The features of the registry of families: whether each is requested, and the option for messages."""
        lateness = f"allowed_lateness='{format_duration(self.lateness)}'"
        return [
            (self.provisional, "provisional answers", "emit='provisional'"),
            (self.lateness > 0, "corrections", lateness),
        ]

    @property
    def given(self) -> str | None:
        """The option that is not the default, for messages; None if there is none."""
        return next((given for is_requested, _, given in self.features if is_requested), None)

    @property
    def is_once(self) -> bool:
        """Whether every window is emitted once."""
        return self == ONCE

    @property
    def columns(self) -> tuple[AnswerColumn, ...]:
        """The columns that mark the answers of a window.

        >>> [column.name for column in Emission(lateness=1000).columns]
        ['revision']
        """
        final = (AnswerColumn(FINAL, "flag"),) if self.provisional else ()
        return (*final, AnswerColumn(REVISION, "rank")) if self.lateness else final

    def marks(self, *, final: bool = True, revision: int = 0) -> dict[str, pa.Scalar]:
        """Return the values of `columns` for windows that are emitted."""
        import pyarrow as pa  # noqa: PLC0415 - plans are light

        values = {FINAL: pa.scalar(final), REVISION: pa.scalar(revision, pa.int32())}
        return {column.name: values[column.name] for column in self.columns}

    def added(self, columns: Sequence[AnswerColumn]) -> tuple[AnswerColumn, ...]:
        """Return the columns of answers with `columns` after the end of the window."""
        names = [column.name for column in columns]
        at = names.index(moment_of(names)) + 1
        return *columns[:at], *self.columns, *columns[at:]

    def refuse_other_late_rows(self, late: object) -> None:
        """Reject an allowed lateness if late rows are not dropped and counted."""
        if self.lateness and late in ("return", "refuse"):
            raise InvalidInputError(
                f"allowed_lateness='{format_duration(self.lateness)}' cannot be combined with late={late!r}: rows "
                "within it correct answers, and only other late rows are dropped and counted. Use late='count'."
            )

    def described(self) -> str | None:
        """Return a short description; None if every window is emitted once.

        >>> Emission(True, every=60_000_000, lateness=300_000_000).described()
        'provisional at most every 1 minute, corrected by rows up to 5 minutes late'
        """
        parts = []
        if self.provisional:
            parts.append(f"provisional at most every {format_duration(self.every)}" if self.every else "provisional")
        if self.lateness:
            parts.append(f"corrected by rows up to {format_duration(self.lateness)} late")
        return ", ".join(parts) or None


ONCE = Emission()


def marks_in(names: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that mark the answers of a window; a column of the row can have the same name.

    >>> marks_in(["query", "window_start", "window_end", "final", "rank", "score", "revision"])
    ('final',)
    """
    moment = moment_of(names)
    if moment not in names:
        return ()
    after = [*list(names)[list(names).index(moment) + 1 :], "", ""]
    if after[0] == REVISION:
        return (REVISION,)
    return ((FINAL, REVISION) if after[1] == REVISION else (FINAL,)) if after[0] == FINAL else ()


def marks_of(rows: pa.Table) -> dict[str, int]:
    """Return the values of the columns in `marks_in`, of the first row; text formats store them as text.

    A later answer of a window has larger values.
    """
    if not rows.num_rows:
        return {}
    texts = {name: str(rows[name][0].as_py()).lower() for name in marks_in(rows.column_names)}
    return {name: text == "true" if name == FINAL else int(text) for name, text in texts.items()}


def _duration(value: object, field: str) -> int:
    if not isinstance(value, str | timedelta):
        raise InvalidInputError(
            f"{field} must be interval text such as '10 seconds' or a timedelta, got {value!r} of type "
            f"{type_name(value)}."
        )
    found = parse_duration(value, field=field)
    if found < 0:
        raise InvalidInputError(f"{field} must not be negative, got {value!r}. Omit it for the default.")
    return found
