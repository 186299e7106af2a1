"""The session that Skyband sets up, what it says of sessions made elsewhere, and what it needs to be installed."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pyspark
import pytest
from packaging.requirements import Requirement

import skyband as sb
from skyband.spark import requirements, sessions

PROVIDER, CHANGELOG, BYTES = [setting.name for setting in sessions.REQUIRED + sessions.RECOMMENDED]
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

# In a process of its own: what it writes to the terminal is looked at too, and no other test's session is met.
PROGRAM = """
import json, logging, sys, threading
from pyspark.sql.functions import udf
from skyband.spark import sessions

logging.basicConfig(stream=sys.stdout, format="log %(message)s")
settings = {"spark.sql.session.timeZone": "Europe/Paris", "spark.a.b": True, **SETTINGS}
spark = sessions.session("mine", "local[2]", settings=settings)
names = NAMES
found = {name: spark.conf.get(name, None) for name in names}
found["lacking"] = sessions.lacking(spark)
sessions.require(spark, streaming=True)
found["worker"] = spark.range(1).select(udf(lambda _: __import__("sys").executable)("id")).first()[0]
found["kind"] = type(spark).__module__

again = []
thread = threading.Thread(target=lambda: again.append(sessions.session(settings={"spark.a.b": False})))
thread.start()
thread.join()
found["same"] = again[0] is spark
found["after"] = spark.conf.get("spark.a.b")

spark.conf.unset(names[0])
found["lacks"] = sessions.lacking(spark)
sessions.session()
try:
    sessions.require(spark, streaming=True)
except sessions.UnsupportedError as error:
    found["refused"] = str(error)
sessions.require(spark, streaming=False)
spark.stop()
print("found", json.dumps(found))
"""


def run(settings, **environ):
    names = [PROVIDER, CHANGELOG, BYTES, "spark.sql.shuffle.partitions", "spark.sql.session.timeZone", "spark.a.b"]
    names += [
        "spark.sql.execution.arrow.maxRecordsPerBatch",
        "spark.driver.memory",
        "spark.ui.enabled",
        "spark.app.name",
    ]
    program = PROGRAM.replace("SETTINGS", repr(settings)).replace("NAMES", repr(names))
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYSPARK", "SPARK")) or name == "SPARK_SUBMIT_OPTS"
    }
    done = subprocess.run(
        [sys.executable, "-W", "error:Failed to set", "-c", program],
        env={**kept, **environ},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def classic():
    return run({})


def found_by(done):
    import json

    return json.loads(done.stdout.rpartition("found ")[2])


class Builder:
    """Collects settings, as a session builder does."""

    def __init__(self):
        self.settings = {}

    def config(self, name, value):
        self.settings[name] = value
        return self


def test_a_builder_gets_the_settings():
    builder = Builder()
    assert sessions.configure(builder) is builder
    assert set(builder.settings) == {PROVIDER, CHANGELOG, BYTES}
    assert builder.settings[PROVIDER].endswith(".RocksDBStateStoreProvider")


def test_the_session_has_what_it_should(classic):
    found = found_by(classic)
    assert (found[PROVIDER], found[CHANGELOG], found[BYTES]) == (ROCKSDB, "true", "2147483647")
    assert found["spark.sql.shuffle.partitions"] == "2"
    assert found["spark.sql.execution.arrow.maxRecordsPerBatch"] == "131072"
    assert found["spark.driver.memory"] in [
        f"{size}g" for size in range(1, 9)
    ]  # a quarter of the machine's, within reason
    assert found["spark.ui.enabled"] == "false"
    assert found["spark.app.name"] == "mine"
    assert found["lacking"] == []


def test_settings_of_the_user_win(classic):
    found = found_by(classic)
    assert (found["spark.sql.session.timeZone"], found["spark.a.b"]) == ("Europe/Paris", "true")


def test_workers_run_the_interpreter_that_has_skyband(classic):
    assert found_by(classic)["worker"] == sys.executable


def test_nothing_is_written_to_the_terminal(classic):
    lines = classic.stderr.splitlines()
    # Java itself writes this one before anything can be configured, for a module that Spark's launcher always adds.
    assert [line for line in lines if "Using incubator modules" not in line] == []


def test_a_session_that_runs_is_returned_as_it_is_with_a_word_of_what_it_lacks(classic):
    found = found_by(classic)
    assert (found["same"], found["after"]) == (True, "true")
    assert "log using the running Spark session; master, memory and settings are ignored." in classic.stdout
    assert f'session lacks settings that Skyband requires or recommends:\n    .config("{PROVIDER}", ' in classic.stdout


def test_a_foreign_session_without_rocksdb_is_refused_for_streams(classic):
    found = found_by(classic)
    assert [name for name, value, why in found["lacks"]] == [PROVIDER]
    assert f'\n    .config("{PROVIDER}", "{ROCKSDB}")  # ' in found["refused"]


@pytest.mark.long
def test_spark_connect():
    found = found_by(done := run({"spark.remote": "local[2]"}, SPARK_TESTING="1"))
    assert found["kind"].startswith("pyspark.sql.connect")
    assert (found[PROVIDER], found[BYTES], found["spark.sql.shuffle.partitions"]) == (ROCKSDB, "2147483647", "2")
    assert (found["lacking"], found["worker"], found["same"]) == ([], sys.executable, True)
    assert f'.config("{PROVIDER}", "{ROCKSDB}")' in found["refused"]
    assert "WARN " not in done.stderr


class Conf(dict):
    """Stands in for the settings of a session, and for the session."""

    conf = property(lambda self: self)


@pytest.mark.long
def test_the_default_of_a_platform_counts(spark):
    """As on platforms whose state store is RocksDB and whose sessions do not allow to set it."""
    name = "spark.sql.streaming.stateStore.compression.codec"
    default = spark.conf.get(name)
    assert spark.conf.get(name, None) is None
    assert sessions.lacking(spark, [sessions.Setting(name, default, "a default")]) == []
    assert len(sessions.lacking(spark, [sessions.Setting("spark.sql.unknown", "1", "unknown to Spark")])) == 1


def test_what_counts_as_lacking():
    assert [setting.name for setting in sessions.lacking(Conf())] == [PROVIDER, CHANGELOG, BYTES]
    there = Conf({PROVIDER: f"com.example.{ROCKSDB.rpartition('.')[2]}", CHANGELOG: "TRUE", BYTES: "2147483647b"})
    assert sessions.lacking(there) == []
    there = Conf({PROVIDER: ROCKSDB.replace("RocksDB", "HDFSBacked"), CHANGELOG: "false", BYTES: "67108864b"})
    assert len(sessions.lacking(there)) == 3
    assert [setting.name for setting in sessions.lacking(there, sessions.REQUIRED)] == [PROVIDER]
    with pytest.raises(sb.UnsupportedError, match="lacks settings"):
        sessions.require(there, streaming=True)


@pytest.mark.parametrize(("version", "may"), [("4.0.2", False), ("4.1.0", True)])
def test_streams_over_connect_need_spark_4_1(version, may):
    kind = type("SparkSession", (Conf,), {"__module__": "pyspark.sql.connect.session", "version": version})
    there = kind({PROVIDER: ROCKSDB})
    sessions.require(there, streaming=False)
    if may:
        sessions.require(there, streaming=True)
        return
    with pytest.raises(
        sb.UnsupportedError, match=r"streams over Spark Connect require Spark 4\.1 or newer, got 4\.0\.2"
    ):
        sessions.require(there, streaming=True)


@pytest.fixture
def built(monkeypatch):
    """What would be given to Spark, and the environment's PYSPARK_PYTHON at that moment."""
    given = {}

    def build(settings):
        given.update(settings, environment=os.environ.get("PYSPARK_PYTHON"))

    for name in ("PYSPARK_PYTHON", "SPARK_REMOTE", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sessions, "_build", build)
    monkeypatch.setattr(sessions, "_running", lambda: None)
    return given


def test_all_cores_by_default(built):
    sessions.session()
    assert built["spark.master"] == "local[*]"
    assert built["spark.sql.shuffle.partitions"] == str(os.cpu_count())
    assert built["environment"] == built["spark.pyspark.python"] == sys.executable
    assert built["spark.python.daemon.module"] == "skyband.spark.worker_daemon"
    assert built["spark.driver.host"] == built["spark.driver.bindAddress"] == "127.0.0.1"
    assert "PYSPARK_PYTHON" not in os.environ


def test_an_interpreter_of_the_users(built, monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", "/their/python")
    sessions.session()
    assert built["environment"] == built["spark.pyspark.python"] == "/their/python"
    assert "spark.python.daemon.module" not in built, "theirs need not have Skyband"
    sessions.session(settings={"spark.pyspark.python": "/other/python"})
    assert built["environment"] == "/other/python"
    assert os.environ["PYSPARK_PYTHON"] == "/their/python"


def test_a_cluster_keeps_its_own_addresses_partitions_and_interpreters(built):
    sessions.session(master="spark://host:7077", memory="4g")
    assert (built["spark.master"], built["spark.driver.memory"]) == ("spark://host:7077", "4g")
    assert not {"spark.driver.host", "spark.sql.shuffle.partitions", "spark.pyspark.python"} & set(built)
    assert "spark.python.daemon.module" not in built
    assert built["environment"] is None


def test_without_java_it_says_so_before_spark_does(built, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(sb.MissingDependencyError, match="JAVA_HOME=/nowhere has no bin/java"):
        sessions.session()
    assert built == {}


def test_a_remote_session_needs_no_java_and_sets_nothing_of_the_machine(built, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    monkeypatch.setenv("SPARK_REMOTE", "sc://host")
    sessions.session()
    assert built[PROVIDER] == ROCKSDB
    assert not {"spark.master", "spark.driver.memory", "spark.ui.enabled"} & set(built)


def test_a_warning_goes_to_the_log(caplog, monkeypatch):
    monkeypatch.setattr(sessions, "_running", lambda: Conf({PROVIDER: ROCKSDB, CHANGELOG: "true"}))
    with caplog.at_level(logging.WARNING, logger="skyband"):
        sessions.session()
    assert [BYTES in record.getMessage() for record in caplog.records] == [True]


class _Unpackaged:
    """A module that lies on the path without having been installed."""

    __version__ = "1.0"
    __spec__ = "not None"


def test_an_earlier_spark_needs_what_it_was_built_with(monkeypatch):
    """Platforms with Spark 4.0 have a protobuf and a grpcio that are older than the extra's."""
    there = {"pyspark": "4.0.5", "protobuf": "5.29.4", "grpcio": "1.67.0", "pandas": "2.2.3"}
    monkeypatch.setattr(requirements, "_version", there.get)
    requirements.check()
    there["protobuf"] = "5.28.0"
    with pytest.raises(sb.MissingDependencyError, match=r"needs protobuf>=5\.28\.3 \(found 5\.28\.0\)"):
        requirements.check()
    there |= {"pyspark": "4.2.1", "protobuf": "5.29.4"}
    with pytest.raises(sb.MissingDependencyError, match=r"protobuf>=6\.33\.5 \(found 5\.29\.4\)"):
        requirements.check()


@pytest.mark.skipif(bool(requirements.EARLIER.keys() & {pyspark.__version__[:3]}), reason="this Spark needs less")
def test_requirements_are_those_of_the_extra():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    declared = {one.name: one for one in map(Requirement, project["optional-dependencies"]["spark"])}
    found = requirements.requirements()
    assert {one.name for one in found} == set(requirements.NEEDED)
    assert all(one.specifier == declared[one.name].specifier for one in found)
    requirements.check()


@pytest.mark.parametrize(
    ("needed", "said"),
    [
        ("no_such_module>=1.0", "no_such_module>=1.0 (not installed)"),
        ("numpy>=99.1", "numpy>=99.1 (found "),
        ("numpy>=1.0,<1.1", "numpy>=1.0,<1.1 (found "),
        ("requirements_of_tests>=99", "requirements_of_tests>=99 (found 1.0"),  # by import
    ],
)
def test_what_is_missing_is_named_with_what_to_do(needed, said, monkeypatch):
    monkeypatch.setitem(sys.modules, "requirements_of_tests", _Unpackaged())
    with pytest.raises(sb.MissingDependencyError) as caught:
        requirements.check([Requirement(needed)])
    assert said in str(caught.value)
    assert str(caught.value).endswith("pip install 'skyband[spark]'")
    assert isinstance(caught.value, ImportError)


def test_the_log_is_a_new_file_in_a_folder_of_this_user_alone(tmp_path, monkeypatch):
    """Whatever another user has put among the temporary files beforehand."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    mine = tmp_path / "mine"
    mine.write_text("untouched")
    for name in (f"skyband-spark-{os.getpid()}.log", "spark.log"):
        (tmp_path / name).symlink_to(mine)
    with sessions._stderr_to_file(True):
        os.write(2, b"what Java says\n")
    assert mine.read_text() == "untouched"
    (log,) = tmp_path.rglob("skyband-spark-*/spark.log")
    assert log.read_text() == "what Java says\n"
    assert [path.stat().st_mode & 0o777 for path in (log, log.parent)] == [0o600, 0o700]
    assert f"-{os.getpid()}-" in log.parent.name
