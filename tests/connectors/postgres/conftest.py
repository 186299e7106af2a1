"""One server for the tests of a process, and a database of its own for each test."""

from __future__ import annotations

import itertools
import os

import pytest

from tests.connectors.postgres.server import Postgres, binaries

_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def server():
    if binaries() is None:
        pytest.skip("there is no PostgreSQL server on this machine; on Debian: apt-get install postgresql")
    found = Postgres()
    yield found
    found.remove()


@pytest.fixture(autouse=True)
def no_settings(monkeypatch):
    """The server that somebody's environment names is none of the tests'."""
    for name in [name for name in os.environ if name.startswith("PG")]:
        monkeypatch.delenv(name)


class Database:
    """A database, and how to get in."""

    def __init__(self, server):
        self.server, self.name = server, f"test{next(_NUMBERS)}"
        server.execute(f"CREATE DATABASE {self.name}")

    def url(self, user="boss", **more):
        return self.server.url(user, database=self.name, **more)

    def execute(self, statement, values=None):
        return self.server.execute(statement, values, self.name)

    def rows(self, table="answers", moment="window_end"):
        """The rows of a table as dictionaries, in order."""
        with self.server.connect(self.name) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            cursor = connection.execute(f"SELECT * FROM {table} ORDER BY query, {moment}, answer_group, answer_place")
            names = [column.name for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


@pytest.fixture
def database(server):
    found = Database(server)
    yield found
    server.execute(f"DROP DATABASE {found.name} WITH (FORCE)")
