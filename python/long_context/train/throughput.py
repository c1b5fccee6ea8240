"""Model FLOPs of a training step, the numerator of TFLOP/s. Free of JAX."""

from __future__ import annotations

from long_context.models.llama_config import LlamaConfig


def matmul_parameters(model: LlamaConfig) -> int:
    """Parameters that every token is multiplied with: all except norms, the embedding table, which is looked up, and
    the experts that do not compute the token.

    The output layer counts even if its matrix is the embedding's.
    """
    attention = 2 * model.width * (model.heads + model.kv_heads) * model.head_dim  # query and output, key and value
    mlp = 3 * model.width * model.hidden * (model.experts_per_token if model.experts else 1)
    mlp += model.width * model.experts  # the router
    return model.layers * (attention + mlp) + model.width * model.vocab


def step_flops(model: LlamaConfig, batch: int, sequence: int) -> float:
    """Floating-point operations of a step over all devices; a multiplication and an addition are two operations.

    6 per parameter and token (2 forward, 4 backward). Attention has two products, so 12 per layer, feature and pair of
    tokens; the causal mask leaves half of the pairs. Recomputation in the backward pass (remat) does not count. These
    are PaLM's model FLOPs (arXiv:2204.02311, appendix B) with causal attention, as counted by MaxText's
    `calculate_tflops_training_per_device`.

    Args:
      model: sizes of the model.
      batch: sequences in the step, over all devices.
      sequence: tokens in a sequence.
    """
    tokens = batch * sequence
    attention = 12 * model.layers * model.heads * model.head_dim * tokens * sequence / 2
    return 6.0 * matmul_parameters(model) * tokens + attention
