"""`_core.pyi` agrees with the built module: names, parameters, defaults, keys of its dicts."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typeguard import CollectionCheckStrategy, check_type

import xla_shmem
from xla_shmem import _core
from xla_shmem.hlo.files import read_module

ALL_REDUCE = """\
HloModule jit_psum, is_scheduled=true, num_partitions=2

%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %add = f32[] add(%a, %b)
}

ENTRY %main (x: f32[1024]) -> f32[1024] {
  %x = f32[1024]{0} parameter(0)
  ROOT %psum = f32[1024]{0} all-reduce(%x), channel_id=1, replica_groups={{0,1}}, \
use_global_device_ids=true, to_apply=%sum
}
"""

#: A parameter's name, how it can be given, and its default (`...` if it has none).
Parameter = tuple[str, str, Any]


def is_decorated(node: ast.ClassDef | ast.FunctionDef, by: str) -> bool:
    return any(isinstance(decorator, ast.Name) and decorator.id == by for decorator in node.decorator_list)


def functions(body: list[ast.stmt]) -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in body if isinstance(node, ast.FunctionDef)}


STUB = ast.parse((Path(xla_shmem.__file__).parent / "_core.pyi").read_text()).body
STUB_FUNCTIONS = functions(STUB)
ALL_CLASSES = {node.name: node for node in STUB if isinstance(node, ast.ClassDef)}
STUB_DICTS = {name: node for name, node in ALL_CLASSES.items() if is_decorated(node, "type_check_only")}
STUB_CLASSES = {name: node for name, node in ALL_CLASSES.items() if name not in STUB_DICTS}
#: Numbers of the module, each with its annotation.
STUB_NUMBERS = {
    node.target.id: ast.unparse(node.annotation)
    for node in STUB
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and not node.target.id.startswith("_")
}


def parameters(function: ast.FunctionDef, default_of: Any) -> list[Parameter]:
    """Parameters in order; `default_of` turns the expression of a default into its value."""
    arguments = function.args
    # Only the last of the positional ones can have defaults.
    defaults = [None] * (len(arguments.args) - len(arguments.defaults)) + [*arguments.defaults]
    kinds = {
        "positional": zip(arguments.args, defaults, strict=True),
        "keyword": zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    }
    return [
        (argument.arg, kind, ... if default is None else default_of(default))
        for kind, pairs in kinds.items()
        for argument, default in pairs
    ]


def stub_parameters(function: ast.FunctionDef) -> list[Parameter]:
    return parameters(function, ast.literal_eval)


def module_parameters(function: Any) -> list[Parameter]:
    """From nanobind's one tuple per overload: signature (defaults as ``\\0``, ``\\1``), docstring, defaults."""
    ((signature, _, defaults),) = function.__nb_signature__
    source = re.sub(r"= \\(\d+)", r"= \1", signature)
    (definition,) = ast.parse(f"{source}: ...").body
    assert isinstance(definition, ast.FunctionDef)
    return parameters(definition, lambda index: defaults[ast.literal_eval(index)])


def public_names(owner: object) -> set[str]:
    return {name for name in vars(owner) if not name.startswith("_")}


def check(value: object, typed_dict: str) -> None:
    """Raises if `value` is not what the stub's TypedDict says, in each key, item and literal."""
    kept = [node for node in STUB if isinstance(node, ast.AnnAssign | ast.ImportFrom) or node in STUB_DICTS.values()]
    source = ast.unparse(ast.Module(kept, [])).replace(", type_check_only", "")
    names: dict[str, Any] = {"type_check_only": lambda only: only}
    exec(compile(source, "_core.pyi", "exec", dont_inherit=True), names)  # not with this file's __future__
    check_type(value, names[typed_dict], collection_check_strategy=CollectionCheckStrategy.ALL_ITEMS)


def test_stub_and_module_have_the_same_functions_classes_and_numbers() -> None:
    assert {*STUB_FUNCTIONS, *STUB_CLASSES, *STUB_NUMBERS} == public_names(_core)
    assert {name: type(getattr(_core, name)).__name__ for name in STUB_NUMBERS} == STUB_NUMBERS


@pytest.mark.parametrize("name", sorted(STUB_FUNCTIONS))
def test_function_has_the_stubs_parameters_and_defaults(name: str) -> None:
    assert stub_parameters(STUB_FUNCTIONS[name]) == module_parameters(getattr(_core, name))


@pytest.mark.parametrize("name", sorted(STUB_CLASSES))
def test_class_has_the_stubs_members(name: str) -> None:
    stub, built = functions(STUB_CLASSES[name].body), getattr(_core, name)
    assert {member for member in stub if member != "__init__"} == public_names(built)
    assert {member for member, node in stub.items() if is_decorated(node, "property")} == {
        member for member in public_names(built) if isinstance(vars(built)[member], property)
    }


@pytest.mark.parametrize("name", sorted(STUB_CLASSES))
def test_class_has_the_stubs_constructor_or_none(name: str) -> None:
    stub, built = functions(STUB_CLASSES[name].body).get("__init__"), getattr(_core, name).__init__
    if stub is None:
        assert not hasattr(built, "__nb_signature__")
    else:
        assert stub_parameters(stub) == module_parameters(built)


def test_everything_is_documented_in_stub_and_module() -> None:
    for name in public_names(_core) - STUB_NUMBERS.keys():
        assert ast.get_docstring(STUB_FUNCTIONS.get(name) or STUB_CLASSES[name]), name
        assert getattr(_core, name).__doc__, name
    for name, stub_class in STUB_CLASSES.items():
        for member, function in functions(stub_class.body).items():
            assert ast.get_docstring(function), f"{name}.{member}"


def test_dicts_are_what_the_stub_says(tmp_path: Path) -> None:
    (tmp_path / "psum.txt").write_text(ALL_REDUCE)
    module = read_module(str(tmp_path / "psum.txt")).proto
    topology = _core.Topology([(0, 0, 0, 0, 0), (1, 1, 0, 0, 1)])
    result = _core.run_pass(module, topology, _core.cpu_transport({0: 0, 1: 0}))
    assert isinstance(result.module, bytes)
    (explanation,) = _core.explain_module(module, topology, _core.cpu_transport({0: 0, 1: 0}))
    assert explanation["groups"] == [[0, 1]]
    dicts: dict[str, Sequence[object]] = {
        "CollectiveOp": _core.collective_ops(),
        "ModuleHeader": [_core.module_header(module)],
        "CollectiveRecord": [dict(record) for record in (*result.records, *_core.inspect_module(module))],
        "Explanation": [explanation],
        "ComputationSchedule": _core.schedule(module),
        "HandlerStages": list(_core.cpu_handlers().values()),
        "HandlerState": [_core.cpu_handler_state()],
        "KernelForm": [_core.kernel_form("all-reduce", 1024, 8)],
    }
    # Steps are checked within an explanation and a schedule. The last two need NVSHMEM and a driver.
    assert dicts.keys() == STUB_DICTS.keys() - {"RuleStep", "ScheduledInstruction", "NvshmemLibrary", "GpuFacts"}
    for name, values in dicts.items():
        assert values, name
        for value in values:
            check(value, name)
