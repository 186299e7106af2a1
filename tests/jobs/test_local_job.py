"""Workload files without Spark: the same answers and counts as on Spark, row for row."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

import skyband as sb
from skyband.jobs import run, run_local
from tests.jobs.test_job import QUERIES, STREAM, rows_of
from tests.jobs.test_job_families import FILE as FAMILIES
from tests.jobs.test_job_families import write_families
from tests.spark.frames import read_lines, write_files

COUNTED = ("rows", "malformed", "dropped_null", "late", "windows", "answers", "algorithm", "bound", "queries")
BEST = "queries: [{name: best, k: 3, size: 1 minute, slide: 20 seconds, by: price}]\nsinks: [{type: memory}]\n"
TRADES = """at,name,price,shares
2024-01-01 00:00:00,a,2.5,700
2024-01-01 00:00:21,b,3.5,
2024-01-01 00:00:05,"c, d",3.5,-5
2024-01-01 00:01:00,,0.25,9
"""
LINES = [
    {"at": "2024-01-01 00:00:00", "name": "a", "price": 2.5, "shares": 7},
    {"at": "2024-01-01 00:00:21", "name": "é", "price": 3, "up": True},
    {"name": None, "at": "2024-01-01T00:01:00Z", "price": 1.5, "shares": 9},
]
SCHEMA = "schema: {at: timestamp, name: string, price: double, shares: int}, "


def written(folder, files, text):
    """The workload file, beside its data files."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        raw = content.encode() if isinstance(content, str) else content
        packed = gzip.compress if name.endswith(".gz") else zstandard.compress if name.endswith(".zst") else bytes
        path.write_bytes(packed(raw))
    (folder / "work.yaml").write_text(text)
    return sb.read_workload(folder / "work.yaml")


def local(file, **more):
    running = run_local(file, **more)
    assert running.await_end(600)
    return running


def read_by(file, reader):
    """The file, with its streams read by Spark's tasks or by Spark's own reader."""
    return replace(file, streams={k: v.model_copy(update={"reader": reader}) for k, v in file.streams.items()})


def on_spark(file, spark, reader="spark"):
    running = run(read_by(file, reader), "once", spark=spark)
    assert running.await_end(300)
    return running


def kinds(table):
    return [(field.name, field.type) for field in table.schema]


def in_order(table):
    return sorted(map(repr, table.to_pylist()))


def assert_same(file, spark, outputs=(None,)):
    """Answers, their types and the counts are equal: of the local run, which is returned, and both ways on Spark."""
    ours = local(file)
    for reader, wanted in (("spark", "spark: requested"), ("auto", "arrow")):
        theirs = on_spark(file, spark, reader)
        assert {theirs.metrics()[stream]["reader"] for stream in file.workloads} == {wanted}
        assert_equal(file, ours, theirs, outputs)
    return ours


def assert_equal(file, ours, theirs, outputs):
    for stream in file.workloads:
        for output in outputs:
            found, wanted = ours.memory(stream, output), theirs.memory(stream, output)
            assert kinds(found) == kinds(wanted)
            assert in_order(found) == in_order(wanted)
            assert found.num_rows
        mine, spark_metrics = ours.metrics()[stream], theirs.metrics()[stream]
        assert {name: mine.get(name) for name in COUNTED} == {name: spark_metrics.get(name) for name in COUNTED}
        assert mine.keys() >= spark_metrics.keys()


def test_parquet_answers_and_changes_in_every_sink(spark, tmp_path):
    rows = rows_of(1)
    write_files(tmp_path / "in", [rows[:50], rows[50:]])
    sinks = "sinks: [{type: memory}, {type: memory, output: changes}, {type: %s, path: out/%s}]\n"
    for kind in ("parquet", "jsonl", "csv"):
        file = written(tmp_path, {}, STREAM + QUERIES + sinks % (kind, kind))
        ours = assert_same(file, spark, ("answers", "changes")) if kind == "parquet" else local(file)
        assert [path.name for path in (tmp_path / "out" / kind).iterdir()] == [f"rows-00000000.{kind}"]
    found = pq.read_table(tmp_path / "out/parquet")  # written by Spark's run, which came second
    local(written(tmp_path, {}, STREAM + QUERIES + sinks % ("parquet", "parquet")))
    again = pq.read_table(tmp_path / "out/parquet")
    assert kinds(again) == kinds(found)
    assert in_order(again) == in_order(found)
    assert again.schema.field("rank").type == pa.int32()
    assert ours.mode == "once"


def test_all_families(spark, tmp_path):
    rng, n = np.random.default_rng(8), 150
    data = {
        "at": np.sort(rng.integers(0, 300_000_000, n)),
        "id": np.arange(n),
        "speed": rng.integers(30, 60, n).astype(float),
        "p": rng.choice([0.2, 0.5, 0.9], n),
        "car": np.array([f"c{row}" if row % 4 else None for row in range(n)], object),
        "client": rng.choice(["x", "y", "z"], n),
        "size": rng.integers(1, 99, n).astype(float),
        "flow": rng.choice(["f", "g", "h", "i"], n),
        "router": rng.choice(["a", "b"], n),
        "load": rng.random(n),
    }
    write_families(tmp_path, data)
    assert_same(written(tmp_path, {}, FAMILIES), spark)


CASES = {
    "inferred": ({"in.csv": TRADES}, "path: in.csv, "),
    "schema, another order, packed": (
        {"in/1.csv.gz": "shares,x,price,at,NAME\n7,1,2.5,2024-01-01 00:00:00,a\n,,1e3,2024-01-01T00:00:01.5Z,b\n"},
        "path: in, format: csv, " + SCHEMA,
    ),
    "malformed lines": (
        {
            "in.csv": "at,name,price,shares\r\n2024-01-01 00:00:00,a,2.5,7\r\n2024-01-01 00:00:01,b,much,7\r\n"
            "2024-01-01 00:00:02,c\r\n\r\n2024-01-01 00:00:03,d,9.5,8,9\r\n2024-01-01 00:00:04,e,9.5,2147483648\r\n"
            "soon,f,1,1\r\n2024-13-01 00:00:00,g,1,1\r\n   \r\n"
        },
        "path: in.csv, dead_letters: dead, " + SCHEMA,
    ),
    "no header, tabs, offsets": (
        {"in.tsv": "2024-01-01T00:00:00+02:00\ta\\b\t2.5\t1\n\t\t\t\n2024-01-01T00:00:05-01:30\tx\t+7\t\n"},
        "path: in.tsv, options: {header: false}, " + SCHEMA,
    ),
    "types of text": (
        {
            "in.csv": "at,price,l,b,d,t,s,n,m,f\n"
            "2024-01-01 00:00:00,1,2147483648,true,2024-01-01,2024-01-01,1,,12,1.5\n"
            "2024-01-01 00:00:09,2.5,-1,FALSE,2024-01-31,2024-01-01 10:00:00,A7,,2024-01-01,1e3\n"
        },
        "path: in.csv, ",
    ),
    "milliseconds in text": (
        {"in.csv": "at,price\n1700000000500,1\n9223372036854775807,2\nx,3\n1700000001500,4\n"},
        "path: in.csv, time_format: milliseconds, schema: {at: string, price: int}, ",
    ),
    "seconds": (
        {"in.csv": "at,price\n1700000000.123457,1\n1e300,2\n1700000001,4\n"},
        "path: in.csv, time_format: seconds, ",
    ),
    "a pattern": (
        {"in.csv": "at,price\n31/12/2023 23:59,1\n31/13/2023 23:59,2\n1/1/2024 00:00,4\n01/01/2024 00:01,4\n"},
        "path: in.csv, time_format: dd/MM/yyyy HH:mm, schema: {at: string, price: float}, ",
    ),
    "computed columns": (
        {"in.csv": "when,a,b\n2024-01-01,2,3\n2024-01-02,4,5\n"},
        "path: in.csv, columns: {price: a * b, A: a + 1, at: CAST(`when` AS timestamp)}, ",
    ),
    "a date as time": ({"in.csv": "at,price\n2024-01-01,2\n2024-01-02,4\n"}, "path: in.csv, "),
    "several files": (
        {
            "in/b.csv": "at,price\n2024-01-01 00:00:30,7\n",
            "in/a.csv": "AT,price\n2024-01-01 00:00:00,2\n",
            "in/c.csv": "",
            "in/_SUCCESS": "",
            "in/.hidden": "x",
        },
        "path: in, format: csv, schema: {at: timestamp, price: int}, ",
    ),
}


CASES |= {
    "json, inferred": ({"in.jsonl": "".join(json.dumps(line) + "\n" for line in LINES)}, "path: in.jsonl, "),
    "json, schema": (
        {"in/1.json.gz": "".join(json.dumps(line) + "\n" for line in LINES), "in/2.json": "\n  \n"},
        "path: in, format: json, schema: {price: float, at: timestamp, shares: smallint, up: boolean, other: string}, ",
    ),
    "json, malformed lines": (
        {
            "in.json": json.dumps(LINES[0]) + '\n{"at": "2024-01-01 00:00:01", "name": "b", "price": "much"}\n'
            'not JSON\n[1]\n{"at": "2024-01-01 00:00:04", "name": "e", "price": 9.5, "shares": 2147483648}\n'
            '{"at": "soon", "price": 1}\n{"price": 4, "at": \n'
        },
        "path: in.json, dead_letters: dead, " + SCHEMA,
    ),
    "json, lists of objects": (
        {
            "in/1.json": json.dumps(LINES, indent=1),
            "in/2.json.gz": json.dumps(LINES[0], indent=2),
            "in/3.json": "\n []\n",
        },
        "path: in, format: json, options: {multiLine: true}, ",
    ),
    "json, a list, schema": (
        {"in.json": json.dumps(LINES)},
        "path: in.json, options: {multiLine: true}, schema: {price: float, at: timestamp, other: string}, ",
    ),
    "times with hours of offset, zstd": (
        {
            "in/1.csv.zst": "at,price,name\n2024-01-01 00:00:00+00,1,a\n2024-01-01 00:00:30.25-02,2,b\n",
            "in/2.csv.zst": "at,price,name\n2024-01-01 00:00:00+05:30,3,c\n",
        },
        "path: in, format: csv, ",
    ),
    "patterns with offsets": (
        {
            "in.jsonl": "".join(
                json.dumps({"at": at, "price": price}) + "\n"
                for price, at in enumerate(
                    [
                        *("2024-01-01 09:30:00+00", "2024-01-01 09:30:01.5-02", "2024-01-01t09:30:02Z"),
                        *("2024-01-01 09:30:03+0130", "2024-01-01T09:30:04.123456789+01:30", "2024-01-01 09:30:05"),
                        *("2024-01-01 09:30:06+1", "2024-01-01 09:30:07+00 ", "2024-01-01 09:30:08.+00", "x"),
                    ]
                )
            )
        },
        "path: in.jsonl, time_format: \"yyyy-MM-dd[ ]['T']HH:mm:ss[.SSSSSSSSS][XXX][XX][X]\", ",
    ),
    "fewer digits than the pattern": (
        {"in.csv": "at,price\n2024-01-01 00:00:00.5,1\n2024-01-01 00:00:01.123,2\n2024-01-01 00:00:02.1234,3\n"},
        "path: in.csv, time_format: 'yyyy-MM-dd HH:mm:ss.SSS', schema: {at: string, price: int}, ",
    ),
    "text as a time": (
        {
            "in.csv": "at,price\n2024-01-01 00:00:00+00,1\n2024-01-01T00:00:01+0530,2\n2024-01-01 00:00:02-17:59,3\n"
            "2024-01-01 00:00:03Z,4\n"
        },
        "path: in.csv, schema: {at: string, price: int}, ",
    ),
}


@pytest.mark.parametrize(("files", "stream"), CASES.values(), ids=CASES)
def test_text_is_read_as_on_spark(spark, tmp_path, files, stream):
    file = written(tmp_path, files, f"streams: {{s: {{{stream}time: at}}}}\n{BEST}")
    ours = assert_same(file, spark)
    if "dead_letters" in stream:
        theirs = read_lines(tmp_path / "dead", "s-*/part-*")
        local(file)
        mine = read_lines(tmp_path / "dead", "s-*/part-*")
        assert len(mine) == ours.metrics()["s"]["malformed"] == 6
        assert sorted(map(repr, map(sorted_keys, mine))) == sorted(map(repr, map(sorted_keys, theirs)))


def sorted_keys(row):
    return sorted(row.items())


def test_rows_that_every_filter_removes(spark, tmp_path):
    text = "at,name,price\n2024-01-01 00:00:00,a,2\n,b,3\n,c,4\n2024-01-01 00:00:30,b,\n2024-01-01 00:00:40,c,\n"
    stream = "streams: {s: {path: in.csv, time: at, schema: {at: timestamp, name: string, price: int}}}\n"
    assert_same(
        written(tmp_path, {"in.csv": text}, stream + BEST.replace("by: price", "by: price, where: name < 'c'")), spark
    )


def parquet(columns):
    out = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), out)
    return out.getvalue().to_pybytes()


AT = pa.array([0, 5_000_000, None], pa.timestamp("us", "UTC"))


def test_parquet_types_and_missing_columns(spark, tmp_path):
    first = parquet(
        {
            "at": AT.cast(pa.timestamp("ms")),
            "price": pa.array([1, 2, 3], pa.uint32()),
            "word": pa.array(["a", None, "b"]).dictionary_encode(),
            "wide": pa.array([1, 2, 3], pa.uint64()),
            "day": pa.array([1, 2, 3], pa.date32()),
            "money": pa.array([1, 2, 3], pa.decimal128(10, 2)),
            "small": pa.array([1.5, 2.5, None], pa.float32()),
            "raw": pa.array([b"x", b"\xff", None]),
        }
    )
    second = parquet({"AT": AT.cast(pa.timestamp("us")), "price": pa.array([7, 8, 9], pa.uint32()), "new": [1, 2, 3]})
    text = "streams: {s: {path: in, format: parquet, time: at, id: price}}\n" + BEST
    assert_same(written(tmp_path, {"in/1.parquet": first, "in/2.parquet": second}, text), spark)


def test_text_that_is_not_utf8_is_malformed(spark, tmp_path):
    bad = pa.array([b"fine", b"\xff\xfe", None]).view(pa.string())
    raw = parquet({"at": AT, "price": [1, 2, 3], "name": bad})
    text = "streams: {s: {path: in.parquet, time: at, dead_letters: dead}}\n" + BEST
    file = written(tmp_path, {"in.parquet": raw}, text)
    assert_same(file, spark)
    assert [row["row"] for row in read_lines(tmp_path / "dead", "s-*/part-*")] == [1]
    local(file)
    assert [row["row"] for row in read_lines(tmp_path / "dead", "s-*/part-*")] == [1]


REJECTED = {
    "a number that may be a decimal": (
        {"in.csv": "at,price\n2024-01-01,9223372036854775808\n"},
        "",
        "'9223372036854775808'",
    ),
    "half a time": ({"in.csv": "at,price\n2024-01-01 10:00,1\n"}, "", "'2024-01-01 10:00' in column 'at'"),
    "doubled quotes": ({"in.csv": 'at,price\n"2024""",1\n'}, "", "inside of a quoted cell"),
    "a line break in a cell": ({"in.csv": 'at,price\n"2024\n",1\n'}, "", "inside of a quoted cell"),
    "an option": ({"in.csv": TRADES}, "options: {comment: '#'}, ", "options: {comment: #}"),
    "a type": ({"in.csv": TRADES}, "schema: {at: timestamp, price: 'decimal(9,2)'}, ", "price: decimal(9,2)"),
    "a pattern": (
        {"in.csv": TRADES},
        "schema: {at: string, price: int}, time_format: d MMM yyyy, ",
        "time_format 'd MMM",
    ),
    "nested columns": (
        {"in.parquet": parquet({"at": AT, "price": [[1], [2], [3]]})},
        "",
        "column 'price' of type list",
    ),
    "nanoseconds": (
        {"in.parquet": parquet({"at": AT.cast(pa.timestamp("ns"))})},
        "",
        "column 'at' of type timestamp[ns]",
    ),
    "partitions": ({"in.csv/day=1/1.csv": TRADES}, "", "inside of a data folder"),
}


@pytest.mark.parametrize(("files", "more", "says"), REJECTED.values(), ids=REJECTED)
def test_what_only_spark_reads_is_rejected(tmp_path, files, more, says):
    path = "in.csv" if "in.csv" in next(iter(files)) else "in.parquet"
    text = f"streams: {{s: {{path: {path}, {more}time: at}}}}\n{BEST}"
    with pytest.raises(sb.UnsupportedError, match="not supported without Spark") as error:
        local(written(tmp_path, files, text))
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("files", "more", "says"),
    [
        ({}, "", "no files found"),
        ({"in/1.parquet": "no parquet"}, "format: parquet, ", "cannot be read as Parquet"),
        ({"in/1.csv": "at,price\n", "in/2.csv": "at,size\n"}, "", "column 2 is 'size' instead of 'price'"),
        ({"in/1.csv": "at,size\n"}, SCHEMA, "column 'name' of schema: is not in the header"),
        ({"in/1.csv": "at,price\n1,2\n"}, "", "must be a timestamp, got int"),
    ],
)
def test_bad_files(tmp_path, files, more, says):
    (tmp_path / "in").mkdir()
    kind = "" if "format" in more else "format: csv, "
    with pytest.raises(sb.InvalidInputError, match=says):
        local(written(tmp_path, files, f"streams: {{s: {{path: in, {kind}{more}time: at}}}}\n{BEST}"))


@pytest.mark.parametrize(
    ("part", "says"),
    [
        ("streams: {s: {source: rate, rows_per_second: 5}}\n" + BEST.replace("price", "value"), "has source 'rate'"),
        (
            "streams: {s: {path: in.csv, time: at}}\nengine: {settings: {spark.sql.ansi.enabled: false}}\n" + BEST,
            "can change",
        ),
        (
            "streams: {s: {path: in.csv, time: at}}\n"
            + BEST.replace("{type: memory}", "{type: kafka, servers: 'a:1', topic: t}"),
            "type kafka",
        ),
    ],
)
def test_what_needs_spark_is_rejected(tmp_path, part, says):
    with pytest.raises(sb.UnsupportedError, match=says):
        run_local(written(tmp_path, {"in.csv": TRADES}, part))


def test_answers_of_a_stored_state_are_kept(tmp_path):
    text = "streams: {s: {path: in.csv, time: at}}\n" + BEST.replace("{type: memory}", "{type: jsonl, path: out}")
    file = written(tmp_path, {"in.csv": TRADES}, text)
    local(file)
    (Path(file.checkpoint_of("s")) / "skyband").mkdir(parents=True)
    (Path(file.checkpoint_of("s")) / "skyband" / "about").write_text("{}")
    with pytest.raises(sb.InvalidInputError, match="belong to a stored state"):
        local(file)
    local(file, fresh=True)
    assert not Path(file.checkpoint_of("s")).exists()
    assert read_lines(tmp_path / "out")


BLOCKED = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pyspark", "py4j"):
            raise ImportError("blocked: " + name)
sys.meta_path.insert(0, Blocked())
sys.argv = ["skyband", *sys.argv[1:]]
from skyband.cli.main import main
main()
"""


def without_java(folder, *arguments):
    environment = {**os.environ, "PATH": "/nowhere"}
    environment.pop("JAVA_HOME", None)
    return subprocess.run(
        [sys.executable, "-c", BLOCKED, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_command_needs_neither_java_nor_pyspark(tmp_path):
    text = "streams: {s: {path: in.csv, time: at}}\n" + BEST.replace("memory", "terminal")
    written(tmp_path, {"in.csv": TRADES}, text)
    done = without_java(tmp_path, "run", "work.yaml", "--once", "--local", "--json")
    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["rank"] for line in done.stdout.splitlines()][:2] == [1, 2]
    assert json.loads(done.stderr.splitlines()[-1])["streams"]["s"]["rows"] == 4
    assert without_java(tmp_path, "explain", "work.yaml").returncode == 0
    assert without_java(tmp_path, "init", "in.csv", "--file", "new.yaml").returncode == 0
    (tmp_path / "in.csv").write_text("at,price\n2024-01-01 10:00,1\n")
    assert without_java(tmp_path, "run", "new.yaml", "--once", "--local").returncode == 2
