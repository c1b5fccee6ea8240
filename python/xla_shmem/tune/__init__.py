"""`xla-shmem tune`: measures which backend is faster on this machine; see docs/bench.md."""
