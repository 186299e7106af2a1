"""Queries written in the other spellings, for tests alone: what they can say, said as their users would."""

from __future__ import annotations

from skyband.durations import parse_duration
from skyband.sql import writer
from skyband.sql.lexer import quote


def cql(query, stream="trades"):
    ties = " WITH TIES" if query.ties == "rank" else ""
    counted = query.axis == "count"
    window = f"{'ROWS' if counted else 'RANGE'} {query.size} SLIDE {query.slide}"
    window += f" ORIGIN {query.origin}" if query.origin else ""
    window += " FULL WINDOWS ONLY" if query.full_only else ""
    where = f" WHERE {writer.expression(query.where)}" if query.where is not None else ""
    groups = ", ".join(map(writer.expression, query.partition_by))
    groups = f" [PARTITION BY {groups}]" if groups else ""
    order = f"{writer.expression(query.by)} {query.order}"
    return f"{quote(query.name)}: SELECT TOP {query.k}{ties} * FROM {stream} [{window}]{where}{groups} ORDER BY {order}"


def aggregate_cql(query, stream="clicks"):
    """A query over keys: GROUP BY has the key and the groups, and its score has a name."""
    ties = " WITH TIES" if query.ties == "rank" else ""
    window = f"{'ROWS' if query.axis == 'count' else 'RANGE'} {query.size} SLIDE {query.slide}"
    window += f" ORIGIN {query.origin}" if query.origin else ""
    window += " FULL WINDOWS ONLY" if query.full_only else ""
    where = f" WHERE {writer.expression(query.where)}" if query.where is not None else ""
    groups = ", ".join(map(writer.expression, query.partition_by))
    keys = f"{groups}, " * bool(groups) + writer.expression(query.key)
    groups = f" PARTITION BY {groups}" if groups else ""
    return (
        f"{quote(query.name)}: SELECT TOP {query.k}{ties} {_called(query)} AS total FROM {stream} [{window}]{where} "
        f"GROUP BY {keys}{groups}{_having(query)} ORDER BY total {query.order}"
        + "".join(f" WITH {name.upper()}" for name in ("others", "share", "row") if getattr(query, name))
        + ("" if query.delete is None else f" WITH DELETE WHEN {writer.expression(query.delete)}")
    )


def aggregate_flink(query, stream="clicks", time="ts"):
    """The ranking of a window aggregation; time windows only, and not `full_only`."""
    ranking = "RANK" if query.ties == "rank" else "ROW_NUMBER"
    size, slide = parse_duration(query.size, field="size"), parse_duration(query.slide, field="slide")
    groups = ["window_start", "window_end", *map(writer.expression, query.partition_by)]
    where = f" WHERE {writer.expression(query.where)}" if query.where is not None else ""
    return (
        f"{quote(query.name)}: SELECT * FROM (SELECT *, {ranking}() OVER (PARTITION BY {', '.join(groups)} "
        f"ORDER BY total {query.order}) AS rn FROM (SELECT window_start, {_called(query)} AS total "
        f"FROM TABLE(HOP(TABLE {stream}, DESCRIPTOR({time}), INTERVAL '{slide}' MICROSECONDS, "
        f"INTERVAL '{size}' MICROSECONDS, INTERVAL '{query.origin - size % slide}' MICROSECONDS)){where} "
        f"GROUP BY {', '.join([*groups, writer.expression(query.key)])}{_having(query)})) WHERE rn <= {query.k}"
    )


def _having(query):
    return "" if query.having is None else f" HAVING {writer.expression(query.having)}"


def _called(query):
    fraction = "" if query.quantile is None else f", {query.quantile!r}"
    return f"{query.aggregate}({'*' if query.value is None else writer._argument(query.value)}{fraction})"


def uncertain_cql(query, stream="sensors"):
    """A query over an uncertain stream, as the paper on them has it, with what it leaves out."""
    rows = " ROWS" if query.axis == "count" else ""
    window = f"{'ROWS' if rows else 'RANGE'} {query.size} FREQUENCY {query.every}{rows}"
    told = {name: getattr(query, name) for name in ("where", "probability", "rule", "stream")}
    clauses = [f"{name} {writer.expression(text)}" for name, text in told.items() if text is not None]
    if query.partition_by:
        clauses.append(f"PARTITION BY {', '.join(map(writer.expression, query.partition_by))}")
    clauses.append(f"ORDER BY {writer.expression(query.by)} {query.order} SEMANTICS {quote(query.semantics)}")
    clauses += [f"THRESHOLD {query.threshold!r}"] if query.threshold is not None else []
    clauses += [f"weights ({','.join(map(repr, query.weights))})"] if query.weights is not None else []
    clauses += [f"ALPHA {query.alpha!r}"] if query.alpha is not None else []
    return f"{quote(query.name)}: SELECT TOP {query.k} * FROM {stream} [{window}] {' '.join(clauses)}"


def flink(query, stream="trades", time="ts"):
    """Time windows only, and not `full_only`: Flink has no way to say either."""
    size, slide = parse_duration(query.size, field="size"), parse_duration(query.slide, field="slide")
    offset = query.origin - size % slide
    groups = ", ".join(["window_start", "window_end", *map(writer.expression, query.partition_by)])
    ranking = "RANK" if query.ties == "rank" else "ROW_NUMBER"
    where = f" WHERE {writer.expression(query.where)}" if query.where is not None else ""
    order = f"{writer.expression(query.by)} {query.order}"
    return (
        f"{quote(query.name)}: SELECT * FROM ("
        f"SELECT *, {ranking}() OVER (PARTITION BY {groups} ORDER BY {order}) AS rn "
        f"FROM TABLE(HOP(TABLE {stream}, DESCRIPTOR({time}), INTERVAL '{slide}' MICROSECONDS, "
        f"INTERVAL '{size}' MICROSECONDS, INTERVAL '{offset}' MICROSECONDS)){where}) WHERE rn <= {query.k}"
    )
