"""The faults of a campaign. Each is a function of the stage and a random source that returns what it hit, or None."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

import psycopg

import skyband as sb
from skyband.jobs.mailbox import mailbox_of
from tests.faults import work
from tests.faults.campaign.stage import WORKERS, python_workers

LONGEST = 1.5  # seconds of a pause
AWAY = 3.0  # seconds that a server is away
MOST_EXTRA = 3  # queries at a time that joined while it ran
SQL = "TOPK s, 5 OVER 15 SECONDS EVERY 5 SECONDS"


def _paused(pids, random):
    """Stop processes, and let them continue."""
    hit = []
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
            hit.append(pid)
    time.sleep(random.uniform(0.1, LONGEST))
    for pid in hit:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    return f"{len(hit)} processes" if hit else None


def _killed(pids):
    hit = 0
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            hit += 1
    return f"{hit} processes" if hit else None


def _one(pids, random):
    return [random.choice(sorted(pids))] if pids else []


def pause_of_the_whole_run(stage, random):
    return _paused(stage.driver.members(), random)


def pause_of_java(stage, random):
    return _paused(filter(None, [stage.driver.java()]), random)


def pause_of_the_driver_in_python(stage, random):
    return _paused([stage.driver.process.pid], random)


def pause_of_an_executor(stage, random):
    return _paused(_one(stage.cluster.all_executors(), random), random)


def pause_of_python_workers(stage, random):
    return _paused(python_workers(stage.cluster), random)


def pause_of_a_worker(stage, random):
    return _paused(stage.cluster.members(random.choice(WORKERS)), random)


def pause_of_the_master(stage, random):
    return _paused(stage.cluster.members("master"), random)


def pause_of_the_database(stage, random):
    return _paused([stage.postgres._process.pid], random)


def pause_of_the_cache(stage, random):
    return _paused([stage.redis._process.pid], random)


def kill_of_the_run(stage, random):
    return _killed(stage.driver.members())


def kill_of_the_driver_in_python(stage, random):
    return _killed([stage.driver.process.pid])


def kill_of_java(stage, random):
    return _killed(filter(None, [stage.driver.java()]))


def kill_of_an_executor(stage, random):
    return _killed(_one(stage.cluster.all_executors(), random))


def kill_of_a_python_worker(stage, random):
    return _killed(_one(python_workers(stage.cluster), random))


def kill_of_a_worker(stage, random):
    """As if its machine were switched off, and on again."""
    name = random.choice(WORKERS)
    stage.cluster.kill_worker(name)
    time.sleep(random.uniform(0, AWAY))
    stage.cluster.add_workers(name)
    return name


def kill_of_the_master(stage, random):
    stage.cluster.kill_worker("master")
    time.sleep(random.uniform(0, AWAY))
    stage.cluster.start_master()
    return "with its stored state"


def crash_of_the_database(stage, random):
    stage.postgres.crash()
    time.sleep(random.uniform(0, AWAY))
    stage.postgres.start()
    return "with recovery"


def crash_of_the_cache(stage, random):
    stage.redis.crash()
    time.sleep(random.uniform(0, AWAY))
    stage.redis.start()
    return "with its log"


def cut_of_all_connections_to_the_database(stage, random):
    hit = stage.postgres.execute(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
        "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
    )
    return f"{hit[0][0]} connections" if hit[0][0] else None


def cut_of_all_connections_to_the_cache(stage, random):
    with stage.redis.connect() as client:
        hit = client.client_kill_filter(_type="normal", skipme=True)
    return f"{hit} connections" if hit else None


def database_that_only_reads(stage, random):
    """As after a failover to a replica that has not been promoted yet."""
    _set(stage, "on")
    try:
        time.sleep(random.uniform(0.2, AWAY))
    finally:
        _set(stage, "off")
    return "for a while"


def _set(stage, value):
    # The connection that sets it back must be allowed to write.
    url = f"{stage.postgres.url()}?options=-c%20default_transaction_read_only%3Doff"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"ALTER SYSTEM SET default_transaction_read_only = {value}")
        connection.execute("SELECT pg_reload_conf()")


def file_of_late_rows(stage, random):
    """Rows a leap of event time behind the newest answers, which count neither now nor later."""
    if stage.answered() < 8:
        return None  # before the first watermark, they are not late
    ts = stage.feeder.newest() - 2000 * work.STEP
    rows = [row._replace(ts=ts + place) for place, row in enumerate(work.rows_of(random.randrange(1000)))]
    stage.feeder.put(rows)
    return f"{len(rows)} rows"


def file_of_rows_without_a_time(stage, random):
    rows = [row._replace(ts=None) for row in work.rows_of(random.randrange(1000))]
    stage.feeder.put(rows)
    return f"{len(rows)} rows"


def file_with_another_time(stage, random):
    stage.feeder.touch(random)
    return "a file that was read before"


def file_that_is_not_complete(stage, random):
    """The beginning of a file under a hidden name, as writers leave it when they die."""
    (stage.folder / "in" / f".left-{time.monotonic_ns()}.parquet").write_bytes(b"PAR1" + random.randbytes(40))
    return "under a hidden name"


def change_of_the_queries(stage, random):
    """Add a query, or drop one that was added; other faults may follow before the reply."""
    box = mailbox_of(sb.read_workload(stage.file, stage.variables))
    if not box.is_heard():
        return None
    if len(stage.extra) >= MOST_EXTRA:
        name = stage.extra.pop(random.randrange(len(stage.extra)))
        box.send({"kind": "drop", "name": name})
        return "dropped"
    stage.extra.append(f"extra{stage.numbers}")
    stage.numbers += 1
    box.send({"kind": "add", "sql": f"{stage.extra[-1]}: {SQL}", "stream": "rows"})
    return "added"


# Faults by weight: those that end the run cost a start of Spark, and are drawn less often.
BLOWS = {
    pause_of_the_whole_run: 4,
    pause_of_java: 4,
    pause_of_the_driver_in_python: 4,
    pause_of_an_executor: 5,
    pause_of_python_workers: 5,
    pause_of_a_worker: 3,
    pause_of_the_master: 2,
    pause_of_the_database: 4,
    pause_of_the_cache: 4,
    kill_of_the_run: 1,
    kill_of_the_driver_in_python: 1,
    kill_of_java: 1,
    kill_of_an_executor: 4,
    kill_of_a_python_worker: 6,
    kill_of_a_worker: 2,
    kill_of_the_master: 1,
    crash_of_the_database: 2,
    crash_of_the_cache: 2,
    cut_of_all_connections_to_the_database: 4,
    cut_of_all_connections_to_the_cache: 4,
    database_that_only_reads: 2,
    file_of_late_rows: 3,
    file_of_rows_without_a_time: 3,
    file_with_another_time: 3,
    file_that_is_not_complete: 2,
    change_of_the_queries: 3,
}
