"""What is different about the cases of tests/e2e on GPUs. A test compares it with what happens."""

from __future__ import annotations

#: Cases that run collectives on NCCL too, because of their size, and the ops.
LEFT_ON_NCCL = {
    "gloo_collectives_stay_beside_ours_in_one_program": ["all-to-all", "reduce-scatter"],
    "independent_loops_branches_and_collectives_of_both_backends_do_not_mix": ["all-to-all"],
    "sum_at_the_threshold_stays_on_gloo_beside_ours": ["all-reduce"],
}

#: The same with four ranks, whose all-to-alls are larger.
LEFT_ON_NCCL_BY_FOUR = {"sizes_around_every_limit_are_right": ["all-to-all"]}

#: Not run. XLA:GPU ends the process in the first two: it has no logical reduction in a reduce-scatter. In the last, the
#: order of a GPU's lanes decides.
NOT_RUN = (
    "every_reduction_of_every_integer_type",
    "every_reduction_of_predicates",
    "where_ragged_rows_overlap_the_later_members_hold",
)

#: Modules of the first two have no collective, since XLA removes those of no elements. The third only compiles.
NO_COLLECTIVE_RUNS = (
    "empty_arrays_are_no_trouble",
    "permute_of_no_elements_is_no_trouble",
    "results_at_a_limit_stay_on_gloo",
)
