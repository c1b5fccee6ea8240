"""The environment, the port and the output of a rank."""

from __future__ import annotations

import os

from xla_shmem.launch.rank_environment import inside_a_job, platform_note, rank_environment, reserve_port
from xla_shmem.launch.rank_output import RankOutput, rank_prefix


def test_ranks_get_what_jax_looks_for() -> None:
    environ = rank_environment(
        {"OMPI_VERSION": "5.0", "PATH": "/bin"},
        rank=1,
        num_ranks=4,
        devices_per_process=2,
        port=1234,
        job="j",
    )
    assert environ["JAX_COORDINATOR_ADDRESS"] == "127.0.0.1:1234"
    assert environ["OMPI_COMM_WORLD_RANK"] == "1"
    assert environ["JAX_LOCAL_DEVICE_IDS"] == "2,3"
    assert environ["PATH"] == "/bin"
    assert "OMPI_VERSION" not in environ


def test_a_rank_is_distinguished_from_its_allocation() -> None:
    ours = rank_environment({}, rank=0, num_ranks=1, devices_per_process=None, port=1, job="j")
    assert inside_a_job(ours)
    allocation = {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "2", "KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    assert not inside_a_job({})
    assert not inside_a_job(allocation)
    assert inside_a_job(allocation | {"SLURM_STEP_NODELIST": "n[1-2]", "SLURM_PROCID": "1"})
    assert inside_a_job(allocation | {"JOB_COMPLETION_INDEX": "0"})


def test_device_ids_chosen_by_the_user_are_kept() -> None:
    environ = rank_environment(
        {"JAX_LOCAL_DEVICE_IDS": "0"}, rank=1, num_ranks=2, devices_per_process=1, port=1, job="j"
    )
    assert environ["JAX_LOCAL_DEVICE_IDS"] == "0"


def test_cpu_is_chosen_only_if_gpus_are_too_few_and_no_variable_chooses() -> None:
    assert platform_note({}, 4, 0) is None
    assert platform_note({}, 4, 4) is None
    assert platform_note({"JAX_PLATFORMS": "cuda"}, 4, 1) is None
    note = platform_note({}, 4, 1)
    assert note is not None
    assert "need 4 devices and this machine has 1 GPU(s)" in note


def test_reserved_port_is_not_given_to_another_process() -> None:
    holder, port = reserve_port()
    with holder:
        others = [reserve_port() for _ in range(50)]
        assert port not in [other for _, other in others]
        for other, _ in others:
            other.close()


def test_long_line_is_forwarded_in_pieces() -> None:
    read_end, write_end = os.pipe()
    with open(os.devnull, "wb") as sink:
        output = RankOutput(read_end, sink, b"")
        for _ in range(10):
            os.write(write_end, b"x" * 30000)
            assert output.forward()
    assert len(output._line) <= 64 * 1024
    os.close(write_end)
    os.close(read_end)


def test_prefix_is_as_wide_as_the_largest_rank() -> None:
    assert rank_prefix(3, 12, colour=False) == b"[ 3] "
    assert rank_prefix(0, 2, colour=True) == b"\x1b[36m[0]\x1b[0m "
