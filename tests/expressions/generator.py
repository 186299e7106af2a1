"""Random rows and random typed expressions, for comparing our evaluation with Spark's."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa

ROWS = 48
NAN, INF = float("nan"), float("inf")
STRINGS = [
    "",
    " ",
    "a",
    "A",
    "ab",
    "abc",
    "a%c",
    "a_c",
    "äöß",
    "ÀÉ",
    "日本語",
    "😀x",
    "  pad  ",
    "x.y.z",
    ".",
    "\n",
    "a\nb",
    "ΑΣ",
]
NUMERIC_STRINGS = ["1", " 12 ", "-7", "+3", "007", "2147483648", "9223372036854775807", "9223372036854775808", "1.5"]
NUMERIC_STRINGS += ["1e3", "-.5", "5.", "NaN", "inf", "-Infinity", "true", "no", "T", "2020-02-29", "1969-12-31"]
NUMERIC_STRINGS += ["2021-02-29", "2020-1-5", "2020-01-01 12:34:56.789", "2020", "x", "", "1d", "1 2"]
DOUBLES = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, 2.675, 1.005, 0.1, 1e-300, 1e300, -1e300, NAN, INF, -INF, 1e15]
DOUBLES += [2.0**53, 2.0**63, -(2.0**63), 123456789.125, 1e-5, 3.0, 127.5, -128.9, 4.9e-324, 0.3, 2.0**31]
EXTREMES = {8: [127, -128], 16: [32767, -32768], 32: [2**31 - 1, -(2**31)], 64: [2**63 - 1, -(2**63), 2**53 + 1]}


def table(rng, rows=ROWS):
    """Rows with nulls, extremes and ties. Columns that end in 2 have moderate values, which rarely fail."""

    def column(kind, pick, nulls=0.12):
        return pa.array([None if rng.random() < nulls else pick() for _ in range(rows)], kind)

    def choice(values):
        return values[rng.integers(len(values))]

    def integer(bits):
        small = [0, 1, -1, 2, 3, 5, 7, 10, -10, 100]
        return lambda: choice(small) if rng.random() < 0.7 else choice(EXTREMES[bits])

    def double():
        return choice(DOUBLES) if rng.random() < 0.6 else float(rng.normal() * 10.0 ** rng.integers(-3, 6))

    def decimal(precision, scale):
        def pick():
            digits = int(rng.integers(1, precision + 1)) if rng.random() < 0.3 else min(precision, 5)
            value = int("".join(str(rng.integers(10)) for _ in range(digits)))
            return Decimal(-value if rng.random() < 0.5 else value).scaleb(-scale)

        return pick

    def day():
        if rng.random() < 0.2:
            return choice([dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1582, 10, 10), dt.date(1970, 1, 1)])
        return dt.date(1970, 1, 1) + dt.timedelta(days=int(rng.integers(-30_000, 30_000)))

    def moment():
        micros = int(rng.integers(-(10**15), 4 * 10**15)) if rng.random() < 0.8 else int(rng.integers(-5, 5))
        return micros // 1_000_000 * 1_000_000 if rng.random() < 0.3 else micros

    return pa.table(
        {
            "id": pa.array(range(rows), pa.int32()),
            "b": column(pa.int8(), integer(8)),
            "s": column(pa.int16(), integer(16)),
            "i": column(pa.int32(), integer(32)),
            "l": column(pa.int64(), integer(64)),
            "i2": column(pa.int32(), lambda: int(rng.integers(-20, 21))),
            "l2": column(pa.int64(), lambda: int(rng.integers(1, 100_000)), 0),
            "f": column(
                pa.float32(), lambda: np.float32(max(min(double(), 3e38), -3e38)) if rng.random() < 0.9 else NAN
            ),
            "d": column(pa.float64(), double),
            "d2": column(pa.float64(), lambda: round(float(rng.uniform(-100, 100)), int(rng.integers(0, 4)))),
            "c": column(pa.decimal128(10, 2), decimal(10, 2)),
            "c2": column(pa.decimal128(5, 1), decimal(5, 1)),
            "c3": column(pa.decimal128(18, 4), decimal(18, 4)),
            "c4": column(pa.decimal128(38, 18), decimal(38, 18)),
            "t": column(pa.string(), lambda: choice(STRINGS)),
            "t2": column(pa.string(), lambda: choice(NUMERIC_STRINGS)),
            "o": column(pa.bool_(), lambda: bool(rng.random() < 0.5)),
            "e": column(pa.date32(), day),
            "z": column(pa.timestamp("us", "UTC"), moment),
            "n": column(pa.timestamp("us"), moment),
        }
    )


def _split(forms):
    return [form.strip() for form in forms.split(" ;") if form.strip()]


# Each kind of value: its columns, its literals, and its forms. {x} is an operand of kind x; {x!} a literal of kind x.
LEAVES = {
    "int": ["b", "s", "i", "l", "i2", "i2", "l2", "l2"],
    "float": ["f", "d", "d2", "d2"],
    "dec": ["c", "c2", "c3", "c4"],
    "str": ["t", "t", "t2"],
    "bool": ["o"],
    "date": ["e"],
    "ts": ["z", "z", "n"],
}
LITERALS = {
    "int": ["0", "1", "2", "-3", "10", "127Y", "5S", "7L", "2147483647", "-2147483648", "3000000000", "null"],
    "float": ["0D", "1.5D", "1e3", "-2.5D", "0.1D", "1.5F", "-0D", "1e-7"],
    "dec": ["1.5", "0.05", "-2.50", "10.", ".5", "100BD", "12345678901234567890", "0.000"],
    "str": ["''", "'a'", "'abc'", "'12'", "'%'", "'2020-01-01'", "'Ä'", "'a' 'b'", '"q"', "null"],
    "bool": ["true", "false", "null"],
    "date": ["DATE '2020-02-29'", "DATE '1969-12-31'", "DATE'2000-1-1'"],
    "ts": ["TIMESTAMP '2020-02-29 12:34:56.789'", "TIMESTAMP_NTZ '1969-12-31 23:59:59'", "TIMESTAMP'2020-01-01'"],
}
COMPARE = ["=", "==", "<>", "!=", "<", "<=", ">", ">=", "<=>"]
KINDS = list(LEAVES)
NUMBER = ("int", "float", "dec")
ANY = _split(
    """
        CASE WHEN {bool} THEN {k} ELSE {k} END ; CASE WHEN {bool} THEN {k} WHEN {bool} THEN {k} END ;
        if({bool}, {k}, {k}) ; coalesce({k}, {k}) ; nvl({k}, {k}) ; nullif({k}, {k}) ; greatest({k}, {k}) ;
    least({k}, {k}, {k}) ; ifnull({k}, {k}) ; nvl2({any}, {k}, {k}) ; CASE {any1} WHEN {any1} THEN {k} ELSE {k} END ;
    """
)
FORMS = {
    "int": _split(
        """
        {int} + {int} ; {int} - {int} ; {int} * {int} ; {int} % {int} ; {int} DIV {int} ; -{int} ; abs({int}) ;
        pmod({int}, {int}) ; mod({int}, {int}) ; try_add({int}, {int}) ; try_multiply({int}, {int}) ; +{int} ;
        try_subtract({int}, {int}) ; try_mod({int}, {int}) ; ceil({num}) ; floor({float}) ; round({int}) ;
        round({int}, 2) ; CAST({num} AS INT) ; CAST({num} AS BIGINT) ; try_cast({any} AS INT) ; {str}::bigint ;
        try_cast({num} AS TINYINT) ; CAST({num} AS SMALLINT) ; CAST({bool} AS INT) ; length({str}) ; int({num}) ;
        year({time}) ; month({time}) ; day({time}) ; dayofweek({time}) ; weekday({time}) ; dayofyear({time}) ;
        hour({ts}) ; minute({ts}) ; second({ts}) ; quarter({time}) ; weekofyear({time}) ; try_cast({str} AS INT) ;
        datediff({time}, {time}) ; unix_timestamp({time}) ; unix_micros({ts}) ; unix_millis({ts}) ; unix_seconds({ts}) ;
    instr({str}, {str!}) ; locate({str!}, {str}) ; position({str!} IN {str}) ; CAST({ts} AS BIGINT) ; {int} + {str} ;
        bround({int}) ; char_length({str}) ;
        """
    ),
    "float": _split(
        """
        {float} + {num} ; {num} - {float} ; {float} * {num} ; {num} / {float} ; {int} / {int} ; {float} % {num} ;
        -{float} ; abs({float}) ; sqrt({num}) ; sign({num}) ; signum({float}) ; round({float}, 2) ; round({float}) ;
        round({float}, 1) ; bround({float}, 1) ; bround({float}) ; round({float}, 5) ; CAST({num} AS DOUBLE) ;
        CAST({float} AS FLOAT) ; try_cast({str} AS DOUBLE) ; {str}::double ; rint({float}) ; nanvl({float}, {float}) ;
    try_divide({num}, {float}) ; pmod({float}, {float}) ; double({int}) ; try_add({float}, {num}) ; {float} * {str} ;
        CAST({ts} AS DOUBLE) ; CAST({int} AS FLOAT) ; {dec} * {float} ;
        """
    ),
    "dec": _split(
        """
        {dec} + {dec} ; {dec} - {dec} ; {dec} * {dec} ; {dec} / {dec} ; {int} + {dec} ; {dec} * {int} ; -{dec} ;
        {dec} - {int!} ; {int!} * {dec} ; abs({dec}) ; round({dec}) ; round({dec}, 1) ; bround({dec}, 1) ; ceil({dec}) ;
        floor({dec}) ; CAST({int} AS DECIMAL(12, 2)) ; CAST({dec} AS DECIMAL(8, 1)) ; {int} / {dec} ;
        try_cast({dec} AS DECIMAL(4, 2)) ; CAST({bool} AS DECIMAL(3, 1)) ; decimal({int}) ; try_add({dec}, {dec}) ;
        try_divide({dec}, {dec}) ; try_multiply({dec}, {dec}) ; try_cast({int} AS DECIMAL(5, 2)) ; {dec} / {int!} ;
        """
    ),
    "str": _split(
        """
    upper({str}) ; lower({str}) ; trim({str}) ; ltrim({str}) ; rtrim({str}) ; reverse({str}) ; concat({str}, {str}) ;
        {str} || {str} ; concat({str}, {int}, {bool}) ; {str} || {dec} ; substring({str}, {pos!}) ;
        substring({str}, {pos!}, {pos!}) ; substr({str}, {pos!}) ; left({str}, {pos!}) ;
        substring({str} FROM {pos!} FOR {pos!}) ; right({str}, {pos!}) ; lpad({str}, {pos!}, 'x') ; rpad({str}, 4) ;
        lpad({str}, 3, '') ; replace({str}, {str!}, {str!}) ; replace({str}, 'a') ; split_part({str}, '.', {pos!}) ;
        split_part({str}, {str!}, 1) ; CAST({int} AS STRING) ; CAST({bool} AS STRING) ; CAST({date} AS STRING) ;
        CAST({ts} AS STRING) ; CAST({dec} AS STRING) ; trim(BOTH 'a' FROM {str}) ; trim(LEADING 'ax' FROM {str}) ;
        btrim({str}) ; string({int}) ; rpad({str}, {pos!}, 'é') ;
        """
    ),
    "bool": _split(
        """
        {num} {cmp} {num} ; {num} {cmp} {num} ; {num} {cmp} {num} ; {num} {cmp} {num} ; {str} {cmp} {str} ; {same} ;
        {time} {cmp} {time} ; {bool} {cmp} {bool} ; {num} {cmp} {str} ; {time} {cmp} {str} ; {bool} AND {bool} ;
        {bool} OR {bool} ; NOT {bool} ; ! {bool} ; {bool} AND {bool} ; {bool} OR {bool} ; NOT {bool} ; ! {bool} ;
        {any} IS NULL ; {any} IS NOT NULL ; isnull({any}) ; isnan({float}) ; isnotnull({any}) ; {bool} IS TRUE ;
        {bool} IS NOT FALSE ; {bool} IS UNKNOWN ; {num} IN ({num}, {num}) ; {str} IN ({str}, {str!}, {str!}) ;
        {num} NOT IN ({num}, {num!}) ; {num} BETWEEN {num} AND {num} ; {time} NOT BETWEEN {time} AND {time} ;
        {str} LIKE {pattern!} ; {str} NOT LIKE {pattern!} ; {str} ILIKE {pattern!} ; {str} LIKE 'a!%_' ESCAPE '!' ;
        startswith({str}, {str!}) ; endswith({str}, {str!}) ; contains({str}, {str!}) ; {num} IS DISTINCT FROM {num} ;
        CAST({num} AS BOOLEAN) ; try_cast({str} AS BOOLEAN) ; {str}::boolean ; {any} IS NOT DISTINCT FROM null ;
        {ts} - {ts} > INTERVAL 5 MINUTES ; {num} = {num} IS NULL ; NOT {num} < {num} AND {bool} ;
        """
    ),
    "date": _split(
        """
        CAST({ts} AS DATE) ; date_add({date}, {small!}) ; date_sub({time}, {small!}) ; to_date({time}) ;
        {date} + {small!} ; {date} - INTERVAL 3 DAYS ; {date} + INTERVAL '1' MONTH ; try_cast({str} AS DATE) ;
        to_date({str}) ; date({ts}) ; date_add({date}, i2) ; {date} - INTERVAL 1 YEAR 2 MONTHS ;
        """
    ),
    "ts": _split(
        """
        date_trunc('{unit}', {time}) ; date_trunc('{unit}', {time}) ; date_trunc('{unit}', {time}) ;
    CAST({date} AS TIMESTAMP) ; {ts} + INTERVAL 90 MINUTES ; {ts} - INTERVAL '1 day 2 hours' ; to_timestamp({time}) ;
        timestamp_seconds({int}) ; timestamp_millis({int}) ; timestamp_micros({int}) ; CAST({ts} AS TIMESTAMP_NTZ) ;
        {date} + INTERVAL 5 HOURS ; {ts} + INTERVAL 1 MONTH ; try_cast({str} AS TIMESTAMP) ; CAST({int} AS TIMESTAMP) ;
        {ts} - INTERVAL 1 YEAR ; CAST({ts} AS TIMESTAMP) ; {str}::timestamp_ntz ; INTERVAL 2 SECONDS + {ts} ;
        """
    ),
}
UNITS = [
    "year",
    "QUARTER",
    "month",
    "week",
    "DAY",
    "hour",
    "minute",
    "second",
    "millisecond",
    "microsecond",
    "MM",
    "DD",
]
PATTERNS = [
    "'a%'",
    "'%c'",
    "'%b%'",
    "'_'",
    "'a_c'",
    "'%'",
    "''",
    "'a\\\\%c'",
    "'%\\\\_%'",
    "'%.%'",
    "'%ß'",
    "'ä%'",
    "'a'",
]


class Generator:
    """Draws expressions; a form's operands are put into brackets, most of the time."""

    def __init__(self, rng):
        self.rng = rng

    def choice(self, values):
        return values[self.rng.integers(len(values))]

    def expression(self):
        return self.draw(self.choice([*KINDS, "int", "float", "dec", "bool"]), int(self.rng.integers(1, 4)))

    def draw(self, kind, depth):
        if kind == "num":
            kind = self.choice(NUMBER)
        elif kind == "any":
            kind = self.choice(KINDS)
        elif kind == "time":
            kind = self.choice(["date", "ts"])
        if depth <= 0 or self.rng.random() < 0.15:
            return self.choice(LEAVES[kind]) if self.rng.random() < 0.8 else self.choice(LITERALS[kind])
        form = self.choice(ANY).replace("{k}", f"{{{kind}}}") if self.rng.random() < 0.2 else self.choice(FORMS[kind])
        return self.filled(form, depth - 1)

    def filled(self, form, depth):
        same = self.choice(KINDS)
        form = form.replace("{any1}", f"{{{same}}}").replace("{same}", f"{{{same}}} {{cmp}} {{{same}}}")
        found = ""
        while "{" in form:
            before, _, rest = form.partition("{")
            name, _, form = rest.partition("}")
            found += before + self.operand(name, depth)
        return found + form

    def operand(self, name, depth):
        plain = {"cmp": COMPARE, "unit": UNITS, "pos!": ["0", "1", "2", "-1", "-2", "5", "-7"], "pattern!": PATTERNS}
        plain["small!"] = ["0", "1", "-40", "1000"]
        if name in plain:
            return self.choice(plain[name])
        if name.endswith("!"):
            kind = self.choice(NUMBER) if name == "num!" else name[:-1]
            return self.choice(LITERALS[kind])
        found = self.draw(name, depth)
        bare = found.isidentifier() or self.rng.random() < 0.05
        return found if bare else f"({found})"
