"""What notebooks and programs call: switching xla-shmem on, and the decisions about a program's collectives.

`xla_shmem` exports it and imports it on first use, because it is rarely needed and `import xla_shmem` has to be cheap.
"""
