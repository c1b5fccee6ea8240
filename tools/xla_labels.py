"""Records what a tree of XLA says about the labels that our overlay names.

    python tools/xla_labels.py TREE COMMIT

TREE is a checkout of openxla/xla at COMMIT. The result is xla_patch/patches/COMMIT/labels.json. With it, tests load our
BUILD files in Bazel without the tree. Only BUILD files and .bzl files of the tree are read, as Python syntax trees: a
macro that generates targets is not followed, except `tf_proto_library` and macros that declare package groups.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
OVERLAY = ROOT / "xla_patch" / "overlay"
OURS = ("//xla_patch", "//xla/backends/gpu/shmem", "//xla/backends/gpu/transforms/collectives/shmem")
PUBLIC = ["//visibility:public"]


class FactError(Exception):
    """The tree does not say what the overlay needs."""


@dataclass(frozen=True)
class Target:
    """One target of a BUILD file.

    Attributes:
      headers: paths of the headers that it exports, from the root of the tree.
      visibility: the expression in its call; None for the package's default.
      lines: first and last line of its call.
      edges: every label in its call, whatever the attribute and the branch of a `select`.
    """

    headers: tuple[str, ...]
    visibility: ast.expr | None
    lines: tuple[int, int]
    edges: tuple[str, ...]


@dataclass
class Package:
    """A BUILD file.

    Attributes:
      loaded: the .bzl file of each name that it loads.
      default_visibility: the expression in `package()`.
      targets: by name.
      groups: the calls that declare package groups, by name.
    """

    loaded: dict[str, str] = field(default_factory=dict)
    default_visibility: ast.expr | None = None
    targets: dict[str, Target] = field(default_factory=dict)
    groups: dict[str, ast.Call] = field(default_factory=dict)


def absolute(label: str, package: str) -> str:
    """Returns the label with its package and its name."""
    if label.startswith(":"):
        return f"//{package}{label}"
    if ":" in label:
        return label
    return f"{label}:{label.rsplit('/', 1)[-1]}"


def is_ours(label: str) -> bool:
    return label.partition(":")[0] in OURS


class Tree:
    """A checkout of XLA, read on demand."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.package = cache(self._package)

    def target(self, label: str) -> Target | None:
        package, _, name = label[2:].partition(":")
        return self.package(package).targets.get(name)

    def visibility(self, label: str) -> list[str]:
        package, _, name = label[2:].partition(":")
        build = self.package(package)
        expression = build.targets[name].visibility or build.default_visibility
        return [absolute(entry, package) for entry in self._strings(expression, build.loaded)] if expression else []

    def package_group(self, label: str) -> dict[str, list[str]]:
        """Returns the non-empty ones of `packages` and `includes`."""
        package, _, name = label[2:].partition(":")
        build = self.package(package)
        values = _arguments(build.groups[name])
        found: dict[str, list[str]] = {}
        if "packages" in values:
            found["packages"] = self._strings(values["packages"], build.loaded)
        if "includes" in values:
            found["includes"] = [absolute(entry, package) for entry in self._strings(values["includes"], build.loaded)]
        return found

    def _package(self, path: str) -> Package:
        file = self.root / path / "BUILD"
        package = Package()
        if not file.exists():
            return package
        module = ast.parse(file.read_text())
        package.loaded.update(_loaded_names(module, path))
        groups = {}
        for call in _top_level_calls(module):
            function, arguments = ast.unparse(call.func), _arguments(call)
            if function == "filegroup" and "srcs" in arguments:
                members = list(_constants(arguments["srcs"]))
                groups.update({f":{name}": members for name in _constants(arguments["name"])})
            if function == "package":
                package.default_visibility = arguments.get("default_visibility")
            elif function == "package_group" or function.endswith("_package_groups"):
                for group in self._package_groups(call, package.loaded):
                    package.groups[ast.literal_eval(_arguments(group)["name"])] = group
            elif "name" in arguments:
                is_proto = function == "tf_proto_library"
                target = _make_target(call, path, "srcs" if is_proto else "hdrs", groups)
                for name in _constants(arguments["name"]):
                    for suffix in ("", "_cc", "_cc_impl") if is_proto else ("",):
                        package.targets[name + suffix] = target
        return package

    def _strings(self, expression: ast.expr, loaded: dict[str, str]) -> list[str]:
        """Evaluates a list of strings that may be the result of a function of one `return`."""
        if isinstance(expression, ast.Call):
            name = ast.unparse(expression.func)
            if name == "internal_visibility":  # public outside Google: xla/tsl/tsl.bzl
                return PUBLIC
            for statement in self._function(name, loaded).body:
                if isinstance(statement, ast.Return) and statement.value is not None:
                    return self._strings(statement.value, loaded)
        value: list[str] = ast.literal_eval(expression)
        return value

    def _function(self, name: str, loaded: dict[str, str]) -> ast.FunctionDef:
        label = loaded.get(name, "")
        if label.startswith("//"):
            module = ast.parse((self.root / label[2:].replace(":", "/")).read_text())
            for statement in module.body:
                if isinstance(statement, ast.FunctionDef) and statement.name == name:
                    return statement
        raise FactError(f"{name}() is not defined in a .bzl file of this tree ({label or 'not loaded'})")

    def _package_groups(self, call: ast.Call, loaded: dict[str, str]) -> Iterator[ast.Call]:
        name = ast.unparse(call.func)
        if name == "package_group":
            yield call
        else:  # a macro
            for node in ast.walk(self._function(name, loaded)):
                if isinstance(node, ast.Call) and ast.unparse(node.func) == "native.package_group":
                    yield node

    def defines(self, label: str, function: str) -> bool:
        try:
            self._function(function, {function: label})
        except (FactError, FileNotFoundError):
            return False
        return True

    def reached(self, label: str) -> set[str]:
        """Returns all labels that a target depends on; too many rather than too few."""
        seen: set[str] = set()
        pending = [label]
        while pending:
            current = pending.pop()
            target = self.target(current) if current.startswith("//") else None
            if current not in seen and target is not None:
                pending.extend(target.edges)
            seen.add(current)
        return seen - {label}


def _top_level_calls(module: ast.Module) -> Iterator[ast.Call]:
    for statement in module.body:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            yield statement.value


def _arguments(call: ast.Call) -> dict[str, ast.expr]:
    return {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}


def _make_target(call: ast.Call, package: str, headers: str, groups: dict[str, list[str]]) -> Target:
    arguments = _arguments(call)
    named = list(_constants(arguments[headers])) if headers in arguments else []
    files = [file for name in named for file in groups.get(name, [name])]
    labels = (text for text in _constants(call) if re.fullmatch(r"(//[\w/.-]*)?:[\w.+-]+|//[\w/.-]+", text))
    return Target(
        headers=tuple(f"{package}/{file.replace('.proto', '.pb.h')}" for file in files),
        visibility=arguments.get("visibility"),
        lines=(call.lineno, call.end_lineno or call.lineno),
        edges=tuple(absolute(label, package) for label in labels),
    )


def _constants(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _loaded_names(module: ast.Module, package: str) -> Iterator[tuple[str, str]]:
    for call in _top_level_calls(module):
        if ast.unparse(call.func) == "load":
            label, *names = _constants(call)
            yield from ((name, absolute(label, package)) for name in names)


def overlay_build_files() -> list[Path]:
    return sorted(OVERLAY.rglob("*BUILD.overlay"))


def named_labels() -> set[str]:
    """Returns the labels in attributes of the overlay's BUILD files, except its own and `__subpackages__`."""
    text = "".join(path.read_text() for path in overlay_build_files())
    labels = {absolute(label, "") for label in re.findall(r'"((?:@\w+)?//[^"]+)"', text)}
    return {label for label in labels if not is_ours(label) and not label.endswith((".bzl", ":__subpackages__"))}


def loaded_functions() -> dict[str, set[str]]:
    """Returns the names that the overlay's BUILD files load, by .bzl file."""
    functions: dict[str, set[str]] = {}
    for path in overlay_build_files():
        for name, label in _loaded_names(ast.parse(path.read_text()), ""):
            functions.setdefault(label, set()).add(name)
    return functions


def included_headers() -> set[str]:
    """Returns the headers of XLA's that installed files of the overlay include."""
    headers: set[str] = set()
    for path in (OVERLAY / "xla").rglob("*"):
        if path.suffix in (".h", ".cc") and not path.stem.endswith("_test") and not path.name.startswith("test_"):
            headers.update(re.findall(r'#include "(xla/[^"]+)"', path.read_text()))
    return {header for header in headers if not is_ours(f"//{header.rpartition('/')[0]}")}


def hooked_targets(tree: Tree, patch: str) -> dict[str, list[str]]:
    """Returns our labels that the patch adds to targets of upstream's, by target."""
    hooks: dict[str, list[str]] = {}
    path, line = "", 0
    for text in patch.splitlines():
        if text.startswith("+++ b/"):
            path = text.removeprefix("+++ b/")
        elif found := re.match(r"@@ -(\d+)", text):
            line = int(found[1])
        elif path.endswith("/BUILD") and (added := re.match(r'\+\s+"(//[^"]+)",', text)):
            package = path.removesuffix("/BUILD")
            for name, target in tree.package(package).targets.items():
                if target.lines[0] <= line <= target.lines[1]:
                    hooks.setdefault(f"//{package}:{name}", []).append(added[1])
    return hooks


def record(root: Path, commit: str) -> dict[str, object]:
    """Returns the facts for labels.json.

    Raises:
      FactError: the tree lacks a label, a function or a header that the overlay uses.
    """
    tree = Tree(root)
    hooks = hooked_targets(tree, (ROOT / "xla_patch" / "patches" / commit / "nvshmem.patch").read_text())
    labels = named_labels()
    headers = included_headers()
    libraries: dict[str, dict[str, list[str]]] = {}
    groups: dict[str, dict[str, list[str]]] = {}
    for label in sorted(label for label in labels if label.startswith("//")):
        target = tree.target(label)
        if target is None:
            raise FactError(f"XLA {commit} has no {label}")
        visibility = tree.visibility(label)
        libraries[label] = {
            "visibility": visibility,
            "headers": sorted(headers.intersection(target.headers)),
            "reaches": sorted(set(hooks) & tree.reached(label)),
        }
        pending = [entry for entry in visibility if entry not in PUBLIC]
        while pending:
            group = pending.pop()
            if ":__" in group:  # __pkg__ or __subpackages__
                continue
            groups[group] = tree.package_group(group)
            pending.extend(groups[group].get("includes", []))
    exported = {header for library in libraries.values() for header in library["headers"]}
    if headers - exported:
        raise FactError(f"no label of the overlay's exports {', '.join(sorted(headers - exported))}")
    functions = loaded_functions()
    for label, names in functions.items():
        for name in names:
            if label.startswith("//") and not tree.defines(label, name):
                raise FactError(f"XLA {commit} has no {name} in {label}")
    builds = "".join(path.read_text() for path in root.rglob("BUILD"))
    external = sorted(label for label in labels | set(functions) if label.startswith("@"))
    for label in external:
        short = label.partition(":")[0] if label == absolute(label.partition(":")[0], "") else label
        if f'"{label}"' not in builds and f'"{short}"' not in builds:
            raise FactError(f"no BUILD file of XLA {commit} names {label}")
    return {
        "revision": commit,
        "libraries": libraries,
        "package_groups": dict(sorted(groups.items())),
        "hooks": hooks,
        "functions": {label: sorted(names) for label, names in sorted(functions.items())},
        "external": [label for label in external if label not in functions],
    }


def as_json(facts: dict[str, object]) -> str:
    """Returns the text of labels.json: a line for each library, hook and group."""
    parts = []
    for name, value in facts.items():
        if isinstance(value, dict):
            lines = ",\n".join(f"  {json.dumps(key)}: {json.dumps(entry)}" for key, entry in value.items())
            parts.append(f' "{name}": {{\n{lines}\n }}')
        else:
            parts.append(f' "{name}": {json.dumps(value)}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main(arguments: list[str]) -> None:
    if len(arguments) != 2:
        sys.exit("usage: xla_labels.py TREE COMMIT")
    root, commit = Path(arguments[0]), arguments[1]
    try:
        facts = record(root, commit)
    except FactError as error:
        sys.exit(f"xla_labels: {error}")
    output = ROOT / "xla_patch" / "patches" / commit / "labels.json"
    output.write_text(as_json(facts))


if __name__ == "__main__":
    main(sys.argv[1:])
