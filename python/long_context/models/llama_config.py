"""Sizes of a Llama decoder. Free of JAX, so that options can be checked before any process starts."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class RopeScaling:
    """The scaling of rotary frequencies with which Llama 3.1 extends its sequence length.

    Attributes:
      factor: low frequencies are divided by it.
      low: frequencies with fewer than `low` periods in `original` positions are low.
      high: frequencies with more than `high` periods are high and do not change. Between the two they are blended.
      original: positions that the unscaled model was trained on.

    Raises:
      ValueError: the numbers are out of range.
    """

    factor: float = 8.0
    low: float = 1.0
    high: float = 4.0
    original: int = 8192

    def __post_init__(self) -> None:
        if not (self.factor >= 1 and 0 < self.low < self.high and self.original >= 1):
            raise ValueError(f"{self} must have factor >= 1, 0 < low < high and original >= 1.")


@dataclasses.dataclass(frozen=True)
class LlamaConfig:
    """Sizes and structure of a Llama decoder.

    Attributes:
      vocab: number of token values.
      width: features of the residual stream.
      layers: number of decoder layers.
      heads: query heads; each has `width / heads` features.
      kv_heads: key/value heads; each serves `heads / kv_heads` query heads (grouped-query attention).
      hidden: features between the SwiGLU projections.
      rope_theta: base of the rotary frequencies.
      rope_scaling: scaling of these frequencies (Llama 3.1 and later); None for none, as in Llama 3.
      norm_eps: epsilon of RMSNorm, added to the mean square.
      tied_head: the output matrix is the embedding's transpose instead of a matrix of its own.
      parallel_block: attention and MLP read the same normalised input and are added together, instead of one
        after the other.
      qk_norm: queries and keys are normalised over the features of a head before rotation.
      experts: SwiGLU networks of a mixture, as in Mixtral; 0 for a dense model with one.
      experts_per_token: experts that compute a token.
      router_loss: weight of the loss that spreads the tokens evenly over the experts.

    Raises:
      ValueError: a size does not divide as the model needs; the message says how to fix it.
    """

    vocab: int = 256
    width: int = 128
    layers: int = 4
    heads: int = 4
    kv_heads: int = 2
    hidden: int = 384
    rope_theta: float = 10000.0
    rope_scaling: RopeScaling | None = None
    norm_eps: float = 1e-5
    tied_head: bool = False
    parallel_block: bool = False
    qk_norm: bool = False
    experts: int = 0
    experts_per_token: int = 2
    router_loss: float = 0.02

    def __post_init__(self) -> None:
        for name in ("vocab", "width", "layers", "heads", "kv_heads", "hidden"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name.replace('_', '-')} is {getattr(self, name)}; it must be at least 1.")
        if self.width % self.heads:
            raise ValueError(
                f"width {self.width} does not divide into {self.heads} heads; "
                f"choose a width that is a multiple of {self.heads}."
            )
        if self.head_dim % 2:
            raise ValueError(
                f"width {self.width} over {self.heads} heads gives {self.head_dim} features a head; rotary "
                "embedding pairs them up, so the number must be even."
            )
        if self.heads % self.kv_heads:
            raise ValueError(
                f"{self.heads} heads do not divide into {self.kv_heads} key/value heads; "
                f"choose kv-heads among the divisors of {self.heads}."
            )
        if self.experts and not 1 <= self.experts_per_token <= self.experts:
            raise ValueError(
                f"{self.experts_per_token} of {self.experts} experts compute a token; choose 1 to {self.experts}."
            )
        if self.experts and self.parallel_block:
            raise ValueError("parallel-block has no mixture of experts; choose another preset or no-parallel-block.")

    @property
    def head_dim(self) -> int:
        """Features of one head."""
        return self.width // self.heads

    @property
    def kv_width(self) -> int:
        """Features of all keys of a token, and of all its values."""
        return self.kv_heads * self.head_dim


_TINY = LlamaConfig(width=64, layers=2, heads=8, kv_heads=4, hidden=192)
_LLAMA3_8B = LlamaConfig(vocab=128256, width=4096, layers=32, heads=32, kv_heads=8, hidden=14336, rope_theta=500000.0)
_MISTRAL_7B = dataclasses.replace(_LLAMA3_8B, vocab=32768, rope_theta=1e6)  # v0.3, without a sliding window

#: `tiny`s and `demo` use bytes as tokens; the others have the published sizes of Llama 3.2 1B, Llama 3 8B, Llama 3.1
#: 8B, Mistral 7B v0.3 and Mixtral 8x7B.
PRESETS = {
    "tiny": _TINY,
    "tiny-3.1": dataclasses.replace(_TINY, rope_theta=500000.0, rope_scaling=RopeScaling(original=64)),
    "tiny-moe": dataclasses.replace(_TINY, hidden=96, experts=8),
    "demo": LlamaConfig(),
    "1b": LlamaConfig(
        vocab=128256,
        width=2048,
        layers=16,
        heads=32,
        kv_heads=8,
        hidden=8192,
        rope_theta=500000.0,
        rope_scaling=RopeScaling(factor=32.0),
        tied_head=True,
    ),
    "8b": _LLAMA3_8B,
    "llama3.1-8b": dataclasses.replace(_LLAMA3_8B, rope_scaling=RopeScaling()),
    "mistral-7b": _MISTRAL_7B,
    "mixtral-8x7b": dataclasses.replace(_MISTRAL_7B, vocab=32000, experts=8),
}


def parameter_count(config: LlamaConfig) -> int:
    """Number of trained parameters."""
    attention = 2 * config.width * (config.width + config.kv_width)  # query and output, key and value
    mlp = 3 * config.width * config.hidden * (config.experts or 1) + config.width * config.experts  # and the router
    norms = config.width * (1 if config.parallel_block else 2) + (2 * config.head_dim if config.qk_norm else 0)
    embedding = config.vocab * config.width
    return embedding * (1 if config.tied_head else 2) + config.layers * (attention + mlp + norms) + config.width
