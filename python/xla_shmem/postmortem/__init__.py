"""``xla-shmem postmortem``: reports from flight records which PE of a CPU job waits for which other PE."""
