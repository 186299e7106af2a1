"""The columns that an expression names, as far as that is sure without Spark."""

from __future__ import annotations

from skyband.sql.lexer import parser, raw_tokens

__all__ = ["columns_in"]

# Words that Spark takes for a function without brackets, or for a unit of time, where no column has the name.
_NO_COLUMNS = """
    current_catalog current_database current_date current_schema current_time current_timestamp current_timezone
    current_user grouping__id inf infinity localtime localtimestamp nan now session_user user
    day dayofweek dayofyear days dow doy epoch hour hours isodow isoyear microsecond microseconds millisecond
    milliseconds minute minutes month months quarter quarters second seconds week weeks year yearofweek years
""".split()  # noqa: SIM905 - a word list reads better as words


def columns_in(expression: str) -> list[str]:
    """The columns an expression names, each once, a field of a column by that column; none where that is not clear.

    >>> columns_in("price * `how many` + point.x"), columns_in("transform(prices, x -> x + fee)")
    (['price', 'how many', 'point'], ['prices', 'fee'])
    """
    from sqlglot import exp

    try:
        found = parser().parse_into(exp.Condition, raw_tokens(expression), expression)
        if len(found) != 1 or found[0] is None or found[0].find(exp.Query, exp.Table, exp.Command, exp.Window):
            return []
        roots = [column.parts[0] for column in found[0].find_all(exp.Column, bfs=False)]
    except Exception:  # what this parser cannot read, Spark may
        return []
    names = [root.name for root in roots if isinstance(root, exp.Identifier)]
    return [name for name in dict.fromkeys(names) if name.lower() not in _NO_COLUMNS]
