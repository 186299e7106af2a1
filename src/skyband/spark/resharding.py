"""Convert a stopped checkpoint to another number of shards, and of Spark's partitions.

The state of all shards is read on the driver and distributed again. The new state is not written into Spark's state
store, but sent to the shards as control messages: the first micro-batch of the next start stores it, together with the
rows that it reads. So the change is complete or absent, whenever the process is killed:

- before the messages are written: nothing has changed;
- before the description of the checkpoint is changed: the old number is valid, and its shards ignore the messages;
- after that: only the new number is accepted, and the messages are in the next micro-batch.
"""

from __future__ import annotations

import json
import logging
import time
from base64 import b64encode
from dataclasses import replace
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from skyband.errors import SnapshotError, UnsupportedError
from skyband.queries.families import FAMILIES, refuse_unsupported
from skyband.sharding.plan import ShardPlan
from skyband.snapshot import resuming
from skyband.spark.checkpoint import Checkpoint
from skyband.spark.control import Control
from skyband.spark.processor import ADOPT, LEAVE
from skyband.spark.query_settings import PARTITIONS
from skyband.spark.spark_errors import first_line
from skyband.spark.topology import spread
from skyband.spark.versions import checkpoint_manager

__all__ = ["refuse_resharding", "repartition", "reshard", "stored_blobs"]

_LOG = logging.getLogger("skyband.resharding")


def refuse_resharding(plan: ShardPlan, stored: int, *, has_late_output: bool) -> None:
    """Reject a conversion of the state that is not supported, before anything is changed."""
    if plan.shards == stored:
        return
    refuse_unsupported(FAMILIES[plan.family], "resharding", f"a change from shards={stored} to shards={plan.shards}")
    if has_late_output:
        raise UnsupportedError(
            f"a change from shards={stored} to shards={plan.shards} is not supported with late= as a writer: the query "
            "of late rows has its own state. Convert the state in a start without late=, or keep the stored number."
        )


def reshard(
    spark: SparkSession, kept: Checkpoint, control: Control, plan: ShardPlan, description: dict[str, Any]
) -> dict[str, Any]:
    """Distribute the stored state over the shards of `plan`; return the new description of the checkpoint.

    The checkpoint must be locked. `plan` has the queries of the stored state.
    """
    stored = int(description["shards"])
    if plan.shards == stored:
        return description
    refuse_unfinished(kept, f"shards={stored}")
    messages = _messages(stored_blobs(spark, kept, plan), replace(plan, shards=stored), plan)
    control.send(messages)
    return kept.revise(description, shards=plan.shards)


def refuse_unfinished(kept: Checkpoint, stored: str) -> None:
    """Reject a checkpoint with a micro-batch that Spark would repeat: its rows are addressed to the old shards."""
    planned, done = (kept.last_batch(kept.folder, log) for log in ("offsets", "commits"))
    if planned != done:
        raise SnapshotError(
            f"checkpoint={kept.folder!r} has an incomplete micro-batch, number {planned}, because the last run was "
            f"killed. Its state cannot be converted before that is complete; nothing was changed. Start the stream "
            f"once with {stored}, stop it, and try again."
        )


def repartition(spark: SparkSession, kept: Checkpoint, wanted: int) -> None:
    """Change the number of partitions of Spark's state store, if this version of Spark can do it."""
    stored = _stored_partitions(spark, kept)
    if stored is None or stored == wanted:
        return
    manager = checkpoint_manager(spark)
    if manager is None:
        _LOG.warning(
            "the state keeps its %s partitions: Spark %s cannot change them, only Spark 4.2 or newer without Spark "
            "Connect. The answers are the same.",
            stored,
            spark.version,
        )
        return
    try:
        manager.repartition(kept.folder, wanted)
    except PySparkException as error:
        raise SnapshotError(
            f"checkpoint={kept.folder!r} cannot be converted from {stored} to {wanted} partitions: "
            f"{first_line(error)}. Start the stream without reshard=True; it continues with the stored number."
        ) from error


def _stored_partitions(spark: SparkSession, kept: Checkpoint) -> int | None:
    """Return the number of partitions of the last complete micro-batch; None before the first.

    The number of an incomplete one may be the result of a conversion that was killed, which must be repeated.
    """
    last = kept.last_batch(kept.folder, "commits")
    for row in spark.read.text(f"{kept.folder}/offsets/{last}").collect() if last >= 0 else ():
        if row[0].startswith("{") and '"conf"' in row[0]:
            return int(json.loads(row[0])["conf"][PARTITIONS])
    return None


def stored_blobs(spark: SparkSession, kept: Checkpoint, plan: ShardPlan) -> dict[int, bytes]:
    """Return the stored state by the key of its shard."""
    reader = spark.read.format("statestore").option("stateVarName", plan.value_state)
    try:
        found: DataFrame = reader.load(kept.folder).selectExpr("key.shard", "value.blob")
        return {int(row[0]): bytes(row[1]) for row in found.collect()}
    except PySparkException as error:
        raise SnapshotError(
            f"the state in checkpoint={kept.folder!r} cannot be read: {first_line(error)}. Nothing was changed."
        ) from error


def _messages(blobs: dict[int, bytes], before: ShardPlan, plan: ShardPlan) -> list[tuple[dict[str, Any], int | None]]:
    """Return the messages with the state of each new shard, and those to keys that no shard has any more."""
    from skyband.sharding.shard import shard_type  # noqa: PLC0415 - imports compiled code, which few runs need

    keys_before, keys = spread(before.units), spread(plan.units)
    kind = shard_type(before)
    with resuming():
        stored = {kind.state_format.decode(blob)["shards"] for blob in blobs.values()}
    if stored - {before.shards}:
        raise SnapshotError(
            f"the stored state is of shards={min(stored - {before.shards})}, because the change to "
            f"shards={before.shards} was not completed. Nothing was changed. Start the stream once with "
            f"shards={before.shards}, stop it, and try again."
        )
    common = {"shards": plan.shards, "attempt": time.time_ns()}
    with resuming():
        shards = [kind.resume(before, number, blobs[key]) for number, key in keys_before.items() if key in blobs]
        found = FAMILIES[plan.family].part("resharding").resharded(shards, plan) if shards else []
    messages: list[tuple[dict[str, Any], int | None]] = [
        ({"kind": ADOPT, **common, "state": b64encode(shard.state()).decode()}, keys[shard.number]) for shard in found
    ]
    gone = set(blobs) - set(keys.values())
    return messages + [({"kind": LEAVE, **common}, key) for key in sorted(gone)]
