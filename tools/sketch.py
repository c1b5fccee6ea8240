"""A training step written by hand, for jobs that are not compiled: the same collectives in XLA's order.

It has the structure that the compiled rows of Table 2 share (docs/predict.md).
"""

from __future__ import annotations

import dataclasses

from long_context.models.llama_config import parameter_count
from long_context.train.config import TrainConfig, flag
from xla_shmem.errors import PredictError
from xla_shmem.predict.cluster import Cluster
from xla_shmem.predict.program import Choice, Collective, Program, Step

_BF16, _F32 = 2, 4

#: Matmuls of attention to a block of keys. Forward: scores, and their product with the values. Backward: the scores
#: again, and the gradients of weights, queries, keys and values.
_FORWARD_PRODUCTS, _BACKWARD_PRODUCTS = 2, 5

#: Bytes that kernels other than matmuls move, taken from the compiled rows. Per token and feature of a layer: norms,
#: rotation, activations. Per token, feature and hop of the ring: merging partial results. Per token and word of the
#: vocabulary: the loss.
_FORWARD_BYTES, _BACKWARD_BYTES = 50, 150
_FORWARD_HOP_BYTES, _BACKWARD_HOP_BYTES = 25, 55
_LOSS_BYTES = 40


@dataclasses.dataclass(frozen=True)
class Exchanges:
    """Transfers of a layer that the job's sizes do not determine.

    Attributes:
      forward, again, backward: rounds of the slices of a sequence on the tensor axis, for attention's matmuls and for
        the MLP's: in the forward, in its recomputation (None: nothing is recomputed) and for the gradients.
      gradients_beside_attention: whether the gradient of a block of keys and values travels with the block, in bf16 and
        beside attention, and a rank skips the masked pairs of its own block, as in Transformer Engine's ring. If not,
        the gradient follows in f32 when attention is done: XLA's scheduler runs one permute at a time.
    """

    forward: tuple[int, int]
    again: tuple[int, int] | None
    backward: tuple[int, int]
    gradients_beside_attention: bool


#: Of `xla-shmem train`: slices travel to the matmuls of a half of a layer and back; the recomputation lacks the last.
OURS = Exchanges(forward=(2, 2), again=(2, 1), backward=(2, 2), gradients_beside_attention=False)


def sketch(job: TrainConfig, cluster: Cluster, exchanges: Exchanges = OURS) -> Program:
    """The sketched step of a job.

    Args:
      job: a job with ring attention, full remat, bf16 and asynchronous tensor matmuls.
      cluster: the cluster, which decides what groups are inside one NVLink domain.
      exchanges: transfers of the program.

    Raises:
      PredictError: the job is of another kind; none like it was compiled.
    """
    for name, wanted in (("attention", "ring"), ("remat", "full"), ("dtype", "bf16"), ("tensor_matmul", "async")):
        if getattr(job, name) != wanted:
            raise PredictError(
                f"{flag(name)} is {getattr(job, name)}, and only {wanted} can be sketched; give --wheels to compile it."
            )
    if job.model().experts or job.mesh().context_shards not in (1, job.context):
        raise PredictError("experts, or parameters sharded over a part of context, cannot be sketched; give --wheels.")
    return _Sketch(job, cluster, exchanges).program()


class _Sketch:
    def __init__(self, job: TrainConfig, cluster: Cluster, exchanges: Exchanges) -> None:
        self._job, self._cluster, self._exchanges, self._model = job, cluster, exchanges, job.model()
        self._collectives: dict[str, Collective] = {}
        self._mesh = job.mesh()
        self._sequences = job.batch // (self._mesh.data * self._mesh.fsdp)
        self._local = job.sequence // job.context
        self._tokens = self._sequences * self._local
        self._shards = self._mesh.shards

    def program(self) -> Program:
        layers, table = self._model.layers, self._model.vocab * self._model.width
        logits = self._tokens * self._model.vocab // self._job.tensor
        held = parameter_count(self._model) // (self._shards * self._job.tensor)
        entry = (
            *self._gather("embedding", 2 * table),
            Step("forward", calls=("forward layer",), loop=True),
            Step("head", flops=6 * logits * self._model.width),
            Step("loss", bytes=_LOSS_BYTES * logits),
            Step("backward", calls=("backward layer",), loop=True),
            *self._scatter("embedding gradient", 2 * table),
            *self._replicas("embedding gradient of replicas", 2 * table),
            Step("update", bytes=7 * _F32 * held),  # reads parameter, gradient and two moments, writes three of them
        )
        return Program(
            entry="step",
            computations={"step": entry, "forward layer": self._forward(), "backward layer": self._backward()},
            executions={"step": 1, "forward layer": layers, "backward layer": layers},
            collectives=self._collectives,
            devices=self._job.devices,
        )

    def _forward(self) -> tuple[Step, ...]:
        """XLA's scheduler overlaps the gather of the MLP's weights with attention."""
        return (*self._through("", self._exchanges.forward), self._elementwise(_FORWARD_BYTES))

    def _through(self, suffix: str, rounds: tuple[int, int]) -> tuple[Step, ...]:
        """The forward of a layer's attention and MLP."""
        early, late = self._halves()
        return (
            *self._gather(f"attention weights{suffix}", early),
            *self._beside(
                self._gather(f"mlp weights{suffix}", late),
                *self._sliced(f"attention slice{suffix}", rounds[0], 2 * early),
                *self._ring(f"block{suffix}", _FORWARD_PRODUCTS, _FORWARD_HOP_BYTES, gradients=False),
            ),
            *self._sliced(f"mlp slice{suffix}", rounds[1], 2 * late),
        )

    def _backward(self) -> tuple[Step, ...]:
        """The forward again, then the gradients; the scatter of the MLP's overlaps with attention's backward."""
        early, late = self._halves()
        again, (attention_rounds, mlp_rounds) = self._exchanges.again, self._exchanges.backward
        return (
            *(self._gather("weights again", early + late) if again is None else self._through(" again", again)),
            *self._sliced("mlp gradient slice", mlp_rounds, 4 * late),
            *self._beside(
                self._scatter("mlp gradients", late),
                *self._ring("block back", _BACKWARD_PRODUCTS, _BACKWARD_HOP_BYTES, gradients=True),
                *self._sliced("attention gradient slice", attention_rounds, 4 * early),
            ),
            *self._scatter("attention gradients", early),
            *self._replicas("gradients of replicas", early + late),
            self._elementwise(_BACKWARD_BYTES),
        )

    def _halves(self) -> tuple[int, int]:
        """Parameters of attention's matmuls and of the MLP's."""
        model = self._model
        return 2 * model.width * (model.width + model.kv_width), 3 * model.width * model.hidden

    def _elementwise(self, size: int) -> Step:
        return Step("elementwise", bytes=size * self._tokens * self._model.width // self._job.tensor)

    @staticmethod
    def _beside(collective: tuple[Step, ...], *others: Step) -> tuple[Step, ...]:
        """A collective that overlaps with other steps."""
        started = tuple(dataclasses.replace(step, ends=None) for step in collective)
        ended = tuple(dataclasses.replace(step, starts=None) for step in collective)
        return (*started, *others, *ended)

    def _ring(self, name: str, products: int, merged: int, *, gradients: bool) -> tuple[Step, ...]:
        """Blocks travel round the ring while others are attended to; a gradient follows each block one step behind.

        Half of the pairs are visible. In the own block, half of the masked pairs may be computed too.
        """
        job, model = self._job, self._model
        together = self._exchanges.gradients_beside_attention
        block = 2 * self._tokens * model.kv_width // job.tensor
        visible = self._sequences * self._local * self._local // 2
        attend = 2 * products * visible * model.width // job.tensor

        def send(each: str, size: int) -> tuple[Step, ...]:
            return self._alone(each, "collective-permute", size, job.context, job.tensor)

        steps: list[Step] = []
        for hop in range(job.context):
            sent: tuple[Step, ...] = ()
            if gradients and together and job.context > 1:
                sent = send(f"{name} {hop}", 2 * block * _BF16)
            elif hop + 1 < job.context:
                sent = send(f"{name} {hop}", block * _BF16)
            flops = attend if hop or together else attend * 3 // 2
            kernel = Step(f"{name} attention", flops=flops, attention=True)
            steps += self._beside(sent, kernel, self._elementwise(merged))
            if gradients and not together and hop > 0:
                steps += send(f"{name}, gradient {hop}", block * _F32)
        return tuple(steps)

    def _sliced(self, name: str, rounds: int, flops_per_token: int) -> tuple[Step, ...]:
        """Matmuls across the tensor axis: slices of the sequence travel while others are multiplied."""
        tensor = self._job.tensor
        flops = flops_per_token * self._tokens // tensor
        size = self._tokens // tensor * self._model.width * _BF16
        steps: list[Step] = []
        for turn in range(rounds * (tensor - 1)):
            each = f"{name} {turn}"
            self._add(each, "collective-permute", size, tensor, tensor)
            part = Step(f"{each} matmul", flops=flops // (rounds * tensor))
            steps += [Step(each, starts=each), part, Step(each, ends=each)]
        done = sum(step.flops for step in steps)
        return (*steps, Step(f"{name} matmul", flops=flops - done))

    def _gather(self, name: str, parameters: int) -> tuple[Step, ...]:
        return self._sharded(name, "all-gather", parameters // self._job.tensor * _BF16)

    def _scatter(self, name: str, parameters: int) -> tuple[Step, ...]:
        size = parameters // self._job.tensor * _BF16 // self._shards
        return self._sharded(name, "reduce-scatter", size)

    def _replicas(self, name: str, parameters: int) -> tuple[Step, ...]:
        """Sums shards of gradients over the data axis; neighbours on it are one replica apart."""
        data = self._mesh.data
        size = parameters // self._job.tensor * _BF16 // self._shards
        return self._alone(name, "all-reduce", size, data, self._job.devices // data) if data > 1 else ()

    def _sharded(self, name: str, op: str, size: int) -> tuple[Step, ...]:
        inner = self._job.tensor * (self._job.context // self._mesh.context_shards)
        return self._alone(name, op, size, self._shards, inner) if self._shards > 1 else ()

    def _alone(self, name: str, op: str, size: int, group: int, inner: int) -> tuple[Step, ...]:
        self._add(name, op, size, group, group * inner)
        return (Step(name, starts=name, ends=name),)

    def _add(self, name: str, op: str, size: int, group: int, extent: int) -> None:
        """Adds a collective whose groups each span `extent` consecutive devices."""
        domain = self._cluster.gpus_per_nvlink_domain
        inside = self._job.devices <= domain or domain % extent == 0
        by: Choice = "NVSHMEM" if op == "collective-permute" and inside else "DEFAULT"
        near = group if inside else max(1, min(domain * group // extent, group // 2))
        self._collectives[name] = Collective(op, size, group, by, near)
