"""Degrees of parallelism of a job. Free of JAX, so that options can be checked before any process starts."""

from __future__ import annotations

import dataclasses
import math

from xla_shmem.models.config import LlamaConfig

#: Axes of every mesh, outermost first: neighbours along `tensor` are neighbouring devices.
AXES = ("data", "fsdp", "context", "tensor")


@dataclasses.dataclass(frozen=True)
class MeshShape:
    """Devices along each axis of the mesh.

    Attributes:
      data: splits the batch; parameters are replicated along it.
      fsdp: splits the batch, and parameters and optimizer state too. Together with `data` this is the hybrid scheme:
        shards within a group, replicas across groups.
      context: splits the sequence.
      tensor: splits heads, hidden features and vocabulary.

    Raises:
      ValueError: a degree below 1.
    """

    data: int = 1
    fsdp: int = 1
    context: int = 1
    tensor: int = 1

    def __post_init__(self) -> None:
        for axis in AXES:
            if getattr(self, axis) < 1:
                raise ValueError(f"{axis} is {getattr(self, axis)}; it must be at least 1.")

    def __str__(self) -> str:
        return " x ".join(f"{axis} {getattr(self, axis)}" for axis in AXES)

    @property
    def devices(self) -> int:
        """Devices in the mesh."""
        return self.data * self.fsdp * self.context * self.tensor

    def check(
        self,
        model: LlamaConfig,
        batch: int,
        sequence: int,
        shard_over_context: bool = False,
        slice_over_tensor: bool = False,
    ) -> None:
        """Checks that a model and its batch divide over the mesh.

        Args:
          model: sizes.
          batch: sequences in a step.
          sequence: tokens in a sequence.
          shard_over_context: parameters are sharded over `context` and `fsdp`.
          slice_over_tensor: between layers each rank along `tensor` holds a slice of the sequence.

        Raises:
          ValueError: a size does not divide; the message says how to fix it.
        """
        groups = self.data * self.fsdp
        if batch % groups:
            raise ValueError(
                f"a batch of {batch} sequences does not divide over data {self.data} x fsdp {self.fsdp}; "
                f"choose a batch that is a multiple of {groups}."
            )
        if sequence % (2 * self.context):
            raise ValueError(
                f"sequence {sequence} does not divide over context {self.context}: the zig-zag order "
                f"gives two chunks to each rank, so choose a multiple of {2 * self.context}."
            )
        if slice_over_tensor and sequence % (self.context * self.tensor):
            raise ValueError(
                f"sequence {sequence} does not divide over context {self.context} x tensor {self.tensor}: overlapped "
                f"tensor-parallel matmuls hold slices of it; choose a multiple of "
                f"{math.lcm(2, self.tensor) * self.context}."
            )
        over_context = self.context if shard_over_context else 1
        shards = f"fsdp {self.fsdp}" + (f" x context {self.context}" if shard_over_context else "")
        for name, size, degree, axes in (
            ("kv-heads", model.kv_heads, self.tensor, f"tensor {self.tensor}"),
            ("hidden", model.hidden, self.tensor, f"tensor {self.tensor}"),
            ("vocab", model.vocab, self.tensor, f"tensor {self.tensor}"),
            ("width", model.width, self.fsdp * over_context, shards),
        ):
            if size % degree:
                raise ValueError(f"{name} {size} does not divide over {axes}; choose a degree that divides {size}.")
