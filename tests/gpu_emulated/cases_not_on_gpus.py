"""The cases of tests/e2e that GPUs cannot run here, each with the reason. A test compares them with what happens."""

from __future__ import annotations

# Sizes above XLA_SHMEM_THRESHOLD or a limit stay on NCCL, which is not emulated.
_LEFT_ON_NCCL = {
    "all-reduce": ("sum_at_the_threshold_stays_on_gloo_beside_ours",),
    "all-to-all": ("results_at_a_limit_stay_on_gloo",),
}

#: Case -> what the worker reports instead of a result.
NOT_ON_GPUS = {name: f"NCCL: {ops}" for ops, names in _LEFT_ON_NCCL.items() for name in names}

#: Not run. XLA:GPU ends the process in the first two: it has no logical reduction in a reduce-scatter. The third needs
#: gloo, and the limits that it is about are higher here. In the last, the order of a GPU's lanes decides.
NOT_RUN = (
    "every_reduction_of_every_integer_type",
    "every_reduction_of_predicates",
    "gloo_collectives_stay_beside_ours_in_one_program",
    "where_ragged_rows_overlap_the_later_members_hold",
)

#: Their modules have no collective, since XLA removes those of no elements.
NO_COLLECTIVE_RUNS = ("empty_arrays_are_no_trouble", "permute_of_no_elements_is_no_trouble")
