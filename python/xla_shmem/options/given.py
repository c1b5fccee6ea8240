"""What a user has set, before it holds: names that are no options, and options without an effect."""

from __future__ import annotations

from collections.abc import Mapping

from xla_shmem.options.values import OptionError


def check_names(environ: Mapping[str, str]) -> None:
    """Refuses a variable that looks like an option and is none. An empty variable counts as unset.

    Raises:
      OptionError: there is one. The sentence names it, and the option that it may have meant; it is the same in all
        processes with these variables.
    """
    from xla_shmem import _core

    # The names of an environment may be any bytes.
    names = [name.encode(errors="replace").decode() for name, text in environ.items() if text]
    try:
        _core.check_names(names)
    except ValueError as error:
        raise OptionError(str(error)) from None


def check_effects(environ: Mapping[str, str], overrides: Mapping[str, object], *, cpu: bool, gpu: bool) -> None:
    """Refuses an option that certainly has no effect in this process. Values that are a default pass.

    Args:
      environ: the environment.
      overrides: values by option name, which beat the environment.
      cpu: whether the process runs collectives on CPUs.
      gpu: whether it runs them on GPUs.

    Raises:
      OptionError: there is one. The sentence names it, its value and the reason.
    """
    from xla_shmem import _core
    from xla_shmem.options.table import TABLE

    texts = {name: str(overrides.get(name, environ.get(option.env, ""))) for name, option in TABLE.items()}
    idle = _core.idle_option(_encoded(texts), cpu=cpu, gpu=gpu)
    if idle is not None:
        name, why = idle
        source = name if name in overrides else TABLE[name].env
        raise OptionError(f"{source}={texts[name]!r}: {why}")


def without_idle_options(environ: Mapping[str, str], *, cpu: bool, gpu: bool) -> dict[str, str]:
    """Returns the environment without options that certainly have no effect in a job, which would refuse them.

    For jobs that a command starts with rules of its own. Arguments as of :func:`check_effects`.
    """
    from xla_shmem import _core
    from xla_shmem.options.table import TABLE

    kept = dict(environ)
    while idle := _core.idle_option(
        _encoded({name: kept.get(option.env, "") for name, option in TABLE.items()}), cpu=cpu, gpu=gpu
    ):
        del kept[TABLE[idle[0]].env]
    return kept


def _encoded(texts: Mapping[str, str]) -> dict[str, bytes]:
    return {name: text.encode(errors="surrogateescape") for name, text in texts.items()}
