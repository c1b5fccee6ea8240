"""``xla-shmem assign``."""

from __future__ import annotations

import click

from xla_shmem.cli.decision_options import decision_options
from xla_shmem.cli.errors import one_sentence_errors
from xla_shmem.hlo.collective_report import ModuleReport, print_json, print_tables
from xla_shmem.hlo.files import check_output, read_module, write_module
from xla_shmem.inspect.decision_settings import DecisionSettings


@click.command("assign")
@click.argument("path", metavar="IN")
@click.option("-o", "output", metavar="OUT", help="Write the module: .txt or .hlo as text, .pb as proto, .gz after.")
@decision_options
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
    settings: DecisionSettings,
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
    module = read_module(path)
    platform = module.platform if lowering == "auto" else lowering
    result = settings.decide(_core.run_pass, module, platform)
    if output is not None:
        write_module(output, module.proto if result.module is None else result.module)
    (print_json if as_json else print_tables)([ModuleReport(module.source, module.name, result.records)])
