"""A Kafka of one node on this machine, from Maven's artifacts, for as long as the tests run."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import os
import shutil
import socket
import subprocess
import uuid
from pathlib import Path
from tempfile import mkdtemp

from skyband import java
from skyband.spark import ivy, jars
from tests.servers import free_port
from tests.waiting import wait_for

BROKER = ivy.Module.parse("org.apache.kafka:kafka_2.13:4.3.1")
USER, PASSWORD = "alice", "correct horse battery"
PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller}
listeners=PLAIN://{host}:{plain},LOGIN://{host}:{login},CONTROLLER://{host}:{controller}
advertised.listeners=PLAIN://{host}:{plain},LOGIN://{host}:{login}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAIN
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAIN:PLAINTEXT,LOGIN:SASL_PLAINTEXT
listener.name.login.sasl.enabled.mechanisms=PLAIN
listener.name.login.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
  user_{user}="{password}";
log.dirs={folder}/data
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=true
num.partitions=2
log.flush.interval.messages=1
log.retention.ms=-1
"""


class Broker:
    """A broker in a process of its own; its data outlive a restart."""

    def __init__(self, folder: Path, classpath: Path, host: str = "127.0.0.1", variables=None) -> None:
        self._folder, self._classpath, self._host = folder, classpath, host
        self._variables = variables or {}
        plain, login, controller = (free_port() for _ in range(3))
        self.servers, self.with_login = f"{host}:{plain}", f"{host}:{login}"
        told = {"host": host, "plain": plain, "login": login, "controller": controller}
        text = PROPERTIES.format(**told, folder=folder, user=USER, password=PASSWORD)
        (folder / "server.properties").write_text(text)
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        formatted = self._java(
            "kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", "-c", "server.properties"
        )
        formatted.wait(300)
        self._process = None
        self.start()

    def start(self):
        self._process = self._java("kafka.Kafka", "server.properties")
        wait_for(self._is_ready)

    @property
    def pid(self):
        """Of the process that runs now."""
        return self._process.pid

    def _is_ready(self):
        ended = f"the broker has ended: {(self._folder / 'broker.log').read_text()[-2000:]}"
        assert self._process.poll() is None, ended
        with contextlib.suppress(OSError), socket.create_connection((self._host, self._port()), 1):
            return True
        return False

    def stop(self, *, hard=False):
        """End it by its process id: with a signal to shut down, or as a power cut would."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill() if hard else self._process.terminate()
            self._process.wait(300)

    def _port(self):
        return int(self.servers.rpartition(":")[2])

    def _java(self, *arguments):
        command = [java.check().path, "-Xmx512m", "-XX:+UseSerialGC", "-cp", f"{self._classpath}/*", *arguments]
        with (self._folder / "broker.log").open("ab") as log:
            return subprocess.Popen(
                command,
                cwd=self._folder,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **self._variables},
            )


def connector():
    """The jars of the connector, fetched if need be; NotFetchedError where they cannot be had."""
    with _alone():
        try:
            return jars.kafka_jars()
        except jars.MissingDependencyError:
            return jars.fetch_jars()


def broker_jars():
    """The folder with the broker's jars, fetched if need be."""
    where = jars.folder().parent / f"broker-{BROKER.version}"
    with _alone():
        if not where.is_dir():
            unfinished = Path(mkdtemp(dir=where.parent))
            try:
                ivy.fetch([BROKER], unfinished, with_all_they_need=True)
                os.replace(unfinished, where)
            finally:
                shutil.rmtree(unfinished, ignore_errors=True)
    return where


@contextlib.contextmanager
def _alone():
    """One process at a time: the suite may run in several."""
    folder = jars.folder().parent
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
