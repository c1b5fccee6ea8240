"""Huge pages for the arrays of ranks."""

from __future__ import annotations

from pathlib import Path

import pytest
from launched_jobs import launch

from xla_shmem.launch.huge_pages import STATE, huge_page_variables

MADVISE = "always [madvise] never\n"

#: Prints whether the mapping of a block of 64 MiB, which XLA would take for an array, asks for huge pages ("hg").
PROGRAM = """
import ctypes, os, re
block = ctypes.c_void_p()
assert ctypes.CDLL(None).posix_memalign(ctypes.byref(block), ctypes.c_size_t(64), ctypes.c_size_t(64 << 20)) == 0
for mapping in re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", open("/proc/self/smaps").read(), flags=re.M)[1:]:
    first, last = (int(text, 16) for text in mapping.split()[0].split("-"))
    if first <= block.value < last:
        print("hg" in re.search("VmFlags:(.*)", mapping)[1].split(), os.environ.get("GLIBC_TUNABLES"))
"""


def kernel(folder: Path, enabled: str, size: int = 2 << 20) -> Path:
    (folder / "enabled").write_text(enabled)
    (folder / "hpage_pmd_size").write_text(f"{size}\n")
    return folder


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, "glibc.malloc.hugetlb=1"),
        ("", "glibc.malloc.hugetlb=1"),
        ("glibc.malloc.tcache_count=0", "glibc.malloc.tcache_count=0:glibc.malloc.hugetlb=1"),
        ("glibc.malloc.hugetlb=0", None),
        ("glibc.malloc.tcache_count=0:glibc.malloc.hugetlb=2", None),
    ],
)
def test_the_users_tunables_are_kept(tmp_path: Path, given: str | None, expected: str | None) -> None:
    environ = {} if given is None else {"GLIBC_TUNABLES": given}
    variables = huge_page_variables(environ, kernel(tmp_path, MADVISE))
    assert variables == ({} if expected is None else {"GLIBC_TUNABLES": expected})


@pytest.mark.parametrize(
    ("enabled", "size"),
    [("[always] madvise never\n", 2 << 20), ("always madvise [never]\n", 2 << 20), (MADVISE, 512 << 20)],
)
def test_nothing_is_set_where_it_is_needless_useless_or_too_large(tmp_path: Path, enabled: str, size: int) -> None:
    assert huge_page_variables({}, kernel(tmp_path, enabled, size)) == {}


def test_nothing_is_set_on_a_kernel_without_huge_pages(tmp_path: Path) -> None:
    assert huge_page_variables({}, tmp_path) == {}


@pytest.mark.parametrize("version", ["glibc 2.34", None])
def test_nothing_is_set_for_a_c_library_without_the_tunable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str | None
) -> None:
    monkeypatch.setattr("os.confstr", lambda name: version)
    assert huge_page_variables({}, kernel(tmp_path, MADVISE)) == {}


def test_blocks_of_ranks_ask_for_huge_pages_where_the_kernel_has_them() -> None:
    asks = bool(huge_page_variables({}, STATE))
    assert launch(1, PROGRAM, GLIBC_TUNABLES="").stdout.startswith(f"[0] {asks} ")
    assert launch(1, PROGRAM, GLIBC_TUNABLES="glibc.malloc.hugetlb=0").stdout == "[0] False glibc.malloc.hugetlb=0\n"
