"""Faults of the servers that answers are written to."""

from __future__ import annotations

import time

from tests.faults.campaign.blow import blow
from tests.faults.campaign.on_processes import AWAY, away, paused, was_read_only
from tests.servers import PASSWORD


def _has_store(stage):
    return stage.store is not None


def _has_broker(stage):
    return stage.broker is not None


@blow("database")
def pause_of_the_database(stage, random):
    return paused([stage.postgres.pid], random)


@blow("cache")
def pause_of_the_cache(stage, random):
    return paused([stage.redis.pid], random)


@blow("store", possible=_has_store)
def pause_of_the_object_store(stage, random):
    return paused([stage.store.pid], random)


@blow("broker", possible=_has_broker)
def pause_of_the_broker(stage, random):
    return paused([stage.broker.pid], random)


@blow("database", 2)
def crash_of_the_database(stage, random):
    stage.postgres.crash()
    away(random)
    with stage.network.inside("database"):
        stage.postgres.start()
    return "with recovery"


@blow("cache", 2)
def crash_of_the_cache(stage, random):
    stage.redis.crash()
    away(random)
    with stage.network.inside("cache"):
        stage.redis.start()
    return "with its log"


@blow("store", 2, possible=_has_store)
def crash_of_the_object_store(stage, random):
    stage.store.kill()
    away(random)
    with stage.network.inside("store"):
        stage.store.start()
    return "in the middle of requests"


@blow("broker", 2, possible=_has_broker)
def crash_of_the_broker(stage, random):
    stage.broker.stop(hard=True)
    away(random)
    with stage.network.inside("broker"):
        stage.broker.start()
    return "with recovery"


@blow("database")
def cut_of_all_connections_to_the_database(stage, random):
    hit = stage.postgres.execute(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
        "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
    )
    return f"{hit[0][0]} connections" if hit[0][0] else None


@blow("cache")
def cut_of_all_connections_to_the_cache(stage, random):
    with stage.redis.connect() as client:
        hit = client.client_kill_filter(_type="normal", skipme=True)
    return f"{hit} connections" if hit else None


@blow("database", 2)
def database_that_only_reads(stage, random):
    """As after a failover to a replica that has not been promoted yet."""
    _make_reads_only(stage, "on")
    try:
        time.sleep(random.uniform(0.2, AWAY))
    finally:
        _make_reads_only(stage, "off")
    return "for a while"


def _make_reads_only(stage, value):
    # The connection that sets it back must be allowed to write.
    with stage.postgres.connect(options="-c default_transaction_read_only=off") as connection:
        connection.execute(f"ALTER SYSTEM SET default_transaction_read_only = {value}")
        connection.execute("SELECT pg_reload_conf()")


@blow("database", 1, ends_run=True)
def revoked_rights_in_the_database(stage, random):
    stage.postgres.execute("REVOKE ALL ON ALL TABLES IN SCHEMA public FROM writer")
    try:
        time.sleep(random.uniform(0.2, AWAY))
    finally:
        stage.postgres.execute("GRANT ALL ON ALL TABLES IN SCHEMA public TO writer")
    return "and granted again"


@blow("database", 1, ends_run=True)
def changed_password_of_the_database(stage, random):
    """Connections that are open are ended, as the owner of the server does who changes a password."""
    stage.postgres.execute("ALTER ROLE writer PASSWORD 'another'")
    try:
        stage.postgres.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'writer'")
        time.sleep(random.uniform(0.2, AWAY))
    finally:
        stage.postgres.execute(f"ALTER ROLE writer PASSWORD '{PASSWORD}'")
    return "and changed back"


@blow("cache", 1, ends_run=True)
def revoked_rights_in_the_cache(stage, random):
    with stage.redis.connect() as client:
        client.execute_command("ACL", "SETUSER", "default", "-@write")
        try:
            time.sleep(random.uniform(0.2, AWAY))
        finally:
            client.execute_command("ACL", "SETUSER", "default", "+@all")
    return "and granted again"


@blow("store", 2, possible=_has_store)
def object_store_that_rejects_writes(stage, random):
    folder = stage.folder / "store" / "objects" / "answers" / "lines"
    return "and accepts them again" if was_read_only(folder, random) else None
