"""The checkpoints in a job's folder, and whether a job may start there. Free of JAX."""

from __future__ import annotations

from pathlib import Path

from long_context.train.config import ConfigError, TrainConfig


def checkpoint_folder(config: TrainConfig) -> Path:
    """Folder of a job's checkpoints; each is a folder whose name is the number of steps done."""
    return Path(config.output).resolve() / "checkpoints"


def newest_checkpoint(config: TrainConfig) -> int | None:
    """Steps done in the newest complete checkpoint; None if there is none."""
    folder = checkpoint_folder(config)
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return max((int(name) for name in names if name.isdecimal()), default=None)


def check_folder(config: TrainConfig) -> None:
    """Makes sure that a new job does not mix its checkpoints with those of another job.

    Raises:
      ConfigError: the folder contains checkpoints, and the job does not resume.
    """
    newest = newest_checkpoint(config)
    if newest is not None and not config.resume:
        raise ConfigError(
            f"output {config.output} holds a checkpoint after {newest} steps; --resume continues from there, another "
            "--output starts a new job."
        )
