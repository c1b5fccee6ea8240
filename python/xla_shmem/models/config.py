"""Shape of a Llama-style decoder. Free of JAX, so that options can be checked before any process starts."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class LlamaConfig:
    """Sizes of a Llama-style decoder.

    Attributes:
      vocab: number of token values.
      width: features of the residual stream.
      layers: number of decoder layers.
      heads: query heads; each has `width / heads` features.
      kv_heads: key/value heads; each serves `heads / kv_heads` query heads (grouped-query attention).
      hidden: features between the SwiGLU projections.
      rope_theta: base of the rotary frequencies.
      norm_eps: added to the mean square under the root of RMSNorm.

    Raises:
      ValueError: a size that does not divide as the model needs it; the message says how to fix it.
    """

    vocab: int = 256
    width: int = 128
    layers: int = 4
    heads: int = 4
    kv_heads: int = 2
    hidden: int = 384
    rope_theta: float = 10000.0
    norm_eps: float = 1e-5

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

    @property
    def head_dim(self) -> int:
        """Features of one head."""
        return self.width // self.heads
