"""A training job, checked before any process starts. Free of JAX.

`TrainConfig` is the only description of a job: config files, options and the documentation derive from its fields.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable
from typing import Any

from long_context.models.llama_config import PRESETS, LlamaConfig
from long_context.parallel.mesh_shape import MeshShape
from xla_shmem.errors import UserError

#: Fields that replace values of the preset.
MODEL_FIELDS = ("vocab", "width", "layers", "heads", "kv_heads", "hidden", "experts", "parallel_block", "qk_norm")

#: Element types of a `.bin` token file, which does not record its type.
TOKEN_DTYPES = ("uint8", "uint16", "uint32", "int32", "int64")

#: Steps before a profile: the first compiles, and the second may still fill pools.
STEPS_BEFORE_PROFILE = 2

#: Default tokens of a sequence if documents are tokenized.
_CHUNK = 16384

_VALIDATION = ("validation_every", "validation_batches")

MESH_FIELDS = ("data", "fsdp", "context", "tensor", "expert")


class ConfigError(UserError, ValueError):
    """The job cannot run; the message names the field, its value, the limit and a way out."""


def _field(default: Any, text: str, *choices: str, aliases: tuple[str, ...] = ()) -> Any:
    """A field with the metadata of `config_fields.ConfigField`."""
    return dataclasses.field(default=default, metadata={"help": text, "choices": choices, "aliases": aliases})


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """A training job. Every field is a key of config files and an option of the command line.

    Raises:
      ConfigError: a value is not allowed, or a size does not divide as the model or the mesh needs.
    """

    preset: str = _field("demo", "Sizes of the model.", *PRESETS)
    vocab: int | None = _field(None, "Token values; text needs 256.")
    width: int | None = _field(None, "Features of the residual stream.")
    layers: int | None = _field(None, "Decoder layers.")
    heads: int | None = _field(None, "Query heads.")
    kv_heads: int | None = _field(None, "Key/value heads.")
    hidden: int | None = _field(None, "Features between the SwiGLU projections.")
    experts: int | None = _field(None, "Experts of a mixture; 0 for a dense model.")
    parallel_block: bool | None = _field(None, "Attention and MLP read the same input.")
    qk_norm: bool | None = _field(None, "Normalise queries and keys.")

    data: int = _field(1, "Devices along the mesh axis that splits the batch and replicates parameters.")
    fsdp: int = _field(1, "Devices along the mesh axis that splits the batch and shards parameters.")
    context: int = _field(4, "Devices along the mesh axis that splits the sequence.")
    tensor: int = _field(1, "Devices along the mesh axis that splits heads and hidden features.")

    expert: int = _field(1, "Devices along the mesh axis that splits the batch and a mixture's experts.")

    shard_over_context: bool = _field(False, "Shard parameters over the context axis too, as over fsdp.")
    hybrid_shard_degree: int = _field(
        0,
        "Devices over which parameters are sharded, in groups that replicate them; 0: as the other keys say.",
    )

    batch: int = _field(1, "Sequences in a step, over all devices.")
    sequence: int = _field(
        0, "Tokens in a sequence, a chunk of the corpus; 0: 16384 with a tokenizer, else 1024.", aliases=("--seq",)
    )
    attention: str = _field("ring", "Communication of attention along the context axis.", "ring", "gather")
    attention_blocks: str = _field(
        "xla", "Kernels of attention: XLA's, or cuDNN's flash attention (GPUs, bf16).", "xla", "cudnn"
    )
    tensor_matmul: str = _field(
        "async",
        "Matmuls across the tensor axis: overlapped with permutes, or XLA's own collectives.",
        "async",
        "sync",
    )
    dtype: str = _field("f32", "Element type, of activations and matmuls; parameters are f32.", "f32", "bf16")
    fp8: bool = _field(False, "Matmuls in FP8 with delayed scaling: E4M3 forward, E5M2 backward.")
    remat: str = _field(
        "none",
        "Activations that the backward pass recomputes; `offload`: as `full`, and layers' inputs wait on the host.",
        "none",
        "full",
        "dots",
        "attention",
        "offload",
    )

    steps: int = _field(30, "Optimiser steps.")
    learning_rate: float = _field(2e-3, "Peak of the learning rate.")
    warmup_steps: int = _field(5, "Steps over which the learning rate rises to its peak.")
    seed: int = _field(0, "Seed of parameters and data order.")

    corpus: str = _field(
        "",
        "Text file, .jsonl file (field `text`), .npy or .bin token file, or a folder with files of one of these kinds. "
        "Without it: the sources of Python's standard library.",
    )
    token_dtype: str = _field("", "Element type of .bin token files.", "", *TOKEN_DTYPES)
    tokenizer: str = _field(
        "", "Hugging Face tokenizer.json for a corpus of documents, .parquet or .jsonl files. Without it: bytes."
    )
    text_field: str = _field("text", "Column of the documents' text.")
    validation: float = _field(0.0, "Fraction of the corpus that is kept for validation.")
    validation_every: int = _field(100, "Steps between validations, the last step included.")
    validation_batches: int = _field(8, "Batches of a validation, at most.")

    output: str = _field("out/train", "Where to write: folder of log, checkpoints and picture.")
    checkpoint_every: int = _field(0, "Steps between checkpoints, the last step included; 0 for none.")
    checkpoints_kept: int = _field(2, "Number of newest checkpoints to keep.")
    resume: bool = _field(False, "Continue from the newest checkpoint in the folder, if there is one.")
    profile_steps: int = _field(
        0,
        "Steps that jax.profiler records on every rank, from the third on, in `profile` of the folder; 0 for none.",
    )

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            choices = field.metadata["choices"]
            if choices and getattr(self, field.name) not in choices:
                raise ConfigError(unknown(f"{flag(field.name)}", getattr(self, field.name), choices))
        if not self.sequence:
            object.__setattr__(self, "sequence", _CHUNK if self.tokenizer else 1024)
        positive = ("batch", "sequence", "steps", "warmup_steps", "checkpoints_kept", *_VALIDATION)
        for name in positive:
            if getattr(self, name) < 1:
                raise ConfigError(f"{flag(name)} is {getattr(self, name)}; it must be at least 1.")
        for name in ("hybrid_shard_degree", "seed", "checkpoint_every", "profile_steps"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{flag(name)} is {getattr(self, name)}; it must not be negative.")
        if not 0 <= self.validation < 1:
            raise ConfigError(f"validation is {self.validation}; it is a fraction, at least 0 and less than 1.")
        if self.tokenizer and not self.corpus:
            raise ConfigError("tokenizer needs documents; set corpus to .parquet or .jsonl files.")
        if self.resume and not self.checkpoint_every:
            raise ConfigError("resume needs checkpoints, and checkpoint-every is 0; set the steps between checkpoints.")
        if self.profile_steps and self.profile_steps + STEPS_BEFORE_PROFILE > self.steps:
            raise ConfigError(
                f"profile-steps is {self.profile_steps} of {self.steps} steps, and the first {STEPS_BEFORE_PROFILE} are"
                f" not recorded; set steps to at least {self.profile_steps + STEPS_BEFORE_PROFILE}."
            )
        if not self.learning_rate > 0:
            raise ConfigError(f"learning-rate is {self.learning_rate}; it must be greater than 0.")
        if self.attention_blocks == "cudnn" and self.dtype != "bf16":
            raise ConfigError(f"attention-blocks cudnn computes in bf16 and dtype is {self.dtype}; set dtype bf16.")
        if self.hybrid_shard_degree and (self.fsdp > 1 or self.shard_over_context):
            raise ConfigError(
                f"hybrid-shard-degree is {self.hybrid_shard_degree}, and fsdp or shard-over-context say how to shard "
                "too; with a degree, give the devices that split the batch as data."
            )
        overlapped = self.tensor_matmul == "async" and self.tensor > 1
        try:
            self.mesh().check(self.model(), self.batch, self.sequence, overlapped)
        except ValueError as error:
            raise ConfigError(str(error)) from None

    def model(self) -> LlamaConfig:
        """Sizes of the model: the preset's, replaced by the fields that are set."""
        given = {name: getattr(self, name) for name in MODEL_FIELDS if getattr(self, name) is not None}
        return dataclasses.replace(PRESETS[self.preset], **given)

    def mesh(self) -> MeshShape:
        """Degrees of parallelism."""
        shape = MeshShape(**{name: getattr(self, name) for name in MESH_FIELDS})
        if self.hybrid_shard_degree:
            return shape.with_shard_degree(self.hybrid_shard_degree)
        return dataclasses.replace(shape, context_shards=self.context if self.shard_over_context else 1)

    @property
    def devices(self) -> int:
        """Devices in the mesh."""
        return self.mesh().devices

    def arguments(self) -> list[str]:
        """Arguments of `xla-shmem train` that describe this job."""
        arguments = []
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is None or value == field.default == "":
                continue
            if isinstance(value, bool):
                arguments.append(f"--{flag(field.name)}" if value else f"--no-{flag(field.name)}")
            else:
                arguments.append(f"--{flag(field.name)}={value}")
        return arguments


def flag(name: str) -> str:
    """The name of a field as options and messages spell it."""
    return name.replace("_", "-")


def unknown(what: str, value: object, known: Iterable[str]) -> str:
    """A sentence about a value that is not in `known`, with the closest one."""
    known = [each for each in known if each]
    nearest = difflib.get_close_matches(str(value), known, n=1, cutoff=0.5)
    hint = f"did you mean {nearest[0]}?" if nearest else f"choose one of {', '.join(known)}."
    return f"{what} is {value!r}, which is unknown; {hint}"
