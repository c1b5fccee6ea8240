"""The description of a cluster, read from a TOML file or a preset in `clusters/`."""

from __future__ import annotations

import dataclasses
import difflib
import math
import tomllib
from pathlib import Path
from typing import Any

from xla_shmem.errors import PredictError

_PRESETS = Path(__file__).parent / "clusters"


@dataclasses.dataclass(frozen=True)
class Cluster:
    """GPUs of one kind, their NVLink domains, and the network between the domains.

    Attributes:
      name: name in reports.
      gpus_per_node: GPUs of one host.
      gpus_per_nvlink_domain: consecutive GPUs that are connected by NVLink; may span nodes.
      nodes: number of nodes; None for as many as a job needs.
      sms: streaming multiprocessors of a GPU.
      bf16_tflops, fp8_tflops: dense peak of a GPU.
      memory_gb_per_s: bandwidth of a GPU's memory.
      nvlink_gb_per_s: NVLink bandwidth of a GPU in one direction.
      nvlink_latency_us: latency of one step of a ring over NVLink.
      nic_gb_per_s, nic_latency_us: the same for a step that leaves the NVLink domain.

    Raises:
      PredictError: a number is out of range.
    """

    name: str
    gpus_per_node: int
    gpus_per_nvlink_domain: int
    sms: int
    bf16_tflops: float
    fp8_tflops: float
    memory_gb_per_s: float
    nvlink_gb_per_s: float
    nvlink_latency_us: float
    nic_gb_per_s: float
    nic_latency_us: float
    nodes: int | None = None

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, int | float) and not (value > 0 and math.isfinite(value)):
                raise PredictError(f"cluster {self.name}: {field.name} is {value}; it must be greater than 0.")

    def check_size(self, devices: int) -> None:
        """Raises PredictError if a program for this number of devices does not fit."""
        if self.nodes is not None and devices > self.nodes * self.gpus_per_node:
            raise PredictError(
                f"the program is for {devices} devices, and cluster {self.name} has {self.nodes} nodes of "
                f"{self.gpus_per_node} GPUs; add nodes, or omit `nodes` for as many as the program needs."
            )


def preset_names() -> list[str]:
    """Names of the presets."""
    return sorted(path.stem for path in _PRESETS.glob("*.toml"))


def read_cluster(name: str) -> Cluster:
    """The preset of this name, or the cluster described by the TOML file of this name.

    Raises:
      PredictError: there is neither, the file is not TOML, or a key is missing, unknown or of the wrong type.
    """
    path = _PRESETS / f"{name}.toml" if name in preset_names() else Path(name)
    try:
        entries = tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise PredictError(f"cluster {name} is neither a file nor one of {', '.join(preset_names())}.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise PredictError(f"cluster {name} cannot be read: {error}.") from None
    except tomllib.TOMLDecodeError as error:
        raise PredictError(f"cluster {name} is not TOML: {error}.") from None
    return _cluster(name, entries)


def _cluster(source: str, entries: dict[str, Any]) -> Cluster:
    fields = {field.name: field for field in dataclasses.fields(Cluster)}
    for key, value in entries.items():
        if key not in fields:
            near = difflib.get_close_matches(key, fields, n=1)
            hint = f"did you mean {near[0]}?" if near else f"the keys are {', '.join(fields)}."
            raise PredictError(f"cluster {source}: {key} is not a key of a cluster; {hint}")
        kind = str(fields[key].type)
        allowed = (str,) if kind == "str" else (int,) if kind.startswith("int") else (int, float)
        if type(value) not in allowed:
            wanted = {"str": "a string", "float": "a number"}.get(kind, "a whole number")
            raise PredictError(f"cluster {source}: {key} is {value!r}; it must be {wanted}.")
    missing = [name for name, field in fields.items() if name not in entries and field.default is dataclasses.MISSING]
    if missing:
        raise PredictError(f"cluster {source} lacks {', '.join(missing)}; the presets show every key with its unit.")
    return Cluster(**entries)
