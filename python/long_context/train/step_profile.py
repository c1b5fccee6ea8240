"""Records steps of a training job with jax.profiler."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

import jax

from long_context.train.config import STEPS_BEFORE_PROFILE, TrainConfig


class StepProfile:
    """Records the steps that `config.profile_steps` asks for, on this rank, in a folder of its own. A context manager.

    Args:
      config: the job.
      first: the first step that this job runs.
    """

    def __init__(self, config: TrainConfig, first: int) -> None:
        self._begin = first + STEPS_BEFORE_PROFILE
        self._end = self._begin + config.profile_steps
        self._folder = Path(config.output) / "profile" / f"rank-{jax.process_index()}"
        self._records = False

    def __enter__(self) -> StepProfile:
        return self

    def before(self, step: int) -> None:
        """To be called before each step, with nothing of earlier steps under way, and once behind the last."""
        if self._records and step == self._end:
            self._stop()
        elif step == self._begin < self._end:
            jax.profiler.start_trace(str(self._folder))
            self._records = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _stop(self) -> None:
        if self._records:
            jax.profiler.stop_trace()
        self._records = False
