"""The compiled rows of Table 2: the fitted constant, sketches and docs/predict.md agree with them."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import predict_page
from compiled_rows import CLUSTER, read_rows
from fit_predict import TRIED, Fit, gains
from program_json import from_json, to_json
from published_gains import Band, read_bands
from table2 import ROWS, Row
from xla_shmem.predict.cluster import read_cluster
from xla_shmem.predict.constants import read_constants
from xla_shmem.predict.program import Program
from xla_shmem.predict.sketch import sketch
from xla_shmem.predict.walk import Machine, run_times
from xla_shmem.train.throughput import matmul_parameters, step_flops

_PAGE = Path(__file__).parents[3] / "docs/predict.md"


@pytest.fixture(scope="module")
def rows() -> dict[Row, Program]:
    return read_rows()


@pytest.fixture(scope="module")
def fit(rows: dict[Row, Program]) -> Fit:
    return Fit(rows)


def test_every_row_of_the_table_is_kept(rows: dict[Row, Program]) -> None:
    assert list(rows) == list(ROWS)
    for row, program in rows.items():
        assert program.devices == row.context * row.tensor
        assert all(collective.in_domain for collective in program.collectives.values())


def test_compiled_rows_do_the_arithmetic_of_the_model(rows: dict[Row, Program]) -> None:
    for row, program in rows.items():
        job = row.job()
        model = step_flops(job.model(), 1, row.sequence)
        # The forward of the layers again (full remat), and the scores again in the backward of attention.
        layers = matmul_parameters(job.model()) - job.model().width * job.model().vocab
        attention = model - 6 * matmul_parameters(job.model()) * row.sequence
        expected = model + 2 * layers * row.sequence + attention * (2 / 6 + 1 / 6)
        assert program.flops(program.entry) * program.devices == pytest.approx(expected, rel=0.06), row


def test_the_constant_in_the_wheel_is_the_one_that_fits_best(fit: Fit) -> None:
    bands = read_bands()
    kept = read_constants().channel_gb_per_s
    assert kept == fit.best(bands)
    least = math.fsum(fit.error(band, kept) ** 2 for band in bands)
    assert all(least <= math.fsum(fit.error(band, value) ** 2 for band in bands) for value in TRIED)


def test_a_band_that_is_left_out_does_not_influence_its_fit(fit: Fit) -> None:
    short, long = read_bands()
    for left, other in zip(fit.leave_one_out([short, long]), (long, short), strict=True):
        assert left.channel_gb_per_s == fit.best([other])
        assert left.error == pytest.approx(fit.error(left.band, left.channel_gb_per_s))


def test_the_error_is_zero_if_both_ends_of_the_band_are_predicted() -> None:
    band = Band(65536, 0.0, 0.5)
    assert band.error([0.0, 0.2, 0.5]) == 0
    assert band.error([0.1, 0.8]) == pytest.approx((0.1 + 0.2) / 2)


def test_gains_grow_with_the_size_of_the_communicator(rows: dict[Row, Program]) -> None:
    found = gains(rows, read_constants())
    for sequence in (64 << 10, 128 << 10, 256 << 10):
        of_length = [gain for row, gain in found.items() if row.sequence == sequence]
        assert of_length == sorted(of_length), "rows of a length are in the order of their GPUs"
    assert all(gain > 0 for gain in found.values())


def test_sketches_send_what_compiled_steps_send(rows: dict[Row, Program]) -> None:
    for row, program in rows.items():
        drawn = sketch(row.job(), read_cluster(CLUSTER))
        assert _sent(drawn) == pytest.approx(_sent(program), rel=0.01), row


def test_sketches_take_about_as_long_as_compiled_steps(rows: dict[Row, Program]) -> None:
    cluster = read_cluster(CLUSTER)
    machine = Machine(cluster, read_constants())
    for row, program in rows.items():
        compiled = run_times(program, "NVSHMEM", machine).step
        drawn = run_times(sketch(row.job(), cluster), "NVSHMEM", machine).step
        assert drawn == pytest.approx(compiled, rel=0.12), row


def test_a_program_survives_json(rows: dict[Row, Program]) -> None:
    program = next(iter(rows.values()))
    assert from_json(to_json(program)) == program


def test_the_page_shows_the_numbers_of_the_model(rows: dict[Row, Program], fit: Fit) -> None:
    text = _PAGE.read_text()
    assert predict_page.write_tables(text, rows, fit) == text, "run: python tools/predict_page.py docs/predict.md"


def test_a_page_without_a_table_is_refused(rows: dict[Row, Program], fit: Fit) -> None:
    with pytest.raises(ValueError, match="the page marks constants; the tables are constants, rows"):
        predict_page.write_tables("<!-- table: constants -->\n<!-- end -->", rows, fit)


def _sent(program: Program) -> int:
    """Bytes of all permutes in one run."""
    total = 0
    for name, steps in program.computations.items():
        runs = program.executions[name] or 0
        started = [program.collectives[step.starts] for step in steps if step.starts is not None]
        total += runs * sum(each.bytes for each in started if each.op == "collective-permute")
    return total
