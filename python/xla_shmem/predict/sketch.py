"""A training step laid out by hand, for jobs that nobody compiled: the same collectives, in the order that XLA keeps.

What is laid out is what the compiled rows of docs/table2.md have in common; docs/predict.md compares the two.
"""

from __future__ import annotations

from xla_shmem.predict.cluster import Cluster
from xla_shmem.predict.errors import PredictError
from xla_shmem.predict.program import Backend, Collective, Program, Step
from xla_shmem.train.config import TrainConfig, flag

_BF16, _F32 = 2, 4

#: Matmuls of attention to a block of keys: scores and their product with values; and in the backward the scores once
#: more, the gradients of weights, queries, keys and values.
_FORWARD_PRODUCTS, _BACKWARD_PRODUCTS = 2, 5

#: Times that the slices of a sequence go round the tensor axis: to and from both halves of a layer forward; backward
#: once more for what is computed again, and for the gradients.
_FORWARD_ROUNDS, _BACKWARD_ROUNDS = 4, 7


def sketch(job: TrainConfig, cluster: Cluster) -> Program:
    """The job's step.

    Args:
      job: with ring attention and full remat.
      cluster: says which groups lie in one NVLink domain.

    Raises:
      PredictError: a job that has not been compiled in any form like it.
    """
    for name, wanted in (("attention", "ring"), ("remat", "full"), ("dtype", "bf16"), ("tensor_matmul", "async")):
        if getattr(job, name) != wanted:
            raise PredictError(
                f"{flag(name)} is {getattr(job, name)}, and only {wanted} can be sketched; leave --sketch out."
            )
    return _Sketch(job, cluster).program()


class _Sketch:
    def __init__(self, job: TrainConfig, cluster: Cluster) -> None:
        self._job, self._cluster, self._model = job, cluster, job.model()
        self._collectives: dict[str, Collective] = {}
        self._sequences = job.batch // (job.data * job.fsdp)
        self._local = job.sequence // job.context
        self._tokens = self._sequences * self._local
        self._shards = job.fsdp * (job.context if job.shard_over_context else 1)

    def program(self) -> Program:
        layers = self._model.layers
        table = self._model.vocab * self._model.width
        head = 6 * table * self._tokens // self._job.tensor
        update = self._parameters() // (self._shards * self._job.tensor) * _F32 * 7  # reads 4, writes 3 of them
        entry = (
            *self._gather("embedding", 2 * table),
            Step("forward", calls=("forward layer",), loop=True),
            Step("head", flops=head),
            Step("backward", calls=("backward layer",), loop=True),
            *self._scatter("embedding gradient", 2 * table),
            Step("update", bytes=update),
        )
        return Program(
            entry="step",
            computations={
                "step": entry,
                "forward layer": self._forward(),
                "backward layer": self._backward(),
            },
            executions={"step": 1, "forward layer": layers, "backward layer": layers},
            collectives=self._collectives,
            devices=self._job.devices,
        )

    def _forward(self) -> tuple[Step, ...]:
        matmuls = 2 * self._layer() * self._tokens // self._job.tensor
        return (
            *self._gather("forward weights", self._layer()),
            *self._sliced("forward slice", _FORWARD_ROUNDS, matmuls),
            *self._ring("forward", _FORWARD_PRODUCTS, gradients=False),
        )

    def _backward(self) -> tuple[Step, ...]:
        matmuls = 6 * self._layer() * self._tokens // self._job.tensor
        return (
            *self._gather("backward weights", self._layer()),
            *self._ring("again", _FORWARD_PRODUCTS, gradients=False),
            *self._ring("backward", _BACKWARD_PRODUCTS, gradients=True),
            *self._sliced("backward slice", _BACKWARD_ROUNDS, matmuls),
            *self._scatter("gradients", self._layer()),
        )

    def _ring(self, name: str, products: int, gradients: bool) -> tuple[Step, ...]:
        """Blocks go round while those that are there are attended to; a gradient follows each block one step behind."""
        job, model = self._job, self._model
        block = 2 * self._tokens * model.kv_width // job.tensor
        pairs = self._sequences * self._local * self._local // 2
        attend = Step(f"{name} attention", flops=2 * products * pairs * model.width // job.tensor)
        steps: list[Step] = []
        for hop in range(job.context):
            sent = [f"{name} block {hop}"] if hop + 1 < job.context else []
            if gradients and hop > 1:
                sent.append(f"{name} gradient {hop}")
            for each in sent:
                size = block * (_F32 if "gradient" in each else _BF16)
                self._add(each, "collective-permute", size, job.context, job.context * job.tensor)
            steps += [Step(each, starts=each) for each in sent]
            steps.append(attend)
            steps += [Step(each, ends=each) for each in sent]
        if gradients and job.context > 1:
            steps += self._alone(f"{name} gradient home", "collective-permute", block * _F32, job.context, job.tensor)
        return tuple(steps)

    def _sliced(self, name: str, rounds: int, flops: int) -> tuple[Step, ...]:
        """Matmuls across the tensor axis: slices of the sequence go round beside the products of those at hand."""
        tensor = self._job.tensor
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

    def _sharded(self, name: str, op: str, size: int) -> tuple[Step, ...]:
        inner = self._job.tensor * (1 if self._job.shard_over_context else self._job.context)
        return self._alone(name, op, size, self._shards, inner) if self._shards > 1 else ()

    def _alone(self, name: str, op: str, size: int, group: int, inner: int) -> tuple[Step, ...]:
        self._add(name, op, size, group, group * inner)
        return (Step(name, starts=name, ends=name),)

    def _add(self, name: str, op: str, size: int, group: int, extent: int) -> None:
        """A collective whose groups each lie within `extent` consecutive devices."""
        domain = self._cluster.gpus_per_nvlink_domain
        inside = self._job.devices <= domain or domain % extent == 0
        by: Backend = "NVSHMEM" if op == "collective-permute" and inside else "DEFAULT"
        self._collectives[name] = Collective(op, size, group, by, inside)

    def _layer(self) -> int:
        """Parameters of a layer that matmuls read."""
        model = self._model
        return 2 * model.width * (model.width + model.kv_width) + 3 * model.width * model.hidden

    def _parameters(self) -> int:
        from xla_shmem.models.config import parameter_count

        return parameter_count(self._model)
