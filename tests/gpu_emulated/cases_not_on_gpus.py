"""The cases of tests/e2e that GPUs cannot run here, each with the reason. A test compares them with what happens."""

from __future__ import annotations

# xla-shmem carries all-reduce and collective-permute between GPUs. The other ops, reductions of predicates and of
# complex numbers, logical reductions, and sizes above XLA_SHMEM_THRESHOLD stay on NCCL, which is not emulated.
_LEFT_ON_NCCL = {
    "all-gather": ("gathered_results_are_equal_on_all_ranks", "gathers_along_each_dimension"),
    "all-gather, all-to-all": (
        "narrow_types_move_as_stock_moves_them",
        *(
            f"gather_and_exchange_keep_every_bit_of_{dtype}"
            for dtype in (
                *("bfloat16", "bool", "complex64", "float16", "float32", "float64"),
                *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
            )
        ),
    ),
    "all-gather, all-to-all, reduce-scatter": (
        "every_op_in_a_loop_stays_right",
        "every_op_in_a_scan_and_a_branch_stays_right",
        "every_op_on_overlapping_subsets_of_the_devices",
        "every_op_over_all_devices_in_any_order",
        "every_op_over_each_axis_of_a_mesh",
        "every_op_over_groups_chosen_by_index",
        "gloo_collectives_stay_beside_ours_in_one_program",
        "gradients_flow_through_every_op",
        "many_independent_ops_in_one_program_do_not_mix",
        "programs_with_other_groups_take_turns",
        "several_runs_in_flight_do_not_mix",
        "sharded_training_step_equals_stock",
        "sizes_around_every_limit_are_right",
        "vmap_batches_every_op",
    ),
    "all-reduce": (
        "any_and_all_of_sharded_predicates_equal_stock",
        "partitioner_inserts_logical_reductions",
        "sum_at_the_threshold_stays_on_gloo_beside_ours",
    ),
    "all-reduce, reduce-scatter": (
        "narrow_floats_are_summed_as_stock_sums_them",
        "sums_and_products_of_complex_numbers",
    ),
    "all-to-all": (
        "exchanges_between_each_two_dimensions",
        "exchanges_of_whole_arrays_in_loops_stay_right",
        "partitioner_inserts_gathers_scatters_and_exchanges",
        "results_at_a_limit_stay_on_gloo",
    ),
    "collective-broadcast": (
        "broadcast_in_a_loop_hands_the_root_around",
        "broadcast_in_groups_leaves_zeros_where_there_is_none",
        "broadcast_of_any_size_and_type_arrives",
        "broadcast_reaches_everybody_from_any_root",
    ),
    "reduce-scatter": (
        "reductions_of_floats_pass_nan_on",
        "scattered_sums_of_any_numbers_differ_by_rounding_only",
        "scattered_sums_of_every_type",
        "scatters_along_each_dimension",
    ),
}

#: Case -> what the worker reports instead of a result.
NOT_ON_GPUS = {name: f"NCCL: {ops}" for ops, names in _LEFT_ON_NCCL.items() for name in names} | {
    # XLA removes collectives of no elements, so the case only compares with stock JAX.
    "empty_arrays_are_no_trouble": "stock",
}

#: XLA:GPU itself ends the process: it has no logical reduction in a reduce-scatter. Not run.
END_THE_PROCESS = ("every_reduction_of_every_integer_type", "every_reduction_of_predicates")

#: Their modules have no collective, since XLA removes those of no elements.
NO_COLLECTIVE_RUNS = ("permute_of_no_elements_is_no_trouble",)
