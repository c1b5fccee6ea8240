"""`xla-shmem bench`: collectives of several transports in turns, cell by cell; see docs/bench.md."""
