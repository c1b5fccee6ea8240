"""Huge pages for the arrays of ranks, by a setting of the C library's malloc.

XLA:CPU takes arrays from ``posix_memalign``. Where the kernel gives huge pages to those who ask (``madvise``, the
default), glibc from 2.35 on asks with ``glibc.malloc.hugetlb=1`` (its manual, "Memory Allocation Tunables").
``process_vm_readv`` then looks up fewer pages, and runs have fewer page faults. All else of malloc stays as it is.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

VARIABLE = "GLIBC_TUNABLES"
_TUNABLE = "glibc.malloc.hugetlb"

#: Where the kernel says who gets huge pages, and of how many bytes.
STATE = Path("/sys/kernel/mm/transparent_hugepage")

#: glibc makes heaps grow by whole huge pages: with those of 512 MiB (AArch64 with pages of 64 KiB) that is too much.
_LARGEST = 2 << 20


def huge_page_variables(environ: Mapping[str, str], state: Path = STATE) -> dict[str, str]:
    """Returns the variables that give a process huge pages; none if it cannot or need not ask, or the user chose.

    Args:
      environ: the process's environment. ``GLIBC_TUNABLES=glibc.malloc.hugetlb=0`` keeps small pages.
      state: the kernel's folder.
    """
    given = environ.get(VARIABLE, "")
    try:
        asked_for = "[madvise]" in (state / "enabled").read_text()
        size = int((state / "hpage_pmd_size").read_text())
        glibc = tuple(map(int, (os.confstr("CS_GNU_LIBC_VERSION") or "").removeprefix("glibc ").split(".")))
    except (OSError, ValueError):  # a kernel without huge pages, or another C library
        return {}
    if not asked_for or size > _LARGEST or glibc < (2, 35) or f"{_TUNABLE}=" in given:
        return {}
    return {VARIABLE: ":".join(filter(None, (given, f"{_TUNABLE}=1")))}
