"""The table of options."""

from __future__ import annotations

import ast
import math
import os
import re
from pathlib import Path
from typing import Any

import pytest

import option_files
from xla_shmem import _core, jax_start
from xla_shmem.options import OptionError, configure, freeze, frozen, resolve
from xla_shmem.options.table import TABLE
from xla_shmem.options.values import AUTO_HEAP_SIZE, MIN_HEAP_SIZE, OPS, parse_size


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frozen, "_overrides", {})
    monkeypatch.setattr(frozen, "_frozen", False)
    monkeypatch.setattr(jax_start, "has_begun", lambda: False)
    for option in TABLE.values():
        monkeypatch.delenv(option.env, raising=False)


def test_defaults_are_those_of_nvidias_post() -> None:
    found = resolve({})
    assert found.profile == "upstream"
    assert found.threshold == 16 * 1024 * 1024
    assert found.ops == ()
    assert found.deadline == float("inf")
    assert found.verbose == 0
    assert (found.nvlink_domain, found.heap_size, found.spin_us, found.job) == (None, None, 100, None)
    assert found.nvshmem_library is None


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("65536", 65536),
        ("4K", 4096),
        ("16MiB", 16 << 20),
        ("16mib", 16 << 20),
        ("2 GiB", 2 << 30),
        ("7B", 7),
    ],
)
def test_sizes_are_read_in_powers_of_1024(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text", ["", "MiB", "16MB", "1.5M", "-1", "+1", "1e6", "0x10", "16 Mi B", "٣", "9223372036854775808"]
)
def test_ambiguous_sizes_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="size"):
        parse_size(text)


@pytest.mark.parametrize(
    ("variable", "value", "allowed"),
    [
        ("XLA_SHMEM_PROFILE", "fast", "must be 'upstream', 'domain' or 'tuned'"),
        ("XLA_SHMEM_THRESHOLD", "16MB", "must be 'none' or a size below 2^63 bytes such as 16MiB, 4K or 65536"),
        (
            "XLA_SHMEM_OPS",
            "all-reduce,all-gater",
            "must be 'default', 'all', 'none' or a list such as all-reduce<16MiB,all-gather ",
        ),
        (
            "XLA_SHMEM_OPS",
            "everything",
            "must be 'default', 'all', 'none' or a list such as all-reduce<16MiB,all-gather out of all-r",
        ),
        ("XLA_SHMEM_OPS", "all-reduce,", "must be 'default', 'all', 'none' or a list"),
        ("XLA_SHMEM_OPS", "all,all-reduce<1M", "must be 'default', 'all', 'none' or a list"),
        ("XLA_SHMEM_OPS", "all-reduce<16MB", "must be a list with, after all-reduce<, a size in bytes such as 16MiB"),
        ("XLA_SHMEM_OPS", "all-reduce<=1M", "must be a list with, after all-reduce<, a size in bytes such as 16MiB"),
        ("XLA_SHMEM_OPS", "all-gather,all-gather<1M", "must be a list that names every op once"),
        ("XLA_SHMEM_NVLINK_DOMAIN", "0", "must be 'auto', 'host' or a number of devices ≥ 1"),
        ("XLA_SHMEM_NVSHMEM_LIBRARY", "libnvshmem_host.so.3", "must be a path with a / in it"),
        ("XLA_SHMEM_HEAP_SIZE", "1MiB", "must be 'auto' or a size of at least 8MiB"),
        ("XLA_SHMEM_HEAP_SIZE", "many", "must be 'auto' or a size of at least 8MiB"),
        ("XLA_SHMEM_DEADLINE", "0", "must be a number of seconds > 0, or inf"),
        ("XLA_SHMEM_DEADLINE", "soon", "must be a number of seconds > 0, or inf"),
        ("XLA_SHMEM_SPIN_US", "-1", "must be a whole number of microseconds"),
        ("XLA_SHMEM_SINGLE_COPY", "on", "must be 'auto', 'off' or 'user'"),
        ("XLA_SHMEM_VERBOSE", "3", "must be a whole number from 0 to 2"),
        ("XLA_SHMEM_JOB", "../../etc", "must be 32 lower-case hexadecimal digits"),
    ],
)
def test_bad_value_names_variable_value_and_what_is_allowed(variable: str, value: str, allowed: str) -> None:
    with pytest.raises(OptionError) as error:
        resolve({variable: value})
    assert str(error.value).startswith(f"{variable}={value!r}: {allowed}")


def test_values_are_read_from_the_environment() -> None:
    found = resolve(
        {
            "XLA_SHMEM_PROFILE": "Domain",
            "XLA_SHMEM_NVLINK_DOMAIN": "4",
            "XLA_SHMEM_HEAP_SIZE": "256MiB",
            "XLA_SHMEM_DEADLINE": "2.5",
            "XLA_SHMEM_SPIN_US": "0",
            "XLA_SHMEM_VERBOSE": "2",
            "XLA_SHMEM_JOB": "0123456789abcdef" * 2,
        }
    )
    assert found.profile == "domain"
    assert found.nvlink_domain == 4
    assert found.heap_size == 256 << 20
    assert found.deadline == 2.5
    assert found.spin_us == 0
    assert found.verbose == 2
    assert found.job == "0123456789abcdef" * 2


@pytest.mark.parametrize(("text", "value"), [("auto", None), ("", None), ("Host", 0), ("72", 72)])
def test_nvlink_domain_is_automatic_a_host_or_a_number(text: str, value: int | None) -> None:
    assert resolve({"XLA_SHMEM_NVLINK_DOMAIN": text}).nvlink_domain == value


@pytest.mark.parametrize(
    ("text", "ops"),
    [
        ("default", ()),
        ("broadcast,permute<1K", (("collective-permute", 1024), ("collective-broadcast", None))),
        ("ALL", tuple((op, None) for op in OPS)),
        ("all-gather", (("all-gather", None),)),
        (" all-gather , all-reduce < 16MiB ", (("all-reduce", 16 << 20), ("all-gather", None))),
        ("reduce-scatter<0", (("reduce-scatter", 0),)),
    ],
)
def test_ops_are_a_set_or_a_list_with_limits(text: str, ops: tuple[tuple[str, int | None], ...]) -> None:
    assert resolve({"XLA_SHMEM_OPS": text}).ops == ops


def test_decision_key_holds_the_ops_in_one_order() -> None:
    def key(ops: str) -> str:
        return resolve({"XLA_SHMEM_OPS": ops}).decision_key()

    assert key("all-gather,all-reduce<1M") == key("all-reduce<1024K,all-gather")
    assert " ops=all-reduce<1048576,all-gather " in key("all-gather,all-reduce<1M")
    assert len({key(text) for text in ("default", "all", "none", "all-gather", "all-gather<1", "all-gather<2")}) == 6


def test_threshold_can_be_none() -> None:
    assert resolve({"XLA_SHMEM_THRESHOLD": "none"}).threshold == 2**63 - 1


def test_decision_key_tells_automatic_host_and_number_apart() -> None:
    keys = {resolve({"XLA_SHMEM_NVLINK_DOMAIN": text}).decision_key() for text in ("auto", "host", "1", "8")}
    assert len(keys) == 4


def test_empty_variable_counts_as_unset() -> None:
    assert resolve({"XLA_SHMEM_THRESHOLD": ""}) == resolve({})


def test_configure_beats_the_environment() -> None:
    configure(threshold="1MiB", deadline=5)
    found = resolve({"XLA_SHMEM_THRESHOLD": "2MiB", "XLA_SHMEM_PROFILE": "domain"})
    assert (found.threshold, found.deadline, found.profile) == (1 << 20, 5.0, "domain")


def test_configure_removes_a_value_with_none() -> None:
    configure(threshold=4096)
    configure(threshold=None)
    assert resolve({}).threshold == 16 << 20


def test_configure_changes_nothing_when_one_value_is_bad() -> None:
    with pytest.raises(OptionError, match="verbose='9': must be a whole number from 0 to 2"):
        configure(threshold=1, verbose=9)
    assert resolve({}).threshold == 16 << 20


def test_configure_refuses_an_unknown_name() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'treshold'"):
        configure(treshold=1)


def test_configure_after_the_plugin_started_says_that_it_is_too_late() -> None:
    freeze()
    with pytest.raises(RuntimeError, match=r"configure\(threshold\).*Restart the process"):
        configure(threshold=1)


def test_bad_environment_does_not_freeze(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_SHMEM_VERBOSE", "x")
    with pytest.raises(OptionError):
        freeze()
    configure(verbose=1)
    assert freeze().verbose == 1


def test_configure_takes_values_as_python_has_them() -> None:
    configure(deadline=math.inf, heap_size=64 << 20, trace=Path("trace.json"))
    found = resolve({})
    assert (found.deadline, found.heap_size, found.trace) == (math.inf, 64 << 20, "trace.json")


def test_a_path_that_is_not_utf8_stays_as_it_is() -> None:
    path = os.fsdecode(b"/tmp/\xff.json")
    assert resolve({"XLA_SHMEM_TRACE": path}).trace == path
    with pytest.raises(OptionError, match="XLA_SHMEM_STATS="):
        resolve({"XLA_SHMEM_STATS": path})


@pytest.mark.parametrize("option", TABLE.values(), ids=TABLE)
def test_default_and_example_are_allowed(option: _core.Option) -> None:
    values = resolve({}, {option.name: option.example} if option.type != "tuning" else {})
    assert values == resolve({option.env: option.example} if option.type != "tuning" else {}, {})
    assert option.example != option.default
    if option.default:
        assert resolve({option.env: option.default}, {}) == resolve({}, {})


def test_constants_for_places_without_the_compiled_module_are_those_of_the_table() -> None:
    assert TABLE["heap_size"].least == MIN_HEAP_SIZE
    assert f"{AUTO_HEAP_SIZE >> 20} MiB" in TABLE["heap_size"].text


@pytest.mark.parametrize(
    "function", [_core.run_pass, _core.explain_module, _core.planned_time, _core.PassHook.set_options]
)
def test_defaults_of_the_pass_are_those_of_the_table(function: Any) -> None:
    ((signature, _, values),) = function.__nb_signature__
    (definition,) = ast.parse(re.sub(r"= \\(\d+)", r"= \1", signature) + ": ...").body
    arguments = definition.args
    defaults = {
        argument.arg: values[index.value]
        for argument, index in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    }
    rules = resolve({}).rules("cpu") | {"ops": [], "backends": [], "settable": []}
    found = {name: default for name, default in defaults.items() if name in rules}
    assert len(found) >= 4
    assert found == {name: rules[name] for name in found}


def test_what_is_generated_from_the_table_is_up_to_date() -> None:
    for path, text in option_files.generated().items():
        assert path.read_text() == text, f"run tools/option_files.py: {path}"


def test_every_variable_that_our_code_names_is_known() -> None:
    named = set()
    for folder, pattern in (("python/xla_shmem", "*.py"), ("python/long_context", "*.py"), ("xla_patch", "*.cc")):
        for path in (Path(__file__).parents[3] / folder).rglob(pattern):
            named |= set(re.findall(r'"(XLA_SHMEM_[A-Z_]+)"', path.read_text()))
    assert {"XLA_SHMEM_ENDS_PIPE", "XLA_SHMEM_LOCAL_RANK"} <= named
    _core.check_names(sorted(named))
