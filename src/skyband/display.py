"""How objects display themselves in notebooks: tables and text in HTML, with everything escaped."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from itertools import islice

__all__ = ["MOST_ROWS", "Explanation", "html_page", "html_table"]

MOST_ROWS = 20  # of a table in a notebook


def html_table(names: Iterable[str], rows: Iterable[Iterable[object]], total: int) -> str:
    """Return a table of the first of so many rows; None is an empty cell, and floats have six digits.

    >>> html_table(["k"], [[None], [1234.5678]], 2)[41:]
    '<tbody><tr><td></td></tr><tr><td>1,234.57</td></tr></tbody></table>'
    """
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in islice(rows, MOST_ROWS))
    more = total - MOST_ROWS
    note = f"<p>{more:,} more row{'' if more == 1 else 's'}</p>" if more > 0 else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{note}"


def html_page(title: str, *parts: str) -> str:
    """Return parts in HTML under a title, which is text.

    >>> html_page("k < 3", "<hr>")
    '<p><b>k &lt; 3</b></p><hr>'
    """
    return f"<p><b>{escape(title)}</b></p>{''.join(parts)}"


def _cell(value: object) -> str:
    shown = "" if value is None else f"{value:,.6g}" if isinstance(value, float) else str(value)
    return f"<td>{escape(shown)}</td>"


class Explanation(str):
    r"""Text of several lines that displays itself as it is, in a notebook and at a Python prompt.

    >>> Explanation("two\nlines")
    two
    lines
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self)}</pre>"
