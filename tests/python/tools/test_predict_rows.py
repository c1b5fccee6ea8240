"""Table 2: the fitted constants, sketches, docs/predict.md and docs/data/predict.json agree with the rows."""

from __future__ import annotations

import pytest

import predict_page
from compiled_rows import read_rows
from fit_predict import CLUSTER, FITTED, errors, fit, forecasts, leave_one_out, programs, rms, with_fitted
from long_context.train.throughput import matmul_parameters, step_flops
from program_json import from_json, to_json
from published import TABLE2, Measured, Row
from sketch import sketch
from xla_shmem.predict.cluster import read_cluster
from xla_shmem.predict.constants import read_constants
from xla_shmem.predict.program import Program
from xla_shmem.predict.walk import Machine, run_times


@pytest.fixture(scope="module")
def rows() -> dict[Row, Program]:
    return read_rows()


def test_the_published_gains_are_those_of_the_post() -> None:
    gains = [f"{measured.gain * 100:.1f}" for measured in TABLE2.values()]
    assert gains == ["0.3", "1.3", "3.9", "0.7", "-0.2", "2.4", "36.3", "30.4"]
    assert [row.devices for row in TABLE2] == [4, 8, 16, 8, 16, 32, 32, 64]
    assert [row.tokens >> 10 for row in TABLE2] == [16, 8, 4, 16, 8, 4, 16, 8]


def test_every_row_of_the_table_is_kept(rows: dict[Row, Program]) -> None:
    assert list(rows) == list(TABLE2)
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


def test_the_constants_in_the_wheel_are_those_that_fit_best() -> None:
    of, kept = programs(), read_constants()
    assert fit(of) == kept
    least = rms(errors(forecasts(of, kept)))
    values = {name: getattr(kept, name) for name in FITTED}
    for name in FITTED:
        for factor in (0.97, 1.03):
            moved = {**values, name: values[name] * factor}
            assert rms(errors(forecasts(of, with_fitted(moved.values())))) > least, (name, factor)


def test_a_row_that_is_left_out_does_not_influence_its_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    few = dict(list(programs().items())[5:])
    row = next(iter(few))
    before = leave_one_out(few)[row]
    twice = {backend: 2 * tflops for backend, tflops in TABLE2[row].tflops.items()}
    monkeypatch.setitem(TABLE2, row, Measured(twice))
    assert leave_one_out(few)[row] == before


def test_the_model_gains_with_tensor_parallelism_and_not_without() -> None:
    found = forecasts(programs(), read_constants())
    assert min(each.gain for row, each in found.items() if row.tensor == 2) > 0.2
    assert max(each.gain for row, each in found.items() if row.tensor == 1) < 0.1


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
        assert drawn == pytest.approx(compiled, rel=0.05), row


def test_a_program_survives_json(rows: dict[Row, Program]) -> None:
    program = next(iter(rows.values()))
    assert from_json(to_json(program)) == program


def test_the_pages_show_the_numbers_of_the_model() -> None:
    for page, made_by in predict_page.tables().items():
        text = page.read_text()
        assert predict_page.write_tables(text, made_by) == text, "run: python tools/predict_page.py"
    assert predict_page.DATA.read_text() == predict_page.data(), "run: python tools/predict_page.py"


def test_a_page_without_a_table_is_refused() -> None:
    made_by = {"constants": list[str], "rows": list[str]}
    with pytest.raises(ValueError, match="the page marks constants; the tables are constants, rows"):
        predict_page.write_tables("<!-- table: constants -->\n<!-- end -->", made_by)


def _sent(program: Program) -> int:
    """Bytes of all permutes in one run."""
    total = 0
    for name, steps in program.computations.items():
        runs = program.executions[name] or 0
        started = [program.collectives[step.starts] for step in steps if step.starts is not None]
        total += runs * sum(each.bytes for each in started if each.op == "collective-permute")
    return total
