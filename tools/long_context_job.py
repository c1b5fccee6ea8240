"""The training job that predictions start from: Llama 3 8B on one long sequence."""

from __future__ import annotations

from long_context.train.config import TrainConfig


def long_context_job(sequence: int = 64 << 10, context: int = 4, tensor: int = 1) -> TrainConfig:
    """One sequence per step in bf16 with ring attention and full remat; the defaults are the first row of Table 2.

    Args:
      sequence: tokens.
      context: degree of context parallelism; parameters are sharded over it.
      tensor: degree of tensor parallelism.
    """
    return TrainConfig(
        preset="8b",
        sequence=sequence,
        context=context,
        tensor=tensor,
        batch=1,
        dtype="bf16",
        remat="full",
        attention="ring",
        shard_over_context=True,
    )
