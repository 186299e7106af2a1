"""Environment variables in values: filled in, typed as YAML would, and never shown where they may be secret."""

from __future__ import annotations

import pytest

import skyband as sb
from tests.workload_file.files import SHORT

SOCKET = """\
streams:
  a:
    source: socket
    host: ${HOST:-localhost}
    port: ${PORT}
    format: csv
    schema: {ts: timestamp, x: double}
    options: {password: "${PASSWORD:-}"}
    time: ts
queries:
  - {name: a, k: 1, size: 5, by: x}
"""


def test_a_number_is_a_number(read):
    stream = read(SOCKET, {"PORT": "9999"}).streams["a"]
    assert (stream.port, stream.host) == (9999, "localhost")


def test_quotes_keep_text_text(problems):
    [found] = problems(SOCKET.replace("${PORT}", "'${PORT}'"), {"PORT": "9999"})
    assert found[:3] == (5, 5, "streams.a.port")
    assert "Remove the quotes" in found[3]


def test_a_variable_that_is_not_set(problems):
    assert problems(SOCKET) == [
        (
            5,
            5,
            "streams.a.port",
            (
                "'${PORT}' needs the environment variable PORT, which is not set; export PORT=…, or write "
                "${PORT:-default}."
            ),
        )
    ]


def test_all_missing_ones_are_named(problems):
    [found] = problems(SHORT.replace("trades.csv", "${ROOT}/${DAY}/x.csv"))
    assert "variables ROOT, DAY, which are not set" in found[3]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("${X}", "x y"),
        ("a${X}b", "ax yb"),
        ("${E:-d}", "d"),
        ("${NO:-d e}", "d e"),
        ("${NO:-}price", "price"),
        ("$${X}", "${X}"),
        ("$$${X}", "$${X}"),
        ("'$${X} ${X}'", "${X} x y"),
        ("$X", "$X"),
        ("'{X}'", "{X}"),
        ("|\n      ${X}", "x y"),
    ],
)
def test_what_is_filled_in(read, written, value):
    file = read(SHORT.replace("by: price", f"by: {written}"), {"X": "x y", "E": ""})
    assert file.workloads["trades"]["big"].by.strip() == value


@pytest.mark.parametrize("written", ["${", "${X", "${1}", "${X-y}", "${}", "${X:y}", "${a b}"])
def test_what_is_no_variable(problems, written):
    [found] = problems(SHORT.replace("by: price", f'by: "{written}"'), {"X": "x"})
    assert "is not an environment variable" in found[3]


def test_keys_and_comments_are_left_alone(problems, read):
    assert read(SHORT + "# ${NOWHERE}\n").workloads
    assert problems(SHORT.replace("trades:", '"${X}":'), {"X": "x"})[0][2] == "streams.${X}"


def test_an_empty_variable_is_a_key_left_out(read):
    assert read(SHORT.replace("time: ts", "time: ts\n    id: ${ID:-}")).streams["trades"].id is None


def test_the_environment_of_the_process(tmp_path, monkeypatch):
    monkeypatch.setenv("SKYBAND_TEST_K", "3")
    (tmp_path / "w.yaml").write_text(SHORT.replace("k: 10", "k: ${SKYBAND_TEST_K}"))
    assert sb.read_workload(tmp_path / "w.yaml").workloads["trades"]["big"].k == 3


@pytest.mark.parametrize("secret", ["hunter2", "ab", "10 minuts'\n\"", "{x}"])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("1 hour", "${DB_PASSWORD}"),
        ("k: 10", "k: ${API_TOKEN}"),
        ("time: ts", "time: ts\n    watermark: ${AWS_SECRET_ACCESS_KEY}"),
        ("time: ts", "time: ts\n    time_format: ${MY_SECRET}"),
        ("time: ts", "time: ts\n    schema: {password: '${X}'}"),
        ("queries:", "engine: {memory: '${TOKEN}', algorithm: '${TOKEN}'}\nqueries:"),
    ],
)
def test_secrets_are_not_shown(problems, old, new, secret):
    names = ("DB_PASSWORD", "API_TOKEN", "AWS_SECRET_ACCESS_KEY", "MY_SECRET", "TOKEN", "X")
    found = problems(SHORT.replace(old, new), dict.fromkeys(names, secret))
    assert found
    for problem in found:
        assert repr(secret) not in problem[3]
        assert len(secret) < 4 or secret not in problem[3]


def test_other_values_are_shown(problems):
    [found] = problems(SHORT.replace("1 hour", "${SIZE}"), {"SIZE": "1 huor"})
    assert "'1 huor' is not a duration" in found[3]
