"""The jobs of `xla-shmem compare`: one for every sequence length and degree of parallelism. Free of JAX."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from long_context.train.config import ConfigError, TrainConfig, flag
from long_context.train.step_times import MEASURED


def read_list(name: str, text: str) -> tuple[int, ...]:
    """Reads a list such as `1024,4096`; duplicates are dropped, the order is kept.

    Raises:
      ConfigError: `text` is not such a list.
    """
    try:
        numbers = [int(each) for each in text.split(",")]
    except ValueError:
        raise ConfigError(f"{flag(name)} is '{text}'; it must be a list of numbers such as 2,4.") from None
    return tuple(dict.fromkeys(numbers))


def compared_jobs(
    config: TrainConfig, sequences: Sequence[int], contexts: Sequence[int], tensors: Sequence[int]
) -> list[TrainConfig]:
    """The jobs, ordered by mesh and then by length.

    Raises:
      ConfigError: a job cannot run, has one rank only, or has no measured steps.
    """
    first = MEASURED[0]
    if config.steps < first + 2:
        raise ConfigError(
            f"steps is {config.steps}; step times are measured from step {first} on: choose at least {first + 2}."
        )
    jobs = [
        dataclasses.replace(config, context=context, tensor=tensor, sequence=sequence)
        for context in contexts
        for tensor in tensors
        for sequence in sequences
    ]
    if any(job.devices < 2 for job in jobs):
        raise ConfigError("a mesh of one rank sends nothing: choose at least 2 ranks (context, tensor, data, …).")
    return jobs
