"""How much arithmetic a training step is: model FLOPs, the numerator of TFLOP/s. Free of JAX."""

from __future__ import annotations

from xla_shmem.models.config import LlamaConfig


def matmul_parameters(model: LlamaConfig) -> int:
    """Parameters that every token is multiplied with: all but norms and the embedding's table, which is looked up.

    The output layer counts, also where its matrix is the embedding's.
    """
    attention = 2 * model.width * (model.heads + model.kv_heads) * model.head_dim  # query and output, key and value
    mlp = 3 * model.width * model.hidden
    return model.layers * (attention + mlp) + model.width * model.vocab


def step_flops(model: LlamaConfig, batch: int, sequence: int) -> float:
    """Floating-point operations of a step, over all devices; a multiplication and an addition are two.

    6 for each parameter and token (2 forward, 4 backward), and for attention's two products 6 for each layer, feature
    and visible pair of tokens twice over: 12 for every pair, of which the causal mask leaves half. What a backward pass
    computes again (remat) does not count. This is PaLM's model FLOPs (arXiv:2204.02311, appendix B) with causal
    attention, the count of MaxText's `calculate_tflops_training_per_device`.

    Args:
      model: sizes.
      batch: sequences in the step, over all devices.
      sequence: tokens in each.
    """
    tokens = batch * sequence
    attention = 12 * model.layers * model.heads * model.head_dim * tokens * sequence / 2
    return 6.0 * matmul_parameters(model) * tokens + attention
