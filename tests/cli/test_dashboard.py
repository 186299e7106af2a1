"""`skyband page` and the options of the page as a user meets them: in processes of their own. Without Spark."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request

import pyarrow.parquet as pq
import pytest

from skyband.client import Client
from skyband.dashboard import server
from skyband.dashboard.connections import Address, address_of, bound
from skyband.errors import InvalidInputError, MissingDependencyError
from tests.dashboard.asking import strict
from tests.dashboard.making import answers
from tests.programs import COMMAND, skyband

FILE = (
    "streams: {trades: {path: in, format: parquet, time: ts}}\nqueries: [{name: big, k: 3, size: 1 hour, by: price}]\n"
)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "answers").mkdir()
    pq.write_table(answers([("big", None, 1, [(7, 1.0)])]), tmp_path / "answers" / "x.parquet")
    (tmp_path / "skyband.yaml").write_text(FILE)
    return tmp_path


def test_the_page_of_a_folder(folder):
    running = subprocess.Popen(
        [*COMMAND, "page", "--answers", "answers", "--workload", "skyband.yaml", "--at", "0"],
        cwd=folder, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    said = running.stderr.readline()
    url = re.search(r"dashboard of answers at (http://127\.0\.0\.1:\d+/) until Ctrl-C", said)[1]
    with urllib.request.urlopen(f"{url}api/state", timeout=300) as found:
        assert [one["name"] for one in strict(found.read())["queries"]] == ["big"]
    running.send_signal(signal.SIGINT)
    assert running.wait(300) == 0
    assert "Traceback" not in running.stderr.read()
    running.stderr.close()


def test_the_answers_of_a_file_are_served(folder):
    (folder / "skyband.yaml").write_text(FILE + "sinks: [{type: parquet, path: answers}]\n")
    running = subprocess.Popen(
        [*COMMAND, "serve", "skyband.yaml", "--at", "0"], cwd=folder, stderr=subprocess.PIPE, text=True
    )
    said = running.stderr.readline()
    url = re.search(r"answers of \S+ at (http://127\.0\.0\.1:\d+/)api/v1/queries until Ctrl-C", said)[1]
    assert os.getpriority(os.PRIO_PROCESS, running.pid) >= min(19, os.getpriority(os.PRIO_PROCESS, 0) + 10)
    client = Client(url)
    (name,) = [one["name"] for one in client.queries() if one["newest"]]
    assert client.window(name)["rows"] == [{"rank": 1, "id": 7, "score": 1.0}]
    followed = client.follow(since=client._get("changes")["cursor"])
    pq.write_table(answers([("big", None, 2, [(8, 2.0)])]), folder / "answers" / ".y.parquet")
    (folder / "answers" / ".y.parquet").rename(folder / "answers" / "y.parquet")
    assert any(one["rows"][0]["score"] == 2.0 for one in followed)  # the other one may be read again
    running.send_signal(signal.SIGINT)
    assert running.wait(300) == 0
    assert "Traceback" not in running.stderr.read()
    running.stderr.close()


def test_serve_needs_a_folder(folder):
    done = skyband("serve", "skyband.yaml", cwd=folder)
    assert done.returncode == 2
    assert "got 0 folders and tables in the sinks of" in done.stderr


def test_it_never_meets_spark(folder):
    code = (
        "import sys; from pathlib import Path; from skyband.cli.dashboard import page_folder;"
        "page_folder(Path('answers'), Path('skyband.yaml'), '0', open_it=False, seconds=0.1);"
        "print([name for name in sys.modules if name.split('.')[0] in ('pyspark', 'py4j')])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["page", "--answers", "nowhere"],
            "of a Delta or Iceberg table, got 'nowhere'.",
        ),
        (["page", "--answers", "answers", "--at", "port"], "--at must be a port such as 8765 or an address"),
        (["page", "--answers", "answers", "--at", "127.0.0.1:70000"], "got '127.0.0.1:70000'. Nothing was started."),
        (["page", "--answers", "answers", "--at", "203.0.113.7:0"], "--at: cannot listen on 203.0.113.7:0"),
        (["page", "--answers", "answers", "--workload", "no.yaml"], "the file does not exist"),
        (["run", "--allow-control"], "--allow-control requires --page or --page-at."),
        (["run", "--open"], "--open requires --page or --page-at"),
        (["run", "--readers", "500"], "--readers requires --page or --page-at"),
        (["run", "--once", "--page", "--allow-control"], "only a continuous run can be changed"),
        (["run", "--page-at", "::1:80"], "--page-at must be a port"),
        (["demo", "--in-process", "--page"], "--page and --page-at are not supported with --in-process"),
    ],
)
def test_what_is_wrong_is_said_before_anything_starts(folder, arguments, said):
    done = skyband(*arguments, cwd=folder)
    assert done.returncode == 2
    assert said in " ".join(done.stderr.replace("│", " ").split())
    assert "Traceback" not in done.stderr
    assert not (folder / ".skyband").exists()


def test_a_port_that_is_taken():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InvalidInputError, match=f"--page-at: cannot listen on 127.0.0.1:{port}"):
            bound(Address("127.0.0.1", port), "--page-at")


def test_where_nobody_named_a_port_another_one_will_do(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setattr("skyband.dashboard.connections.USUAL_PORT", taken.getsockname()[1])
        with bound(address_of(None, "--page-at"), "--page-at") as found:
            assert found.getsockname()[0] == "127.0.0.1"
            assert found.getsockname()[1] != taken.getsockname()[1]


def test_what_is_missing_is_said_with_how_to_get_it(monkeypatch):
    monkeypatch.setattr(server, "find_spec", lambda name: None if name == "uvicorn" else name)
    with pytest.raises(MissingDependencyError, match=r"needs uvicorn, which is not installed.*skyband\[page\]"):
        server.check_installed()
