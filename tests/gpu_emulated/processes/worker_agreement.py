"""Starts a process of a job that may fail to start, and reports the reason that JAX would get."""

from __future__ import annotations

import json
import os
import sys

from job_process import job_topology, meet, report, start_job


def main() -> None:
    meet("begin")
    if os.environ.get("WITHOUT_FLAG"):
        return
    ordinals = json.loads(os.environ.get("ORDINALS", "null"))
    changed = json.loads(os.environ.get("CHANGED", "{}"))
    job = start_job(ordinals, timeout_s=float(os.environ.get("STORE_TIMEOUT", "20")), **changed)
    topology = job_topology(job, json.loads(sys.argv[3]))
    report({"available": topology.transport.available, "reason": topology.transport.reason})


main()
