"""Our evaluation of random expressions against Spark's own: types, values to the bit, and failures."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from skyband.errors import SkybandError
from skyband.expressions import compile_expression
from tests.expressions.against_spark import compare
from tests.expressions.generator import FORMS, KINDS, LEAVES, Generator, table

NEAR = ["exp(d2)", "expm1(d2)", "ln(d2)", "log(d2)", "log10(d2)", "log2(d2)", "log1p(d2)", "log(3, d2)", "cbrt(d2)"]
NEAR += ["sin(d2)", "cos(d2)", "tan(d2)", "atan(d2)", "atan2(d2, d)", "pow(d2, 3)", "power(d2, d)", "degrees(d2)"]
NEAR += ["radians(d2)", "exp(d)", "ln(d)", "log10(d)", "pow(d, 0.5)", "pow(d, d2)", "log1p(d)", "expm1(d)"]


def check(spark, seed, count, failures):
    rng = np.random.default_rng(seed)
    data, generator = table(rng), Generator(rng)
    report = compare(spark, data, [generator.expression() for _ in range(count)], failures=failures)
    print(f"seed {seed}: {report}")  # noqa: T201 - pytest shows it with -rP
    assert report.differences == []
    assert report.counts["accepted"] > 5 * report.counts["rejected"]
    assert report.counts["failures with another condition"] <= 1
    return report


def test_random_expressions(spark):
    report = check(spark, 0, 300, 15)
    assert report.counts["failures"] == 15


@pytest.mark.long
@pytest.mark.parametrize("run", range(1, 11))
def test_many_random_expressions(spark, run):
    check(spark, run, 700, 40)


def test_every_form_of_one_operator(spark):
    """Each form on plain columns, so that no function is left to chance."""
    rng = np.random.default_rng(5)
    data, generator = table(rng), Generator(rng)
    texts = [generator.filled(form, 0) for kind in KINDS for form in FORMS[kind] for _ in range(2)]
    report = compare(spark, data, texts, failures=10)
    assert report.differences == []


def test_types_of_operators(spark):
    """Every operator on every pair of types: what we accept, Spark accepts with the same type."""
    data = table(np.random.default_rng(6), rows=1)
    columns = [*dict.fromkeys(name for names in LEAVES.values() for name in names), "null"]
    forms = [
        "{} + {}",
        "{} - {}",
        "{} * {}",
        "{} / {}",
        "{} % {}",
        "{} DIV {}",
        "{} = {}",
        "{} < {}",
        "coalesce({}, {})",
    ]
    found = {}
    for text in [form.format(left, right) for form in forms for left in columns for right in columns]:
        try:
            found[text] = compile_expression(text, data.schema).type
        except SkybandError:
            continue
    assert len(found) > 1500
    empty = spark.createDataFrame(data).where("false")
    empty = empty.withColumn("n", empty["n"].cast("timestamp_ntz"))
    theirs = empty.selectExpr(*(f"{text} AS x{at}" for at, text in enumerate(found))).schema
    from pyspark.sql.pandas.types import to_arrow_type

    spelled = [to_arrow_type(field.dataType, timezone="UTC") for field in theirs.fields]
    different = [
        (text, str(mine), str(other))
        for (text, mine), other in zip(found.items(), spelled, strict=True)
        if mine != other and not (pa.types.is_timestamp(mine) and mine.tz and other.tz)
    ]
    assert different == []


def test_functions_of_which_the_last_bits_may_differ(spark):
    data = table(np.random.default_rng(7), rows=2_000)
    frame = spark.createDataFrame(data.select(["d", "d2"])).coalesce(1)
    theirs = frame.selectExpr(*(f"{text} AS x{at}" for at, text in enumerate(NEAR))).toArrow()
    for at, text in enumerate(NEAR):
        mine = compile_expression(text, data.schema).evaluate(data)
        one, two = (values.to_numpy(zero_copy_only=False).astype(float) for values in (mine, theirs.column(at)))
        assert mine.is_null().equals(theirs.column(at).combine_chunks().is_null()), text
        with np.errstate(all="ignore"):
            apart = np.abs(one - two) / np.spacing(np.maximum(np.abs(one), np.abs(two)))
        same = (one == two) | (np.isnan(one) & np.isnan(two))
        apart = np.where(same, 0, apart)
        print(f"{text}: {np.count_nonzero(~same)} of {len(same)} differ, by {apart.max():.0f} ulp at most")  # noqa: T201
        far = [(data["d"][at].as_py(), one[at], two[at]) for at in np.flatnonzero(~(apart <= 4))[:3].tolist()]
        assert far == [], text


@pytest.mark.long
def test_case_of_every_letter(spark):
    """upper and lower of every code point."""
    letters = [chr(code) for code in range(1, 0x110000) if not 0xD800 <= code < 0xE000]
    data = pa.table({"t": letters})
    theirs = spark.createDataFrame(data).coalesce(1).selectExpr("upper(t)", "lower(t)").toArrow()
    for at, name in enumerate(["upper", "lower"]):
        mine = compile_expression(f"{name}(t)", data.schema).evaluate(data).to_pylist()
        different = [(a, b, c) for a, b, c in zip(letters, mine, theirs.column(at).to_pylist(), strict=True) if b != c]
        print(f"{name}: {len(different)} of {len(letters)} letters differ: {different[:20]}")  # noqa: T201
        assert len(different) < 200  # letters that only one side's version of Unicode knows
