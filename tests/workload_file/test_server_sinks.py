"""Sinks that are servers in workload files: their keys, and no secret that stands in a file or leaves it."""

# ruff: noqa: E501 - a line for a mistake

from __future__ import annotations

import pytest

from tests.workload_file.files import SHORT
from tests.workload_file.json_schema import errors
from tests.workload_file.test_schema import values

VALID = {
    "a table": "{type: postgres, table: answers}",
    "a table with all its keys": "{type: postgres, table: 'sales.{stream}', url: 'postgresql://me@db:5432/x?sslmode=require', history: newest, retry: 5 minutes, queries: [big], options: {sslmode: verify-full, sslrootcert: ca.pem, connect_timeout: 5}}",
    "changes in a table": "{type: postgres, table: answers, output: changes, history: all}",
    "a table whose name is hostile": "{type: postgres, table: '\"; DROP TABLE x; --'}",
    "sorted sets": "{type: redis, url: redis://127.0.0.1}",
    "sorted sets with all their keys": "{type: redis, url: rediss://cache:6379/0, prefix: best, member: id, sort: rank, expire: 1 hour, retry: 0 seconds, options: {ssl_ca_certs: ca.pem}}",
    "nothing": "{type: postgres, table: a, url: , options: , retry: ~}",
}
# A sink, the key that is wrong, part of what is said, and whether the schema can tell.
WRONG = {
    "no table": ("{type: postgres}", "table", "is missing; name the table to write answers to.", True),
    "no address": ("{type: redis}", "url", "is missing; set the address of the server", True),
    "a folder": (
        "{type: postgres, table: a, path: b}",
        "path",
        "is for file sinks; this sink has type postgres.",
        True,
    ),
    "a key of another type": (
        "{type: postgres, table: a, prefix: b}",
        "prefix",
        "is for a sink of type redis; this sink has type postgres.",
        True,
    ),
    "a table in memory": (
        "{type: memory, table: a}",
        "table",
        "is for a sink of type iceberg or postgres; this sink has type memory.",
        True,
    ),
    "an address of files": (
        "{type: csv, path: a, url: redis://b}",
        "url",
        "is for a sink of type alerts or postgres or redis; this sink has type csv.",
        True,
    ),
    "another address": (
        "{type: postgres, table: a, url: mysql://db}",
        "url",
        "'mysql://db' is not an address of a postgres server; write postgresql://host…",
        False,
    ),
    "words of libpq": (
        "{type: postgres, table: a, url: host=db}",
        "url",
        "is not an address of a postgres server",
        False,
    ),
    "three names": (
        "{type: postgres, table: a.b.c}",
        "table",
        "'a.b.c' is not a table name",
        False,
    ),
    "half a name": ("{type: postgres, table: a.}", "table", "is not a table name", False),
    "a long name": (
        "{type: postgres, table: " + "é" * 32 + "}",
        "table",
        "has 64 bytes; names in PostgreSQL have at most 63",
        False,
    ),
    "a NUL": ('{type: postgres, table: "a\\0b"}', "table", "contains a NUL character", False),
    "changes without a history": (
        "{type: postgres, table: a, output: changes, history: newest}",
        "history",
        "cannot be combined with output: changes",
        False,
    ),
    "changes in a set": (
        "{type: redis, url: redis://h, output: changes}",
        "output",
        "a sorted set stores the newest answer",
        True,
    ),
    "a history": (
        "{type: postgres, table: a, history: some}",
        "history",
        "must be one of all, newest, got 'some'",
        True,
    ),
    "no time at all": (
        "{type: redis, url: redis://h, expire: 0 seconds}",
        "expire",
        "must be at least 1 millisecond, got '0 seconds'",
        False,
    ),
    "no duration": ("{type: redis, url: redis://h, expire: soon}", "expire", "is not a duration", True),
    "another name": ("{type: postgres, table: a, ttl: 1}", "ttl", "did you mean 'expire'?", True),
}
SECRET = "hunter2-hunter2"
LITERAL = {
    "in the address": (f"{{type: postgres, table: a, url: 'postgresql://me:{SECRET}@db/x'}}", "url"),
    "in its parameters": (f"{{type: postgres, table: a, url: 'postgresql://me@db/x?sslmode=require&password={SECRET}'}}", "url"),
    "of redis": (f"{{type: redis, url: 'rediss://:{SECRET}@h'}}", "url"),
    "as a default": (f"{{type: redis, url: 'rediss://:${{NONE:-{SECRET}}}@h'}}", "url"),
    "as a whole default": (f"{{type: redis, url: '${{NONE:-redis://u:{SECRET}@h}}'}}", "url"),
    "as an option": (f"{{type: postgres, table: a, options: {{password: {SECRET}}}}}", "options.password"),
    "as an option's default": (f"{{type: postgres, table: a, options: {{password: '${{NONE:-{SECRET}}}'}}}}", "options.password"),
    "of a key": (f"{{type: postgres, table: a, options: {{sslpassword: {SECRET}}}}}", "options.sslpassword"),
}  # fmt: skip
FROM_OUTSIDE = {
    "all of the address": "{type: postgres, table: a, url: '${URL}'}",
    "a part of it": "{type: postgres, table: a, url: 'postgresql://me:${PW}@db/x'}",
    "a parameter": "{type: postgres, table: a, url: 'postgresql://me@db/x?password=${PW}'}",
    "an option": "{type: postgres, table: a, options: {password: '${PW}'}}",
}
ENVIRONMENT = {"URL": f"postgresql://me:{SECRET}@db/x", "PW": SECRET}


def file_with(sink):
    return SHORT + f"sinks:\n  - {sink}\n"


@pytest.mark.parametrize("name", VALID)
def test_it_is_read_and_fits_the_schema(read, name):
    [sink] = read(file_with(VALID[name])).sinks
    assert sink.type in ("postgres", "redis")
    assert errors(values(file_with(VALID[name]))) == []


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_told(problems, name):
    sink, key, says, can_tell = WRONG[name]
    [found] = problems(file_with(sink))
    assert found[2] == f"sinks[0].{key}"
    assert says in found[3]
    assert bool(errors(values(file_with(sink)))) == can_tell


@pytest.mark.parametrize("name", LITERAL)
def test_a_secret_in_the_file_is_refused_and_not_repeated(problems, name):
    sink, key = LITERAL[name]
    [found] = problems(file_with(sink))
    assert found[2] == f"sinks[0].{key}"
    assert "secrets are not allowed in a workload file" in found[3]
    assert SECRET not in found[3]


@pytest.mark.parametrize("name", FROM_OUTSIDE)
def test_a_secret_from_the_environment_is_taken_and_not_shown(read, name):
    file = read(file_with(FROM_OUTSIDE[name]), ENVIRONMENT)
    [sink] = file.sinks
    assert SECRET in f"{sink.url}{sink.options}"
    assert SECRET not in repr(file) + repr(sink) + str(sink)


def test_a_wrong_address_from_the_environment_is_not_shown(problems):
    sink = "{type: redis, url: '${URL}'}"
    [found] = problems(file_with(sink), ENVIRONMENT)
    assert SECRET not in found[3]
    assert "'postgresql://me:***@db/x' is not an address of a redis server" in found[3]


def test_certificates_are_looked_for_beside_the_file(read, tmp_path):
    options = "{sslrootcert: ca.pem, sslcert: /etc/c.pem, sslkey: keys/k.pem, sslmode: verify-ca}"
    [sink] = read(file_with(f"{{type: postgres, table: a, options: {options}}}")).sinks
    assert sink.options == {
        "sslrootcert": str(tmp_path / "ca.pem"),
        "sslcert": "/etc/c.pem",
        "sslkey": str(tmp_path / "keys" / "k.pem"),
        "sslmode": "verify-ca",
    }
    [sink] = read(file_with("{type: postgres, table: a, options: {sslrootcert: system}}")).sinks
    assert sink.options == {"sslrootcert": "system"}
