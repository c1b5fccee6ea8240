"""JAX's CUDA plugin from the XLA:GPU of a TensorFlow wheel with the overlay in it (cuda_plugin.cc), on emulated GPUs.

`make test-patched-xla` builds the library before it runs the tests.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from emulator import FLAG, Emulator
from executed_collectives import PATCHED_XLA

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LIBRARY = ROOT / "build/bazel/bin/tests/overlay/libcuda_plugin.so"

#: What scripts/build_jaxlib.sh names a patched wheel.
_LABEL = "+xlashmem"


@dataclass(frozen=True)
class PatchedXla(Emulator):
    """An emulator with a patched XLA:GPU as the CUDA plugin of JAX.

    Attributes:
      library: the plugin.
    """

    library: Path = LIBRARY

    def variables(
        self, devices: int, flags: Iterable[str] = (FLAG,), environ: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        # The wheel's library does not lie beside CUDA's files.
        cuda = f"--xla_gpu_cuda_data_dir={self.wheels / 'nvidia/cu13'}"
        return super().variables(devices, (*flags, cuda), environ) | {PATCHED_XLA: str(self.library)}

    @staticmethod
    def installed(emulator: Emulator, folder: Path, library: Path = LIBRARY) -> PatchedXla:
        """Returns the emulator with a patched XLA instead of the stock plugin.

        Args:
          folder: empty; gets links and the changed metadata.
          library: the plugin.
        """
        assert library.exists(), f"{library} is missing; make test-patched-xla builds it"
        wheels = folder / "wheels"
        shutil.copytree(emulator.wheels, wheels, symlinks=True)
        plugin = wheels / "jax_plugins/xla_cuda13/xla_cuda_plugin.so"
        plugin.unlink()
        plugin.symlink_to(library)
        (metadata,) = wheels.glob("jax_cuda13_pjrt-*.dist-info/METADATA")
        lines = metadata.read_text().splitlines()
        labelled = [line + _LABEL if line.startswith("Version: ") else line for line in lines]
        metadata.write_text("\n".join(labelled))
        return PatchedXla(_libraries(emulator, folder / "libraries"), wheels, library=library)


def _libraries(emulator: Emulator, view: Path) -> Path:
    """The wheel's own, and the emulator's by the names of CUDA 12 too, which the wheel is built for."""
    view.mkdir()
    for library in emulator.libraries.iterdir():
        for name in {library.name, library.name.replace(".so.13", ".so.12")}:
            (view / name).symlink_to(library)
    found = subprocess.run([ROOT / "scripts/find_xla.sh"], check=True, capture_output=True, text=True)
    for library in Path(found.stdout.strip()).glob("*.so.2"):
        (view / library.name).symlink_to(library)
    return view
