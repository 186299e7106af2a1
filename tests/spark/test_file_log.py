"""The log of read files: what Spark writes can be read, lists survive, damage is rejected."""

from __future__ import annotations

import json
import shutil
from random import Random

import pytest

import skyband as sb
from skyband.spark.file_log import KEPT, FileEntry, FileLog, uri_of
from tests.damage import HOW, damage

A, B = FileEntry("/in/a b.csv", 1000, 7), FileEntry("/in/ü%#?.csv", 2000, None)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_lists_are_read_again(tmp_path):
    log = FileLog(tmp_path / "0")
    assert log.last == -1
    assert log.add([A]) == 0
    assert log.add([B]) == 1
    again = FileLog(tmp_path / "0")
    assert again.last == 1
    assert again.between(-1, 1) == [A, B]
    assert again.between(0, 1) == [B]
    assert A.path in again
    assert "/in/other.csv" not in again


def test_every_tenth_list_repeats_the_earlier_ones_and_old_ones_are_removed(tmp_path):
    log = FileLog(tmp_path)
    entries = [FileEntry(f"/in/{number}", number, number) for number in range(KEPT + 35)]
    for entry in entries:
        log.add([entry])
    assert {"129.compact", "130", "134"} <= set(names(tmp_path))
    assert "9.compact" not in names(tmp_path)
    assert (tmp_path / "129.compact").read_text().count("\n") == 130
    again = FileLog(tmp_path)
    assert again.last == KEPT + 34
    assert again.between(-1, again.last) == entries
    assert again.add([A]) == KEPT + 35


def test_the_interval_of_an_existing_log_is_kept(tmp_path):
    log = FileLog(tmp_path, interval=3)
    for number in range(7):
        log.add([FileEntry(f"/in/{number}", number, number)])
    again = FileLog(tmp_path, interval=10)
    again.add([A])
    again.add([B])
    assert {"2.compact", "5.compact", "8.compact"} <= set(names(tmp_path))


def test_entries_of_spark(tmp_path):
    lines = ["v1", '{"path":"file:///in/a%20b%25%C3%A9.csv","timestamp":5,"batchId":0}']
    (tmp_path / "0").write_text("\n".join(lines))
    assert FileLog(tmp_path).between(-1, 0) == [FileEntry("/in/a b%é.csv", 5, None)]
    assert uri_of("/in/a b%é.csv") == "file:///in/a%20b%25é.csv"


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda text: text.replace("v1", "v2"), "its version is 'v2'"),
        (lambda text: text[:-5], "is not an entry"),
        (lambda text: text.replace('"size":7', '"size":8'), "the checksum of"),
        (lambda text: text.replace('"batchId"', '"batch"'), "is not an entry"),
    ],
)
def test_damage_is_rejected(tmp_path, damage, why):
    FileLog(tmp_path).add([A])
    (tmp_path / "0").write_text(damage((tmp_path / "0").read_text()))
    with pytest.raises(sb.SnapshotError, match=why):
        FileLog(tmp_path)


def test_a_list_that_lost_lines_or_is_another_one_is_rejected(tmp_path):
    """Each line has a correct checksum; without the number of files they would be read twice, or never."""
    log = FileLog(tmp_path)
    log.add([A, A._replace(path="/in/c.csv"), A._replace(path="/in/d.csv")])
    log.add([A._replace(path="/in/e.csv")])
    first, second = (tmp_path / "0").read_text(), (tmp_path / "1").read_text()
    (tmp_path / "0").write_text(first.rpartition("\n")[0])
    with pytest.raises(sb.SnapshotError, match="it has 2 of the 3 files of batch 0"):
        FileLog(tmp_path)
    (tmp_path / "0").write_text(first)
    for other, why in ((first, "no files of batch 1"), ("v1", "no files of batch 1"), (f"{second}{first[2:]}", "0, 1")):
        (tmp_path / "1").write_text(other)
        with pytest.raises(sb.SnapshotError, match=why):
            FileLog(tmp_path)
    (tmp_path / "1").write_text(second)
    assert FileLog(tmp_path).last == 1


@pytest.mark.parametrize("how", HOW)
def test_damage_at_random_places_is_rejected_or_changes_nothing(tmp_path, how):
    random, log = Random(how), FileLog(tmp_path / "whole")
    for number in range(12):
        log.add([FileEntry(f"/in/{number} {part}.csv", number, part) for part in range(3)])
    whole = log.between(-1, log.last)
    rejected = 0
    for at in range(60):
        shutil.rmtree(tmp_path / "damaged", ignore_errors=True)
        shutil.copytree(tmp_path / "whole", tmp_path / "damaged")
        name = random.choice(["9.compact", "10", "11"])
        damage(tmp_path / "damaged" / name, how, random, (tmp_path / "whole" / str(at % 9)).read_bytes())
        try:
            found = FileLog(tmp_path / "damaged")
        except sb.SnapshotError as error:
            rejected += str(tmp_path / "damaged") in str(error)
        else:
            if found.last < log.last:  # the last list was deleted
                with pytest.raises(sb.SnapshotError, match="Spark has planned it"):
                    found.require(log.last)
                rejected += 1
            else:
                assert found.between(-1, log.last) == whole
    assert rejected > 30


def test_a_missing_list_is_rejected(tmp_path):
    log = FileLog(tmp_path)
    for entry in (A, B, A):
        log.add([entry])
    (tmp_path / "1").unlink()
    with pytest.raises(sb.SnapshotError, match="it is missing"):
        FileLog(tmp_path)


def test_two_writers_are_rejected(tmp_path):
    first, second = FileLog(tmp_path), FileLog(tmp_path)
    first.add([A])
    with pytest.raises(sb.SnapshotError, match="another process"):
        second.add([B])
    assert json.loads((tmp_path / "0").read_text().splitlines()[1])["path"] == "file:///in/a%20b.csv"


def test_spark_s_checksum_of_a_removed_list_is_removed(tmp_path):
    (tmp_path / ".0.crc").write_bytes(b"crc\0")
    FileLog(tmp_path).add([A])
    assert names(tmp_path) == ["0"]
