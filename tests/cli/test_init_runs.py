"""What `skyband init` writes for data of many kinds can be run as it is."""

from __future__ import annotations

import json

import pytest

import skyband as sb
from skyband.cli.init import init_file
from skyband.connectors.sources import open_batch
from tests.programs import skyband
from tests.workload_file.layouts import LAYOUTS, write_layout


@pytest.mark.long
@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=[pytest.mark.long] if place % 2 else []) for place, one in enumerate(LAYOUTS)]
)
def test_spark_reads_every_row(tmp_path, spark, name):
    *_, count = write_layout(tmp_path, name)
    init_file(None, tmp_path / "skyband.yaml", force=False)
    ((stream, found),) = sb.read_workload(tmp_path / "skyband.yaml", {}).streams.items()
    rows = open_batch(spark, stream, found)
    assert rows.where("ts is not null and price is not null").count() == rows.count() == count


@pytest.mark.long
def test_from_init_to_answers(tmp_path):
    *_, count = write_layout(tmp_path, "by date")
    begun = skyband("init", cwd=tmp_path)
    assert begun.returncode == 0, begun.stderr
    done = skyband("run", "--once", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    *answers, summary = map(json.loads, done.stdout.splitlines() + done.stderr.strip().splitlines()[-1:])
    assert {answer["date"] for answer in answers} == {"2024-01-01", "2024-01-02"}
    told = summary["streams"]["trades"]
    assert (told["rows"], told["late"]) == (count, 0)


# What Spark takes over these columns; explain must not refuse any of it.
COLUMNS = "ts TIMESTAMP, price DOUBLE, n INT, name STRING, xs ARRAY<INT>, m MAP<STRING, INT>, point STRUCT<x: INT, y: INT>, `a.b` INT, `order` INT"  # noqa: E501
TAKEN = """
    price * N
    `a.b` + `order` + POINT.x
    transform(xs, x -> x + n)[0]
    aggregate(xs, 0, (acc, x) -> acc + x)
    size(filter(xs, (x, i) -> i > 0 AND exists(xs, y -> y > x)))
    size(map_filter(m, (k, v) -> v > n))
    m['k'] + xs[n]
    named_struct('q', n).q
    struct(n AS other).other
    CASE WHEN price > 1 THEN n ELSE 0 END
    timestampdiff(MINUTE, ts, current_timestamp)
    timestampadd(HOUR, n, ts)
    date_add(DAY, 1, ts)
    dateadd(day, 1, ts)
    extract(HOUR FROM ts)
    ts - INTERVAL 1 DAY
    ts > current_date
    name = current_user
    name = user
    price IS DISTINCT FROM n
    position('x' IN name)
    trim(BOTH 'x' FROM name)
    substring(name FROM 1 FOR 2)
    overlay(name PLACING 'x' FROM 1)
    name = "text in double quotes"
    mask(name, lowerChar => 'q')
    price::int
    DATE '2024-01-01' < ts
    from_json(name, 'q INT').q
    window(ts, '1 hour').start
    double(n) + int(price) + float('NaN')
    n DIV 2 + n % 2
    X'1F' = binary(name)
    nvl2(name, n, price)
    zip_with(xs, xs, (a, b) -> a + b)[0]
    transform(xs, x -> named_struct('p', x).p)[0]
    transform(array(point), p -> p.x)[0]
    reduce(xs, 0, (s, x) -> s + x, s -> s * n)
"""


def test_explain_refuses_no_expression_that_spark_takes(spark):
    from skyband.sql.safety import columns_in
    from skyband.workload_file.data_check import KnownColumns

    rows = spark.createDataFrame([], COLUMNS)
    known = KnownColumns(tuple(rows.columns))
    for expression in filter(None, map(str.strip, TAKEN.splitlines())):
        assert rows.selectExpr(expression).columns
        assert [name for name in columns_in(expression) if not known.has(name)] == [], expression
