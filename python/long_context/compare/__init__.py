"""The same training job with xla-shmem and without it, compared: `xla-shmem compare` and `xla-shmem demo`.

`compared_jobs` says which jobs, `side_by_side` runs each in turns, `rows` computes, `comparison_tables` and
`comparison_picture` show. What carries the collectives is known to `xla_shmem.backends` only. Importing this package
does not import JAX.
"""
