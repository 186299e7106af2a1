"""Flink's Window Top-N: a subquery numbers the rows of each window, and the outer query selects the first k.

```text
SELECT * FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, symbol ORDER BY price DESC) AS rownum
    FROM TABLE(HOP(TABLE trades, DESCRIPTOR(ts), INTERVAL '1' MINUTES, INTERVAL '10' MINUTES))
) WHERE rownum <= 10
```

The subquery can also read a window aggregation, ``FROM (SELECT … SUM(price) AS total … GROUP BY window_start,
window_end, symbol)``; the answers then contain keys and their scores.
"""

from __future__ import annotations

from skyband.durations import parse_duration
from skyband.sql.aggregation import read_list
from skyband.sql.cql import read_later_columns
from skyband.sql.cursor import Cursor, spelled_name
from skyband.sql.expression import Expression
from skyband.sql.intervals import interval
from skyband.sql.lexer import Token
from skyband.sql.statement import StatementDraft, direction

FUNCTIONS = ("TUMBLE", "HOP", "CUMULATE", "SESSION")

_ARGUMENTS = {
    "TUMBLE": ("DATA", "TIMECOL", "SIZE", "OFFSET"),
    "HOP": ("DATA", "TIMECOL", "SLIDE", "SIZE", "OFFSET"),  # the slide comes first
    "CUMULATE": ("DATA", "TIMECOL", "STEP", "SIZE", "OFFSET"),  # the step comes first
    "SESSION": ("DATA", "TIMECOL", "GAP"),
}
_OPTIONAL = "OFFSET"
_MEANING = {
    "DATA": "TABLE and a stream",
    "TIMECOL": "DESCRIPTOR and the column of event time",
    "SLIDE": "the slide as an INTERVAL",
    "STEP": "the step as an INTERVAL",
    "SIZE": "the size as an INTERVAL",
    "OFFSET": "the offset as an INTERVAL",
    "GAP": "the gap as an INTERVAL",
}
RANKINGS = ("ROW_NUMBER", "RANK", "DENSE_RANK")
SHAPE = (
    "the pattern is SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY ...) "
    "AS rownum FROM TABLE(HOP(...))) WHERE rownum <= k"
)
AGGREGATION = (
    "the pattern is (SELECT window_start, window_end, key, SUM(...) AS score FROM TABLE(HOP(...)) "
    "GROUP BY window_start, window_end, key)"
)
_BOUNDS = ("window_start", "window_end")
_STOPS = frozenset({"ORDER", "ASC", "DESC", "NULLS", "ROWS", "RANGE", "WHERE", "GROUP", "HAVING"})
_MIRRORED = {">=": "<=", ">": "<", "=": "=", "<": ">", "<=": ">="}


def sees_window_function(cursor: Cursor) -> bool:
    """Whether a window function comes next, bare or in ``TABLE( )``."""
    token = cursor.peek(2 if cursor.sees("TABLE") and cursor.sees_symbol("(", 1) else 0)
    ahead = 3 if cursor.sees("TABLE") else 1
    return token is not None and token.keyword in FUNCTIONS and cursor.sees_symbol("(", ahead)


def read(draft: StatementDraft) -> None:
    """Parse the part after the outer ``FROM``: the subquery, and the condition on the row number."""
    cursor = draft.cursor
    opening = cursor.place
    cursor.expect_symbol("(")
    cursor.expect("SELECT", why=SHAPE)
    number = _read_ranking(draft)
    _read_source(draft)
    if cursor.peek() is None:
        raise cursor.fail("'(' is not closed", "close the subquery with ')'", at=opening)
    cursor.expect_symbol(")", "only WHERE can follow the window function in the subquery")
    table = _read_alias(cursor)
    _read_bound(draft, number, table)


def _read_ranking(draft: StatementDraft) -> str:
    """Parse ``*, ROW_NUMBER() OVER (…) AS rownum``; return the name of the row number."""
    cursor = draft.cursor
    if not cursor.sees_symbol("*"):
        message = "a list of columns is not supported here, because answers contain whole rows"
        raise cursor.fail(message, "write SELECT *, ROW_NUMBER() OVER (...) AS rownum")
    cursor.at += 1
    cursor.expect_symbol(",", SHAPE)
    at, function = cursor.place, cursor.peek()
    if function is None or function.keyword not in RANKINGS:
        raise cursor.unexpected("ROW_NUMBER() or RANK()", SHAPE, known=RANKINGS)
    if function.keyword == "DENSE_RANK":
        message = "DENSE_RANK is not supported, because k limits objects, not different scores"
        raise cursor.fail(message, "ROW_NUMBER selects k rows, RANK also rows equal to the k-th")
    cursor.at += 1
    if function.keyword == "RANK":
        draft.put("ties", "rank", at)
    cursor.expect_symbol("(")
    cursor.expect_symbol(")", f"{function.keyword} takes no argument")
    cursor.expect("OVER")
    cursor.expect_symbol("(")
    _read_partition(draft)
    _read_order(draft)
    cursor.expect_symbol(")", "a frame is not allowed for row numbers")
    cursor.take("AS")
    alias = cursor.peek()
    if alias is None or alias.kind not in ("word", "name") or cursor.sees("FROM"):
        raise cursor.unexpected("a name for the row number", "as in AS rownum")
    cursor.at += 1
    return spelled_name(alias).lower()


def _read_partition(draft: StatementDraft) -> None:
    cursor = draft.cursor
    at = draft.once("partition_by", "PARTITION BY")
    cursor.expect("PARTITION", "BY", why="each window is ranked separately: PARTITION BY window_start, window_end")
    groups = cursor.expressions(_STOPS, "a group after PARTITION BY")
    _require_bounds(cursor, groups, at, "PARTITION BY")
    others = [group for group in groups if _column(group) not in _BOUNDS]
    for group in others:
        _refuse_window_columns(cursor, group, "a group")
    draft.put_groups(others)


def _require_bounds(cursor: Cursor, groups: list[Expression], at: int, clause: str) -> None:
    named = {_column(group) for group in groups}
    for bound in _BOUNDS:
        if bound not in named:
            message = f"{bound} is missing, so rows of different windows would be ranked together"
            raise cursor.fail(message, f"write {clause} window_start, window_end, ...", at=at)


def _read_order(draft: StatementDraft) -> None:
    cursor = draft.cursor
    cursor.expect("ORDER", "BY", why="ORDER BY defines which objects are best")
    at = cursor.place
    draft.read_score(_STOPS, "the score after ORDER BY")
    if draft.score is not None:
        _refuse_window_columns(cursor, draft.score, "the score")
    draft.put("order", direction(cursor, default="asc"), at)
    read_later_columns(draft, _STOPS)


def _read_source(draft: StatementDraft) -> None:
    cursor = draft.cursor
    if cursor.sees_symbol(","):
        raise cursor.fail(
            "only the row number can follow *, because answers contain whole rows", "remove the other columns"
        )
    cursor.expect("FROM")
    if cursor.sees_symbol("("):
        _read_aggregation(draft)
        return
    _read_rows(draft)
    if cursor.sees("GROUP"):
        hint = "rank the groups in another subquery, or add columns after window_end in PARTITION BY"
        raise cursor.fail("GROUP BY is not supported here", hint)


def _read_aggregation(draft: StatementDraft) -> None:
    """Parse a window aggregation, whose keys are ranked."""
    cursor = draft.cursor
    opening = cursor.place
    cursor.expect_symbol("(")
    cursor.expect("SELECT", why=AGGREGATION)
    if cursor.sees_symbol("*"):
        message = "a nested subquery must aggregate rows: it selects the key and its score, not *"
        raise cursor.fail(message, AGGREGATION, at=opening)
    draft.places["selected"] = cursor.place
    draft.aggregation.selected = read_list(cursor, frozenset({"FROM", "AS"}))
    cursor.expect("FROM")
    if cursor.sees_symbol("("):
        raise cursor.fail("another subquery is not supported here", "read from TABLE(HOP(...)) or TABLE(TUMBLE(...))")
    _read_rows(draft)
    at = draft.once("key", "GROUP BY")
    cursor.expect("GROUP", "BY", why=AGGREGATION)
    keys = cursor.expressions(_STOPS, "a key after GROUP BY")
    _require_bounds(cursor, keys, at, "GROUP BY")
    draft.aggregation.keys = [key for key in keys if _column(key) not in (*_BOUNDS, "window_time")]
    draft.aggregation.grouped = True
    draft.rank_keys()
    if cursor.sees("HAVING"):
        draft.read_family_clause(_STOPS)
    if cursor.peek() is None:
        raise cursor.fail("'(' is not closed", "close the subquery with ')'", at=opening)
    cursor.expect_symbol(")", AGGREGATION)
    _read_alias(cursor)


def _read_rows(draft: StatementDraft) -> None:
    """Parse the window function and ``WHERE``."""
    cursor = draft.cursor
    read_window(draft)
    _read_alias(cursor)
    if cursor.sees("WHERE"):
        draft.once("where", "WHERE")
        cursor.expect("WHERE")
        condition = cursor.expression(_STOPS, "the condition after WHERE")
        _refuse_window_columns(cursor, condition, "the condition")
        draft.fields["where"] = condition.text


def _read_alias(cursor: Cursor) -> str | None:
    given = cursor.take("AS")
    token = cursor.peek()
    if token is not None and (token.kind == "name" or (token.kind == "word" and token.keyword not in _STOPS)):
        cursor.at += 1
        return spelled_name(token).lower()
    if given:
        raise cursor.unexpected("a name after AS")
    return None


def _read_bound(draft: StatementDraft, number: str, table: str | None) -> None:
    """Parse ``rownum <= k`` in any of its forms."""
    cursor = draft.cursor
    cursor.expect("WHERE", why=f"WHERE {number} <= k selects the first k rows")
    at = cursor.place
    if _take_number(cursor, number, table):
        if cursor.take("BETWEEN"):
            first, relation = cursor.integer("the first rank"), "<="
            cursor.expect("AND")
            if first != 1:
                raise cursor.fail("the first rank must be 1, because answers begin with the best", at=at)
        else:
            relation = _take_relation(cursor, number)
        place, bound = cursor.place, cursor.integer("k")
    else:
        place, bound = cursor.place, cursor.integer(f"{number} <= k", "only the row number can be compared here")
        relation = _MIRRORED[_take_relation(cursor, number)]
        if not _take_number(cursor, number, table):
            raise cursor.unexpected(number)
    if relation not in ("<", "<=") and not (relation == "=" and bound == 1):
        message = f"{number} {relation} {bound} does not select the first rows"
        raise cursor.fail(message, f"write {number} <= k", at=at)
    _refuse_more(cursor)
    draft.put("k", bound - 1 if relation == "<" else bound, place)


def _refuse_more(cursor: Cursor) -> None:
    if cursor.sees("AND") or cursor.sees("OR"):
        message = "only the row number can be filtered here, because answers have the ranks 1 to k"
        raise cursor.fail(message, "filter objects inside the subquery, with WHERE after the window function")
    if cursor.peek() is not None:
        raise cursor.unexpected("the end of the statement", "remove everything after the condition on the row number")


def _take_number(cursor: Cursor, number: str, table: str | None) -> bool:
    token = cursor.peek()
    if table is not None and token is not None and _is_called(token, table) and cursor.sees_symbol(".", 1):
        cursor.at += 2
        token = cursor.peek()
    found = token is not None and _is_called(token, number)
    cursor.at += 1 if found else 0
    return found


def _take_relation(cursor: Cursor, number: str) -> str:
    token = cursor.peek()
    if token is None or token.symbol not in _MIRRORED:
        raise cursor.unexpected(f"<= after {number}", f"{number} <= k selects the first k rows")
    cursor.at += 1
    return token.symbol


def _is_called(token: Token, name: str) -> bool:
    return token.kind in ("word", "name") and spelled_name(token).lower() == name


def _column(group: Expression) -> str:
    """Return the column of a group without its table; empty if the group is not a plain column."""
    plain = all(token.kind in ("word", "name") or token.symbol == "." for token in group.tokens)
    return spelled_name(group.tokens[-1]).lower() if plain else ""


def _refuse_window_columns(cursor: Cursor, part: Expression, what: str) -> None:
    for token in part.tokens:
        if token.kind in ("word", "name") and spelled_name(token).lower() in (*_BOUNDS, "window_time"):
            message = f"{what} cannot use {token.text}, because an object has the same values in all its windows"
            raise cursor.fail(message, "use the columns of the stream", at=token.start)


def read_window(draft: StatementDraft) -> None:
    """Parse the window function with its arguments, bare or in ``TABLE( )``.

    Flink aligns window starts to the offset; a query aligns window ends to its origin. Both are the same if the slide
    divides the size; otherwise the origin includes the difference.
    """
    cursor = draft.cursor
    wrapped = cursor.take("TABLE")
    if wrapped:
        cursor.expect_symbol("(")
    function = cursor.peek()
    name = function.keyword if function else ""
    if name not in _ARGUMENTS:
        hint = "" if wrapped else "write FROM TABLE(HOP(TABLE trades, DESCRIPTOR(ts), slide, size))"
        raise cursor.unexpected("HOP, TUMBLE, CUMULATE or SESSION", hint, known=FUNCTIONS)
    cursor.at += 1
    given = _read_arguments(draft, name)
    if wrapped:
        cursor.expect_symbol(")", "close TABLE( with ')'")
    if name == "SESSION":
        draft.fields["gap"] = given["GAP"]
        return
    step = given.get("STEP", given.get("SLIDE"))
    size = parse_duration(given["SIZE"], field="size")
    slide = parse_duration(given["SIZE"] if step is None else step, field="slide")
    draft.fields["size"] = given["SIZE"]
    draft.fields["slide"] = step
    if name == "CUMULATE":
        draft.fields["cumulative"] = True
    offset = parse_duration(given["OFFSET"], field="offset") if "OFFSET" in given else 0
    draft.fields["origin"] = offset + (size % slide if slide > 0 else 0)


def _read_arguments(draft: StatementDraft, name: str) -> dict[str, str]:
    cursor = draft.cursor
    order = _ARGUMENTS[name]
    required = [word for word in order if word != _OPTIONAL]
    offset = "" if len(required) == len(order) else "[, offset]"
    shape = f"{name}(TABLE stream, DESCRIPTOR(time), {', '.join(word.lower() for word in required[2:])}{offset})"
    cursor.expect_symbol("(", shape)
    given: dict[str, str] = {}
    by_name = cursor.sees_symbol("=>", 1)
    for place, positional in enumerate(order):
        if cursor.sees_symbol(")"):
            break
        if place:
            cursor.expect_symbol(",", shape)
        argument = _named_argument(cursor, order, given) if by_name else positional
        given[argument] = _value(draft, argument, shape)
    for argument in required:
        if argument not in given:
            raise cursor.unexpected(_MEANING[argument], shape)
    cursor.expect_symbol(")", shape)
    return given


def _read_session_groups(draft: StatementDraft) -> None:
    """Parse ``PARTITION BY`` after the stream of SESSION, which must have the groups of the ranking."""
    cursor, at = draft.cursor, draft.cursor.place
    given: list[str] = []
    if cursor.take("PARTITION"):
        cursor.expect("BY")
        given.append(cursor.path("a column after PARTITION BY"))
        while cursor.sees_symbol(",") and not (
            cursor.sees_symbol("(", 2) or cursor.sees_symbol("=>", 2)  # the next argument
        ):
            cursor.at += 1
            given.append(cursor.path("a column after PARTITION BY"))
    given = [name.lower() for name in given]
    groups = [_column(group) or group.text for group in draft.aggregation.groups]
    if sorted(given) != sorted(groups):
        message = f"sessions are those of the ranked groups, but SESSION has {given} and the ranking {groups}"
        hint = "write the same columns after PARTITION BY in SESSION, and after window_start, window_end in the ranking"
        raise cursor.fail(message, hint, at=at)


def _named_argument(cursor: Cursor, order: tuple[str, ...], given: dict[str, str]) -> str:
    token = cursor.peek()
    name = token.keyword if token else ""
    if name not in order:
        raise cursor.unexpected("an argument's name", f"the names are {', '.join(order)}", known=order)
    if name in given:
        raise cursor.fail(f"{name} is given twice", "give each argument once")
    cursor.at += 1
    cursor.expect_symbol("=>")
    return name


def _value(draft: StatementDraft, argument: str, shape: str) -> str:
    cursor = draft.cursor
    if argument == "DATA":
        cursor.expect("TABLE", why=shape)
        stream = cursor.path("the name of a stream", shape)
        draft.beside["stream"] = stream
        if shape.startswith("SESSION"):
            _read_session_groups(draft)
        return stream
    if argument == "TIMECOL":
        cursor.expect("DESCRIPTOR", why=shape)
        cursor.expect_symbol("(")
        time = cursor.path("the column of event time", shape)
        draft.beside["time"] = time
        cursor.expect_symbol(")", "DESCRIPTOR must contain one column")
        return time
    draft.places[{"OFFSET": "origin", "STEP": "slide"}.get(argument, argument.lower())] = cursor.place
    if not cursor.sees("INTERVAL"):
        raise cursor.unexpected(_MEANING[argument], f"{shape}, with durations such as INTERVAL '10' MINUTES")
    return interval(cursor, f"the {argument.lower()}")
