"""The programs of worker_nccl.py, in a job whose first process has one GPU and whose second has the other three.

Argument: as of worker_nccl.py.
"""

from __future__ import annotations

import os

import worker_nccl

#: By rank.
GPUS = ("0", "1,2,3")

if __name__ == "__main__":
    os.environ["JAX_LOCAL_DEVICE_IDS"] = GPUS[int(os.environ["OMPI_COMM_WORLD_RANK"])]
    worker_nccl.main()
