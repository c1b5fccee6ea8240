"""What a training job keeps in its folder, and whether it may start there. Free of JAX."""

from __future__ import annotations

from pathlib import Path

from xla_shmem.train.config import ConfigError, TrainConfig


def checkpoint_folder(config: TrainConfig) -> Path:
    """Where a job's checkpoints are, each in a folder named by the steps behind it."""
    return Path(config.output).resolve() / "checkpoints"


def newest_checkpoint(config: TrainConfig) -> int | None:
    """Steps behind the newest complete checkpoint; None if there is none."""
    folder = checkpoint_folder(config)
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return max((int(name) for name in names if name.isdecimal()), default=None)


def check_folder(config: TrainConfig) -> None:
    """Sees to it that a new job does not take an older one's checkpoints for its own.

    Raises:
      ConfigError: the folder holds checkpoints, and the job does not say that it goes on from them.
    """
    newest = newest_checkpoint(config)
    if newest is not None and not config.resume:
        raise ConfigError(
            f"output {config.output} holds a checkpoint after {newest} steps; --resume goes on from there, another "
            "--output starts anew."
        )
