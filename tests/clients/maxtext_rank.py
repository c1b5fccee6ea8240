"""A rank of a job in which MaxText's own trainer trains one model after the other.

Usage: maxtext_rank.py FOLDER STEPS NAMES... of models in maxtext_configs.py. Importing MaxText takes longer than
training a small model, so a job trains several. For each model FOLDER/NAME gets the metrics of each step (RANK.jsonl),
the dump of the compiled step (dump-RANK) and, if training failed, why (RANK.error).
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import traceback
from pathlib import Path

from absl import app
from maxtext_configs import BY_NAME


def main(arguments: list[str]) -> None:
    """Trains all models. A model that fails does not stop the next one."""
    from maxtext.trainers.pre_train import train

    folder, steps, *names = arguments
    rank = os.environ["XLA_SHMEM_LOCAL_RANK"]
    package = importlib.util.find_spec("maxtext")
    assert package is not None
    assert package.submodule_search_locations, package
    base = f"{package.submodule_search_locations[0]}/configs/base.yml"
    for name in names:
        output = Path(folder, name)
        output.mkdir(exist_ok=True)
        files = [f"run_name={name}", f"base_output_directory={output}", f"metrics_file={output}/{rank}.jsonl"]
        try:
            train.main([train.__name__, base, *BY_NAME[name].keys(int(steps)), *files])
        except Exception:
            Path(output, f"{rank}.error").write_text(traceback.format_exc())
        if Path(folder, f"dump-{rank}").is_dir():
            shutil.move(Path(folder, f"dump-{rank}"), output)


if __name__ == "__main__":
    folder = sys.argv[1]
    dump = f"--xla_dump_to={folder}/dump-{os.environ['XLA_SHMEM_LOCAL_RANK']} --xla_dump_hlo_module_re=train_step"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {dump} --xla_dump_hlo_as_proto"
    app.run(lambda _: main(sys.argv[1:]), argv=sys.argv[:1])
