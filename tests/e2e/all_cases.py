"""The list of all cases. The import of the files that define them fills it."""

from __future__ import annotations

import cases_all_reduce
import cases_broadcast
import cases_devices
import cases_divided
import cases_gather
import cases_groups
import cases_overlap
import cases_permute
import cases_programs
import cases_ragged
import cases_reductions
import cases_transformations
from case_world import CASES, Case

__all__ = [
    "CASES",
    "Case",
    "cases_all_reduce",
    "cases_broadcast",
    "cases_devices",
    "cases_divided",
    "cases_gather",
    "cases_groups",
    "cases_overlap",
    "cases_permute",
    "cases_programs",
    "cases_ragged",
    "cases_reductions",
    "cases_transformations",
]
