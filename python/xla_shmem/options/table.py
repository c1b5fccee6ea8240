"""The table of options: names, defaults, values and what they do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from xla_shmem.options.values import count, domain, heap_size, job, library, one_of, ops, seconds, threshold

ENV_PREFIX = "XLA_SHMEM_"


@dataclass(frozen=True)
class Option:
    """One row of the table.

    Attributes:
      name: the keyword of :func:`configure` and the field of :class:`Options`.
      default: the default as a user would write it; empty means unset.
      allowed: the values it takes, in words.
      help: one sentence for the documentation.
      parse: turns the text into the field's value; raises ``ValueError`` with what is allowed.
    """

    name: str
    default: str
    allowed: str
    help: str
    parse: Callable[[str], Any]

    @property
    def env(self) -> str:
        """The name of the environment variable."""
        return ENV_PREFIX + self.name.upper()


TABLE: tuple[Option, ...] = (
    Option(
        "profile",
        "upstream",
        "`upstream`, `domain`, `tuned`",
        "Rules that choose the backend: `upstream` decides as XLA itself did, `domain` asks of each "
        "group by itself that it lies in one NVLink domain, `tuned` asks the same and then takes whichever backend "
        "`xla-shmem tune` has measured to be faster.",
        one_of("upstream", "domain", "tuned", blog="upstream"),
    ),
    Option(
        "threshold",
        "16MiB",
        "bytes: `16MiB`, `4K`, `65536`; `none`",
        "All-reduces whose result is this large or larger stay on the default backend, unless `XLA_SHMEM_OPS` gives "
        "them a limit of their own; other ops have no limit. Ignored by profile `tuned`.",
        threshold,
    ),
    Option(
        "ops",
        "default",
        "`default`, `all`, or a list: `all-reduce<16MiB,all-gather`",
        "Collectives that may leave the default backend: `default` all-reduce and collective-permute, `all` also "
        "all-gather, reduce-scatter, all-to-all and collective-broadcast, a list just these, each with a limit to the "
        "bytes of its result if one is given. With profile `tuned`, `default` stands for all that were measured. "
        "What a platform does not carry (on GPU: all but the first two) stays "
        "where it is.",
        ops,
    ),
    Option(
        "tuning",
        "",
        "a path",
        "Table that profile `tuned` goes by; unset, `xla-shmem/tuning.json` in `XDG_CONFIG_HOME` or `~/.config`.",
        str,
    ),
    Option(
        "nvlink_domain",
        "auto",
        "`auto`, `host`, or a number of devices ≥ 1",
        "Devices per NVLink domain, counted in device order; `host` means one domain per host. `auto` does too on CPU; "
        "on GPUs it goes by what the driver says of NVLink and its fabric.",
        domain,
    ),
    Option(
        "heap_size",
        "auto",
        "`auto`, or bytes ≥ 8MiB",
        "Symmetric heap of each process; `auto` is 64 MiB on CPU, shrunk to what /dev/shm holds, down to 8 MiB; on GPU "
        "36 MiB for each other PE, 20 MiB in jobs of more than eight.",
        heap_size,
    ),
    Option(
        "deadline",
        "60",
        "seconds > 0",
        "A collective that waits longer for a peer fails with an error that names the peer.",
        seconds,
    ),
    Option(
        "spin_us",
        "100",
        "microseconds from 0 to 1000000",
        "How long a waiting collective polls, giving way to whoever else wants the core, before it sleeps.",
        count(0, 10**6, "a whole number of microseconds from 0 to 1000000"),
    ),
    Option(
        "single_copy",
        "auto",
        "`auto`, `off`",
        "Whether a process may read large messages out of its peers' memory (`process_vm_readv`); `auto` does where "
        "the system permits it and it is faster than shared memory. CPU only.",
        one_of("auto", "off"),
    ),
    Option(
        "verbose",
        "0",
        "`0`, `1`, `2`",
        "1 prints the assignment table of every compiled module that has collectives on rank 0, 2 adds the "
        "runtime's own steps.",
        count(0, 2, "0, 1 or 2"),
    ),
    Option(
        "stats",
        "0",
        "`0`, `1`",
        "1 prints at exit, for each collective of the process, calls, bytes, and the time it waited and moved data. "
        "CPU only.",
        count(0, 1, "0 or 1"),
    ),
    Option(
        "trace",
        "",
        "a path",
        "File for a trace of all collectives in Chrome's format (Perfetto opens it), one process there for each PE; "
        "the processes of a host write to one file. CPU only.",
        str,
    ),
    Option(
        "records",
        "auto",
        "`auto`, `off`, or a directory",
        "Where the flight recorder keeps each PE's last collectives for `xla-shmem postmortem`: `auto` is "
        "`xla-shmem-<uid>` in the directory for temporary files. Records of jobs that end well go with them. CPU only.",
        str,
    ),
    Option(
        "nvshmem_library",
        "",
        "a path",
        "NVSHMEM's host library; unset, NVIDIA's wheels, `LD_LIBRARY_PATH` and the CUDA toolkit are searched.",
        library,
    ),
    Option(
        "gpu_puts",
        "auto",
        "`auto`, `nvshmem`, `driver`",
        "Who carries puts and signals between GPUs: NVSHMEM's on-stream calls, or the same copies and stream memory "
        "operations made through the CUDA driver. `auto` takes the driver where processes share a GPU.",
        one_of("auto", "nvshmem", "driver"),
    ),
    Option(
        "gpu_reduce",
        "rings",
        "`rings`, `teams`",
        "How GPUs all-reduce: `rings` by puts and kernels of ours, with equal bits on all PEs; `teams` by NVSHMEM's "
        "own reductions, for groups that are axes of a mesh over all GPUs and ops that overlap with compute.",
        one_of("rings", "teams"),
    ),
    Option(
        "job",
        "",
        "32 hexadecimal digits",
        "Key in the names of this job's shared-memory segments; `xla-shmem launch` sets it, otherwise rank 0 "
        "makes one up.",
        job,
    ),
)


def markdown_table() -> str:
    """Returns the table of all options as Markdown, as it stands in the documentation."""
    rows = ["| variable | default | values | meaning |", "|---|---|---|---|"]
    for option in TABLE:
        default = f"`{option.default}`" if option.default else "unset"
        rows.append(f"| `{option.env}` | {default} | {option.allowed} | {option.help} |")
    return "\n".join(rows) + "\n"
