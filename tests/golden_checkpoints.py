"""Checkpoints of streams as earlier versions of the library left them, one for each family.

The archives in ``tests/golden/checkpoints`` are never written again; those in its folders ``spark-4.0``, … were written
by that version of Spark. ``python -m tests.golden_checkpoints FOLDER`` writes those of the code at hand: it reads the
first files of a stream and stops. Paths are replaced, so that a test can put the checkpoint anywhere.
"""

from __future__ import annotations

import io
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import skyband as sb
from tests.spark.frames import read_stream, write_files

FOLDER = Path(__file__).parent / "golden" / "checkpoints"
HERE = b"/golden-checkpoint-folder"  # stands for the folder in which the stream ran
SECOND = 1_000_000
FIRST = 3  # files that were read
UNSURE = {"by": "s", "probability": "(1 + id % 4) / 8.0", "size": "20 seconds"}
WINDOWS = {"size": "20 seconds", "slide": "5 seconds"}
WORKLOADS: dict[str, list[Any]] = {
    "topk": [
        sb.TopK(name="all", k=3, by="s", **WINDOWS),
        sb.TopK(name="each", k=1, by="-s", partition_by=["g"], full_only=True, **WINDOWS),
    ],
    "aggregate": [
        sb.AggregateTopK(name="sum", k=2, key="g", value="s", **WINDOWS),
        sb.AggregateTopK(name="max", k=2, key="g", value="s", aggregate="max", full_only=True, **WINDOWS),
    ],
    "incomplete": [
        sb.IncompleteTopK(
            name="i", k=2, object="id % 5", stream="g", value="s", streams=["a", "b", "c"], bounds=(0, 8),
            occurrences=9, size="20 seconds", every="5 seconds",
        )
    ],
    "uncertain": [
        sb.UncertainTopK(name="often", k=2, every="5 seconds", **UNSURE),
        sb.UncertainTopK(name="deep", k=3, every="10 seconds", semantics="pt-k", threshold=0.1, **UNSURE),
    ],
}  # fmt: skip


def archives(family: str) -> dict[str, Path]:
    """The stored checkpoints of a family, by the version of Spark that wrote them."""
    return {
        path.parent.name.removeprefix("spark-") if path.parent != FOLDER else "4.3": path
        for path in sorted(FOLDER.rglob(f"{family}.tar.gz"))
    }


def batches() -> list[list[tuple[int, float, int, str]]]:
    """The rows of the stream's files: position, score, id, group."""
    rows = [((100 + n) * SECOND, float(n * 7 % 17) / 2, n, "abc"[n * 5 % 3]) for n in range(60)]
    return [rows[low : low + 10] for low in range(0, 60, 10)]


def rest() -> list[list[tuple[int, float, int, str]]]:
    """The rows that the stored checkpoints have not seen, in two files."""
    one, *others = batches()[FIRST:]
    return [one, [row for batch in others for row in batch]]


def start(spark: Any, family: str, folder: Path, write: Any) -> Any:
    """The stream over ``folder/in`` with its checkpoint in ``folder/state``."""
    from skyband.spark import start

    stream = read_stream(spark, folder / "in")
    state = str(folder / "state")
    return start(
        stream, WORKLOADS[family], time="ts", id="id", watermark="3 seconds", write=write, checkpoint=state,
        shards=None if family == "uncertain" else 2,
    )  # fmt: skip


def unpack(archive_path: Path, folder: Path) -> None:
    """Put a checkpoint into ``folder/state``."""
    here = str(folder).encode()
    with tarfile.open(archive_path) as archive:
        for member in archive.getmembers():
            path = folder / "state" / member.name
            path.parent.mkdir(parents=True, exist_ok=True)
            data = archive.extractfile(member)
            assert data is not None
            path.write_bytes(data.read().replace(HERE, here))


def pack(folder: Path, archive: Path) -> None:
    """Store ``folder/state`` without checksums and locks; some files name the folder that they are in."""
    with tarfile.open(archive, "w:gz") as out:
        for path in sorted((folder / "state").rglob("*")):
            name = str(path.relative_to(folder / "state"))
            if path.is_dir() or name.endswith(".crc") or name == "skyband/lock":
                continue
            data = path.read_bytes().replace(str(folder).encode(), HERE)
            member = tarfile.TarInfo(name)
            member.size = len(data)
            out.addfile(member, io.BytesIO(data))


def main(archives: Path) -> None:
    """Store the checkpoints of the code at hand."""
    from skyband.spark import session

    archives.mkdir(parents=True, exist_ok=True)
    spark = session("golden", master="local[2]", memory="1g", settings={"spark.sql.shuffle.partitions": "2"})
    for family in WORKLOADS:
        with TemporaryDirectory() as folder:
            write_files(Path(folder) / "in", batches()[:FIRST])
            handle = start(
                spark, family, Path(folder), lambda out: out.writeStream.format("noop").trigger(availableNow=True)
            )
            handle.await_end()
            pack(Path(folder), archives / f"{family}.tar.gz")
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
