"""The cases of tests/e2e that GPUs cannot run here, each with the reason. A test compares them with what happens."""

from __future__ import annotations

# Sizes above XLA_SHMEM_THRESHOLD or a limit stay on NCCL, which is not emulated.
_LEFT_ON_NCCL = {
    "all-reduce": ("sum_at_the_threshold_stays_on_gloo_beside_ours",),
    "all-to-all": ("results_at_a_limit_stay_on_gloo",),
    "all-to-all, reduce-scatter": ("gloo_collectives_stay_beside_ours_in_one_program",),
}

# The cases compare with stock JAX only, whose collectives are NCCL's.
_COMPARED_WITH_STOCK = (
    *(
        f"gather_and_exchange_keep_every_bit_of_{dtype}"
        for dtype in (
            *("bfloat16", "bool", "complex64", "float16", "float32", "float64"),
            *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        )
    ),
    "any_and_all_of_sharded_predicates_equal_stock",
    "every_op_in_a_loop_stays_right",
    "every_op_in_a_scan_and_a_branch_stays_right",
    "every_op_on_overlapping_subsets_of_the_devices",
    "every_op_over_all_devices_in_any_order",
    "every_op_over_each_axis_of_a_mesh",
    "every_op_over_groups_chosen_by_index",
    "exchanges_between_each_two_dimensions",
    "exchanges_of_whole_arrays_in_loops_stay_right",
    "gathers_along_each_dimension",
    "gradients_flow_through_every_op",
    "many_independent_ops_in_one_program_do_not_mix",
    "narrow_floats_are_summed_as_stock_sums_them",
    "narrow_types_move_as_stock_moves_them",
    "partitioner_inserts_gathers_scatters_and_exchanges",
    "programs_with_other_groups_take_turns",
    "scattered_sums_of_any_numbers_differ_by_rounding_only",
    "scattered_sums_of_every_type",
    "scatters_along_each_dimension",
    "several_runs_in_flight_do_not_mix",
    "sharded_training_step_equals_stock",
    "sizes_around_every_limit_are_right",
    "vmap_batches_every_op",
    # XLA removes collectives of no elements.
    "empty_arrays_are_no_trouble",
)

#: Case -> what the worker reports instead of a result.
NOT_ON_GPUS = {name: f"NCCL: {ops}" for ops, names in _LEFT_ON_NCCL.items() for name in names} | dict.fromkeys(
    _COMPARED_WITH_STOCK, "stock"
)

#: XLA:GPU itself ends the process: it has no logical reduction in a reduce-scatter. Not run.
END_THE_PROCESS = ("every_reduction_of_every_integer_type", "every_reduction_of_predicates")

#: Their modules have no collective, since XLA removes those of no elements.
NO_COLLECTIVE_RUNS = ("permute_of_no_elements_is_no_trouble",)
