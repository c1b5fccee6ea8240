"""Where the collectives of a job are recorded: the part that both platforms share."""

from __future__ import annotations

import logging
import pathlib

from xla_shmem.options import Options
from xla_shmem.runtime import flight_records

logger = logging.getLogger(__name__)


def begin_trace(options: Options, process: int) -> None:
    """Removes an earlier job's file. No process writes one before all processes have announced themselves."""
    if not options.trace or process != 0:
        return
    try:
        pathlib.Path(options.trace).unlink(missing_ok=True)
    except OSError as error:
        logger.warning("xla_shmem: the trace is appended to what is there: %s", error)


def record_directory(options: Options, job: str) -> str:
    """Returns the directory for the flight records of a job, which exists; "" without records."""
    try:
        return flight_records.make_job_directory(options.records, job)
    except OSError as error:
        logger.warning("xla_shmem: no flight recorder: %s", error)
        return ""
