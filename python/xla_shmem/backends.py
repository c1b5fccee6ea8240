"""What may carry a job's collectives, for programs that run a job with xla-shmem and without it and compare the two.

Such a program needs to know no transport, flag or variable: it takes environments from here, and the proof that the two
runs differ. Importing this module imports neither JAX nor the compiled module.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from xla_shmem.errors import JobError
from xla_shmem.hlo.collective_report import ModuleReport
from xla_shmem.hlo.files import HloFileError, read_modules
from xla_shmem.launch.launcher_process import cpu_environment, gpu_environment

# All ranks would write the same dump, so only rank 0 gets the flags for it.
_RANK_0_DUMPS = 'test "$XLA_SHMEM_LOCAL_RANK" = 0 && export XLA_FLAGS="${XLA_FLAGS-} $1"; shift; exec "$@"'


class BackendError(JobError):
    """A run cannot be compared; the message says why."""


@dataclasses.dataclass(frozen=True)
class Backend:
    """One way to run a job's collectives.

    Attributes:
      name: as tables and folders show it.
      flag: whether xla-shmem is on.
      variables: further variables of the job's environment.
    """

    name: str
    flag: bool
    variables: tuple[tuple[str, str], ...] = ()

    def environment(self, environ: Mapping[str, str], *, gpus: bool = False) -> dict[str, str]:
        """`environ` changed for a job of this backend, on a GPU for each rank or on CPU devices.

        Raises:
          UserError: `XLA_FLAGS` gives the flag a value that is not a bool.
        """
        with_flag = (
            gpu_environment(environ, flag=self.flag, shared=False) if gpus else cpu_environment(environ, flag=self.flag)
        )
        return with_flag | dict(self.variables)

    def check(self, folder: Path) -> None:
        """Makes sure that a run of this backend does not compare JAX's own collectives with themselves.

        Args:
          folder: where the run has dumped its modules (`dumping`).

        Raises:
          BackendError: xla-shmem is on and has moved no collective, or the dump cannot be read.
        """
        if self.flag and not any(
            record.get("lowered") == "NVSHMEM" for report in collectives(folder) for record in report.records
        ):
            raise BackendError(
                "The flag was set, but no collective of the training step was moved to SHMEM. Check that xla-shmem is "
                "installed, so that JAX finds its plugin; `xla-shmem inspect` on the hlo folder shows the decisions."
            )


#: With xla-shmem, as its options say.
PLUGIN = Backend("SHMEM", flag=True)

#: JAX's default backend.
STOCK = Backend("stock", flag=False)


def dumping(program: Sequence[str], folder: Path, modules: str) -> list[str]:
    """The command of `program` for ranks of `xla-shmem launch` that also writes rank 0's compiled modules.

    Args:
      program: the ranks' program.
      folder: gets the dump; what it holds is removed.
      modules: regular expression of the modules' names.
    """
    shutil.rmtree(folder, ignore_errors=True)
    flags = f"--xla_dump_to={folder} --xla_dump_hlo_module_re={modules} --xla_dump_hlo_as_proto"
    return ["/bin/sh", "-c", _RANK_0_DUMPS, "sh", flags, *program]


def keep_compiled_modules(folder: Path) -> None:
    """Removes the other files that XLA dumps: hundreds, of LLVM IR and machine code. No flag turns them off."""
    for file in folder.glob("*"):
        if file.is_dir():
            shutil.rmtree(file)
        elif not file.match("*_after_optimizations.hlo.pb"):
            file.unlink()


def collectives(folder: Path) -> list[ModuleReport]:
    """The collectives of a run's dumped modules with the decision for each.

    Raises:
      BackendError: the dump cannot be read.
    """
    try:
        from xla_shmem import _core

        return [
            ModuleReport(module.source, module.name, _core.inspect_module(module.proto))
            for module in read_modules(str(folder))
        ]
    except ImportError as error:
        raise BackendError(f"The compiled module of xla-shmem is missing ({error}); install it again.") from None
    except (HloFileError, ValueError) as error:
        raise BackendError(f"The decisions cannot be shown: {error}") from None
