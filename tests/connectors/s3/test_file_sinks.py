"""Files of answers in an object store: each micro-batch once, whatever dies in the middle; problems at the start."""

from __future__ import annotations

import io
import random

import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import FileSelector, S3FileSystem

import skyband as sb
from skyband.jobs import run, run_local
from skyband.sharding.delivery import Opening
from tests.connectors.s3.server import PASSWORD, S3, USER
from tests.connectors.tables.places import QUERY
from tests.connectors.tables.test_table_runs import SECOND, held, workload
from tests.connectors.tables.test_table_writers import answers

pytestmark = [pytest.mark.long, pytest.mark.slow]
KINDS = {"parquet": sb.sinks.Parquet, "csv": sb.sinks.Csv, "jsonl": sb.sinks.Jsonl}


def options(port, password=PASSWORD):
    return {
        "access_key": USER,
        "secret_key": password,
        "endpoint_override": f"127.0.0.1:{port}",
        "scheme": "http",
        "region": "us-east-1",
    }


def opened(kind, bucket, port, **more):
    sink = KINDS[kind](path=f"s3a://{bucket}/deep/answers", options=options(port, **more), retry="5 minutes")
    return sink.open(Opening(None, "s", lambda: sb.Workload([QUERY])))


def begun(writer):
    """What a run checks before it changes anything."""
    writer.reach()
    writer.check(answers(0))
    return writer


def content(port, bucket):
    """The objects and their content, as another program reads them."""
    files = S3FileSystem(**options(port))
    found = files.get_file_info(FileSelector(f"{bucket}/deep/answers", allow_not_found=True))
    return {one.base_name: files.open_input_stream(one.path).readall() for one in found}


def rows_in(port, bucket):
    rows = []
    for name, held_ in sorted(content(port, bucket).items()):
        read = pq.read_table if name.endswith(".parquet") else pcsv.read_csv
        rows += read(io.BytesIO(held_)).to_pylist()
    return rows


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_dies_in_the_middle_of_writing(s3, gate, bucket, kind, tally):
    draw, writer = random.Random(5), begun(opened(kind, bucket, gate.port))
    for batch in range(6):
        where = ("before", "after")[batch % 2]
        gate.cut("PUT", f"s-{batch:08}", where)
        writer.take(batch, answers(batch))  # waits until the server is back
        tally.fault(f"S3 ends {where} a request that writes answers")
        if draw.random() < 0.5:
            writer = begun(opened(kind, bucket, gate.port))
        writer.take(batch, answers(batch))  # the batch is repeated
    assert len(gate.kills()) == 6
    assert [path.name for path in writer.files()] == [f"s-{batch:08}.{kind}" for batch in range(6)]
    assert sorted(content(s3.port, bucket)) == [f"s-{batch:08}.{kind}" for batch in range(6)]
    writer.take(3, answers(3).slice(0, 0))
    assert f"s-{3:08}.{kind}" not in content(s3.port, bucket)
    writer.clear()
    assert not content(s3.port, bucket)


def test_large_answers_are_one_object(s3, bucket):
    """An object of several parts appears when it is complete."""
    rows = pa.concat_tables([answers(0)] * 300_000)
    writer = begun(opened("jsonl", bucket, s3.port))
    writer.take(0, rows)
    (found,) = content(s3.port, bucket).values()
    assert len(found) > 20_000_000
    assert found.count(b"\n") == rows.num_rows


def test_wrong_keys_and_a_missing_bucket(s3, bucket):
    begun(opened("parquet", bucket, s3.port)).take(0, answers(0))
    for wrong in (opened("parquet", bucket, s3.port, password="wr0ng"), opened("parquet", "nowhere", s3.port)):
        with pytest.raises(sb.InvalidInputError, match=r"cannot be used: .*Nothing was written") as error:
            begun(wrong)
        assert "\n" not in str(error.value)
        assert "wr0ng" not in str(error.value)
    reader = S3(s3.folder, read_only=True)
    try:
        with pytest.raises(sb.InvalidInputError, match=r"cannot be used: .*Nothing was written"):
            begun(opened("parquet", bucket, reader.port))
    finally:
        reader.kill()
    assert list(content(s3.port, bucket)) == ["s-00000000.parquet"]


def test_options_that_are_not_those_of_arrow(s3, bucket):
    sink = sb.sinks.Parquet(path=f"s3://{bucket}/x", options={"aws_region": "x", "region": "us-east-1"})
    with pytest.raises(sb.InvalidInputError, match=r"not those of pyarrow\.fs\.S3FileSystem: .*aws_region"):
        begun(sink.open(Opening(None, "s", lambda: sb.Workload([QUERY]))))


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_runs(s3, bucket, tmp_path, engine, monkeypatch, request):
    """Two runs, one that is rejected before it removes anything, one over an older state, one that starts over."""
    for name, value in options(s3.port).items():
        monkeypatch.setenv(name.upper(), value)
    listed = ", ".join(f"{name}: '${{{name.upper()}}}'" for name in options(s3.port))
    workload(tmp_path, [])
    path = tmp_path / "work.yaml"
    sink = f"{{type: parquet, path: 's3://{bucket}/deep/answers', options: {{{listed}}}}}"
    path.write_text(path.read_text().replace("sinks: [", f"sinks: [{sink}, "))
    spark = request.getfixturevalue("spark") if engine == "spark" else None

    def go(mode="catch-up", **more):
        file = sb.read_workload(path)
        running = run_local(file, mode, **more) if spark is None else run(file, mode, spark=spark, **more)
        assert running.await_end(300)
        return running

    answered = held(go())
    (tmp_path / "in" / "2.csv").write_text(SECOND)
    answered += held(go())
    assert found(s3.port, bucket) == sorted(answered)
    before = content(s3.port, bucket)
    with pytest.raises(sb.InvalidInputError, match=r"belong to a stored state|whose state is stored"):
        go("once")
    monkeypatch.setenv("SECRET_KEY", "wr0ng")
    with pytest.raises(sb.InvalidInputError, match="cannot be used"):
        go(fresh=True)
    monkeypatch.setenv("SECRET_KEY", PASSWORD)
    assert content(s3.port, bucket) == before
    (tmp_path / ".skyband").rename(tmp_path / "lost")
    with pytest.raises(sb.InvalidInputError, match="from another run, but there is no state to resume from"):
        go()
    again = held(go(fresh=True))
    assert found(s3.port, bucket) == sorted(again)


def found(*place):
    rows = rows_in(*place)
    return sorted((row["query"], row["window_end"].isoformat(), row["rank"], row["name"], row["score"]) for row in rows)
