"""Upgrade checkpoints of Spark 4.0 for later versions, which use another name for the same stateful operator.

The stored state is the same. Spark compares the name in the metadata of the operator, and rejects the checkpoint if it
differs.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from skyband.errors import SnapshotError
from skyband.spark.spark_errors import first_line
from skyband.spark.versions import has_row_processors

__all__ = ["upgrade_checkpoint"]

_OLD, _NEW = "transformWithStateInPandasExec", "transformWithStateInPySparkExec"
_METADATA = "state/*/_metadata/v2/*"


def upgrade_checkpoint(spark: SparkSession, folder: str) -> None:
    """Replace the operator's name in a checkpoint that Spark 4.0 has written; other checkpoints are unchanged.

    Files are written to another place and then renamed, so that a file is either old or new when the run is killed.
    Without access to Java, as with Spark Connect, nothing is changed, and Spark rejects the checkpoint.
    """
    context: Any = getattr(spark, "_sc", None)
    if context is None or not has_row_processors(spark):
        return
    hadoop = context._jvm.org.apache.hadoop.fs
    try:
        root = hadoop.Path(folder)
        files = root.getFileSystem(context._jsc.hadoopConfiguration())
        for status in files.globStatus(hadoop.Path(root, _METADATA)) or ():
            path = status.getPath()
            text = _read(context, files, path)
            if _OLD in text:
                _replace(context, files, path, hadoop.Path(root, "skyband/upgraded"), text.replace(_OLD, _NEW))
    except Exception as error:
        raise SnapshotError(
            f"checkpoint={folder!r} was written by Spark 4.0 and cannot be upgraded ({first_line(error)}), so the "
            "stream was not started. Check the permissions of the folder, or resume with Spark 4.0."
        ) from error


def _read(context: Any, files: Any, path: Any) -> str:
    stream = files.open(path)
    try:
        return str(context._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
    finally:
        stream.close()


def _replace(context: Any, files: Any, path: Any, beside: Any, text: str) -> None:
    """Replace a file in one step."""
    stream = files.create(beside, True)
    try:
        stream.write(bytearray(text.encode()))
    finally:
        stream.close()
    jvm = context._jvm
    rename = jvm.org.apache.hadoop.fs.Options.Rename
    options = context._gateway.new_array(rename, 1)
    options[0] = rename.OVERWRITE
    where = jvm.org.apache.hadoop.fs.FileContext.getFileContext(path.toUri(), context._jsc.hadoopConfiguration())
    where.rename(files.makeQualified(beside), files.makeQualified(path), options)
