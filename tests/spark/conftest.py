"""One Spark for all tests of a process."""

from __future__ import annotations

import pytest

from skyband.spark import session


@pytest.fixture(scope="session")
def spark():
    found = session("tests", master="local[2]", memory="1g")
    yield found
    found.stop()
