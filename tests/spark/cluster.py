"""A Spark standalone cluster on this machine: one master, and workers that have nothing but Python and Spark."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pyspark

from tests.network import NoNetwork
from tests.servers import free_port
from tests.spark import bounded_run
from tests.waiting import wait_for

PATIENCE = 600
HOME = Path(pyspark.__file__).parent
PACKAGE = "org.apache.spark.deploy"
# Java's code is compiled quickly rather than well. These processes are too small for the tests' other options.
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class Cluster:
    """A master and workers of one core, all on loopback. `folder` has their logs and the executors' folders.

    Without an archive, workers run the Python of this process. With `restarts`, the master stores what it knows, and
    can be started again. `network` has a namespace for each worker, where it has one; `variables` are those of all
    processes; `spark` is the folder of the package `pyspark` that they run; below `temp` each
    has temporary files, which are removed when it starts.
    """

    def __init__(self, folder, archive=None, *, restarts=False, network=None, variables=None, spark=HOME, temp=None):
        self.folder, self.archive, self._spark, self._temp = folder, archive, spark, temp
        self._network, self._variables = network or NoNetwork(), variables or {}
        self._port = free_port() if restarts else 0
        self._processes = {}
        self.home = folder / "home"  # of the workers' user: no compiled kernels, no packages
        self.home.mkdir()
        if archive is not None:
            (folder / "environment").mkdir()
            subprocess.run(["tar", "-xzf", archive, "-C", folder / "environment"], check=True)
        self.start_master()

    def start_master(self):
        self._start("master", "master.Master", "--port", self._port)
        self.url = self._awaited("master", r"Starting Spark master at (spark://[\d.]+:\d+)")

    def _start(self, name, main, *arguments):
        host = self._network.address("here" if name == "master" else name)
        with (self.folder / f"{name}.log").open("w") as log, self._network.inside(name):
            self._processes[name] = subprocess.Popen(
                [self._spark / "bin" / "spark-class", f"{PACKAGE}.{main}", "--host", host, "--webui-port", "0"]
                + [str(argument) for argument in arguments],
                env={**self._bare_environment(host), **self._temporary(name)},
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd=self.folder,
            )

    def _bare_environment(self, host):
        """Of a machine without Skyband: nothing of this test's environment, and no user's cache."""
        java = Path(shutil.which("java")).resolve().parent
        python = Path(sys.base_prefix) / "bin"
        return {
            "PATH": os.pathsep.join(map(str, (python, java, "/usr/bin", "/bin"))),
            "JAVA_HOME": str(java.parent),
            "HOME": str(self.home) if self.archive is not None else str(Path.home()),
            "SPARK_HOME": str(self._spark),
            **({} if self._spark == HOME else {"PYTHONPATH": str(self._spark.parent)}),
            "SPARK_LOCAL_IP": host,
            "SPARK_DAEMON_MEMORY": "256m",
            # Executors that cannot start end the program: each attempt unpacks the archive again.
            "SPARK_DAEMON_JAVA_OPTS": " ".join((SHORT_LIVED, *self._daemon_options())),
            **self._variables,
        }

    def _temporary(self, name):
        if self._temp is None:
            return {}
        place = self._temp / name
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        return {"SPARK_LOCAL_DIRS": str(place)}

    def _daemon_options(self):
        if self._port == 0:
            return ("-Dspark.deploy.maxExecutorRetries=2",)
        stored = {"recoveryMode": "FILESYSTEM", "recoveryDirectory": self.folder / "recovery", "maxExecutorRetries": -1}
        return [f"-Dspark.deploy.{name}={value}" for name, value in stored.items()]

    def log(self, name):
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def _awaited(self, name, pattern):
        process = self._processes[name]
        wait_for(lambda: re.search(pattern, self.log(name)) or process.poll() is not None, PATIENCE)
        found = re.search(pattern, self.log(name))
        assert found, self.log(name)
        return found[1]

    def add_workers(self, *names):
        for name in names:
            place = self.folder / name
            self._start(name, "worker.Worker", "--cores", 1, "--memory", "2g", "--work-dir", place, self.url)
        for name in names:
            self._awaited(name, r"(Successfully registered with master)")

    def switch(self, spark):
        """Start all processes again with another version of Spark, when no program runs."""
        workers = [name for name in self._processes if name != "master"]
        for name in list(self._processes):
            self.kill_worker(name)
        shutil.rmtree(self.folder / "recovery", ignore_errors=True)  # is of one version
        self._spark = spark
        self.start_master()
        self.add_workers(*workers)

    def kill_worker(self, name):
        """As if its machine were switched off: its executors end with it."""
        process = self._processes.pop(name)
        for found in _session_of(process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(found, signal.SIGKILL)
        process.wait()

    def submit(self, program, *arguments, settings=None, log):
        """Start spark-submit in client mode; the driver runs in this test's environment."""
        given = {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": "1g",
            "spark.driver.extraJavaOptions": SHORT_LIVED,
            "spark.executor.extraJavaOptions": SHORT_LIVED,
            "spark.executor.memory": "600m",
            "spark.executor.cores": "1",
            "spark.cores.max": "2",
            "spark.ui.enabled": "false",
            "spark.pyspark.python": sys.executable if self.archive is None else "./environment/bin/python",
            "spark.pyspark.driver.python": sys.executable,
            "spark.python.daemon.module": "skyband.spark.worker_daemon",
            **(settings or {}),
        }
        archives = [] if self.archive is None else ["--archives", f"{self.archive}#environment"]
        kept = {name: value for name, value in bounded_run.environment().items() if not name.startswith("PYSPARK")}
        with log.open("w") as out:
            return subprocess.Popen(
                [HOME / "bin" / "spark-submit", "--master", self.url, *archives]
                + [part for name, value in given.items() for part in ("--conf", f"{name}={value}")]
                + [str(program), *map(str, arguments)],
                env={**kept, "SPARK_LOCAL_IP": "127.0.0.1"},
                stdout=out,
                stderr=out,
                start_new_session=True,
                cwd=self.folder,  # has the environment, which Spark runs on the driver too
            )

    def executors(self):
        """The executors' process ids by worker."""
        found = {}
        for name, process in list(self._processes.items()):
            found[name] = sorted(pid for pid in _session_of(process.pid) if _is_executor(pid))
        return found

    def all_executors(self):
        """The executors' process ids."""
        return [pid for found in self.executors().values() for pid in found]

    def members(self, *names):
        """The processes of the master or a worker, with all that they have started; without names, of all."""
        processes = [process for name, process in list(self._processes.items()) if not names or name in names]
        return [pid for process in processes for pid in _session_of(process.pid)]

    def end(self, process):
        """End a submitted program, and remove the folders of its executors, which have an unpacked archive each."""
        end(process)
        wait_for(lambda: not any(self.executors().values()), PATIENCE)
        for folder in self.folder.glob("*/app-*"):
            shutil.rmtree(folder, ignore_errors=True)

    def stop(self):
        for name in list(self._processes):
            self.kill_worker(name)
        shutil.rmtree(self.folder)


def end(process):
    """End a submitted program and all that it has started."""
    for found in _session_of(process.pid):
        os.kill(found, signal.SIGKILL)
    process.wait()


def _session_of(pid):
    """The processes of a session: Python's workers have process groups of their own."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            state = (entry / "stat").read_text().rpartition(")")[2].split()
        except (OSError, ProcessLookupError):
            continue
        if int(state[3]) == pid and state[0] != "Z":
            found.append(int(entry.name))
    return found


def _is_executor(pid):
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return b"CoarseGrainedExecutorBackend" in command and b"java" in command.split(b"\0")[0]
