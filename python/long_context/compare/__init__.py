"""The same training job on SHMEM and on the default backend, compared: `xla-shmem compare` and `xla-shmem demo`.

`variants` says how runs differ, `side_by_side` runs them in turns, `results` computes, `report` and `demo_report` show.
All knowledge of transports is here; `long_context.train` has none. Importing this package does not import JAX.
"""
