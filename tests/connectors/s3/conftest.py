"""One S3 server for the tests of this folder; where it cannot be had, they are skipped, and say why."""

from __future__ import annotations

import itertools

import pytest

from skyband.errors import MissingDependencyError
from tests.connectors.s3.gate import Gate
from tests.connectors.s3.server import S3, jar
from tests.downloads import NotFetchedError

_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def s3(tmp_path_factory):
    try:
        jar()
        server = S3(tmp_path_factory.mktemp("s3"))
    except (NotFetchedError, MissingDependencyError) as error:
        pytest.skip(f"S3 is not tested: {error}")
    yield server
    server.kill()


@pytest.fixture
def gate(s3):
    """Another server over the same objects, which ends at chosen requests."""
    found = Gate(s3.folder)
    yield found
    found.close()


@pytest.fixture
def bucket(s3):
    name = f"bucket{next(_NUMBERS)}"
    s3.make_bucket(name)
    return name
