"""Degrees of parallelism of a job. Free of JAX, so that options can be checked before any process starts."""

from __future__ import annotations

import dataclasses
import math

from long_context.models.llama_config import LlamaConfig

#: Degrees of a job, outermost axis first: neighbours along `tensor` are neighbouring devices.
AXES = ("data", "fsdp", "expert", "context", "tensor")


@dataclasses.dataclass(frozen=True)
class MeshShape:
    """Devices along each axis of the mesh.

    Attributes:
      data: splits the batch; parameters are replicated along it.
      fsdp: splits the batch, and parameters and optimizer state too. Together with `data` this is the hybrid scheme:
        shards within a group, replicas across groups.
      expert: splits the batch as `fsdp` does, and the experts of a mixture; other parameters are sharded along it.
      context: splits the sequence.
      tensor: splits heads, hidden features and vocabulary.
      context_shards: neighbours along `context` that shard parameters too; 1: parameters are replicated along it.

    Raises:
      ValueError: a degree below 1, or `context_shards` does not divide `context`.
    """

    data: int = 1
    fsdp: int = 1
    context: int = 1
    tensor: int = 1
    expert: int = 1
    context_shards: int = 1

    def __post_init__(self) -> None:
        for axis in (*AXES, "context_shards"):
            if getattr(self, axis) < 1:
                raise ValueError(f"{axis} is {getattr(self, axis)}; it must be at least 1.")
        if self.context % self.context_shards:
            raise ValueError(f"context {self.context} does not divide into groups of {self.context_shards} devices.")

    def __str__(self) -> str:
        return " x ".join(f"{axis} {getattr(self, axis)}" for axis in AXES if axis != "expert" or self.expert > 1)

    @property
    def devices(self) -> int:
        """Devices in the mesh."""
        return math.prod(getattr(self, axis) for axis in AXES)

    @property
    def shards(self) -> int:
        """Devices over which parameters are sharded, besides `tensor`."""
        return self.fsdp * self.expert * self.context_shards

    def with_shard_degree(self, degree: int) -> MeshShape:
        """The same mesh with parameters sharded within groups of `degree` devices and replicated across groups.

        A group takes as many neighbours along `context` as divide the degree, then neighbours that split the batch.

        Args:
          degree: from 1 to the number of devices; `tensor` counts, since it shards parameters too.

        Raises:
          ValueError: the degree is no multiple of `tensor` x `expert`, or does not divide the devices.
        """
        always = self.tensor * self.expert
        if degree < 1 or degree % always or self.devices % degree:
            possible = [each for each in range(always, self.devices + 1, always) if self.devices % each == 0]
            raise ValueError(
                f"hybrid-shard-degree is {degree}; on {self} it is one of {', '.join(map(str, possible))}: it divides "
                f"the {self.devices} devices and is a multiple of tensor x expert."
            )
        context_shards = math.gcd(degree // always, self.context)
        fsdp = degree // always // context_shards
        data = self.data * self.fsdp // fsdp
        return dataclasses.replace(self, data=data, fsdp=fsdp, context_shards=context_shards)

    def check(
        self,
        model: LlamaConfig,
        batch: int,
        sequence: int,
        slice_over_tensor: bool = False,
    ) -> None:
        """Checks that a model and its batch divide over the mesh.

        Args:
          model: sizes.
          batch: sequences in a step.
          sequence: tokens in a sequence.
          slice_over_tensor: between layers each rank along `tensor` holds a slice of the sequence.

        Raises:
          ValueError: a size does not divide; the message says how to fix it.
        """
        groups = self.data * self.fsdp * self.expert
        over_expert = f" x expert {self.expert}" if self.expert > 1 else ""
        if batch % groups:
            raise ValueError(
                f"a batch of {batch} sequences does not divide over data {self.data} x fsdp {self.fsdp}{over_expert}; "
                f"choose a batch that is a multiple of {groups}."
            )
        if self.expert > 1 and (not model.experts or model.experts % self.expert):
            raise ValueError(
                f"the model's {model.experts} experts do not divide over expert {self.expert}; choose a degree that "
                "divides them (a dense model has none: expert 1)."
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
        over_context = f" x context {self.context_shards}" if self.context_shards > 1 else ""
        shards = f"fsdp {self.fsdp}{over_expert}{over_context}"
        for name, size, degree, axes in (
            ("kv-heads", model.kv_heads, self.tensor, f"tensor {self.tensor}"),
            ("hidden", model.hidden, self.tensor, f"tensor {self.tensor}"),
            ("vocab", model.vocab, self.tensor, f"tensor {self.tensor}"),
            ("width", model.width, self.shards, shards),
        ):
            if size % degree:
                raise ValueError(f"{name} {size} does not divide over {axes}; choose a degree that divides {size}.")
