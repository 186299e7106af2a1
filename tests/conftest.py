"""Settings of the whole suite: which examples a run draws, and which tests are slow or long.

`make test` draws the same few examples in every run, `make test-long` the same many. SKYBAND_EXAMPLES=500 draws as many
others in each run.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests import class_archive, time_budget
from tests.faults.tally import Tally, pytest_terminal_summary  # noqa: F401 - pytest calls the latter
from tests.scheduling import pytest_xdist_make_scheduler  # noqa: F401 - and this

# Compiling a kernel on its first call may take seconds, so no example has a deadline.
COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}

os.environ.setdefault("SPARK_SUBMIT_OPTS", class_archive.java_options())

# Processes that tests start keep the bytecode of what they import. Without it a `skyband` command takes three times as
# much CPU time, and the tests start hundreds of processes.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
STARTUP = str(Path(__file__).with_name("startup"))
if STARTUP not in os.environ.get("PYTHONPATH", "").split(os.pathsep):
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (STARTUP, os.environ.get("PYTHONPATH"))))

settings.register_profile("short", derandomize=True, max_examples=25, **COMMON)
settings.register_profile("long", derandomize=True, max_examples=100, **COMMON)
if "SKYBAND_EXAMPLES" in os.environ:
    settings.register_profile("search", max_examples=int(os.environ["SKYBAND_EXAMPLES"]), print_blob=True, **COMMON)
    settings.load_profile("search")
else:
    settings.load_profile("long" if "SKYBAND_LONG" in os.environ else "short")

# A parameter of this name numbers the draws of a random search. `make test` runs so many of each, `make test-long` all.
SEED, SEEDS = "seed", 3


# What starts Spark, a server, a browser or many programs, or searches for long; `make test-quick` leaves it out.
SLOW = (
    "tests/spark/",
    "tests/faults/",
    "tests/connectors/kafka/",
    "tests/connectors/postgres/",
    "tests/connectors/redis/",
    "tests/dashboard/browser/",
    "tests/conformance/",
    "tests/uncertain/",
    "tests/incomplete/",
    "tests/aggregate/",
    "tests/sharding/",
    "tests/cli/test_ctl.py",
    "tests/cli/test_dashboard.py",
    "tests/cli/test_init_runs.py",
    "tests/cli/test_main.py",
    "tests/cli/test_run.py",
    "tests/cli/test_without_java.py",
    "tests/connectors/test_alert_crossings.py",
    "tests/dashboard/test_connections.py",
    "tests/dashboard/test_folder_changes.py",
    "tests/dashboard/test_run.py",
    "tests/jobs/test_followed_stream.py",
    "tests/jobs/test_history.py",
    "tests/jobs/test_local_verification.py",
    "tests/kernels/test_cache.py",
    "tests/kernels/test_shipped.py",
    "tests/kernels/test_stored_kernel.py",
    "tests/test_deploy_runs.py",
    "tests/test_docs.py",
    "tests/test_examples.py",
    "tests/test_forged_snapshots.py",
    "tests/test_import_time.py",
    "tests/test_notebooks.py",
    "tests/test_packaging.py",
    "tests/test_precompile.py",
    "tests/test_quick_start.py",
    "tests/test_site.py",
    "tests/test_so_far.py",
    "tests/test_state_expiry.py",
    "tests/topk/test_algorithm_selection.py",
    "tests/topk/test_calendar_windows.py",
    "tests/topk/test_group_pools.py",
    "tests/topk/test_groups.py",
    "tests/topk/test_meta_query.py",
    "tests/topk/test_reducer.py",
    "tests/topk/test_shard",
    "tests/topk/test_whole_input.py",
    "tests/topk/test_window_ranking.py",
)
# What these folders have that starts nothing.
QUICK = (
    "tests/spark/test_checkpoint_lock.py",
    "tests/spark/test_health.py",
    "tests/spark/test_jars.py",
    "tests/spark/test_metrics.py",
    "tests/spark/test_stream_lags.py",
    "tests/spark/test_timely_rows.py",
)


def pytest_configure(config):
    """Skip tests that would start after the time budget of the run, if it has one."""
    config.pluginmanager.register(time_budget)
    time_budget.left()  # it begins now, and worker processes inherit this


def pytest_collection_modifyitems(items):
    """Mark what is slow and what is long, so that `make test-quick` and `make test` can leave it out."""
    for item in items:
        in_slow_file = item.nodeid.startswith(SLOW) and not item.nodeid.startswith(QUICK)
        if in_slow_file or "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("slow")
        if hasattr(item, "callspec") and item.callspec.params.get(SEED, 0) >= SEEDS:
            item.add_marker("long")
    if time_budget.left() is not None:
        items[:] = time_budget.rotated(items, day=int(time.time() // 86_400))


@pytest.fixture(scope="session")
def spark():
    """One Spark for all tests of a process; it reads Kafka, too, if what that takes can be had."""
    from skyband.spark import session
    from skyband.spark.ivy import NotFetchedError
    from tests.connectors.kafka.broker import connector

    try:
        settings = {"spark.jars": connector().paths}
    except NotFetchedError:
        settings = {}  # tests of Kafka are skipped, and say why
    settings["spark.sql.streaming.stopTimeout"] = "300s"  # on a busy machine a stream stops, but later
    found = session("tests", master="local[2]", memory="1g", settings=settings)
    yield found
    found.stop()


@pytest.fixture
def tally(request):
    """Counts what a test injects and what it looks at, for the summary of the run."""
    return Tally(request.node.user_properties)
