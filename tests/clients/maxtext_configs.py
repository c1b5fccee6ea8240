"""Small MaxText models, each split over its ranks in another way."""

from __future__ import annotations

from dataclasses import dataclass

# One device a rank. `gpu_multiprocess` leaves the search for the job to JAX; with `cpu` MaxText looks up the
# coordinator's address, which has a port, as a bare host name.
_JOB = (
    "hardware=gpu_multiprocess",
    "dataset_type=synthetic",
    "enable_checkpointing=false",
    "enable_goodput_recording=false",
    "attention=dot_product",
    "learning_rate=0.01",
)

_MODEL = (
    "base_emb_dim=64",
    "base_num_query_heads=4",
    "base_num_kv_heads=4",
    "head_dim=16",
    "base_mlp_dim=128",
    "vocab_size=256",
    "max_target_length=64",
    "per_device_batch_size=2",
    "base_num_decoder_layers=2",
    "dtype=float32",
)

_MOE = ("decoder_block=mixtral", "base_moe_mlp_dim=128", "num_experts=4", "num_experts_per_tok=2", "megablox=false")
# Each rank sends its tokens to the experts' ranks: ragged all-to-all, which stock XLA:CPU refuses to compile.
_SPARSE = (*_MOE, "sparse_matmul=true")
_DENSE = (*_MOE, "sparse_matmul=false")
# Without TransformerEngine MaxText ends at once, with exit code 0, if the sequence is to be reordered.
_CONTEXT = ("context_parallel_load_balance=false",)
# MaxText 0.2.5 fails with scan_layers=false: it does not take a stage's output out of the tuple that it is in.
_PIPELINE = ("num_pipeline_microbatches=4",)


@dataclass(frozen=True)
class MaxTextConfig:
    """A model and the ranks that train it.

    Attributes:
      name: of the test.
      parallelism: number of parts along each axis; their product is the number of ranks.
      arguments: further keys of MaxText.
      stock: whether stock XLA:CPU can compile it.
    """

    name: str
    parallelism: dict[str, int]
    arguments: tuple[str, ...] = ()
    stock: bool = True

    @property
    def ranks(self) -> int:
        """Number of processes."""
        product = 1
        for parts in self.parallelism.values():
            product *= parts
        return product

    def keys(self, steps: int) -> list[str]:
        """MaxText's keys for a run of so many steps."""
        axes = {"fsdp": 1} | self.parallelism
        split = [f"ici_{axis}_parallelism={parts}" for axis, parts in axes.items()]
        return [*_JOB, *_MODEL, *split, *self.arguments, f"steps={steps}"]


CONFIGS = (
    MaxTextConfig("data", {"data": 2}),
    MaxTextConfig("fsdp", {"fsdp": 2}),
    MaxTextConfig("fsdp-bf16", {"fsdp": 2}, ("dtype=bfloat16",)),
    MaxTextConfig("tensor", {"tensor": 2}),
    MaxTextConfig("context", {"context": 2}, _CONTEXT),
    MaxTextConfig("pipeline", {"pipeline": 2}, _PIPELINE),
    MaxTextConfig("expert-dense", {"expert": 2}, _DENSE),
    MaxTextConfig("expert-sparse", {"expert": 2}, _SPARSE, stock=False),
    MaxTextConfig("data-fsdp", {"data": 2, "fsdp": 2}),
    MaxTextConfig("fsdp-tensor", {"fsdp": 2, "tensor": 2}),
    MaxTextConfig("context-tensor", {"context": 2, "tensor": 2}, _CONTEXT),
    MaxTextConfig("data-pipeline", {"data": 2, "pipeline": 2}, _PIPELINE),
    MaxTextConfig("fsdp-expert-dense", {"fsdp": 2, "expert": 2}, _DENSE),
    MaxTextConfig("fsdp-expert-sparse", {"fsdp": 2, "expert": 2}, _SPARSE, stock=False),
)
BY_NAME = {config.name: config for config in CONFIGS}
