"""The commands of ``xla-shmem``, one file each. Nothing else of the package imports this."""
