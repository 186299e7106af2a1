"""A run on Spark whose input, checkpoint and answers are in an object store, as a program that can be killed.

python -m tests.connectors.s3.s3a_run WORKLOAD_FILE follow|finish
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from tempfile import mkdtemp

from skyband.spark import ivy, jars
from skyband.spark.ivy import Module

# Hadoop's file system s3a, for the version of Hadoop in Spark, without the 600 MB of the whole SDK that it names.
_SDK = ("s3-transfer-manager", "sts", "apache-client", "url-connection-client", "netty-nio-client")
_SDK_VERSION = "2.35.4"
_READER = "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.3.1"


def s3a_jars():
    """The jars, 16 MB, fetched if need be; NotFetchedError where they cannot be had."""
    (client,) = ivy.spark_jars().glob("hadoop-client-api-*.jar")
    hadoop = client.stem.removeprefix("hadoop-client-api-")
    where = jars.folder().parent / f"s3a-{hadoop}"
    if not where.is_dir():
        where.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(mkdtemp(dir=where.parent))
        try:
            sdk = [Module.parse(f"software.amazon.awssdk:{name}:{_SDK_VERSION}") for name in _SDK]
            ivy.fetch(sdk, unfinished, with_all_they_need=True)
            ivy.fetch([Module.parse(f"org.apache.hadoop:hadoop-aws:{hadoop}"), Module.parse(_READER)], unfinished)
            os.replace(unfinished, where)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return sorted(where.glob("*.jar"))


def settings(port):
    """Settings of the session, with variables in place of secrets."""
    return {
        "spark.jars": ",".join(map(str, s3a_jars())),
        "spark.hadoop.fs.s3a.access.key": "${ACCESS_KEY}",
        "spark.hadoop.fs.s3a.secret.key": "${SECRET_KEY}",
        "spark.hadoop.fs.s3a.endpoint": f"http://127.0.0.1:{port}",
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
    }


def main(path, how):
    import skyband as sb
    from skyband.jobs import run

    running = run(sb.read_workload(path), "stream")
    if how == "finish":
        running.finish()
    running.await_end()


if __name__ == "__main__":
    main(*sys.argv[1:])
