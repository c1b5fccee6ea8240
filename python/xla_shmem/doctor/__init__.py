"""``xla-shmem doctor``: gathers facts about this machine, derives whether the flag works here, and prints both."""
