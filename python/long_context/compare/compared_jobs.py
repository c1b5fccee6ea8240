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


def plan(
    config: TrainConfig, sequences: Sequence[int], contexts: Sequence[int], tensors: Sequence[int]
) -> list[TrainConfig]:
    """The jobs, ordered by mesh and then by length.

    Raises:
      ConfigError: a job cannot run, has no ring to compare, or has no measured steps.
    """
    if config.attention != "ring":
        raise ConfigError(f"attention is {config.attention}; compare measures the ring's transfers: choose ring.")
    first = MEASURED[0]
    if config.steps < first + 2:
        raise ConfigError(
            f"steps is {config.steps}; step times are measured from step {first} on: choose at least {first + 2}."
        )
    jobs = []
    for context in contexts:
        for tensor in tensors:
            if context < 2:
                raise ConfigError(f"context is {context}; a ring of one rank sends nothing: choose at least 2.")
            for sequence in sequences:
                jobs.append(dataclasses.replace(config, context=context, tensor=tensor, sequence=sequence))
    return jobs
