"""A schema registry on this machine: Apicurio Registry in memory, with the API of Confluent's."""

from __future__ import annotations

import contextlib
import json
import subprocess
import urllib.request
import zipfile

from skyband import java
from skyband.spark.ivy import Module
from tests.downloads import fetched
from tests.servers import free_port
from tests.waiting import wait_for

APICURIO = Module.parse("io.apicurio:apicurio-registry-app:2.6.13.Final")
SHA256 = "d88014c1addff1fc585e1e9510fc41276473726340f4e0997353b46342d3532b"


def archive():
    """The server's files; NotFetchedError where they cannot be had."""
    return fetched(APICURIO, "all", SHA256, "zip")


class RegistryServer:
    """A registry in a process of its own. Its schemas are in memory: after a restart it has none."""

    def __init__(self, folder, files):
        self._folder, self.port, self._process = folder, free_port(), None
        self.url = f"http://127.0.0.1:{self.port}/apis/ccompat/v7"
        with zipfile.ZipFile(files) as packed:
            packed.extractall(folder)
        self.start()

    def start(self):
        command = [java.check().path, "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        command += ["-Dquarkus.http.host=127.0.0.1", f"-Dquarkus.http.port={self.port}"]
        command += ["-jar", f"apicurio-registry-app-{APICURIO.version}-runner.jar"]
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd=self._folder, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        wait_for(self._is_ready)

    def _is_ready(self):
        assert self._process.poll() is None, f"it has ended: {(self._folder / 'server.log').read_text()[-2000:]}"
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{self.url}/subjects", timeout=5) as answer:
            return answer.status == 200
        return False

    def kill(self):
        """End it by its process id, as a power cut would."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(60)

    def register(self, subject, schema, kind="AVRO", references=()):
        """Add a version to a subject; return the number of the schema. References are (file name, subject)."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        body = {"schema": text, "schemaType": kind}
        if references:
            body["references"] = [{"name": name, "subject": one, "version": 1} for name, one in references]
        request = urllib.request.Request(
            f"{self.url}/subjects/{subject}/versions",
            json.dumps(body).encode(),
            {"Content-Type": "application/vnd.schemaregistry.v1+json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["id"]
