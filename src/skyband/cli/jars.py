"""`skyband jars`: what Spark needs for Kafka, fetched once."""

from __future__ import annotations

from rich.console import Console

from skyband.cli.spark_session import said

__all__ = ["fetch"]


def fetch(talk: Console) -> str:
    """Fetch the jars, and say which they are."""
    with said(talk, "fetching the jars for Kafka from Maven's registry…"):
        from skyband.spark.jars import fetch_jars  # noqa: PLC0415 - what is missing for Spark is said here

        jars = fetch_jars()
    lines = [f"{jars.folder}", *(f"  {file}" for file in jars.files)]
    if jars.connector != jars.spark:
        lines.append(
            f"The registry has no Kafka connector of version {jars.spark}, which would be that of the Spark installed "
            f"here; {jars.connector} stands in for it. Run skyband jars again when there is one."
        )
    return "\n".join(lines)
