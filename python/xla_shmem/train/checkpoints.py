"""Checkpoints of a training job through orbax: every process writes its own shards while training goes on."""

from __future__ import annotations

import dataclasses
from types import TracebackType
from typing import Any, TypeVar

import orbax.checkpoint as ocp

from xla_shmem.train.config import ConfigError, TrainConfig, flag
from xla_shmem.train.job_folder import checkpoint_folder

_State = TypeVar("_State")

#: Fields on which the values of a run depend, beside the model and the corpus.
_SAME = ("batch", "sequence", "dtype", "fp8", "steps", "learning_rate", "warmup_steps", "seed")

#: Names that releases before 0.2 wrote.
_FORMER_NAMES = {"warmup_steps": "warmup"}


class Checkpoints:
    """The checkpoints in a job's folder; a checkpoint's number is that of the steps behind it.

    Saving is asynchronous, and a checkpoint appears under its name only when it is complete: a process that is killed
    leaves none that is half written. To be made, used and closed by all processes alike.

    Args:
      config: the job.
      tokens: in the corpus, which has to be the same one when the job goes on.
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
        """Waits for what is being written, unless an error ends the job."""
        if error is None:
            self._manager.close()

    def restore(self, abstract: _State) -> _State:
        """The newest checkpoint's state, with the shapes, types and shardings of `abstract`.

        Raises:
          ConfigError: the checkpoint is of a job that would have computed something else.
        """
        saved = self._manager.restore(self.newest, args=ocp.args.Composite(job=ocp.args.JsonRestore()))
        for name, value in self._facts.items():
            before = saved.job.get(name, saved.job.get(_FORMER_NAMES.get(name)))
            if before != value:
                raise ConfigError(
                    f"{self._folder} holds checkpoints of a job with {flag(name)} {before}, and this one has {value}; "
                    "going on exactly needs the same. Choose another --output to start anew."
                )
        restored = self._manager.restore(self.newest, args=ocp.args.Composite(state=ocp.args.StandardRestore(abstract)))
        state: _State = restored.state
        return state

    def due(self, steps: int) -> bool:
        """Whether a checkpoint is to be written after so many steps."""
        return steps % self._every == 0 or steps == self._last

    def save(self, steps: int, state: Any) -> None:
        """Starts to write a checkpoint; returns as soon as the state may be changed."""
        if steps == self.newest:
            return
        job = ocp.args.JsonSave(self._facts)
        state_args = ocp.args.StandardSave(state)
        self._manager.save(steps, args=ocp.args.Composite(state=state_args, job=job), force=True)
        self.newest = steps


def _facts(config: TrainConfig, tokens: int) -> dict[str, Any]:
    """What has to be the same for a job to go on exactly, as JSON gives it back."""
    same = {name: getattr(config, name) for name in _SAME}
    return {**dataclasses.asdict(config.model()), **same, "corpus_tokens": tokens}
