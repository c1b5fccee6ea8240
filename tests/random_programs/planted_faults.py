"""Faults that replace what programs call in a process, to see that the tests find them."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

Names = dict[str, Any]


def _replace(names: Names, **functions: Callable[..., Any]) -> None:
    lax = names["lax"]
    names["lax"] = SimpleNamespace(**{name: getattr(lax, name) for name in dir(lax)} | functions)


def _pmin_of_two(names: Names) -> None:
    """The minimum of operands of two or more types is the maximum for the second."""
    lax = names["lax"]

    def pmin(x: Any, axis: Any, **options: Any) -> Any:
        return (lax.pmin(x[0], axis, **options), *(lax.pmax(y, axis, **options) for y in x[1:]))

    _replace(names, pmin=lambda x, *rest, **options: (pmin if isinstance(x, tuple) else lax.pmin)(x, *rest, **options))


def _permute_backwards(names: Names) -> None:
    """A permute whose pairs are not their own inverse takes its data from the target."""
    lax = names["lax"]
    _replace(names, ppermute=lambda x, axis, pairs: lax.ppermute(x, axis, [(t, s) for s, t in pairs]))


def _gather_off_by_one_part(names: Names) -> None:
    """An all-gather of groups chosen by index begins with the second part."""
    lax, jnp = names["lax"], names["jnp"]

    def all_gather(x: Any, *rest: Any, axis: int, tiled: bool, **options: Any) -> Any:
        whole = lax.all_gather(x, *rest, axis=axis, tiled=tiled, **options)
        return jnp.roll(whole, -(x.shape[axis] if tiled else 1), axis) if "axis_index_groups" in options else whole

    _replace(names, all_gather=all_gather)


FAULTS: dict[str, Callable[[Names], None]] = {
    "pmin_of_two": _pmin_of_two,
    "permute_backwards": _permute_backwards,
    "gather_off_by_one_part": _gather_off_by_one_part,
}
