"""``python -m xla_shmem`` is ``xla-shmem``, also where the command is not on PATH."""

from xla_shmem.cli.main import main

if __name__ == "__main__":
    main(prog_name="xla-shmem")
