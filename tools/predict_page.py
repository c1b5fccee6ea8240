"""Writes the table of docs/predict.md and docs/data/predict.json, which compare predictions with NVIDIA's post.

    python tools/predict_page.py

The table stands between comments that mark it; other text stays. The file has more: errors, the fit without each row,
and figures that nothing was fitted to.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from compiled_rows import read_rows
from fit_predict import CLUSTER, FITTED, MAXTEXT, errors, fit, forecasts, leave_one_out, programs, rms
from long_context_job import long_context_job
from published import TABLE2, Row, other
from sketch import OURS, sketch
from xla_shmem.predict.cluster import read_cluster
from xla_shmem.predict.constants import read_constants, sources
from xla_shmem.predict.forecast import BACKENDS, Forecast, forecast
from xla_shmem.predict.program import Program
from xla_shmem.predict.walk import Machine

_DOCS = Path(__file__).parents[1] / "docs"

#: The numbers for programs.
DATA = _DOCS / "data" / "predict.json"

Tables = Mapping[str, Callable[[], list[str]]]


def tables() -> Mapping[Path, Tables]:
    """For each page what makes its marked tables."""
    return {_DOCS / "predict.md": {"published": lambda: _published(programs(), read_rows())}}


def data() -> str:
    """The text of the file of numbers; shares are of the published value."""
    constants = [{"constant": name, "value": value, "source": source} for name, value, source in sources()]
    found = {"constants": constants, "rows": _rows(programs()), "slices": _slices(), "others": _others()}
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


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


def _rows(of: Mapping[Row, Program]) -> list[dict[str, Any]]:
    """Published and predicted numbers of each row, and the errors with the row left out of the fit."""
    left_out = leave_one_out(of)
    return [
        {
            "row": str(row),
            "gpus": row.devices,
            "published_tflops": TABLE2[row].tflops,
            "published_gain": _rounded(TABLE2[row].gain),
            "fitted_to_all": _errors(row, found),
            "fitted_without_the_row": _errors(row, left_out[row]),
        }
        for row, found in forecasts(of, read_constants()).items()
    ]


def _errors(row: Row, found: Forecast) -> dict[str, float]:
    default, nvshmem = np.expm1(errors({row: found})[0])
    return {"error_of_default": _rounded(default), "error_of_nvshmem": _rounded(nvshmem), "gain": _rounded(found.gain)}


def _slices() -> list[dict[str, Any]]:
    """The fit with other numbers of exchanges on the tensor axis."""
    fits = []
    for backward in (OURS.backward, MAXTEXT.backward, (12, 9)):
        forward = OURS.forward if backward == OURS.backward else MAXTEXT.forward
        of = programs(dataclasses.replace(MAXTEXT, forward=forward, backward=backward))
        constants = fit(of)
        found = forecasts(of, constants)
        fits.append(
            {
                "slices_a_layer": sum(forward + backward),
                **{name: getattr(constants, name) for name in FITTED},
                "rms_error": _rounded(rms(errors(found))),
                "gains_with_tp_2": [_rounded(each.gain) for row, each in found.items() if row.tensor > 1],
            }
        )
    return fits


def _others() -> list[dict[str, Any]]:
    """Published figures that the model was not fitted to; the sources are in published.toml."""
    rack, constants = read_cluster(CLUSTER), read_constants()
    # The rack's GPU with the dense peak of an HGX B200 (NVIDIA's data sheet: 36 PFLOPS of eight, with sparsity).
    hgx = dataclasses.replace(rack, gpus_per_node=8, gpus_per_nvlink_domain=8, bf16_tflops=2250)
    ring_job = dataclasses.replace(long_context_job(8192, 8), batch=8)
    sharded = dataclasses.replace(long_context_job(8192, 1), fsdp=8, batch=8, shard_over_context=False)
    ring = forecast("", sketch(ring_job, hgx, MAXTEXT), Machine(hgx, constants))
    fsdp = {
        name: forecast("", sketch(sharded, cluster, MAXTEXT), Machine(cluster, constants)).gain
        for name, cluster in (("gb200", rack), ("h100", read_cluster("h100-sxm")))
    }
    b200, gb200, h100 = other("ring_attention_b200"), other("fsdp_gb200"), other("llama_h100")
    return [
        {
            "figure": "openxla/xla pull request 31108: step on NCCL, 8 B200, CP 8, 8 sequences of 8K tokens",
            "published_s": b200["default"],
            "published_with_registered_buffers_s": b200["registered_buffers"],
            "predicted_s": _rounded(ring.times["DEFAULT"].step),
        },
        {
            "figure": "openxla/xla pull request 31375: gain of NVSHMEM, 8 GB200, FSDP 8",
            "published": _rounded(gb200["default"] / gb200["nvshmem"] - 1),
            "predicted": _rounded(fsdp["gb200"]),
        },
        {
            "figure": "openxla/xla pull request 31375: gain of NVSHMEM, Llama 3.1 on H100",
            "published": [h100["low"], h100["high"]],
            "predicted": _rounded(fsdp["h100"]),
        },
    ]


def _rounded(share: float) -> float:
    return round(float(share), 4) + 0.0  # no negative zero


def _published(of: Mapping[Row, Program], compiled: Mapping[Row, Program]) -> list[str]:
    """The post's table beside the predicted gains of the post's programs, as sketched, and of those compiled here."""
    sketched, ours = (forecasts(programs, read_constants()) for programs in (of, compiled))
    lines = [
        [
            str(row),
            str(row.devices),
            *(f"{measured.tflops[backend]:.0f}" for backend in BACKENDS),
            *map(_percent, (measured.gain, sketched[row].gain, ours[row].gain)),
        ]
        for row, measured in TABLE2.items()
    ]
    columns = ["row", "GPUs", "DEFAULT", "NVSHMEM", "gain", "predicted gain", "of our program"]
    return _table(columns, "-" + ":" * 6, lines)


def _table(columns: Sequence[str], align: str, lines: Iterable[Sequence[str]]) -> list[str]:
    """Lines of a Markdown table; `align` has a colon for each column that is aligned to the right."""
    rules = ["---:" if each == ":" else "---" for each in align]
    return [f"| {' | '.join(columns)} |", f"|{'|'.join(rules)}|", *(f"| {' | '.join(line)} |" for line in lines)]


def _percent(share: float) -> str:
    return f"{share * 100:.1f} %".replace("-0.0", "0.0").replace("-", "−")


def main() -> None:
    """Writes the page's table and the file of numbers."""
    DATA.write_text(data())
    for page, made_by in tables().items():
        page.write_text(write_tables(page.read_text(), made_by))


if __name__ == "__main__":
    main()
