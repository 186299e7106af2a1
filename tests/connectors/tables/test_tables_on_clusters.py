"""Tables as sources of streams on a cluster of two workers, with paths that all share."""

from __future__ import annotations

import pytest

from tests.connectors.tables.test_delta_source import in_time
from tests.connectors.tables.test_tables_on_spark import KINDS, Lake
from tests.faults.process import Driver
from tests.spark.cluster import Cluster
from tests.spark.test_connect import final

pytestmark = pytest.mark.release
SHARED = ", files_per_batch: 1, shared: true"
SETTINGS = "spark.cores.max: 2, spark.executor.memory: 600m, spark.driver.host: 127.0.0.1, "
SETTINGS += "spark.driver.bindAddress: 127.0.0.1, spark.sql.shuffle.partitions: 2"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    found = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        found.add_workers("first", "second")
        yield found
    finally:
        found.stop()


@pytest.mark.parametrize("kind", KINDS)
def test_on_a_cluster(kind, cluster, tmp_path):
    rows, lake = in_time(45), Lake(kind, tmp_path)
    lake.append(rows[:60])
    lake.workload(SHARED, f"engine: {{master: '{cluster.url}', memory: 768m, settings: {{{SETTINGS}}}}}\n")
    driver = Driver(tmp_path / "work.yaml", "--catch-up", SPARK_LOCAL_IP="127.0.0.1")
    try:
        driver.start()
        assert driver.ended(600) == 0, driver.told()
        lake.append(rows[60:])
        driver.start()
        assert driver.ended(600) == 0, driver.told()
    finally:
        driver.end()
    assert lake.answers() == final(rows)
