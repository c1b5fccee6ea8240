"""Options of a training job, checked before any process starts. Free of JAX."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

import click

from xla_shmem.models.config import LlamaConfig
from xla_shmem.parallel.mesh_shape import MeshShape

_Command = TypeVar("_Command", bound=Callable[..., Any])


def _option(default: int | float | str, text: str) -> Any:
    return dataclasses.field(default=default, metadata={"help": text})


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """A training job. Every field is a command-line option of the same name.

    Raises:
      ValueError: sizes that do not divide as model or mesh need it; the message says how to fix it.
    """

    steps: int = _option(30, "Optimiser steps.")
    data: int = _option(1, "Ranks along the mesh axis that splits the batch and replicates parameters.")
    fsdp: int = _option(1, "Ranks along the mesh axis that splits the batch and shards parameters.")
    context: int = _option(4, "Ranks along the mesh axis that splits the sequence.")
    tensor: int = _option(1, "Ranks along the mesh axis that splits heads and features.")
    shard_over_context: bool = _option(False, "Shard parameters along context too.")
    attention: str = _option("ring", "Context parallelism: ring or gather.")
    dtype: str = _option("f32", "Type of the computation: f32 or bf16; parameters are f32.")
    remat: str = _option("none", "What the backward computes again: none, dots, attention or full.")
    fp8: bool = _option(False, "Multiply in FP8 in the layers.")
    batch: int = _option(1, "Sequences in a step, over all ranks.")
    sequence: int = _option(1024, "Tokens (bytes of text) in a sequence.")
    width: int = _option(128, "Features of the residual stream.")
    layers: int = _option(4, "Decoder layers.")
    heads: int = _option(4, "Query heads.")
    kv_heads: int = _option(2, "Key/value heads.")
    hidden: int = _option(384, "Features between the SwiGLU projections.")
    learning_rate: float = _option(2e-3, "Peak of the learning rate.")
    warmup: int = _option(5, "Steps over which the learning rate rises to its peak.")
    seed: int = _option(0, "Seed of parameters and data order.")

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "sequence", "warmup"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1.")
        if self.seed < 0:
            raise ValueError(f"seed is {self.seed}; it must not be negative.")
        if not self.learning_rate > 0:
            raise ValueError(f"learning-rate is {self.learning_rate}; it must be greater than 0.")
        self.mesh().check(self.model(), self.batch, self.sequence, self.shard_over_context)

    def model(self) -> LlamaConfig:
        """Sizes of the model; the vocabulary is the 256 byte values."""
        return LlamaConfig(
            vocab=256,
            width=self.width,
            layers=self.layers,
            heads=self.heads,
            kv_heads=self.kv_heads,
            hidden=self.hidden,
        )

    def mesh(self) -> MeshShape:
        """Ranks along each axis."""
        return MeshShape(self.data, self.fsdp, self.context, self.tensor)

    @property
    def ranks(self) -> int:
        """Devices in the mesh."""
        return self.mesh().devices

    def arguments(self) -> list[str]:
        """The command line that `from_options` reads back into this job."""
        return [f"--{_flag(field)}={getattr(self, field.name)!r}" for field in dataclasses.fields(self)]


def from_options(options: dict[str, Any]) -> TrainConfig:
    """The job that a command decorated with `config_options` was asked for.

    Raises:
      click.UsageError: the options do not fit together.
    """
    try:
        return TrainConfig(**options)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def config_options(command: _Command) -> _Command:
    """Decorator: adds every field of `TrainConfig` to a click command as an option."""
    for field in reversed(dataclasses.fields(TrainConfig)):
        option = click.option(
            f"--{_flag(field)}",
            field.name,
            default=field.default,
            show_default=True,
            help=field.metadata["help"],
        )
        command = option(command)
    return command


def _flag(field: dataclasses.Field[Any]) -> str:
    return field.name.replace("_", "-")
