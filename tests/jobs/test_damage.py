"""Damage to each file of a local run's state: the run is refused with the file and a remedy, or answers as before."""

from __future__ import annotations

import json
import shutil
from functools import partial
from itertools import product
from random import Random

import pytest

import skyband as sb
from skyband.connectors.answer_sums import SUMS
from skyband.jobs import run_local
from skyband.jobs.journal import Change, Journal
from skyband.jobs.mailbox import Mailbox
from skyband.jobs.verified import checked_files
from tests.damage import HOW, damage
from tests.jobs.test_followed_against_spark import FAMILIES, STREAM, tables, write

OLDER, DONE = 2, 4  # files that are read before the older copy and before the damage
SINKS = "sinks: [{type: parquet, path: out}, {type: jsonl, path: lines}]\n"
REMEDIES = ("Restore", "--fresh", "restore", "remove", "Remove", "skyband ctl list")


def run(folder):
    """Process the new files; a run that hangs fails."""
    running = run_local(sb.read_workload(folder / "work.yaml"), "catch-up")
    assert running.await_end(120), "it hangs"


def error_of(call):
    """The error of ours that a call raises; None if it succeeds."""
    try:
        call()
    except sb.SkybandError as error:
        return error
    return None


def files_in(folder):
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def answers(folder):
    """The answers by file; Parquet files of the same rows are the same bytes."""
    return {path: content for path, content in files_in(folder).items() if path.parts[0] in ("out", "lines")}


class Stored:
    """A run that was stopped: its files then and at an earlier time, and the answers that follow."""

    def __init__(self, folder, family):
        self.folder, parts = folder, tables(11)
        (folder / "work.yaml").write_text(f"{STREAM}queries:{FAMILIES[family]}{SINKS}")
        write(folder / "in", parts[:OLDER])
        run(folder)
        self.older = files_in(folder)
        write(folder / "in", parts[OLDER:DONE], begin=OLDER)
        run(folder)
        self.done = files_in(folder)
        write(folder / "in", parts[DONE:], begin=DONE)
        self.input = {path: content for path, content in files_in(folder).items() if path.parts[0] == "in"}
        run(folder)
        self.wanted = answers(folder)
        assert len(self.wanted) > len(answers_of(self.done))

    def restore(self):
        """Bring back the files of the stopped run; the input has new files."""
        for part in (".skyband", "out", "lines"):
            shutil.rmtree(self.folder / part, ignore_errors=True)
        for path, content in self.done.items():
            if path.parts[0] != "in":
                (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
                (self.folder / path).write_bytes(content)

    def kinds(self):
        """The files of each kind."""
        found = {"state": [], "log": [], "segments": [], "lock": [], SUMS: [], "answers": []}
        for path in self.done:
            if path.parts[0] == ".skyband":
                found["segments" if path.parent.name == "segments" else path.name].append(path)
            elif path.parts[0] != "in" and path.name != "work.yaml":
                found["answers"].append(path)
        return found


def answers_of(files):
    return [path for path in files if path.parts[0] in ("out", "lines")]


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    made = {}

    def make(family):
        if family not in made:
            made[family] = Stored(tmp_path_factory.mktemp(family), family)
        return made[family]

    return make


def outcome(stored, path, how, random):
    """Damage a file and run: the answers are right, or the error names the file and what to do."""
    stored.restore()
    older = stored.older.get(path)
    if how == "older" and older is None:
        twins = [other for other in stored.done if other.parent == path.parent and other != path]
        older = stored.done[random.choice(twins)] if twins else b""
    damage(stored.folder / path, how, random, older or b"")
    error = error_of(lambda: run(stored.folder))
    if error is not None:
        text = str(error)
        assert not isinstance(error, sb.PipelineError), text  # an error of another kind inside
        assert str(stored.folder / path) in text or str((stored.folder / path).parent.parent) in text, text
        assert any(word in text for word in REMEDIES), text
        return "refused"
    found, wanted = answers(stored.folder), dict(stored.wanted)
    checked = checked_files(sb.read_workload(stored.folder / "work.yaml"), "s")
    now = (stored.folder / path).read_bytes() if (stored.folder / path).exists() else None
    if path in answers_of(stored.done) and now != stored.done[path]:
        assert [*checked.changed, *checked.missing] == [str(stored.folder / path)]
    elif path.name != SUMS:
        assert checked.are_intact
    if path in found or path in wanted:  # answers that were written are not read again
        found.pop(path, None), wanted.pop(path, None)
    assert found == wanted, (path, how)
    return "same"


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("kind", ["state", "log", "segments", "lock", SUMS, "answers"])
def test_damage_is_refused_or_does_no_harm(stored, kind, how):
    one = stored("aggregate")
    random = Random(f"{kind}{how}")
    path = random.choice(one.kinds()[kind])
    found = outcome(one, path, how, random)
    if kind in ("lock", SUMS, "answers"):
        assert found == "same"
    elif kind == "state" and how != "older":
        assert found == "refused"


@pytest.mark.long
@pytest.mark.parametrize("family", FAMILIES)
def test_damage_at_many_places(stored, family):
    one, random, refused = stored(family), Random(family), 0
    for kind, paths in one.kinds().items():
        for how in HOW:
            for _ in range(12 if kind in ("state", "log", "segments") else 2):
                if paths:
                    refused += outcome(one, random.choice(paths), how, random) == "refused"
    assert refused > 40


def test_every_bit_of_the_log_counts(stored):
    """A flipped bit of a path would make the run read a file twice; JSON does not notice it."""
    from skyband.jobs.folder_log import FolderLog

    one = stored("topk")
    (path,) = one.kinds()["log"]
    content = one.done[path]
    damaged = one.folder / "log"
    last = FolderLog(one.folder / path).last.number
    for at in range(len(content)):
        for bit in range(8) if at % 41 == 0 else [at % 8]:
            changed = bytearray(content)
            changed[at] ^= 1 << bit
            damaged.write_bytes(changed)
            error = error_of(lambda: FolderLog(damaged))
            if error is not None:
                assert str(damaged) in str(error)
            else:  # only the line break of the last line, which is then shorter than the state says
                assert at == len(content) - 1
                assert FolderLog(damaged).last.number < last
    damaged.unlink()


def test_damage_of_the_journal(tmp_path):
    journal, random = Journal(tmp_path), Random(5)
    changes = [Change("add", "s", sb.TopK(name=f"q{k}", k=k, size="1 hour")) for k in (1, 2, 3)]
    journal.append(changes[0])
    older = {path: path.read_bytes() for path in (journal.path, journal.confirmed_path)}
    for change in changes[1:]:
        journal.append(change)
    whole = {path: path.read_bytes() for path in older}
    refused = 0
    for path, how in product(older, HOW):
        for _ in range(1 if how in ("delete", "older") else 60):
            for one, content in whole.items():
                one.write_bytes(content)
            damage(path, how, random, older[path])
            error = error_of(journal.read)
            if error is None:
                assert journal.read() == changes, (path, how)
            else:
                assert str(path) in str(error) or path == journal.confirmed_path
                assert "Restore the checkpoint from a backup" in str(error)
                refused += 1
    assert refused > 300


def test_every_bit_of_a_message_counts(tmp_path):
    """A flipped bit of a request would add another query; JSON does not notice it."""
    box = Mailbox(tmp_path)
    box.open()
    name = box.send({"kind": "add", "stream": "s", "sql": "TOPK price, 3 OVER 5 MINUTES", "number": 7})
    (request,) = tmp_path.glob("*.request.json")
    content = request.read_bytes()
    reply = tmp_path / f"{name}.reply.json"
    for bit in range(8 * len(content)):
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        request.write_bytes(changed)
        ((_, message),) = box.requests()
        assert message["kind"] == "unreadable", changed
        reply.write_bytes(changed)
        assert str(reply) in str(error_of(partial(box.fetch, name)))


def test_damage_of_messages(tmp_path):
    box, random = Mailbox(tmp_path), Random(7)
    box.open()
    run_file = tmp_path / "run.json"
    announced = run_file.read_bytes()
    for at in range(250):
        how = HOW[at % 4]
        run_file.write_bytes(announced)
        damage(run_file, how, random)
        assert box.is_heard() in (True, False)
        name = box.send({"kind": "list", "stream": "s"})
        damage(next(tmp_path.glob("*.request.json")), how, random)
        for request, message in box.requests():
            assert message == {"kind": "list", "stream": "s"} or message["kind"] == "unreadable"
            box.reply(request, {"ok": True})
        reply = tmp_path / f"{name}.reply.json"
        if reply.exists():
            damage(reply, how, random)
            there = reply.exists()
            error = error_of(lambda sent=name, kept=there: kept and box.fetch(sent) != {"ok": True} and box.fetch("x"))
            assert (str(reply) in str(error)) == there
            reply.unlink(missing_ok=True)
    for pid in (10**30, -1, 0, "1e999", [], None):
        run_file.write_text(json.dumps({"pid": pid}))
        assert not box.is_heard()
