"""``xla-shmem assign``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from xla_shmem.collective_report import ModuleReport, print_json, print_tables
from xla_shmem.command_errors import one_sentence_errors
from xla_shmem.hlo_files import HloFileError, HloInput, check_output, read_module, write_module
from xla_shmem.module_devices import devices_needed
from xla_shmem.options import resolve
from xla_shmem.topology import DevicePlace, core_topology, regular_places

if TYPE_CHECKING:
    from xla_shmem import _core


@click.command("assign")
@click.argument("path", metavar="IN")
@click.option("-o", "output", metavar="OUT", help="Write the module: .txt or .hlo as text, .pb as proto, .gz after.")
@click.option("--profile", metavar="blog|domain|tuned", help="Rules.  [default: XLA_SHMEM_PROFILE, or blog]")
@click.option("--threshold", metavar="SIZE", help="All-reduce limit.  [default: XLA_SHMEM_THRESHOLD, or 16MiB]")
@click.option("--ops", metavar="OPS", help="Collectives considered.  [default: XLA_SHMEM_OPS, or blog]")
@click.option("--tuning", metavar="FILE", help="Table of profile tuned, of any machine.  [default: XLA_SHMEM_TUNING]")
@click.option(
    "--devices-per-process",
    type=click.IntRange(min=1),
    metavar="K",
    default=1,
    show_default=True,
    help="Consecutive devices of one process.",
)
@click.option(
    "--devices-per-host",
    type=click.IntRange(min=1),
    metavar="H",
    help="Consecutive devices of one host.  [default: 8, in whole processes]",
)
@click.option(
    "--nvlink-domain",
    metavar="D",
    help="Consecutive devices of one NVLink domain.  [default: XLA_SHMEM_NVLINK_DOMAIN, or one host]",
)
@click.option(
    "--num-devices",
    type=click.IntRange(min=1),
    metavar="N",
    help="Devices of the whole job.  [default: those the module names]",
)
@click.option(
    "--lowering",
    type=click.Choice(["auto", "none", "cpu", "gpu"]),
    default="auto",
    show_default=True,
    help="Target of the rewrite: 'auto' is the platform the module was compiled for, 'none' writes only the "
    "decisions (frontend attributes).",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list of objects instead of a table.")
@one_sentence_errors
def assign_command(
    path: str,
    output: str | None,
    profile: str | None,
    threshold: str | None,
    ops: str | None,
    tuning: str | None,
    devices_per_process: int,
    devices_per_host: int | None,
    nvlink_domain: str | None,
    num_devices: int | None,
    lowering: str,
    as_json: bool,
) -> None:
    """Run the compiler pass offline on the module IN and show what it decides.

    This is the very pass that runs inside the compiler. IN is anything `xla-shmem inspect` reads, as long as
    it is one module. Devices 0 to N-1 are laid out evenly over processes, hosts and NVLink domains. What the
    transport would not carry keeps its decision but is shown as lowered to DEFAULT, with the reason.

    The platform of a module is in the name of its dump (cpu_after_optimizations, gpu_after_optimizations);
    elsewhere start/done pairs or a collective_backend_config mean GPU, anything else CPU.

    \b
    Examples:
      xla-shmem assign module.txt --threshold 64MiB
      xla-shmem assign module.txt --ops 'all-reduce<1MiB,all-gather'
      xla-shmem assign module.hlo.pb --devices-per-process 4 --num-devices 16 --profile domain
      xla-shmem assign module.txt.gz -o rewritten.txt --json
    """
    from xla_shmem import _core

    if output is not None:
        check_output(output)
    given = {"profile": profile, "threshold": threshold, "ops": ops, "tuning": tuning, "nvlink_domain": nvlink_domain}
    options = resolve(overrides={name: value for name, value in given.items() if value is not None}, any_machine=True)
    module = read_module(path)
    try:
        places = regular_places(
            _num_devices(module, num_devices), devices_per_process, devices_per_host, options.nvlink_domain or None
        )
        platform = module.platform if lowering == "auto" else lowering
        result = _core.run_pass(
            module.proto,
            core_topology(places),
            _transport(platform, places),
            **options.rules(module.platform if platform == "none" else platform),
            lowering=platform,
        )
    except ValueError as error:
        raise HloFileError(f"{module.source}: {error}") from None
    if output is not None:
        write_module(output, module.proto if result.module is None else result.module)
    (print_json if as_json else print_tables)([ModuleReport(module.source, module.name, result.records)])


def _num_devices(module: HloInput, given: int | None) -> int:
    needed = devices_needed(module)
    if given is None:
        if needed is None:
            raise HloFileError(f"{module.source}: does not say how many devices it is for; give --num-devices.")
        return needed
    if needed is not None and given < needed:
        raise HloFileError(
            f"{module.source}: names device {needed - 1}, so --num-devices {given} must be at least {needed}."
        )
    return given


def _transport(platform: str, places: list[DevicePlace]) -> _core.Transport:
    """Returns the transport as it would be on that platform: CPU reaches its host, GPU its NVLink domain."""
    from xla_shmem import _core

    if platform == "gpu":
        return _core.gpu_transport({place.device_id: place.nvlink_domain for place in places})
    return _core.cpu_transport({place.device_id: place.host for place in places})
