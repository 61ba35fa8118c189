"""What databases and daemons are advised: their own settings, with the sizes that their own lines print."""

from __future__ import annotations

from pathlib import Path

import pytest
from remedy_logs import advise, crashes_of

from oomdoctor import diagnose

INNODB = """\
260304  7:44:01 InnoDB: Initializing buffer pool, size = {size}
InnoDB: mmap(824180736 bytes) failed; errno 12
260304  7:44:01 InnoDB: Completed initialization of buffer pool
260304  7:44:01 InnoDB: Fatal error: cannot allocate memory for the buffer pool
260304  7:44:01 [ERROR] Plugin 'InnoDB' init function returned error.
"""
MARIADB = """\
2026-03-04  7:44:01 0 [Note] InnoDB: Initializing buffer pool, total size = 12884901888, chunk size = 134217728
2026-03-04  7:44:01 0 [ERROR] InnoDB: Cannot allocate memory for the buffer pool
"""
MYSQL_8 = "2026-03-04T07:44:01.24Z 1 [ERROR] [MY-012956] [InnoDB] Cannot allocate memory for the buffer pool\n"
SHARED = (
    "FATAL:  could not map anonymous shared memory: Cannot allocate memory\n"
    "HINT:  This error usually means that PostgreSQL's request for a shared memory segment exceeded available memory, "
    "swap space, or huge pages. To reduce the request size (currently 8589934592 bytes), reduce PostgreSQL's shared "
    "memory usage, perhaps by reducing shared_buffers or max_connections.\n"
)
QUERY = """\
2026-03-04 10:02:11 UTC [4410] ERROR:  out of memory
2026-03-04 10:02:11 UTC [4410] DETAIL:  Failed on request of size 33554432 in memory context "HashBatchContext".
"""
LOCKS = 'ERROR:  out of shared memory\nHINT:  You might need to increase "{setting}".\n'
REDIS = """\
{head} 14 Oct 03:00:46.044 * 10 changes in 300 seconds. Saving...
{head} 14 Oct 03:00:46.069 # Can't save in background: fork: Cannot allocate memory
"""


def told_of(folder: Path, text: str) -> str:
    """What the first incident's first diagnosis says."""
    log = folder / "job.log"
    log.write_text(text, encoding="utf-8")
    first = diagnose(log).as_json()["incidents"][0]["diagnoses"][0]
    return " ".join((first["headline"], first["explanation"], *first["against"]))


@pytest.mark.parametrize(
    ("text", "snippet", "reckoned"),
    [
        (INNODB.format(size="768.0M"), "innodb_buffer_pool_size = 384M   # in my.cnf", "768 MiB / 2 = 384 MiB"),
        (INNODB.format(size="192.0M"), "innodb_buffer_pool_size = 128M   # in my.cnf", "192 MiB / 2 = 128 MiB"),
        (MARIADB, "innodb_buffer_pool_size = 6144M   # in my.cnf", "12.00 GiB / 2 = 6.00 GiB"),
        (MYSQL_8, "innodb_buffer_pool_size = 128M   # in my.cnf", None),  # no size is printed: the default
        (SHARED, "shared_buffers = 4096MB   # in postgresql.conf", "8.00 GiB / 2 = 4.00 GiB"),
    ],
)
def test_what_is_set_aside_at_the_start_is_made_smaller(text: str, snippet: str, reckoned: str | None) -> None:
    remedy = advise(text, "smaller-buffers", cause="host-memory-exhausted")[0]["smaller-buffers"]
    assert remedy.snippet == snippet
    assert reckoned is None or remedy.derivation == reckoned


@pytest.mark.parametrize("size", ["128.0M", "64.0M"])
def test_no_pool_is_made_smaller_than_its_default(size: str) -> None:
    remedy = advise(INNODB.format(size=size), "smaller-buffers", cause="host-memory-exhausted")[0]["smaller-buffers"]
    assert remedy.snippet is None


@pytest.mark.parametrize(
    ("text", "headline"),
    [
        (INNODB.format(size="768.0M"), "InnoDB could not allocate its buffer pool of 768 MiB when it started"),
        (MYSQL_8, "InnoDB could not allocate its buffer pool when it started"),
        (SHARED, "PostgreSQL could not allocate its shared memory of 8 GiB when it started"),
        (QUERY, "An allocation of 32 MiB for a PostgreSQL query failed"),
        (REDIS.format(head="1255:M"), "Redis (PID 1255) could not fork for its background save"),
        (REDIS.format(head="[3453]"), "Redis (PID 3453) could not fork for its background save"),
        ("OSError: [Errno 12] Cannot allocate memory\n", "An allocation of RAM failed"),
        ("bash: fork: Cannot allocate memory\n", "The kernel refused to start a child process"),
    ],
)
def test_the_headline_names_the_daemon(text: str, headline: str, tmp_path: Path) -> None:
    assert headline in told_of(tmp_path, text)


@pytest.mark.parametrize("setting", ["max_locks_per_transaction", "max_pred_locks_per_transaction"])
def test_a_table_of_locks_is_made_larger_and_nothing_else_helps(setting: str, tmp_path: Path) -> None:
    text = LOCKS.format(setting=setting)
    knobs = ("raise-allocator-cap", "stream-data", "more-host-memory", "clear-references", "smaller-buffers")
    chosen, _ = advise(text, *knobs, cause="allocator-cap")
    assert list(chosen) == ["raise-allocator-cap"]
    assert chosen["raise-allocator-cap"].snippet == f"ALTER SYSTEM SET {setting} = 1024;"
    assert "table of locks is full" in told_of(tmp_path, text)


def test_temporary_tables_have_another_limit() -> None:
    chosen, _ = advise("ERROR:  no empty local buffer available\n", "raise-allocator-cap", cause="allocator-cap")
    assert "temp_buffers" in chosen["raise-allocator-cap"].action
    assert chosen["raise-allocator-cap"].snippet is None


def test_a_query_takes_what_its_settings_allow() -> None:
    chosen, _ = advise(
        QUERY, "smaller-buffers", "quantize-weights", "smaller-microbatch", cause="host-memory-exhausted"
    )
    assert list(chosen) == ["smaller-buffers"]
    assert (chosen["smaller-buffers"].snippet or "").startswith("SHOW work_mem;")


@pytest.mark.parametrize(
    ("line", "name", "pid"),
    [
        ("LOG:  server process (PID 315) was terminated by signal 9: Killed", "PostgreSQL's server process", 315),
        (
            "LOG:  checkpointer process (PID 44) was terminated by signal 9: Killed",
            "PostgreSQL's checkpointer process",
            44,
        ),
        ("LOG:  started by worker (pid 44), then exit code 137", None, None),
    ],
)
def test_the_servers_own_process_is_named(line: str, name: str | None, pid: int | None) -> None:
    process = crashes_of(f"2026-01-18 21:19:30.017 UTC [1] {line}\n")[0].root.process
    assert (process.name, process.pid) == (name, pid)


@pytest.mark.parametrize(
    ("context", "setting"),
    [
        ('CONTEXT:  automatic vacuum of table "app.public.readings"', "autovacuum_work_mem"),
        ('CONTEXT:  automatic analyze of table "app.public.readings"', "autovacuum_work_mem"),
        ("STATEMENT:  select * from readings order by at", "work_mem"),
    ],
)
def test_a_vacuum_has_memory_of_its_own(tmp_path: Path, context: str, setting: str) -> None:
    (tmp_path / "pg.log").write_text(f"{QUERY}2026-03-04 10:02:11 UTC [4410] {context}\n", encoding="utf-8")
    first = diagnose(tmp_path).as_json()["diagnoses"][0]
    assert setting in first["remedies"][0]["action"].split(",")[0].split()
    assert ("PostgreSQL query" in first["title"] + first["headline"]) is (setting == "work_mem")
