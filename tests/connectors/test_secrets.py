"""No secret is shown, however an address is written: in errors, in explanations, or in what a server says."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

import skyband as sb
from skyband.cli.explain import explain_file
from skyband.connectors.secrets import has_literal_secret, secrets_of, shown_address

FILE = """
streams: {{rows: {{source: rate}}}}
queries: [{{name: best, k: 1, size: 1 hour, by: value}}]
sinks:
  - {sink}
"""
LETTERS = "QZXJKV0123456789"  # none of our messages is made of these
SECRETS = st.builds(
    "".join,
    st.lists(
        st.one_of(st.text(LETTERS, min_size=4, max_size=8), st.sampled_from(list(" '\"\\@:/?#&=%;,$"))),
        min_size=1,
        max_size=6,
    ),
).filter(lambda secret: sum(letter in LETTERS for letter in secret) >= 4)


def encoded(secret):
    return quote(secret, safe="")


def escaped(secret):
    return secret.replace("\\", "\\\\").replace("'", "\\'")


PLACE = "host=127.0.0.1,127.0.0.1 port=1,1 dbname=sales connect_timeout=2"
# What is written for a secret, by the kind of the server it is for.
WRITTEN = {
    "libpq, quoted": ("postgres", lambda secret: f"{PLACE} user=me password='{escaped(secret)}' sslmode=prefer"),
    "libpq, spaces": ("postgres", lambda secret: f"{PLACE} password = '{escaped(secret)}'"),
    "libpq, not quoted": ("postgres", lambda secret: f"{PLACE} password={secret}"),
    "libpq, quote not closed": ("postgres", lambda secret: f"password='{escaped(secret)} {PLACE}"),
    "libpq, of the key": ("postgres", lambda secret: f"sslpassword='{escaped(secret)}' {PLACE}"),
    "a URI": ("postgres", lambda secret: f"postgresql://me:{encoded(secret)}@127.0.0.1:1,127.0.0.1:1/sales"),
    "a URI, not encoded": ("postgres", lambda secret: f"postgresql://me:{secret}@127.0.0.1:1/sales"),
    "a parameter": ("postgres", lambda secret: f"postgres://127.0.0.1:1/x?user=me&password={encoded(secret)}"),
    "a parameter of the key": ("postgres", lambda secret: f"postgres://127.0.0.1:1/?sslpassword={encoded(secret)}&a=b"),
    "a parameter, its name encoded": ("postgres", lambda secret: f"postgres://127.0.0.1:1/?pass%77ord={encoded(secret)}"),
    "a parameter of JDBC": ("postgres", lambda secret: f"jdbc:postgresql://127.0.0.1:1/x?password={encoded(secret)}"),
    "no scheme": ("postgres", lambda secret: f"me:{secret}@127.0.0.1:1/sales"),
    "Redis": ("redis", lambda secret: f"redis://:{encoded(secret)}@127.0.0.1:1/0"),
    "Redis, not encoded": ("redis", lambda secret: f"redis://me:{secret}@127.0.0.1:1/0"),
    "Redis, a parameter": ("redis", lambda secret: f"redis://127.0.0.1:1?password={encoded(secret)}"),
}  # fmt: skip


def shows(said, secret):
    """Whether any four letters of the secret are shown in a row; shorter ones may be there by chance."""
    pieces = {secret[at : at + 4] for at in range(len(secret) - 3)}
    return any(piece in said for piece in pieces if all(letter in LETTERS for letter in piece))


def messages(folder, kind, url):
    """All that is said about an address: as it stands in a file, from the environment, and by the server's client."""
    sink = {"type": kind, "url": url, **({"table": "answers"} if kind == "postgres" else {})}
    path = folder / "work.yaml"
    for written, environment in ((url.replace("${", "$${"), {}), ("${ADDRESS}", {"ADDRESS": url})):
        path.write_text(FILE.format(sink=json.dumps(sink | {"url": written})), encoding="utf-8")
        try:
            file = sb.read_workload(path, environment)
        except sb.WorkloadFileError as error:
            yield str(error)
            continue
        yield repr(file)
        yield file.hide(f"the server said: {url}")
        with pytest.MonkeyPatch.context() as patched:
            for name, value in environment.items():
                patched.setenv(name, value)
            yield explain_file(path, as_json=False) + explain_file(path, as_json=True)
    yield from reached(kind, url)


def reached(kind, url):
    """What the sink says when its server is not there."""
    from skyband.connectors.postgres_writer import PostgresWriter
    from skyband.connectors.redis_writer import SortedSets

    query = sb.TopK(name="best", k=1, size="1 hour")
    made = PostgresWriter("answers", {"best": ()}, url=url) if kind == "postgres" else SortedSets([query], url=url)
    yield str(made)
    with pytest.raises(sb.SkybandError) as caught:
        made.reach()
    yield str(caught.value)


@pytest.mark.parametrize("name", WRITTEN)
@given(secret=SECRETS)
@example(secret="QZXJ KV01=2345")
@example(secret="QZXJ@KV01:2345/QQQQ")
@example(secret="QZXJ'KV01\\2345")
@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
def test_no_part_of_a_secret_is_shown(tmp_path, name, secret):
    assume(name != "no scheme" or not secret.startswith("//"))
    kind, write = WRITTEN[name]
    for said in messages(tmp_path, kind, write(secret)):
        assert not shows(said, secret), said


@given(secret=SECRETS, name=st.sampled_from(sorted(WRITTEN)))
def test_it_is_hidden_and_refused_in_a_file(secret, name):
    assume(name != "no scheme" or not secret.startswith("//"))  # me://… is another address, of a scheme
    url = WRITTEN[name][1](secret)
    assert not shows(shown_address(url), secret)
    assert "***" in shown_address(url)
    assert has_literal_secret(url)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me@db/sales?sslmode=require",
        "host=db user=me dbname=sales",
        "redis://host:6379/0",
        "postgresql:///sales?host=/run/postgresql",
        "127.0.0.1:9092",
    ],
)
def test_what_has_no_secret_is_shown_as_it_is(url):
    assert shown_address(url) == url
    assert not has_literal_secret(url)
    assert secrets_of(url, {}) == set()


JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="{}";'


@given(secret=SECRETS.filter(lambda secret: not set(secret) & set('"\\')))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_password_of_kafka_is_hidden_by_itself_too(tmp_path, secret):
    path = tmp_path / "work.yaml"
    text = FILE.format(
        sink="{type: kafka, servers: '127.0.0.1:1', topic: t, options: {kafka.sasl.jaas.config: '${LOGIN}'}}"
    )
    path.write_text(text, encoding="utf-8")
    file = sb.read_workload(path, {"LOGIN": JAAS.format(secret)})
    assert not shows(file.hide(f"login failed: {secret}"), secret)
    assert not shows(file.hide(f"cannot read {JAAS.format(secret)}"), secret)


def test_an_address_of_the_wrong_type_is_not_repeated(tmp_path):
    path = tmp_path / "work.yaml"
    path.write_text(FILE.format(sink="{type: redis, url: ['redis://:QZXJ1234@h'], password: KVKV5678}"))
    with pytest.raises(sb.WorkloadFileError) as caught:
        sb.read_workload(path, {})
    assert not shows(str(caught.value), "QZXJ1234")
    assert not shows(str(caught.value), "KVKV5678")
