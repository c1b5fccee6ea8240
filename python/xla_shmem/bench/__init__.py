"""`xla-shmem bench`: times collectives on several transports in turns; see docs/bench.md."""
