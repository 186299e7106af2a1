"""Files whose rows, columns or times are not as the workload file says."""

from __future__ import annotations

import contextlib
import gzip
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.connectors.files import FilesSource
from skyband.connectors.sources import open_batch
from skyband.jobs import run
from skyband.jobs.verification import verify
from tests.jobs.test_job import finished, workload
from tests.spark.frames import read_lines
from tests.waiting import process_all

SCHEMA = "schema: {at: timestamp, name: string, price: double, shares: int}, "
FIRST = "at,name,price,shares\n2024-01-01 00:00:00,a,2.5,700\n2024-01-01 00:00:01,b,3.5,800\n"
TURNED = "at,name,shares,price\n2024-01-01 00:00:02,c,900,1.5\n"


def csv_stream(folder, files, *, schema=SCHEMA, more="", sinks="[{type: memory}]"):
    (folder / "in").mkdir(exist_ok=True)
    for name, text in files.items():
        raw = text if isinstance(text, bytes) else text.encode()
        path = folder / "in" / name
        unfinished = path.with_name(f".{path.name}")  # a stream may look for files at any moment
        unfinished.write_bytes(gzip.compress(raw) if name.endswith("gz") else raw)
        unfinished.rename(path)
    return workload(
        folder,
        f"streams: {{s: {{path: in, format: csv, {schema}{more}time: at, watermark: 0 seconds}}}}\n"
        f"queries: [{{name: best, k: 9, size: 1 minute, by: price}}]\nsinks: {sinks}\n",
    )


def ranked(file, spark, mode="once"):
    found = finished(file, spark, mode).memory("s")
    return [] if found is None else [(row["name"], row["price"], row["shares"]) for row in found.to_pylist()]


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        (
            SCHEMA,
            r"the header of \S+/in/2.csv.gz'? differs from .*(Expected: price but found: shares|'shares' instead)",
        ),
        ("", r"the header of '\S+/in/2.csv.gz' differs from .*column 3 is 'shares' instead of 'price'"),
    ],
)
def test_a_csv_file_with_its_columns_in_another_order_is_rejected_by_name(spark, tmp_path, schema, says):
    file = csv_stream(tmp_path, {"1.csv": FIRST, "2.csv.gz": TURNED}, schema=schema)
    with pytest.raises(sb.InvalidInputError, match=says):
        finished(file, spark)
    with pytest.raises(sb.InvalidInputError, match=says):
        verify(spark, file, "s")


@pytest.mark.long
def test_a_followed_folder_goes_on_once_the_rejected_file_has_been_written_again(spark, tmp_path):
    file = csv_stream(tmp_path, {"1.csv": FIRST}, sinks="[{type: jsonl, path: out}]")
    finished(file, spark, "catch-up")
    csv_stream(tmp_path, {"2.csv": TURNED})
    with pytest.raises(sb.InvalidInputError, match=r"in/2.csv' differs from"):
        finished(file, spark, "catch-up")
    end = "2024-01-01 01:00:00,end,1,1\n"
    csv_stream(tmp_path, {"2.csv": "at,name,price,shares\n2024-01-01 00:00:02,c,1.5,900\n" + end})
    finished(file, spark, "catch-up")
    lines = [line for path in sorted((tmp_path / "out").glob("*")) for line in path.read_text().splitlines()]
    assert [(json.loads(line)["name"], json.loads(line)["score"]) for line in lines] == [
        ("b", 3.5),
        ("a", 2.5),
        ("c", 1.5),
    ]


@pytest.mark.parametrize(
    ("name", "text"),
    {
        "as in the schema": ("1.csv", "at,name,price,shares\n2024-01-01 00:00:00,a,2.5,7\n"),
        "in another order": ("1.csv", "shares,price,at,name\n7,2.5,2024-01-01 00:00:00,a\n"),
        "with more columns": ("1.csv", "x,at,name,y,price,shares,z\n1,2024-01-01 00:00:00,a,no,2.5,7,2\n"),
        "capitals, spaces, quotes": ("1.csv", ' AT ,"Name", price,SHARES\n2024-01-01 00:00:00,a,2.5,7\n'),
        "a byte order mark": ("1.csv", b"\xef\xbb\xbfat,name,price,shares\n2024-01-01 00:00:00,a,2.5,7\n"),
        "packed": ("1.csv.gz", "name,at,price,shares\na,2024-01-01 00:00:00,2.5,7\n"),
        "a name left out": ("1.csv", ",name,price,shares\n2024-01-01 00:00:00,a,2.5,7\n"),
        "in a folder that says more": ("shares=7/1.csv", "at,name,price\n2024-01-01 00:00:00,a,2.5\n"),
    }.values(),
)
def test_columns_of_a_schema_are_found_by_the_header(spark, tmp_path, name, text):
    (tmp_path / "in" / name).parent.mkdir(parents=True)
    file = csv_stream(tmp_path, {name: text})
    rows = open_batch(spark, "s", file.streams["s"])
    assert rows.columns == ["at", "name", "price", "shares"]
    assert [(row["name"], row["price"], row["shares"], row["at"].year) for row in rows.collect()] == [
        ("a", 2.5, 7, 2024)
    ]


def test_a_column_without_a_name_keeps_the_one_that_spark_gives_it(spark, tmp_path):
    file = csv_stream(tmp_path, {"1.csv": ",at,price\n5,2024-01-01 00:00:00,2.5\n"}, schema="")
    assert open_batch(spark, "s", file.streams["s"]).collect()[0].asDict()["_c0"] == 5


def test_a_header_without_a_column_of_the_schema_is_rejected_at_the_start(spark, tmp_path):
    file = csv_stream(tmp_path, {"1.csv": "at,name,cost,shares\n2024-01-01 00:00:00,a,2.5,7\n"})
    with pytest.raises(sb.InvalidInputError, match=r"column 'price' of schema: is not in the header of '.*1.csv'"):
        open_batch(spark, "s", file.streams["s"])


@pytest.mark.parametrize("option", ["header: false", "enforceSchema: true"])
def test_by_position_where_the_file_says_so(spark, tmp_path, option):
    text = FIRST.partition("\n")[2] if "header" in option else FIRST.replace("at,", "when,")
    file = csv_stream(tmp_path, {"1.csv": text}, more=f"options: {{{option}}}, ")
    assert ranked(file, spark) == [("b", 3.5, 800), ("a", 2.5, 700)]


@pytest.mark.long
def test_a_file_that_is_empty_or_changes_after_it_was_read_is_warned_of(spark, tmp_path, caplog):
    """Spark reads each file once: rows that are written to it later would be missed without a word."""
    file = csv_stream(tmp_path, {"1.csv": FIRST, "2.csv": ""}, sinks="[{type: jsonl, path: out}]")
    running = run(file, spark=spark)
    try:
        process_all(running.handles["s"].query)
        said = [record.getMessage() for record in caplog.records if record.name == "skyband.sources"]
        assert len(said) == 1
        assert "in/2.csv is empty and counts as read" in said[0]
        csv_stream(tmp_path, {"2.csv": TURNED, "3.csv": FIRST})
        process_all(running.handles["s"].query)
        said = [record.getMessage() for record in caplog.records if record.name == "skyband.sources"][1:]
        assert len(said) == 1
        assert f"in/2.csv changed after it was read (from 0 to {len(TURNED)} bytes)" in said[0]
    finally:
        running.stop()
    assert running.metrics()["s"]["rows"] == 4


# Rows that cannot be read.

LINES = {
    "csv": "at,name,price,shares\n2024-01-01 00:00:00,a,2.5,7\n2024-01-01 00:00:01,b,much,7\n2024-01-01 00:00:02,c\n"
    "2024-01-01 00:00:03,d,9.5,8,9\n2024-01-01 00:00:04,e,9.5,x\n",
    "json": '{"at": "2024-01-01 00:00:00", "name": "a", "price": 2.5, "shares": 7}\n'
    '{"at": "2024-01-01 00:00:01", "name": "b", "price": "much"}\nnot JSON\n[1]\n'
    '{"at": "2024-01-01 00:00:04", "name": "e", "price": 9.5, "shares": "x"}\n',
}


@pytest.mark.parametrize("kind", list(LINES))
def test_malformed_lines_are_counted_and_kept_with_the_reason(spark, tmp_path, kind):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / f"1.{kind}").write_text(LINES[kind])
    text = (
        f"streams: {{s: {{path: in, format: {kind}, {SCHEMA}time: at, dead_letters: dead}}}}\n"
        "queries: [{name: best, type: aggregate, k: 9, size: 1 minute, key: name, value: price}]\n"
        "sinks: [{type: memory}]\n"
    )
    file = workload(tmp_path, text)
    running = finished(file, spark)
    assert running.memory("s")["key"].to_pylist() == ["a"]
    metrics = running.metrics()["s"]
    assert (metrics["rows"], metrics["malformed"], metrics["dropped_null"]) == (5, 4, 0)
    letters = read_lines(tmp_path / "dead", "s-*/part-*")
    assert sorted(letter["value"] for letter in letters) == sorted(
        line for line in LINES[kind].splitlines()[kind == "csv" :] if '"a"' not in line and ",a," not in line
    )
    assert {letter["file"].rpartition("/")[2] for letter in letters} == {f"1.{kind}"}
    assert all("that matches the schema" in letter["reason"] for letter in letters)


@pytest.mark.long
def test_brute_force_leaves_out_the_same_rows(spark, tmp_path):
    file = csv_stream(tmp_path, {"1.csv": LINES["csv"]})
    found = verify(spark, file, "s")
    assert found.agrees
    assert found.difference.compared == 1


@pytest.mark.long
def test_text_that_is_no_utf8_is_malformed(spark, tmp_path):
    bad = pa.array([b"fine", b"\xff\xfe", None, b"ok"]).view(pa.string())
    nested = pa.array([["x"], ["y"], None, ["z"]])
    wrong = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3, 4]), pa.array([b"x", b"y", b"z", b"\xff"]).view(pa.string()))
    rows = pa.table(
        {"at": pa.array([1, 2, 3, 4], pa.timestamp("us", "UTC")), "v": [1, 2, 3, 4], "g": bad, "n": nested, "w": wrong}
    )
    pq.write_table(rows, tmp_path / "in.parquet")
    text = "streams: {s: {path: in.parquet, time: at, dead_letters: dead}}\nqueries: [{k: 9, size: 1 minute, by: v}]\n"
    running = finished(workload(tmp_path, text + "sinks: [{type: memory}]\n"), spark)
    assert running.memory("s")["v"].to_pylist() == [3, 1]
    assert running.metrics()["s"]["malformed"] == 2
    letters = read_lines(tmp_path / "dead", "s-*/part-*")
    assert sorted((letter["row"], letter["reason"]) for letter in letters) == [
        (1, "column 'g' contains invalid UTF-8"),
        (3, "column 'w' contains invalid UTF-8"),
    ]


@pytest.mark.parametrize(
    ("told", "good", "wrong"),
    [
        ("milliseconds", "1700000000500", ["9223372036854775807", "-9223372036854775808", "1700000000500000"]),
        *(
            pytest.param(*case, marks=pytest.mark.long)
            for case in [
                ("seconds", "1700000000.5", ["1700000000500", "1e300", "NaN", "-1e300"]),
                ("microseconds", "1700000000500000", ["9223372036854775807", "1700000000500000000"]),
                (None, "2023-11-14 22:13:20.5", ["+55840-01-01 00:00:00", "-0005-01-01 00:00:00"]),
            ]
        ),
    ],
)
def test_times_outside_the_years_1_to_9999_are_left_out_and_move_no_watermark(spark, tmp_path, told, good, wrong):
    lines = ["at,v", f"{wrong[0]},9", f"{good},1", *(f"{time},9" for time in wrong[1:])]
    (tmp_path / "in.csv").write_text("\n".join(lines) + "\n")
    kind = "double" if told == "seconds" else "string"
    told = f"time_format: {told}, " if told else ""
    text = (
        f"streams: {{s: {{path: in.csv, {told}schema: {{at: {kind}, v: int}}, time: at, watermark: 0 seconds}}}}\n"
        "queries: [{k: 5, size: 1 hour, by: v}]\nsinks: [{type: memory}]\n"
    )
    running = finished(workload(tmp_path, text), spark)
    assert running.memory("s")["v"].to_pylist() == [1]
    assert (running.metrics()["s"]["dropped_null"], running.metrics()["s"]["late"]) == (len(wrong), 0)


def test_texts_that_no_query_can_name_are_not_read(spark, tmp_path):
    """An aggregate gives no rows back: of a wide table Spark reads the columns of its expressions alone."""
    rows = pa.table({"at": [0, 1], "key": ["a", "b"], "v": [1.0, 2.0], "wide": ["x", "y"], "wider": ["x", "y"]})
    rows = rows.set_column(0, "at", rows["at"].cast(pa.timestamp("us", "UTC")))
    pq.write_table(rows, tmp_path / "in.parquet")
    aggregate = sb.Workload(sb.AggregateTopK(name="busy", k=1, size="1 hour", key="upper(key)", value="v"))
    whole = sb.Workload(sb.TopK(name="best", k=1, size="1 hour", by="v"))
    stream = FilesSource(path=str(tmp_path / "in.parquet"), format="parquet", time="at")
    for asked, named in ((aggregate, {"key"}), (whole, {"key", "wide", "wider"})):
        text = explained(open_batch(spark, "s", stream, asked=asked).select("at", "v"))
        read = text[text.index("ReadSchema") :]
        assert {name for name in ("key", "wide", "wider") if f"{name}:string" in read} == named


def explained(frame):
    """What Spark would do, as text."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        frame.explain("simple")
    return out.getvalue()
