"""Writes the tables of docs/predict.md and docs/table2.md that compare predictions with NVIDIA's post.

    python tools/predict_page.py

The tables stand between comments that mark them; other text stays.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from compiled_rows import read_rows
from fit_predict import CLUSTER, FITTED, MAXTEXT, errors, fit, forecasts, leave_one_out, programs, rms
from long_context_job import long_context_job
from published import TABLE2, Row, other
from sketch import OURS, sketch
from xla_shmem.predict.cluster import read_cluster
from xla_shmem.predict.constants import read_constants, sources
from xla_shmem.predict.forecast import BACKENDS, forecast
from xla_shmem.predict.printed_forecasts import format_seconds
from xla_shmem.predict.program import Backend, Program
from xla_shmem.predict.walk import Machine

_DOCS = Path(__file__).parents[1] / "docs"

#: GPUs of a node in the post.
_NODE = 4

Tables = Mapping[str, Callable[[], list[str]]]


def tables() -> Mapping[Path, Tables]:
    """For each page what makes its marked tables."""
    rows = programs()
    return {
        _DOCS / "predict.md": {
            "constants": _constants,
            "rows": lambda: _rows(rows),
            "slices": _slices,
            "others": _others,
        },
        _DOCS / "table2.md": {"published": lambda: _published(read_rows())},
    }


def write_tables(text: str, made_by: Tables) -> str:
    """The page with every marked table replaced.

    Raises:
      ValueError: the page marks an unknown table, or lacks one.
    """
    marks = re.findall(r"<!-- table: ([\w-]+) -->", text)
    if sorted(marks) != sorted(made_by):
        raise ValueError(f"the page marks {', '.join(marks)}; the tables are {', '.join(made_by)}.")
    for name, make in made_by.items():
        made = "\n".join(make())
        before, mark, rest = text.partition(f"<!-- table: {name} -->\n")
        _, end, after = rest.partition("<!-- end -->")
        text = f"{before}{mark}{made}\n{end}{after}"
    return text


def _constants() -> list[str]:
    return _table(
        ["constant", "value", "source"],
        "-:-",
        ([f"`{name}`", f"{value:g}", source] for name, value, source in sources()),
    )


def _rows(of: Mapping[Row, Program]) -> list[str]:
    """Published and predicted numbers of each row, and the errors with the row left out of the fit."""
    left_out = leave_one_out(of)
    lines = []
    for row, found in forecasts(of, read_constants()).items():
        cells = [str(row), str(row.devices), *_tflops(TABLE2[row].tflops), _percent(TABLE2[row].gain)]
        for each in (found, left_out[row]):
            cells += [_percent(error) for error in np.expm1(errors({row: each})[0])] + [_percent(each.gain)]
        lines.append(cells)
    columns = ["row", "GPUs", "published: DEFAULT", "NVSHMEM", "gain", "fitted to all: error of DEFAULT"]
    columns += ["of NVSHMEM", "gain", "fitted without the row: error of DEFAULT", "of NVSHMEM", "gain"]
    return _table(columns, "-" + ":" * 10, lines)


def _slices() -> list[str]:
    """The fit with other numbers of exchanges on the tensor axis."""
    lines = []
    for backward in (OURS.backward, MAXTEXT.backward, (12, 9)):
        forward = OURS.forward if backward == OURS.backward else MAXTEXT.forward
        of = programs(dataclasses.replace(MAXTEXT, forward=forward, backward=backward))
        constants = fit(of)
        found = forecasts(of, constants)
        gains = [_percent(each.gain) for row, each in found.items() if row.tensor > 1]
        fitted = [f"{getattr(constants, name):g}" for name in FITTED]
        lines.append([str(sum(forward + backward)), *fitted, f"{rms(errors(found)) * 100:.1f} %", " and ".join(gains)])
    return _table(["slices a layer", *(f"`{name}`" for name in FITTED), "rms error", "gain with TP 2"], ":::::", lines)


def _others() -> list[str]:
    """Published figures that the model was not fitted to."""
    rack, constants = read_cluster(CLUSTER), read_constants()
    # The rack's GPU with the dense peak of an HGX B200 (NVIDIA's data sheet: 36 PFLOPS of eight, with sparsity).
    hgx = dataclasses.replace(rack, gpus_per_node=8, gpus_per_nvlink_domain=8, bf16_tflops=2250)
    ring_job = dataclasses.replace(long_context_job(8192, 8), batch=8)
    sharded = dataclasses.replace(long_context_job(8192, 1), fsdp=8, batch=8, shard_over_context=False)
    ring = forecast("", sketch(ring_job, hgx, MAXTEXT), Machine(hgx, constants))
    ring_step = ring.times["DEFAULT"].step
    fsdp = {
        name: forecast("", sketch(sharded, cluster, MAXTEXT), Machine(cluster, constants)).gain
        for name, cluster in (("gb200", rack), ("h100", read_cluster("h100-sxm")))
    }
    b200, gb200, h100 = other("ring_attention_b200"), other("fsdp_gb200"), other("llama_h100")
    registered = format_seconds(b200["registered_buffers"])
    predicted = f"{format_seconds(ring_step)} ({_percent(ring_step / b200['default'] - 1)})"
    gain, gains = gb200["default"] / gb200["nvshmem"] - 1, f"{_percent(h100['low'])} to {_percent(h100['high'])}"
    lines = [
        ("31108: step on NCCL, 8 B200, CP 8, 8 sequences of 8K tokens", format_seconds(b200["default"]), predicted),
        ("31108: the same with registered buffers and NVLS", registered, "not modelled"),
        ("31375: gain of NVSHMEM, 8 GB200, FSDP 8", _percent(gain), _percent(fsdp["gb200"])),
        ("31375: gain of NVSHMEM, Llama 3.1 on H100", gains, _percent(fsdp["h100"])),
    ]
    return _table(["figure", "published", "predicted"], "-::", lines)


def _published(compiled: Mapping[Row, Program]) -> list[str]:
    """The post's table beside the predictions for the steps that are compiled here."""
    lines = []
    for row, found in forecasts(compiled, read_constants()).items():
        measured = TABLE2[row]
        lines.append(
            [
                f"{row.sequence >> 10}K",
                *map(str, (row.devices // _NODE, row.context, row.tensor, row.devices, f"{row.tokens >> 10}K")),
                *(f"{measured.tflops[backend]:.2f}" for backend in BACKENDS),
                _percent(measured.gain),
                *_tflops({backend: found.tflops(backend) for backend in BACKENDS}),
                _percent(found.gain),
            ]
        )
    columns = ["sequence", "nodes", "CP", "TP", "GPUs", "tokens", "measured: DEFAULT", "NVSHMEM", "gain"]
    return _table([*columns, "ours, predicted: DEFAULT", "NVSHMEM", "gain"], ":" * 12, lines)


def _table(columns: Sequence[str], align: str, lines: Iterable[Sequence[str]]) -> list[str]:
    """Lines of a Markdown table; `align` has a colon for each column that is aligned to the right."""
    rules = ["---:" if each == ":" else "---" for each in align]
    return [f"| {' | '.join(columns)} |", f"|{'|'.join(rules)}|", *(f"| {' | '.join(line)} |" for line in lines)]


def _tflops(by_backend: Mapping[Backend, float]) -> list[str]:
    return [f"{by_backend[backend]:,.0f}" for backend in BACKENDS]


def _percent(share: float) -> str:
    return f"{share * 100:.1f} %".replace("-0.0", "0.0").replace("-", "−")


def main() -> None:
    """Writes the tables of both pages."""
    for page, made_by in tables().items():
        page.write_text(write_tables(page.read_text(), made_by))


if __name__ == "__main__":
    main()
