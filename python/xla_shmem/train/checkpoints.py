"""Checkpoints of a training job, written with orbax: every process writes its own shards while training continues."""

from __future__ import annotations

import dataclasses
from types import TracebackType
from typing import Any, TypeVar

import orbax.checkpoint as ocp

from xla_shmem.models.config import LlamaConfig
from xla_shmem.train.config import ConfigError, TrainConfig, flag
from xla_shmem.train.job_folder import checkpoint_folder

_State = TypeVar("_State")

#: Fields that a job must keep to resume exactly, besides the model and the corpus.
_SAME = ("batch", "sequence", "dtype", "fp8", "steps", "learning_rate", "warmup_steps", "seed")

_MODEL_DEFAULTS = {field.name: field.default for field in dataclasses.fields(LlamaConfig)}


class Checkpoints:
    """The checkpoints in a job's folder. The number of a checkpoint is the number of steps done.

    Saving is asynchronous. A checkpoint gets its name only when it is complete, so a killed process leaves no partial
    checkpoint. All processes must make, use and close it in the same way.

    Args:
      config: the job.
      tokens: number of tokens in the corpus; the same when the job resumes.
    """

    def __init__(self, config: TrainConfig, tokens: int) -> None:
        self._folder = checkpoint_folder(config)
        self._facts = _facts(config, tokens)
        self._every = config.checkpoint_every
        self._last = config.steps
        options = ocp.CheckpointManagerOptions(max_to_keep=config.checkpoints_kept, enable_async_checkpointing=True)
        self._manager = ocp.CheckpointManager(self._folder, options=options)
        self.newest: int | None = self._manager.latest_step()

    def __enter__(self) -> Checkpoints:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Waits until all checkpoints are written, unless an error ends the job."""
        if error is None:
            self._manager.close()

    def restore(self, abstract: _State) -> _State:
        """The state of the newest checkpoint, with the shapes, types and shardings of `abstract`.

        Raises:
          ConfigError: the checkpoint belongs to a job that computes something else.
        """
        saved = self._manager.restore(self.newest, args=ocp.args.Composite(job=ocp.args.JsonRestore()))
        for name, value in self._facts.items():
            # A job from before a field existed had its default.
            before = saved.job.get(name, _MODEL_DEFAULTS.get(name))
            if before != value:
                raise ConfigError(
                    f"{self._folder} holds checkpoints of a job with {flag(name)} {before}, and this job has {value}; "
                    "to resume, set the same value. Choose another --output to start a new job."
                )
        restored = self._manager.restore(self.newest, args=ocp.args.Composite(state=ocp.args.StandardRestore(abstract)))
        state: _State = restored.state
        return state

    def due(self, steps: int) -> bool:
        """Whether to write a checkpoint after this number of steps."""
        return steps % self._every == 0 or steps == self._last

    def save(self, steps: int, state: Any) -> None:
        """Starts to write a checkpoint; returns when the state may change."""
        if steps == self.newest:
            return
        job = ocp.args.JsonSave(self._facts)
        state_args = ocp.args.StandardSave(state)
        self._manager.save(steps, args=ocp.args.Composite(state=state_args, job=job), force=True)
        self.newest = steps


def _facts(config: TrainConfig, tokens: int) -> dict[str, Any]:
    """The values that must not change when a job resumes, as JSON returns them."""
    same = {name: getattr(config, name) for name in _SAME}
    return {**dataclasses.asdict(config.model()), **same, "corpus_tokens": tokens}
