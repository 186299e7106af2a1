"""Queries to write down and read back: expressions from a grammar of valid SQL, hostile ones among them."""

from __future__ import annotations

from hypothesis import strategies as st

from skyband import AggregateTopK, IncompleteTopK, TopK, UncertainTopK
from skyband.aggregate.query import AGGREGATES
from skyband.incomplete.query import APPROXIMATE, METHODS, MONOTONE
from skyband.uncertain.query import SEMANTICS

# Unquoted, they are both columns and words of our grammar.
KEYWORD_COLUMNS = [
    *("origin", "every", "over", "by", "full", "rows", "size", "slide", "top", "sql", "ties", "k", "time"),
    *("key", "group", "object", "streams", "value", "bounds", "occurrences", "method", "intervals"),
    *("probability", "rule", "stream", "frequency", "semantics", "threshold", "weights", "alpha"),
]
COLUMNS = ["price", "t.price", "a.b.c", "größe", "_x1", *KEYWORD_COLUMNS]
QUOTED = ["`over`", "`FROM`", "`a``b`", "`where x > 1; --`", "`[PARTITION BY`", "t.`every`", "`)`", "`'`"]
NUMBERS = ["0", "1", "10", "1.5", "1e3", ".5", "10L", "2.5BD", "0x1f"]
STRINGS = [
    "''",
    "'D'",
    "' OVER 10 MINUTES EVERY '",
    "'a;b'",
    "'--'",
    "'/*'",
    "'(('",
    "'it\\'s'",
    "'it''s'",
    "'\\\\'",
    "'naïve ☃'",
    "\"double -- 'quoted'\"",
    "r'\\d'",
    "x'1F'",
    "'SQL \\'x\\''",
]
OTHERS = [
    "NULL",
    "TRUE",
    "DATE '2024-01-01'",
    "INTERVAL '1' DAY",
    "INTERVAL 2 HOURS",
    "current_date()",
    "array(1, 2)[0]",
    "map('a', 1)['a']",
    "transform(xs, (x, i) -> x + i)[0]",
    "named_struct('over', 1).over",
    "(SELECT max(x) FROM t WHERE y > 1 ORDER BY z)",
    "rank() OVER (PARTITION BY x ORDER BY y)",
    "EXTRACT(year FROM ts)",
]
BINARY = ["+", "-", "*", "/", "%", "||", "=", "<>", "!=", "<", ">=", "<=>", "AND", "or", "DIV", "&", "LIKE", "rlike"]
# Between two tokens there may be anything that separates them.
GAPS = [" ", " ", " ", "  ", "\t", "\n", " /* OVER 10 ROWS; */ ", " -- by x, 3\n", "\r\n", "\u00a0"]


@st.composite
def _larger(draw, inner):
    """Expressions made of smaller ones, with anything between their tokens that may stand there."""
    first, second, third = (f"({draw(inner)})" for _ in range(3))
    words = draw(
        st.sampled_from(
            [
                [first, draw(st.sampled_from(BINARY)), second],
                ["CASE", "WHEN", first, "THEN", second, "else", third, "END"],
                ["coalesce(", first, ",", second, ")"],
                ["cast(", first, "AS", "DECIMAL(10, 2))"],
                [first, "IS NOT DISTINCT", "FROM", second],
                [first, "BETWEEN", second, "AND", third],
                [first, "NOT IN", f"({second}, 1)"],
                ["NOT", first],
                ["-", first],
                [first, "IS", "NULL"],
            ]
        )
    )
    text = words[0]
    for word in words[1:]:
        text += draw(st.sampled_from(GAPS)) + word
    return text


ATOMS = st.sampled_from([*COLUMNS, *QUOTED, *NUMBERS, *STRINGS, *OTHERS])
FLAT = st.builds(
    lambda first, operator, second: f"{first} {operator} {second}",
    st.sampled_from([*COLUMNS, *QUOTED, *NUMBERS]),
    st.sampled_from(BINARY[:13]),
    st.sampled_from([*COLUMNS, *QUOTED, *STRINGS]),
)


def expressions():
    return st.recursive(st.one_of(ATOMS, FLAT), _larger, max_leaves=6)


NAMES = st.one_of(
    st.sampled_from(
        ["topk", "big", "over", "select", "a b", "it's", "`tick`", "x:y", "a\nb", "größe", "1st", "SQL", "-", "ﬁ"]
    ),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip),
)
TIME_SIZES = ["10 minutes", "1 hour 30 minutes", "1 microsecond", "3 weeks 2 days 1 millisecond", "90 seconds"]


@st.composite
def windows(draw):
    """Size, slide and origin on one axis."""
    if draw(st.booleans()):
        size = draw(st.integers(1, 2**62 - 1))
        return size, draw(st.one_of(st.none(), st.integers(1, size))), draw(st.integers(-(2**62) + 1, 2**62 - 1))
    ticks = draw(st.integers(1, 10**15))
    slide = draw(st.one_of(st.none(), st.integers(1, ticks)))
    size = draw(st.sampled_from([f"{ticks} microseconds", f"{ticks} microseconds", *TIME_SIZES]))
    if size in TIME_SIZES:
        slide = draw(st.sampled_from([None, 1]))
    origin = draw(st.one_of(st.just(0), st.integers(-(2**62) + 1, 2**62 - 1), st.integers(-(10**12), 10**18)))
    return size, None if slide is None else f"{slide} microseconds", origin


@st.composite
def queries(draw, texts=None, *, scored=False):
    """Any query; `texts` makes its expressions."""
    texts = expressions() if texts is None else texts
    size, slide, origin = draw(windows())
    by = draw(texts) if scored else draw(st.one_of(st.none(), texts))
    return TopK(
        name=draw(NAMES),
        k=draw(st.integers(1, 2**31 - 1)),
        size=size,
        slide=slide,
        by=by,
        where=draw(st.one_of(st.none(), texts)),
        partition_by=draw(st.lists(texts, max_size=3, unique=True)),
        order=draw(st.sampled_from(["desc", "asc"])),
        origin=origin,
        full_only=draw(st.booleans()),
        ties=draw(st.sampled_from(["row_number", "rank"])),
    )


@st.composite
def aggregate_queries(draw, texts=None, *, clauses=True):
    """Any query over keys; `texts` makes its expressions. Flink's dialect has no `clauses` with WITH."""
    texts = expressions() if texts is None else texts
    size, slide, origin = draw(windows())
    aggregate = draw(st.sampled_from(["count", *AGGREGATES]))
    delete = draw(st.one_of(st.none(), texts)) if aggregate == "latest" and clauses else None
    rows = clauses and bool(AGGREGATES[aggregate].extremes)
    totals = clauses and aggregate in ("sum", "count")
    return AggregateTopK(
        name=draw(NAMES),
        k=draw(st.integers(1, 2**31 - 1)),
        size=size,
        slide=slide,
        key=draw(texts),
        aggregate=aggregate,
        quantile=draw(st.floats(0, 1)) if aggregate == "quantile" else None,
        value=draw(texts) if AGGREGATES[aggregate].needs_values else draw(st.one_of(st.none(), texts)),
        where=draw(st.one_of(st.none(), texts)),
        partition_by=draw(st.lists(texts, max_size=3, unique=True)),
        order=draw(st.sampled_from(["desc", "asc"])),
        ties=draw(st.sampled_from(["row_number", "rank"])),
        having=draw(st.sampled_from([None, "count(*) >= 3", "score > -1.5 and count( * ) < 9"]))
        if delete is None
        else None,
        delete=delete,
        row=rows and draw(st.booleans()),
        others=totals and draw(st.booleans()),
        share=totals and draw(st.booleans()),
        origin=origin,
        full_only=draw(st.booleans()),
    )


@st.composite
def incomplete_queries(draw, texts=None):
    """Any query over incomplete streams; `texts` makes its expressions."""
    texts = expressions() if texts is None else texts
    size, every, origin = draw(windows())
    names = st.one_of(st.lists(st.integers(-9, 9), min_size=1, max_size=3, unique=True), st.sampled_from([["a", "b'"]]))
    streams = draw(st.one_of(st.none(), names))
    aggregate = draw(st.sampled_from([*MONOTONE, "0.7 * a + greatest(b, c)"]))
    if aggregate not in MONOTONE:
        streams = draw(st.sampled_from([None, ["a", "b", "c"]]))
    pairs = st.tuples(st.floats(0, 9), st.floats(10, 1e300))
    bounds = draw(pairs if streams is None else st.one_of(pairs, st.fixed_dictionaries(dict.fromkeys(streams, pairs))))
    weighed = aggregate == "sum" and streams is not None and draw(st.booleans())
    method = draw(st.sampled_from([*METHODS]))
    occurrences = draw(st.sampled_from([1, 3, "once"]))
    return IncompleteTopK(
        name=draw(NAMES),
        k=draw(st.integers(1, 2**31 - 1)),
        size=size,
        every=every,
        object=draw(texts),
        stream=draw(st.one_of(st.none(), texts)),
        value=draw(texts),
        where=draw(st.one_of(st.none(), texts)),
        partition_by=draw(st.lists(texts, max_size=2, unique=True)),
        streams=streams,
        aggregate=aggregate,
        weights={streams[0]: draw(st.floats(0, 9))} if weighed else None,
        bounds=bounds,
        occurrences=occurrences,
        method=method,
        intervals=method == "exact" and draw(st.booleans()),
        origin=origin,
        order="desc" if occurrences == 3 else draw(st.sampled_from(["desc", "asc"])),
        ties="row_number" if method in APPROXIMATE else draw(st.sampled_from(["row_number", "rank"])),
    )


@st.composite
def uncertain_queries(draw, texts=None, *, scored=False):
    """Any query over an uncertain stream; `texts` makes its expressions."""
    texts = expressions() if texts is None else texts
    size, every, _ = draw(windows())
    by = draw(texts) if scored else draw(st.one_of(st.none(), texts))
    semantics = draw(st.sampled_from([*SEMANTICS]))
    share = st.floats(0, 1, exclude_min=True)
    more = {"threshold": draw(share)} if semantics == "pt-k" else {}
    if semantics == "prf":
        numbers = st.floats(allow_nan=False, allow_infinity=False)
        weights = st.lists(numbers, min_size=1, max_size=4).filter(any)
        more = draw(st.one_of(st.fixed_dictionaries({"weights": weights}), st.fixed_dictionaries({"alpha": share})))
    return UncertainTopK(
        name=draw(NAMES),
        k=draw(st.integers(1, 2**31 - 1)),
        size=size,
        every=every,
        by=by,
        probability=None if by is None else draw(texts),
        rule=draw(st.one_of(st.none(), texts)),
        stream=draw(st.one_of(st.none(), texts)) if semantics in ("pk-topk", "global-topk") else None,
        where=draw(st.one_of(st.none(), texts)),
        partition_by=draw(st.lists(texts, max_size=2, unique=True)),
        semantics=semantics,
        order=draw(st.sampled_from(["desc", "asc"])),
        **more,
    )
