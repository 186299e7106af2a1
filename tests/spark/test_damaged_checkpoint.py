"""Damage to each kind of file of a Spark checkpoint: rejected with the file and a remedy, or the answers are right."""

from __future__ import annotations

import re
import shutil
from random import Random

import pytest

import skyband as sb
from skyband.spark import start
from tests.damage import damage
from tests.spark.frames import read_stream, write_files

pytestmark = pytest.mark.long
SECOND = 1_000_000
QUERY = sb.TopK(name="q", k=2, size="20 seconds", slide="5 seconds", by="s")
KINDS = {
    "offsets": "state/offsets/[0-9]*",
    "commits": "state/commits/[0-9]*",
    "metadata": "state/metadata",
    "source": "state/sources/0/[0-9]*",
    "messages": "state/sources/1/[0-9]*",
    "changes of the state": "state/state/0/0/**/*.changelog",
    "snapshots of the state": "state/state/0/0/**/*.zip",
    "metadata of the state": "state/state/0/_metadata/**/*",
    "description": "state/skyband/about/part-*",
}
STATE = ("changes of the state", "snapshots of the state", "metadata of the state")
# Damage that must be reported. Other damage may have no effect on answers, which are compared then.
MUST = {
    *((kind, "zero") for kind in ("offsets", "metadata", "source", "messages", "changes of the state")),
    *((kind, "delete") for kind in ("offsets", "metadata", "changes of the state")),
    *(("description", how) for how in ("flip", "cut", "zero", "delete")),
    ("offsets", "cut"),
    ("metadata", "cut"),
}
REMEDY = re.compile(r"[Rr]estore|another folder|new folder|--fresh")


def batches(first, last):
    rows = [(100 * SECOND + n * SECOND, float(n * 7 % 17), n, "ab"[n % 2]) for n in range(10 * last)]
    return [rows[10 * number : 10 * number + 10] for number in range(first, last)]


def run(spark, folder):
    handle = start(
        read_stream(spark, folder / "in"),
        QUERY,
        sinks=[sb.sinks.Jsonl(path=str(folder / "out"))],
        checkpoint=str(folder / "state"),
        time="ts",
        id="id",
        watermark="1 second",
    )
    try:
        handle._process_all()
    except Exception:
        handle.await_end(60, progress=False)  # raises what users see
        raise
    finally:
        handle.stop()


def answers(folder):
    return sorted(line for path in (folder / "out").glob("*.jsonl") for line in path.read_text().splitlines())


@pytest.fixture(scope="module")
def stored(spark, tmp_path_factory):
    """A stream that was stopped, and its answers after more files."""
    folder = tmp_path_factory.mktemp("stored")
    write_files(folder / "in", batches(0, 3))
    run(spark, folder)
    shutil.copytree(folder, folder.with_name("done"))
    done = folder.with_name("done")
    write_files(folder / "in", batches(3, 5), begin=3)
    write_files(done / "in", batches(3, 5), begin=3)
    # the same folder for all runs, as Spark stores absolute paths
    shutil.copytree(folder, folder.with_name("wanted"))
    run(spark, folder)
    wanted = answers(folder)
    return folder, done, wanted


@pytest.mark.parametrize("how", ["flip", "cut", "zero", "delete"])
@pytest.mark.parametrize("kind", KINDS)
def test_damage_is_named_or_does_no_harm(spark, stored, kind, how):
    folder, done, wanted = stored
    shutil.rmtree(folder)
    shutil.copytree(done, folder)
    paths = sorted(path for path in folder.glob(KINDS[kind]) if path.is_file() and not path.name.startswith("."))
    assert paths, kind
    path = paths[-1]
    damage(path, how, Random(f"{kind}{how}"))
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    if kind in STATE and how != "delete":  # of all shards, so that the one with rows is among them
        for other in paths[:-1]:
            damage(other, how, Random(f"{kind}{how}"))
            other.with_name(f".{other.name}.crc").unlink(missing_ok=True)
    try:
        run(spark, folder)
    except sb.SkybandError as error:
        said = str(error)
        assert not re.search(r"java\.|Traceback|\bat org\.", said), said
        assert "\n" not in said, said
        assert REMEDY.search(said), said
        assert str(folder / "state") in said, said
        if kind not in STATE and how != "delete":
            assert str(path if kind != "description" else path.parent) in said, said
    else:
        assert answers(folder) == wanted
        assert (kind, how) not in MUST


def test_a_flipped_bit_where_the_checksums_of_hadoop_are_left(spark, stored):
    folder, done, _ = stored
    for kind in ("offsets", "commits", "source"):
        shutil.rmtree(folder)
        shutil.copytree(done, folder)
        path = max(folder.glob(KINDS[kind]), key=lambda one: int(one.name.split(".")[0]))
        damage(path, "flip", Random(kind))
        with pytest.raises(sb.SnapshotError, match=re.escape(str(path))) as caught:
            run(spark, folder)
        assert REMEDY.search(str(caught.value))


@pytest.mark.parametrize("name", ["path", "timestamp", "batchId"])
def test_a_flipped_bit_in_a_name_of_the_log_of_a_folder(spark, stored, name):
    """The log is valid JSON afterwards."""
    folder, done, _ = stored
    shutil.rmtree(folder)
    shutil.copytree(done, folder)
    path = max(folder.glob(KINDS["source"]), key=lambda one: int(one.name.split(".")[0]))
    content = path.read_text()
    assert f'"{name}"' in content
    path.write_text(content.replace(f'"{name}"', f'"{chr(ord(name[0]) ^ 1)}{name[1:]}"'))
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    with pytest.raises(sb.SnapshotError, match=re.escape(str(path))) as caught:
        run(spark, folder)
    assert REMEDY.search(str(caught.value))


def test_a_damaged_number_of_the_last_delivery(spark, tmp_path):
    """Over Spark Connect this number says which answers the sinks have."""
    from skyband.spark.outbox import Outbox

    outbox = Outbox(spark, str(tmp_path / "state"))
    assert outbox._delivered() is None
    outbox._mark(7)
    outbox._mark(8)
    assert outbox._delivered() == 8
    (newest,) = (tmp_path / "state" / "skyband" / "delivered" / "0").glob("part-*")
    newest.write_text("X")
    newest.with_name(f".{newest.name}.crc").unlink()
    with pytest.raises(
        sb.SnapshotError, match=r"delivered/0' must contain the number of .*, got 'X'.* Restore the che"
    ):
        outbox._delivered()
    shutil.rmtree(tmp_path / "state" / "skyband" / "delivered")
    (tmp_path / "state" / "skyband" / "outbox" / "8").mkdir(parents=True)
    with pytest.raises(sb.SnapshotError, match=r"delivered/0' and .* are missing.* Restore the checkpoint"):
        outbox._delivered()
