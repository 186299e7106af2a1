"""One broker for all tests of this folder; where it cannot be had, they are skipped, and say why."""

from __future__ import annotations

import pytest

from skyband.spark.ivy import NotFetchedError
from tests.connectors.kafka.broker import Broker, broker_jars, connector
from tests.connectors.kafka.topics import Topics


def pytest_collection_modifyitems(items):
    for item in items:
        if "/tests/connectors/kafka/" in str(item.path).replace("\\", "/"):
            item.add_marker(pytest.mark.kafka)


@pytest.fixture(scope="session")
def kafka(spark, tmp_path_factory):
    """The broker; `spark` has the connector if it is to be had."""
    try:
        connector()
        classpath = broker_jars()
    except NotFetchedError as error:
        pytest.skip(f"Kafka is not tested: {error}")
    broker = Broker(tmp_path_factory.mktemp("broker"), classpath)
    yield broker
    broker.stop()


@pytest.fixture
def topics(spark, kafka):
    """Writes to topics and reads them."""
    return Topics(spark, kafka.servers)
