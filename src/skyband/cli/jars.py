"""`skyband jars`: download Spark's Kafka connector."""

from __future__ import annotations

from rich.console import Console

from skyband.cli.spark_session import progress

__all__ = ["fetch"]


def fetch(talk: Console) -> str:
    """Download the jars and return their folder and names."""
    with progress(talk, "downloading the Kafka jars from the Maven repository…"):
        from skyband.spark.jars import fetch_jars  # noqa: PLC0415 - reports a missing Spark

        jars = fetch_jars()
    lines = [f"{jars.folder}", *(f"  {file}" for file in jars.files)]
    if jars.connector != jars.spark:
        lines.append(
            f"The repository has no Kafka connector of version {jars.spark}, the version of the installed Spark. "
            f"Version {jars.connector} is used instead. Run skyband jars again when {jars.spark} is available."
        )
    return "\n".join(lines)
