"""The jars for Kafka: which are fetched, what stands in for them, and what is said where there are none."""

from __future__ import annotations

from hashlib import sha256

import pytest

import skyband as sb
from skyband.spark import ivy, jars, sessions
from skyband.spark.ivy import AbsentError, Module, NotFetchedError

SPARK = jars._spark()


class Registry:
    """Gives a jar with its own name in it for each module, but for those of versions it does not have."""

    def __init__(self, without=(), reachable=True):
        self.without, self.reachable, self.asked = without, reachable, []

    def __call__(self, modules, folder):
        self.asked.append(list(modules))
        if not self.reachable:
            raise NotFetchedError("the registry cannot be reached")
        for module in modules:
            (folder / module.file).write_text(module.file)
        absent = [str(module) for module in modules if module.version in self.without]
        if absent:
            raise AbsentError(f"the registry has no {absent}")
        return sorted(folder.iterdir())


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.setenv(jars.FOLDER, str(tmp_path / "jars"))
    monkeypatch.setattr(jars, "_reject_changed", lambda *_: None)  # what the registry of these tests gives is no jar
    return tmp_path / "jars"


def test_the_connector_has_the_version_of_spark(here):
    found = jars.fetch_jars(Registry())
    assert found == jars.kafka_jars()
    assert (found.connector, found.spark) == (SPARK, SPARK)
    assert found.paths.split(",")[0] == str(here / f"spark-sql-kafka-0-10_2.13-{SPARK}.jar")
    assert {path.name for path in here.iterdir()} == {*found.files, "jars.json"}


def test_what_was_tried_stands_in_for_a_version_that_is_not_there(here):
    registry = Registry(without=[SPARK])
    found = jars.fetch_jars(registry)
    assert len(registry.asked) == 2
    assert found.connector == registry.asked[1][0].version != SPARK
    assert not list(here.glob(f"*{SPARK}*")), "nothing is left of the first try"
    assert jars.fetch_jars(Registry()).connector == SPARK, "and gives way when it is there"
    assert list(here.parent.iterdir()) == [here]


def test_a_registry_that_does_not_answer_is_no_reason_to_take_another_version(here):
    registry = Registry(reachable=False)
    with pytest.raises(sb.MissingDependencyError, match="cannot be reached"):
        jars.fetch_jars(registry)
    assert len(registry.asked) == 1
    assert list(here.parent.iterdir()) == []


def test_what_is_there_stays_when_nothing_can_be_fetched(here):
    before = jars.fetch_jars(Registry())
    with pytest.raises(NotFetchedError):
        jars.fetch_jars(Registry(reachable=False))
    assert jars.kafka_jars() == before


def test_a_jar_that_is_another_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv(jars.FOLDER, str(tmp_path / "jars"))
    with pytest.raises(NotFetchedError, match=r"kafka-clients.* has the SHA-256 checksum \w+ instead of \w+:"):
        jars.fetch_jars(Registry())
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_other_files_is_left_alone(here):
    here.mkdir()
    (here / "thesis.tex").write_text("years of work")
    with pytest.raises(NotFetchedError, match=r"contains other files \('thesis.tex'\)"):
        jars.fetch_jars(Registry())
    assert (here / "thesis.tex").exists()


def test_the_one_command_is_named_where_there_are_none(here):
    with pytest.raises(sb.MissingDependencyError, match=r"has none\. Fetch them once with: skyband jars"):
        jars.kafka_jars()
    found = jars.fetch_jars(Registry())
    (here / found.files[0]).unlink()
    with pytest.raises(sb.MissingDependencyError, match="skyband jars"):
        jars.kafka_jars()


def test_jars_of_another_spark_are_not_taken(here):
    jars.fetch_jars(Registry())
    told = (here / "jars.json").read_text()
    (here / "jars.json").write_text(told.replace(f'"spark": "{SPARK}"', '"spark": "4.0.0"'))
    with pytest.raises(
        sb.MissingDependencyError, match=r"has those of Spark 4\.0\.0\. Fetch them once with: skyband jars"
    ):
        jars.kafka_jars()


def test_the_default_folder_is_in_the_users_cache(monkeypatch):
    monkeypatch.delenv(jars.FOLDER, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert str(jars.folder()) == f"/cache/skyband/kafka-for-spark-{SPARK}"


@pytest.mark.parametrize(
    ("said", "kind", "told"),
    [
        (":: a#b;1: not found", AbsentError, "does not contain a:b:1"),
        (":: a#b;1: not found\n Host x not found. url=…", NotFetchedError, "is unreachable (Host x not found"),
        ("Server access error at url … (refused)", NotFetchedError, "SKYBAND_IVY_SETTINGS"),
        ("", NotFetchedError, "(without output)"),
    ],
)
def test_why_nothing_was_fetched(said, kind, told):
    missing = ["a#b;1"] if "a#b" in said else []
    found = ivy._failure(missing, said)
    assert type(found) is kind
    assert told in str(found)


def test_what_the_resolver_is_asked_for():
    text = ivy._request([Module("a&b", "c", "1")], transitive=False)
    assert 'org="a&amp;b" name="c" rev="1" conf="default->master" transitive="false"' in text


class TestSession:
    """Which jars a session is given."""

    @pytest.fixture(autouse=True)
    def _built(self, here, monkeypatch):
        self.built = {}
        monkeypatch.setattr(sessions, "_running", lambda: None)
        monkeypatch.setattr(sessions, "_build", self.built.update)
        self.jars = jars.fetch_jars(Registry())

    def test_those_that_were_fetched(self):
        sessions.session(kafka=True)
        assert self.built["spark.jars"] == self.jars.paths

    def test_beside_the_users_own(self):
        sessions.session(kafka=True, settings={"spark.jars": "/mine.jar"})
        assert self.built["spark.jars"] == f"/mine.jar,{self.jars.paths}"

    def test_unless_the_user_brings_them(self):
        packages = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0"
        sessions.session(kafka=True, settings={"spark.jars.packages": packages})
        assert "spark.jars" not in self.built

    def test_none_where_nobody_reads_kafka(self):
        sessions.session()
        assert "spark.jars" not in self.built


def test_pinned_sums_are_sums():
    import tomllib

    pinned = tomllib.loads(jars._PINNED.read_text())
    assert all(len(one["sha256"]) == len(sha256().hexdigest()) for one in (*pinned["with"], *pinned["instead"]))
