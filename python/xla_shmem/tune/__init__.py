"""`xla-shmem tune`: which backend is faster on this machine, measured; see docs/tune.md."""
