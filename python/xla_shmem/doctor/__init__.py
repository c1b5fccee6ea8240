"""``xla-shmem doctor``: gather facts of this machine, conclude from them what the flag will do, print both."""
