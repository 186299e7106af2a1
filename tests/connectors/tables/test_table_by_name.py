"""Tables by name: of Spark's catalog, and without Spark of the Iceberg catalogs that pyiceberg is configured for."""

from __future__ import annotations

import pytest

import skyband as sb
from skyband.cli.explain import explain_file
from skyband.jobs import run, run_local
from skyband.jobs.engine_choice import choose_engine
from tests.connectors.tables.iceberg_tables import append, created
from tests.connectors.tables.test_delta_source import finished, in_time
from tests.jobs.test_job import QUERIES, wanted, whole
from tests.jobs.test_job import finished as finished_on_spark
from tests.spark.frames import read_answers, table

STREAM = "streams: {rows: {source: table, table: %s, time: ts, id: id, watermark: 0 seconds%s}}\n"
SINKS = "sinks: [{type: parquet, path: out}]\n"


def workload(folder, name="prod.db.trades", more=""):
    (folder / "work.yaml").write_text(STREAM % (name, more) + QUERIES + SINKS)
    return sb.read_workload(folder / "work.yaml")


@pytest.fixture
def configured(tmp_path, monkeypatch):
    monkeypatch.setenv("PYICEBERG_CATALOG__PROD__URI", f"sqlite:///{tmp_path}/catalog.db")
    monkeypatch.setenv("PYICEBERG_CATALOG__PROD__WAREHOUSE", f"file://{tmp_path}")
    # The name of a catalog is part of a table's name in a database.
    monkeypatch.setattr("tests.connectors.tables.iceberg_tables.catalog_of", lambda folder: _catalog())
    return tmp_path


def _catalog():
    import os

    from pyiceberg.catalog import load_catalog

    found = {key: os.environ[f"PYICEBERG_CATALOG__PROD__{key.upper()}"] for key in ("uri", "warehouse")}
    return load_catalog("prod", **found)


def test_an_iceberg_table_without_spark(configured):
    rows = in_time(61)
    created(configured)
    append(configured, rows[:100])
    finished(workload(configured))
    append(configured, rows[100:])
    finished(workload(configured), "stream")
    assert whole(read_answers(configured / "out")) == wanted(rows)


def test_the_engine(configured, monkeypatch):
    created(configured)
    append(configured, in_time(62))
    file = workload(configured)
    assert choose_engine(file).engine == "spark"  # the catalog of Spark can be another one
    assert "stream rows: table prod.db.trades; time ts" in explain_file(configured / "work.yaml", as_json=False)
    monkeypatch.setattr("skyband.jobs.engine_choice.why_no_spark", lambda: "Java was not found")
    assert choose_engine(file).engine == "local"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("prd.db.trades", r"did you mean 'prod'\? Set PYICEBERG_CATALOG__PRD__URI"),
        ("other.db.trades", r"configured: .*prod"),
        ("db.trades", r"must be catalog\.schema\.table"),
        ("prod.db.trade", r"does not exist\. Did you mean 'db\.trades'\?"),
    ],
)
def test_a_table_that_is_absent_without_spark(configured, name, said):
    created(configured)
    with pytest.raises(sb.SkybandError, match=said):
        run_local(workload(configured, name))


def test_options_of_spark_are_rejected_without_it(configured):
    created(configured)
    with pytest.raises(sb.UnsupportedError, match="options of Spark's reader are not supported without Spark"):
        run_local(workload(configured, more=", options: {maxFilesPerTrigger: 1}"))


@pytest.mark.parametrize("name", ["a..b", "'.trades'"])
def test_a_name_that_is_rejected(tmp_path, name):
    with pytest.raises(sb.WorkloadFileError, match=r"is not a table name; write catalog\.schema\.table"):
        workload(tmp_path, name)


@pytest.fixture
def schema(spark, tmp_path):
    spark.sql(f"CREATE SCHEMA lake LOCATION '{tmp_path}/lake'")
    yield "lake"
    spark.sql("DROP SCHEMA lake CASCADE")


def insert(spark, rows):
    spark.createDataFrame(table(rows)).coalesce(1).write.insertInto("lake.trades")


@pytest.mark.long
@pytest.mark.slow
def test_a_table_of_spark(spark, schema, tmp_path):
    rows = in_time(63)
    spark.createDataFrame(table(rows[:60])).coalesce(1).write.format("parquet").saveAsTable("lake.trades")
    file = workload(tmp_path, "spark_catalog.lake.trades", ", options: {maxFilesPerTrigger: 1}")
    finished_on_spark(file, spark, "catch-up")
    insert(spark, rows[60:130])
    finished_on_spark(file, spark, "catch-up")
    insert(spark, rows[130:])
    running = run(file, "stream", spark=spark)
    running.finish()
    assert running.await_end(300)
    assert whole(read_answers(tmp_path / "out")) == wanted(rows)
    finished_on_spark(workload(tmp_path, "lake.trades"), spark, "once", fresh=True)
    assert whole(read_answers(tmp_path / "out")) == wanted(rows)


@pytest.mark.long
@pytest.mark.slow
def test_a_table_that_is_absent_on_spark(spark, schema, tmp_path):
    spark.createDataFrame(table(in_time(64))).write.format("parquet").saveAsTable("lake.trades")
    for name, said in {
        "lake.trade": r"did you mean 'lake\.trades'\?",
        "spark_catalog.lake.trade": r"did you mean 'spark_catalog\.lake\.trades'\?",
        "lake.zzz": r"schema 'lake' has trades\.",
        "lakes.trades": r"schema 'lakes' does not exist; did you mean 'lake'\?",
        "spark_catalogs.lake.trades": r"catalog 'spark_catalogs' is unknown; did you mean 'spark_catalog'\?",
    }.items():
        with pytest.raises(sb.InvalidInputError, match=said):
            run(workload(tmp_path, name), "catch-up", spark=spark)
        assert not (tmp_path / "out").exists()
    text = (STREAM % ("lake.trades", "")).replace("time: ts", "time: no_such_time") + QUERIES
    (tmp_path / "work.yaml").write_text(text)
    with pytest.raises(sb.SkybandError, match="no_such_time"):
        run(sb.read_workload(tmp_path / "work.yaml"), "catch-up", spark=spark)
