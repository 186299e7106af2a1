"""Tables in an object store: each micro-batch once, whatever dies in the middle of a commit; problems at the start."""

from __future__ import annotations

import random

import pytest

import skyband as sb
from skyband.jobs import run_local
from skyband.sharding.delivery import Opening
from tests.connectors.s3.server import PASSWORD, S3, USER
from tests.connectors.tables.places import KINDS, QUERY
from tests.connectors.tables.test_table_runs import SECOND, held, workload
from tests.connectors.tables.test_table_writers import answers

pytestmark = [pytest.mark.long, pytest.mark.slow]
# What makes a commit: in Delta, the file with its number; in Iceberg, the file that the catalog then points to.
COMMIT = {"delta": "_delta_log/0", "iceberg": ".metadata.json"}


def options(kind, port, password=PASSWORD):
    if kind == "delta":
        return {
            "aws_access_key_id": USER,
            "aws_secret_access_key": password,
            "aws_endpoint_url": f"http://127.0.0.1:{port}",
            "aws_region": "us-east-1",
            "aws_allow_http": "true",
        }
    return {
        "s3.endpoint": f"http://127.0.0.1:{port}",
        "s3.access-key-id": USER,
        "s3.secret-access-key": password,
        "s3.region": "us-east-1",
    }


def sink(kind, folder, bucket, port, **more):
    given = {"options": options(kind, port, **more), "retry": "5 minutes"}
    if kind == "delta":
        return sb.sinks.Delta(path=f"s3://{bucket}/answers", **given)
    catalog = {"catalog": f"sqlite:///{folder}/catalog.db", "warehouse": f"s3://{bucket}/warehouse"}
    return sb.sinks.Iceberg(table="db.answers", **catalog, **given)


def opened(*place, **more):
    return sink(*place, **more).open(Opening(None, "s", lambda: sb.Workload([QUERY])))


def ready(*place):
    writer = begun(opened(*place))
    writer.prepare(answers(0))
    return writer


def begun(writer):
    """What a run checks before it changes anything."""
    writer.reach()
    writer.check(answers(0))
    return writer


def rows_in(kind, folder, bucket, port):
    if kind == "delta":
        from deltalake import DeltaTable

        return DeltaTable(f"s3://{bucket}/answers", storage_options=options(kind, port)).to_pyarrow_table()
    from pyiceberg.catalog import load_catalog

    catalog = load_catalog("default", uri=f"sqlite:///{folder}/catalog.db", **options(kind, port))
    return catalog.load_table("db.answers").scan().to_arrow()


def numbers(*place):
    return sorted(int(row["window_end"].timestamp()) // 60 for row in rows_in(*place).to_pylist())


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_dies_in_the_middle_of_commits(s3, gate, bucket, tmp_path, kind, tally):
    draw, place = random.Random(3), (kind, tmp_path, bucket, gate.port)
    writer, parts = ready(*place), [("PUT", COMMIT[kind]), ("PUT", ".parquet"), ("GET", COMMIT[kind])]
    for batch in range(8):
        method, part = parts[0] if batch < 4 else draw.choice(parts)
        where = ("before", "after")[batch % 2]
        gate.cut(method, part, where)
        writer.take(batch, answers(batch))  # waits until the server is back
        tally.fault(f"S3 ends {where} a request of a commit to {kind}")
        if draw.random() < 0.5:
            writer.close()
            writer = ready(*place)
        writer.take(batch, answers(batch))
    assert len(gate.kills()) >= 6
    assert numbers(kind, tmp_path, bucket, s3.port) == list(range(8))


@pytest.mark.parametrize("kind", KINDS)
def test_wrong_keys_and_a_missing_bucket(s3, bucket, tmp_path, kind):
    writer = ready(kind, tmp_path, bucket, s3.port)
    writer.take(0, answers(0))
    wrong = opened(kind, tmp_path, bucket, s3.port, password="wr0ng")
    with pytest.raises(sb.InvalidInputError, match=r"cannot be used: .*(SignatureDoesNotMatch|ACCESS_DENIED)") as error:
        begun(wrong)
    said = str(error.value)
    assert "\n" not in said
    assert "\x1b" not in said
    assert "wr0ng" not in said
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    nowhere = opened(kind, elsewhere, "nowhere", s3.port)
    with pytest.raises(sb.InvalidInputError, match=r"NoSuchBucket|NO_SUCH_BUCKET|[Bb]ucket.* does not exist"):
        begun(nowhere)
    assert numbers(kind, tmp_path, bucket, s3.port) == [0]


@pytest.mark.parametrize("kind", KINDS)
def test_a_bucket_without_the_right_to_write(s3, bucket, tmp_path, kind):
    ready(kind, tmp_path, bucket, s3.port).take(0, answers(0))
    (tmp_path / "other").mkdir()
    reader = S3(s3.folder, read_only=True)
    try:
        for folder in (tmp_path, tmp_path / "other"):
            limited = opened(kind, folder, bucket, reader.port)
            limited.reach()
            with pytest.raises(sb.InvalidInputError, match=r"cannot be used: .*Nothing was written") as error:
                limited.check(answers(1))
            assert "\n" not in str(error.value)
    finally:
        reader.kill()
    assert numbers(kind, tmp_path, bucket, s3.port) == [0]
    assert not list((s3.folder / "objects" / bucket).rglob("_skyband*"))


@pytest.mark.parametrize("kind", KINDS)
def test_runs(s3, bucket, tmp_path, kind, monkeypatch):
    """Two runs, one that is rejected before it removes anything, and one that starts over."""
    for name, value in options(kind, s3.port).items():
        monkeypatch.setenv(name.replace("-", "_").replace(".", "_").upper(), str(value))
    listed = ", ".join(
        f"{name}: '${{{name.replace('-', '_').replace('.', '_').upper()}}}'" for name in options(kind, 1)
    )
    text = {
        "delta": f"{{type: delta, path: 's3://{bucket}/answers', options: {{{listed}}}}}",
        "iceberg": "{type: iceberg, table: db.answers, catalog: 'sqlite:///catalog.db', "
        f"warehouse: 's3://{bucket}/warehouse', options: {{{listed}}}}}",
    }[kind]
    workload(tmp_path, [])
    path = tmp_path / "work.yaml"
    path.write_text(path.read_text().replace("sinks: [", f"sinks: [{text}, "))
    answered = held(ended(run_local(sb.read_workload(path), "catch-up")))
    (tmp_path / "in" / "2.csv").write_text(SECOND)
    answered += held(ended(run_local(sb.read_workload(path), "catch-up")))
    assert found(kind, tmp_path, bucket, s3.port) == sorted(answered)
    state = (tmp_path / ".skyband/work/s/local/state").read_bytes()
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY" if kind == "delta" else "S3_SECRET_ACCESS_KEY", "wr0ng")
    with pytest.raises(sb.InvalidInputError, match="cannot be used"):
        run_local(sb.read_workload(path), "catch-up", fresh=True)
    assert (tmp_path / ".skyband/work/s/local/state").read_bytes() == state
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY" if kind == "delta" else "S3_SECRET_ACCESS_KEY", PASSWORD)
    again = held(ended(run_local(sb.read_workload(path), "catch-up", fresh=True)))
    assert found(kind, tmp_path, bucket, s3.port) == sorted(again)


def ended(running):
    assert running.await_end(300)
    return running


def found(*place):
    rows = rows_in(*place).to_pylist()
    return sorted((row["query"], row["window_end"].isoformat(), row["rank"], row["name"], row["score"]) for row in rows)
