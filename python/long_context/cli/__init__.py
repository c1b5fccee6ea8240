"""The commands that `xla-shmem` finds by the entry points of this distribution: train, compare and demo."""
