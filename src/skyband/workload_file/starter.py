"""Write a first workload file that runs unchanged, with a comment for every key."""

from __future__ import annotations

import re
from datetime import datetime

from skyband.durations import parse_duration
from skyband.queries.families import FAMILIES
from skyband.workload_file.sampling import DataSample
from skyband.workload_file.suggestions import incomplete_query, uncertain_query
from skyband.workload_file.template import (
    DELTA,
    FILES,
    GROUPED,
    INCOMPLETE,
    KAFKA,
    LEADERBOARD,
    PLAIN,
    RATE,
    TAIL,
    UNCERTAIN,
)
from skyband.workload_file.time_columns import looks_like_time, rounded, watermark_for
from skyband.workload_file.tree import plain

__all__ = ["quoted", "starter", "windows_for"]

# Pairs of slide and size. The first slide that divides the time span into at most _MOST parts is used.
_WINDOWS = (
    ("100 milliseconds", "1 second"),
    ("500 milliseconds", "5 seconds"),
    ("1 second", "10 seconds"),
    ("5 seconds", "30 seconds"),
    ("10 seconds", "1 minute"),
    ("30 seconds", "5 minutes"),
    ("1 minute", "10 minutes"),
    ("5 minutes", "30 minutes"),
    ("10 minutes", "1 hour"),
    ("30 minutes", "3 hours"),
    ("1 hour", "6 hours"),
    ("3 hours", "12 hours"),
    ("6 hours", "1 day"),
    ("12 hours", "3 days"),
    ("1 day", "7 days"),
    ("7 days", "28 days"),
    ("30 days", "90 days"),
    ("90 days", "360 days"),
    ("365 days", "1825 days"),
)
_MOST = 60
_ENOUGH = 20  # rows of a window, on average
_MOST_OF_MANY, _PLENTY = 400, 500  # with this many rows in a window, there may be more windows
# Measures, what analysts rank by first: scores, money, amounts, times and speeds, distances.
_MEASURES = tuple(
    re.compile(words, re.IGNORECASE)
    for words in (
        r"score|magnitude|severity",
        r"total|revenue|sales|turnover",
        r"amount|price|fare|cost|value|profit|fee|(^|_)(usd|eur|gbp)$",
        r"bytes|volume|size|quantity|qty|count|requests|hits|views|clicks",
        r"delay|latency|duration|elapsed|rtt|speed|amplitude",
        r"distance|length|miles|(^|_)(km|mi)$",
    )
)
_PRICE = re.compile(r"(^|_)price(_|$)", re.IGNORECASE)
_UNITS = re.compile(r"^(size|qty|quantity|volume|shares|units)(_|$)", re.IGNORECASE)
_ID = re.compile(r"(^|[^A-Za-z])id$|[a-z]I[dD]$|^(seq|sequence|row|nr|number)(_?(id|no|nr|number))?$", re.IGNORECASE)
_PLACES = re.compile(
    r"lat(itude)?$|lon(g|gitude)?$|zip|code$|year$|month$|day$|hour$|minute$|number$|_(no|nr)$|port$|status$|zone$|"
    r"type$|class$|level$",
    re.IGNORECASE,
)
_CATEGORY = re.compile(r"_id$|code$|type$|zone$|class$|status$|category|level$|port$", re.IGNORECASE)
_GROUPS = re.compile(
    r"symbol|ticker|station|carrier|section|region|country|state$|city|categor|product|exchange|vendor|host|user|"
    r"customer|client|origin|sensor|device",
    re.IGNORECASE,
)
_FEW, _MANY = 50, 1000  # distinct values of a group column: preferred, and at most
_WORDS = """
    all and any as asc between both by case cast current date desc distinct else end every exists false first for from
    full group having in interval is join last leading left like limit natural not null nulls on or order outer over
    overlay partition position rank right row rows select set some table then time timestamp to trailing true union
    unique using values when where window with
""".split()  # noqa: SIM905 - a word list reads better as words


def starter(data: DataSample | None = None) -> str:
    """Return a valid, commented workload file for some data, or for rows that Spark generates.

    >>> print(starter(DataSample(path="t.csv", format="csv", columns=[("ts", "timestamp"), ("price", "number")],
    ...                          time="ts")).splitlines()[0])
    # A Skyband workload file: streams, queries over them, and sinks for the answers.
    """
    if data is None:
        return RATE + TAIL
    names = [name for name, _ in data.columns]
    number = _id_of(data)
    score, why = _score_of(data, number)
    group = _group_of(data)
    slide, size = windows_for(data.first, data.last, data.total)
    text = {"delta": DELTA, "kafka": KAFKA}.get(data.source, FILES).format(
        stream=_stream_name(data.path),
        path=quoted(data.path),
        format=data.format,
        options="".join(f"\n      {key}: {value}" for key, value in _options(data).items()),
        options_key="options:" if _options(data) else "# options: {mergeSchema: true}",
        columns=", ".join(_comment(name) for name in names),
        time=quoted(data.time),
        time_format=f"time_format: {quoted(data.time_format)}" if data.time_format else "# time_format: seconds",
        id=f"id: {quoted(number)}" if number else "# id: trade_id",
        span=_span(data),
        behind=_behind(data),
        watermark=watermark_for(data.behind),
    )
    text += PLAIN.format(size=size, slide=slide, by=quoted(score), why=why)
    if group is not None:
        text += GROUPED.format(size=size, slide=slide, by=quoted(score), group=quoted(_in_sql(group)))
    key = _key_of(data, group)
    if key is not None:
        value = None if score == "1" or score.startswith("length(") else score
        leaders = FAMILIES["aggregate"].query_class(
            k=10, size=size, slide=slide, key=_in_sql(key), aggregate="sum" if value else "count", value=value
        )
        text += LEADERBOARD.format(sql=quoted(str(leaders)))
    columns = _usable(data)
    if (likely := uncertain_query(columns, score, _in_sql, size, slide)) is not None:
        text += UNCERTAIN.format(sql=quoted(likely.removeprefix("likely: ")))
    if (reported := incomplete_query(columns, data.distinct, key, score, _in_sql, size, slide)) is not None:
        text += INCOMPLETE.format(sql=quoted(reported.removeprefix("reported: ")))
    return text + TAIL


def windows_for(first: datetime | None, last: datetime | None, rows: int | None = None) -> tuple[str, str]:
    """Return slide and size for data between two times; with the number of rows, windows hold enough of them to rank.

    >>> windows_for(datetime(2024, 1, 1), datetime(2024, 1, 2))
    ('30 minutes', '3 hours')
    >>> windows_for(datetime(2024, 1, 1), datetime(2024, 1, 2), rows=50)
    ('3 hours', '12 hours')
    """
    if first is None or last is None or last <= first:
        return "1 minute", "10 minutes"
    span = (last - first).total_seconds() * 1e6
    if rows is None:
        return _shortest(span, _MOST, 0.0)
    with_plenty = _shortest(span, _MOST_OF_MANY, _PLENTY * span / max(1, rows))
    if parse_duration(with_plenty[0], field="slide") * _MOST <= span:
        return with_plenty
    return _shortest(span, _MOST, _ENOUGH * span / max(1, rows))


def _shortest(span: float, most: int, least: float) -> tuple[str, str]:
    """Return the shortest slide and size: at most `most` slides in the span, and `least` time in a window.

    Windows longer than the span would show everything at once, so they are used only if no others have so few slides.
    """
    fitting = [pair for pair in _WINDOWS if span <= most * parse_duration(pair[0], field="slide")] or [_WINDOWS[-1]]
    within = [pair for pair in fitting if parse_duration(pair[1], field="size") <= span] or fitting[:1]
    return next((pair for pair in within if parse_duration(pair[1], field="size") >= least), within[-1])


def quoted(text: str) -> str:
    """Return a text as a YAML scalar that is read back unchanged.

    >>> quoted("price * size"), quoted("no: 1"), quoted("10"), quoted("${HOME}")
    ('price * size', '"no: 1"', '"10"', '"$${HOME}"')
    """
    text = text.replace("${", "$${")
    if re.fullmatch(r"[A-Za-z0-9_./][A-Za-z0-9_ ./*()=<>%-]*", text) and plain(text) == text and text[-1] != " ":
        return text
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(letter: str) -> str:
    if letter in '"\\':
        return "\\" + letter
    if letter.isprintable():
        return letter
    code = ord(letter)
    if letter == "\t":
        return "\\t"
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"


def _in_sql(name: str) -> str:
    """Quote a column's name for SQL if necessary."""
    plain_name = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) and name.lower() not in _WORDS
    return name if plain_name else "`" + name.replace("`", "``") + "`"


def _usable(data: DataSample) -> list[tuple[str, str]]:
    """Columns other than the time that have a unique name; Spark renames the others."""
    lower = [name.lower() for name, _ in data.columns]
    return [
        (name, kind)
        for name, kind in data.columns
        if name.strip() and lower.count(name.lower()) == 1 and name != data.time
    ]


def _id_of(data: DataSample) -> str | None:
    """Choose the column that identifies rows, preferably an integer: named like an id, and no value occurs twice."""
    return next(
        (
            name
            for wanted in ("integer", "text")
            for name, kind in _usable(data)
            if kind == wanted and _ID.search(name) and data.distinct.get(name, data.rows) >= data.rows
        ),
        None,
    )


def _score_of(data: DataSample, number: str | None) -> tuple[str, str]:
    """Choose the score, with a comment: measures before places and codes, fractions before integers.

    With a price and a number of units, the score is their product.
    """
    found = [(name, kind) for name, kind in _usable(data) if kind in ("number", "integer") and name != number]
    # Ids and further times are not measures.
    found = [one for one in found if not _ID.search(one[0]) and not looks_like_time(one[0])] or found
    if found:
        best = min(found, key=_measure)[0]
        units = next((name for name, _ in found if _UNITS.search(name)), None)
        if _PRICE.search(best) and units is not None:
            return f"{_in_sql(best)} * {_in_sql(units)}", "The score: any SQL expression over the columns."
        return _in_sql(best), "The score: any SQL expression over the columns."
    text = next((name for name, kind in _usable(data) if kind == "text"), None)
    if text is not None:
        return (
            f"length({_in_sql(text)})",
            "No column is a number, so rows are ranked by the length of a text. Replace it with your score.",
        )
    return "1", "No column is a number, so all scores are equal and the newest rows win. Replace it with your score."


def _measure(column: tuple[str, str]) -> tuple[bool, int, bool]:
    """The order in which columns are taken as the score."""
    name, kind = column
    tier = next((place for place, words in enumerate(_MEASURES) if words.search(name)), len(_MEASURES))
    return bool(_PLACES.search(name)), tier, kind == "integer"


def _group_of(data: DataSample) -> str | None:
    """Choose the column of groups: text before integers that are named like a category, with values that repeat.

    Of columns with few values, the one with the most is chosen; of those with many, the one with the fewest.
    """
    for wanted in ("text", "integer"):
        counts = {
            name: data.distinct.get(name, 0)
            for name, kind in _usable(data)
            if kind == wanted and (kind == "text" or _CATEGORY.search(name))
        }
        few = {
            name: count
            for name, count in counts.items()
            if 2 <= count <= _FEW and 3 * count <= (data.rows or 3 * count)
        }
        if few:
            return max(few, key=lambda name: (_GROUPS.search(name) is not None, few[name]))
        many = {name: count for name, count in counts.items() if _FEW < count <= _MANY and 10 * count <= data.rows}
        if many:
            return min(many, key=lambda name: (_GROUPS.search(name) is None, many[name]))
    return None


def _key_of(data: DataSample, group: str | None) -> str | None:
    """Choose the column of a leaderboard's keys: the text column with the most distinct values that repeat."""
    counts = {name: data.distinct.get(name, 0) for name, kind in _usable(data) if kind == "text"}
    repeated = {name: count for name, count in counts.items() if count >= 2 and 2 * count <= data.rows}
    return max(repeated, key=lambda name: repeated[name], default=group)


def _options(data: DataSample) -> dict[str, str]:
    header = {"header": "true"} if data.format == "csv" else {}
    return {
        **header,
        **{quoted(key): value if value == "true" else quoted(value) for key, value in data.options.items()},
    }


def _stream_name(path: str) -> str:
    """Derive a stream name from the last part of a path.

    >>> _stream_name("data/trades-2024.csv.gz"), _stream_name("2024/*.csv"), _stream_name("/")
    ('trades_2024', 'stream_2024', 'stream')
    """
    parts = [re.sub(r"[^A-Za-z0-9]+", "_", part.partition(".")[0]).strip("_") for part in re.split(r"[/\\]", path)]
    name = next((part for part in reversed(parts) if part), "stream")
    return name if name[0].isalpha() else f"stream_{name}"


def _span(data: DataSample) -> str:
    if data.first is None or data.last is None:
        return ""
    return f" Seen: {data.first:%Y-%m-%d %H:%M:%S} to {data.last:%Y-%m-%d %H:%M:%S}."


def _behind(data: DataSample) -> str:
    """Comment on the order of rows, from which the watermark is chosen."""
    if data.first is None or data.last is None or not data.looked_at:
        return ""
    if not data.behind:
        return f"    # Seen: rows are in time order ({data.looked_at}).\n"
    lines = f"    # Seen: rows are up to {rounded(data.behind)} older than an earlier row ({data.looked_at}).\n"
    if 2 * data.behind > data.last - data.first:
        lines += "    # That is most of their time span. Sort the data by time to get live answers sooner.\n"
    return lines


def _comment(text: str) -> str:
    """Replace characters that are not printable, such as line breaks."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
