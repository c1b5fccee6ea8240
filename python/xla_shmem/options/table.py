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
      allowed: the allowed values, in words.
      help: one sentence for the documentation.
      parse: returns the field's value for a text; raises ``ValueError`` with the allowed values.
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
        "Rules that choose the backend: `upstream` decides as XLA itself did, `domain` requires that each group lies "
        "in one NVLink domain and on Hopper and Blackwell goes by the cost model, `tuned` requires the same and then "
        "chooses the backend that `xla-shmem tune` measured to be faster.",
        one_of("upstream", "domain", "tuned", blog="upstream"),
    ),
    Option(
        "threshold",
        "16MiB",
        "bytes: `16MiB`, `4K`, `65536`; `none`",
        "All-reduces whose result is this large or larger stay on the default backend, unless `XLA_SHMEM_OPS` gives "
        "a limit for them; other ops have no limit. Ignored by profile `tuned`. If the cost model decides, the default "
        "does not hold, and any other value holds instead of the model.",
        threshold,
    ),
    Option(
        "ops",
        "default",
        "`default`, `all`, or a list: `all-reduce<16MiB,all-gather`",
        "Collectives that may leave the default backend. `default`: all-reduce and collective-permute, or with profile "
        "`tuned` all ops that were measured. `all`: also all-gather, reduce-scatter, all-to-all, "
        "collective-broadcast and ragged-all-to-all. A list: only these, each with an optional limit on the bytes of "
        "its result; `permute` and `broadcast` are short names. What XLA:CPU cannot run leaves it in any case.",
        ops,
    ),
    Option(
        "tuning",
        "",
        "a path",
        "Table that profile `tuned` reads; unset, `xla-shmem/tuning.json` in `XDG_CONFIG_HOME` or `~/.config`.",
        str,
    ),
    Option(
        "nvlink_domain",
        "auto",
        "`auto`, `host`, or a number of devices ≥ 1",
        "Devices per NVLink domain, counted in device order; `host` means one domain per host. `auto` means `host` on "
        "CPU; on GPU it uses what the driver reports about NVLink and its fabric.",
        domain,
    ),
    Option(
        "hierarchical",
        "auto",
        "`auto`, `on`, `off`",
        "Whether a collective that crosses NVLink domains (on CPU: hosts) is divided: SHMEM within each domain, the "
        "default backend between them. `auto` does on CPU if `xla-shmem tune` measured that it is faster (profile "
        "`tuned`) or a simple model expects it, and never on GPU; `on` does wherever it can.",
        one_of("auto", "on", "off"),
    ),
    Option(
        "heap_size",
        "auto",
        "`auto`, or bytes ≥ 8MiB",
        "Symmetric heap of each process; `auto` is 64 MiB on CPU, or less if /dev/shm is small, at least 8 MiB; on GPU "
        "36 MiB for each other PE, 20 MiB in jobs of more than eight.",
        heap_size,
    ),
    Option(
        "deadline",
        "60",
        "seconds > 0",
        "A collective that waits longer than this for a peer fails with an error that names the peer.",
        seconds,
    ),
    Option(
        "spin_us",
        "100",
        "microseconds from 0 to 1000000",
        "How long a waiting collective polls before it sleeps; while it polls it yields the core to other threads.",
        count(0, 10**6, "a whole number of microseconds from 0 to 1000000"),
    ),
    Option(
        "single_copy",
        "auto",
        "`auto`, `off`, `user`",
        "Whether a process reads large messages directly from its peers' memory (`process_vm_readv`); `auto` does if "
        "the system permits it and it is faster than shared memory. Where `kernel.yama.ptrace_scope` is 1, `auto` "
        "permits it to processes that descend from this one's parent, the launcher; `user` to all processes of the "
        "user. CPU only.",
        one_of("auto", "off", "user"),
    ),
    Option(
        "verbose",
        "0",
        "`0`, `1`, `2`",
        "1 prints, on rank 0, the decisions for every compiled module that has collectives; 2 adds the steps of the "
        "runtime.",
        count(0, 2, "0, 1 or 2"),
    ),
    Option(
        "stats",
        "0",
        "`0`, `1`",
        "1 prints at exit, for each collective of the process: calls, bytes, and the time spent waiting and moving "
        "data, or the time on the GPU.",
        count(0, 1, "0 or 1"),
    ),
    Option(
        "trace",
        "",
        "a path",
        "File for a trace of all collectives in Chrome's format (Perfetto opens it), with one track group for each PE. "
        "All processes of a host write to one file.",
        str,
    ),
    Option(
        "records",
        "auto",
        "`auto`, `off`, or a directory",
        "Where the flight recorder keeps each PE's last collectives for `xla-shmem postmortem`; `auto` is "
        "`xla-shmem-<uid>` in the directory for temporary files. A job that ends well removes its records.",
        str,
    ),
    Option(
        "nvshmem_library",
        "",
        "a path",
        "NVSHMEM's host library; unset, NVIDIA's wheels, `LD_LIBRARY_PATH` and the CUDA toolkit are searched for it.",
        library,
    ),
    Option(
        "gpu_puts",
        "auto",
        "`auto`, `nvshmem`, `driver`",
        "How puts and signals between GPUs are made: by NVSHMEM's on-stream calls (`nvshmem`), or by copies and stream "
        "memory operations of the CUDA driver (`driver`). `auto` is `driver`: NVSHMEM's own wait may be a kernel that "
        "spins, and its calls end the process on an error.",
        one_of("auto", "nvshmem", "driver"),
    ),
    Option(
        "gpu_permute",
        "auto",
        "`auto`, `kernel`, `copies`",
        "What carries collective-permutes on GPUs: one kernel (`kernel`), or copies and stream memory operations "
        "(`copies`), which use fewer SMs and take more commands. `auto` is `kernel` up to 1.35 MB.",
        one_of("auto", "kernel", "copies"),
    ),
    Option(
        "gpu_reduce",
        "kernel",
        "`kernel`, `multimem`",
        "What reduces on GPUs: this package's kernel (`kernel`), or the NVLink switch (`multimem`), for groups of all "
        "GPUs of the NVLink domain and the types that the switch has, where there is NVLink SHARP. Bits are equal on "
        "all PEs either way.",
        one_of("kernel", "multimem"),
    ),
    Option(
        "job",
        "",
        "32 hexadecimal digits",
        "The first half is in the names of this job's shared-memory segments, by which the launcher removes what "
        "killed ranks leave; `xla-shmem launch` sets it, otherwise rank 0 generates one.",
        job,
    ),
)


def markdown_table() -> str:
    """Returns the table of all options as Markdown, for the documentation."""
    rows = ["| variable | default | values | meaning |", "|---|---|---|---|"]
    for option in TABLE:
        default = f"`{option.default}`" if option.default else "unset"
        rows.append(f"| `{option.env}` | {default} | {option.allowed} | {option.help} |")
    return "\n".join(rows) + "\n"
