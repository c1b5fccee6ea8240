"""`xla-shmem doctor` on hosts that lack something: namespaces of this machine, with what is wrong in them."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from typing import Any

import pytest

from xla_shmem.xla_flags import FLAG

RUN = "from xla_shmem.cli.main import main; main(['doctor', '--json'])"
NO_DEV = (
    "mount -t tmpfs tmpfs /mnt; mkdir /mnt/dev; for n in null zero urandom; do touch /mnt/dev/$n;"
    " mount --bind /dev/$n /mnt/dev/$n; done; mount --rbind /mnt/dev /dev"
)
MEMORY = ("--mount",)
NAME = ("--uts",)


def _inside(namespaces: tuple[str, ...], setup: str, command: list[str]) -> list[str]:
    script = f'set -e; {setup}; exec "$@"'
    return ["unshare", *namespaces, "--map-root-user", "sh", "-c", script, "sh", *command]


def doctor(namespaces: tuple[str, ...], setup: str) -> dict[str, Any]:
    """Returns what it says in new namespaces after `setup`, a script."""
    if subprocess.run(_inside(namespaces, setup, ["true"]), capture_output=True, check=False).returncode != 0:
        pytest.skip(f"this machine does not let its users try: unshare {shlex.join(namespaces)}, {setup}")
    chosen = ("XLA_", "JAX_", "OMPI_", "SLURM_", "CUDA_")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(chosen)}
    result = subprocess.run(
        _inside(namespaces, setup, [sys.executable, "-c", RUN]),
        env=clean | {"XLA_FLAGS": f"{FLAG}=true", "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.stderr == ""
    value: dict[str, Any] = json.loads(result.stdout)
    assert result.returncode == (0 if value["works"] else 1)
    return value


@pytest.mark.parametrize(
    ("size", "works", "what"),
    [
        ("7m", False, "/dev/shm has 7 MiB free, a process needs 8 MiB"),
        ("8m", False, "/dev/shm has 8 MiB free, two processes need 16 MiB, so no job of two fits"),
        ("15m", False, "/dev/shm has 15 MiB free, two processes need 16 MiB, so no job of two fits"),
        ("16m", True, "/dev/shm has 16 MiB free, enough for 2 processes"),
    ],
)
def test_a_small_shared_memory_is_told_with_the_jobs_that_fit(size: str, works: bool, what: str) -> None:
    value = doctor(MEMORY, f"mount -t tmpfs -o size={size} tmpfs /dev/shm")
    assert value["cpu"]["works"] is works
    assert value["first"]["what"].startswith(what)
    assert value["first"]["fix"].startswith("mount -o remount,size=1g /dev/shm")


@pytest.mark.parametrize(
    ("setup", "what"),
    [
        (NO_DEV, "no shared memory: /dev/shm: No such file or directory"),
        ("mount -t tmpfs -o ro tmpfs /dev/shm", "no shared memory: /dev/shm: Read-only file system"),
    ],
)
def test_without_shared_memory_the_advice_mounts_it(setup: str, what: str) -> None:
    value = doctor(MEMORY, setup)
    assert value["first"]["what"] == what
    assert "mount -t tmpfs -o size=1g,mode=1777 tmpfs /dev/shm" in value["first"]["fix"]


@pytest.mark.parametrize(
    ("name", "what", "fix"),
    [
        ("no-such-host.invalid", "does not resolve", 'echo "127.0.1.1 no-such-host.invalid" >> /etc/hosts'),
        ("5", "resolves to 0.0.0.5, which is no address of this machine", "hostname NAME"),
    ],
)
def test_a_name_that_gloo_cannot_listen_at_is_told(name: str, what: str, fix: str) -> None:
    value = doctor(NAME, f"hostname {name}")
    assert value["cpu"]["works"] is False
    assert value["first"]["what"].startswith(f"the name of this host, {name}, {what}")
    assert value["first"]["fix"].startswith(fix)


def test_a_loopback_that_is_down_is_told() -> None:
    value = doctor(("--net",), "true")
    assert value["first"] == {
        "what": "127.0.0.1 cannot be reached (Network is unreachable), so processes of this host cannot form a job",
        "fix": "ip link set lo up",
        "is_fault": True,
    }
