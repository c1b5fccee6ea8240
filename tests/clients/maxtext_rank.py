"""A rank of MaxText's own trainer, with a dump and a file of metrics of its own.

Usage: maxtext_rank.py FOLDER KEYS...
"""

from __future__ import annotations

import importlib.util
import os
import runpy
import sys

TRAINER = "maxtext.trainers.pre_train.train"

if __name__ == "__main__":
    folder, *keys = sys.argv[1:]
    rank = os.environ["XLA_SHMEM_LOCAL_RANK"]
    dump = f"--xla_dump_to={folder}/dump-{rank} --xla_dump_hlo_module_re=train_step"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {dump}"
    package = importlib.util.find_spec("maxtext")
    assert package is not None, "MaxText is not installed; scripts/setup_clients.sh installs it"
    assert package.submodule_search_locations, package
    base = f"{package.submodule_search_locations[0]}/configs/base.yml"
    output = ["run_name=run", f"base_output_directory={folder}/output", f"metrics_file={folder}/{rank}.jsonl"]
    sys.argv = [TRAINER, base, *keys, *output]
    runpy.run_module(TRAINER, run_name="__main__", alter_sys=True)
