"""Hosts on one machine: each has a network, a /dev/shm, a host name and process ids of its own.

A host is a set of namespaces (net, mount, uts, ipc, pid) that lives as long as its first process. A pair of virtual
Ethernet devices joins it to a bridge, which is the only way between hosts.

`make_hosts` must run in namespaces made for the job (`run_on_hosts.py`). All that it makes disappears with them.
"""

from __future__ import annotations

import dataclasses
import subprocess
import tempfile
from pathlib import Path

#: The interface of a host that leads to the others.
INTERFACE = "eth0"

#: Address of the process that made the hosts, once it has called `join_network`.
BETWEEN = "10.77.0.254"

#: Names of the namespaces, as options of unshare and nsenter.
NAMESPACES = ("--net", "--mount", "--uts", "--ipc", "--pid")

# Token bucket of the rate limit. The bucket must hold a segment of 64 KiB, as TCP hands it to the device, and should
# not hold more: what is in it passes faster than the rate. The queue behind it holds what the rate sends in 20 ms.
_BUCKET = ("burst", "128kb", "latency", "20ms")

# First process of a host. It tells its process id, as /proc outside shows it, and waits for orphans.
_FIRST_PROCESS = """
set -e
read pid rest < /proc/self/stat
mount -t proc proc /proc
mount -t tmpfs tmpfs /dev/shm
hostname "$1"
ip link set lo up
echo $pid
sleep infinity &
wait
"""


@dataclasses.dataclass(frozen=True)
class Host:
    """One host.

    Attributes:
      name: the host name.
      address: IPv4 address of its interface.
      pid: process id of its first process, in the process ids of the machine.
    """

    name: str
    address: str
    pid: int

    def sent_bytes(self) -> int:
        """Bytes that the host has sent to other hosts, with headers, since it was made."""
        for line in Path(f"/proc/{self.pid}/net/dev").read_text().splitlines():
            name, _, counters = line.partition(":")
            if name.strip() == INTERFACE:
                return int(counters.split()[8])
        raise ValueError(f"host {self.name} has no interface {INTERFACE}")

    def segments(self) -> list[str]:
        """Names of the files in the host's /dev/shm."""
        return sorted(path.name for path in Path(f"/proc/{self.pid}/root/dev/shm").iterdir())


def make_hosts(count: int, rate: str | None) -> list[Host]:
    """Makes hosts host0, host1, … that reach each other by name.

    Args:
      count: number of hosts, 1 to 200.
      rate: bits per second that a host can send, and as many that it can receive, as `tc` writes them (`1gbit`); None
        for no limit.

    Raises:
      subprocess.CalledProcessError: the machine does not permit it.
    """
    addresses = {f"host{i}": f"10.77.0.{i + 1}" for i in range(count)}
    _name_addresses(addresses)
    _run("ip", "link", "set", "lo", "up")
    _run("ip", "link", "add", "bridge", "type", "bridge")
    _run("ip", "link", "set", "bridge", "up")
    return [_make_host(name, address, rate) for name, address in addresses.items()]


def join_network() -> None:
    """Gives this process's network an address that the hosts reach."""
    _run("ip", "address", "add", f"{BETWEEN}/24", "dev", "bridge")


def _make_host(name: str, address: str, rate: str | None) -> Host:
    first = subprocess.Popen(
        ["unshare", *NAMESPACES, "--fork", "--kill-child", "sh", "-c", _FIRST_PROCESS, "sh", name],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is for the ranks
    )
    assert first.stdout is not None
    told = first.stdout.readline()
    if not told:
        raise subprocess.CalledProcessError(first.wait(), f"the first process of {name}")
    host = Host(name, address, int(told))
    port = f"port-{name}"
    _run("ip", "link", "add", port, "type", "veth", "peer", "name", INTERFACE, "netns", f"/proc/{host.pid}/ns/net")
    inside = ("nsenter", "--target", str(host.pid), "--net")
    _run(*inside, "ip", "address", "add", f"{address}/24", "dev", INTERFACE)
    _run(*inside, "ip", "link", "set", INTERFACE, "up")
    _run("ip", "link", "set", port, "master", "bridge", "up")
    if rate is not None:
        limit = ("root", "tbf", "rate", rate, *_BUCKET)
        _run(*inside, "tc", "qdisc", "add", "dev", INTERFACE, *limit)  # what it sends
        _run("tc", "qdisc", "add", "dev", port, *limit)  # what it receives
    return host


def _name_addresses(addresses: dict[str, str]) -> None:
    """Puts the hosts into /etc/hosts, as it is seen from here and from the hosts. gloo looks its own host name up."""
    names = [("127.0.0.1", "localhost"), *((address, name) for name, address in addresses.items())]
    with tempfile.NamedTemporaryFile("w", suffix=".hosts") as file:
        file.writelines(f"{address} {name}\n" for address, name in names)
        file.flush()
        _run("mount", "--bind", file.name, "/etc/hosts")  # stays when the name of the file is gone


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
