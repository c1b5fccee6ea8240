"""The same training job on SHMEM and on the default backend, compared."""
