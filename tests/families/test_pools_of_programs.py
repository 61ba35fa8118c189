"""Pools that programs set aside for themselves: full ones, and what only names them."""

from __future__ import annotations

from pathlib import Path

import pytest
from reports import body

FULL = (
    "mongos: Exceeded memory limit for $bucketAuto, but didn't allow external sort. Pass allowDiskUse:true to opt in.",
    "MongoServerError: Exceeded memory limit for $group, but didn't allow external spilling. Pass allowDiskUse:true.",
    "java.io.IOException: Insufficient number of network buffers: required 17, but only 3 of 2048 available.",
    "java.io.IOException: Insufficient number of spool buffers: need 65, have 12 (grid.memory.spool.max)",
    "InnoDB: ERROR: over 95 percent of the buffer pool is occupied by lock heaps or the adaptive hash index!",
    "[FATAL] InnoDB: Over 95 percent of the buffer pool is occupied by lock heaps! innodb_buffer_pool_size=7M",
    "psql:load.sql:9: ERROR:  no empty local buffer available",
    "psycopg2.errors.OutOfMemory: out of shared memory\nHINT:  You might need to increase max_locks_per_transaction.",
    'FATAL:  out of shared memory\nHINT:  You might need to increase "max_pred_locks_per_transaction".',
    'ORA-04031: unable to allocate 4096 bytes of shared memory ("shared pool","select 1","sga heap(1,0)","kglsim")',
    "ORA-04036: PGA memory used by the instance exceeds PGA_AGGREGATE_LIMIT",
    "ERROR 1105 (HY000): Out Of Memory Quota![conn=77]",
    "ERROR 8175 (HY000): cancelled due to exceeding the allowed memory limit for a single SQL query",
    " ** ERROR RETURN ** FROM DMUMPS INFO(1)=   -9",
    " On return from ZMUMPS, INFOG(1)=             -17",
    "[5]PETSC ERROR: MUMPS error in solve phase: INFOG(1)=-19, INFO(2)=812",
    "vedadb.OutOfMemory: Out of Memory Error: failed to reserve memory data of size 2.0 GiB (3.1 GiB/4.0 GiB used)",
    "RuntimeError: merge used too much memory. Memory limit: 268435456 bytes",
    "ERROR: out of memory: 512 MiB requested, memory limit 4 GiB",
    "RuntimeError: Exceeded memory limit for the hash join stage",
    "RuntimeError: Exceeded memory limit of group 7",
)
OTHERS = (
    "MongoServerError: Exceeded maximum number of documents for $group",
    "INFO $group may exceed its memory limit: Pass allowDiskUse:true to opt in.",
    "java.io.IOException: Insufficient number of network ports: required 17, but only 3 available",
    "ERROR: Insufficient number of rows: required 65, but only 12 available",
    "INFO number of network buffers: 2048",
    "INFO sufficient number of spool buffers: required 12, 65 available",
    "[Warning] InnoDB: Over 67 percent of the buffer pool is occupied by lock heaps! innodb_buffer_pool_size=127M.",
    "INFO over 95 percent of the buffer pool hits are reads",
    "LOG:  local buffer usage: 12 of 1024",
    "LOG:  lock table of 6400 entries in shared memory\nHINT:  You might need to increase max_locks_per_transaction.",
    "ERROR:  deadlock detected\nHINT:  You might need to increase max_locks_per_transaction.",
    "ORA-04063: view has errors",
    "ORA-01555: snapshot too old",
    "INFO tidb_mem_quota_query = 1073741824 [conn=77]",
    "WARNING:  max_locks_per_transaction = 64",
    " On return from DMUMPS, INFOG(1)=              0",
    " ** ERROR RETURN ** FROM DMUMPS INFO(1)=   -6",
    " ** ERROR RETURN ** FROM DMUMPS INFO(1)=  -90",
    "[0]PETSC ERROR: MUMPS error in numerical factorization: INFOG(1)=-10, INFO(2)=9",
    "If MUMPS returns INFOG(1)=-9, raise ICNTL(14)",
    "               PC failed due to FACTOR_STRUCT_ZEROPIVOT",
    "WARN: worker 3 is using too much memory",
    "INFO: worker 3 used too much memory before 2.1, fixed",
    "INFO memory limit 4 GiB, 512 MiB requested, 2 GiB in use",
)
CAPPED = frozenset({"allocator-cap", "dataset-in-ram"})


@pytest.mark.parametrize("text", FULL)
def test_a_pool_of_a_programs_own_is_full(text: str, tmp_path: Path) -> None:
    report = body(tmp_path, text)
    assert report["verdict"] == "oom"
    first = report["diagnoses"][0]
    assert (first["cause"] in CAPPED, first["pool"]) == (True, "host_ram")


@pytest.mark.parametrize("text", OTHERS)
def test_what_only_names_a_pool_is_no_failure(text: str, tmp_path: Path) -> None:
    assert body(tmp_path, text)["verdict"] != "oom"
