"""A Bazel workspace with the overlay's packages and stubs of XLA's targets.

The stubs come from xla_patch/patches/<revision>/labels.json, which tools/xla_labels.py recorded from XLA's tree: a
label that XLA does not have at that revision has no stub, a visibility is the real one, and a label that depends on a
target that our patch changes does so here too. The headers of the FFI are real, those of jaxlib.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax.ffi

ROOT = Path(__file__).parents[2]
PATCHES = ROOT / "xla_patch" / "patches"
PACKAGES = ("xla_patch", "xla/backends/gpu/shmem", "xla/backends/gpu/transforms/collectives/shmem")

_HEADER = 'load("@rules_cc//cc:cc_library.bzl", "cc_library")\n'
_WORKSPACE = """workspace(name = "xla")
load("//bazel:offline.bzl", "offline_repositories")
offline_repositories()
"""


@dataclass(frozen=True)
class Rule:
    """A rule as Bazel sees it: globs evaluated, labels absolute."""

    srcs: tuple[str, ...]
    hdrs: tuple[str, ...]
    deps: tuple[str, ...]
    outs: tuple[str, ...]
    alwayslink: bool


def facts(commit: str) -> dict[str, Any]:
    """Returns what was recorded of that revision of XLA."""
    recorded: dict[str, Any] = json.loads((PATCHES / commit / "labels.json").read_text())
    recorded["libraries"]["//xla/ffi/api:ffi"]["headers"] = sorted(_ffi_headers())
    return recorded


def _ffi_headers() -> dict[str, str]:
    """Returns the text of each header of XLA's FFI for code outside of XLA, by its path in XLA."""
    folder = Path(jax.ffi.include_dir())
    return {str(file.relative_to(folder)): file.read_text() for file in (folder / "xla/ffi/api").glob("*.h")}


def find_bazel() -> list[str] | None:
    """Returns the command of this machine's Bazel and its options; None if there is none."""
    found = subprocess.run([ROOT / "scripts" / "find_bazel.sh"], capture_output=True, text=True, check=False)
    return found.stdout.split() if found.returncode == 0 else None


class Workspace:
    """The workspace, and the Bazel that loads it."""

    def __init__(self, root: Path, commit: str, bazel: list[str]) -> None:
        self.root = root
        self._bazel, *self._options = bazel
        self._startup = [f"--output_base={root}.bazel", "--max_idle_secs=60"]
        install_overlay(root)
        recorded = facts(commit)
        self.hooks: list[str] = list(recorded["hooks"])
        self.exported: dict[str, list[str]] = {
            label: entry["headers"] for label, entry in recorded["libraries"].items()
        }
        for path, text in _stubs(recorded).items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        (root / "bazel").mkdir()
        (root / "bazel" / "BUILD").touch()
        shutil.copy(ROOT / "bazel" / "offline.bzl", root / "bazel")

    def run(self, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs a Bazel command in the workspace."""
        return subprocess.run(
            [self._bazel, *self._startup, command, *self._options, *arguments],
            cwd=self.root,
            env={**os.environ, "LC_ALL": "C"},
            capture_output=True,
            text=True,
            check=False,
        )

    def analyse(self) -> str:
        """Loads and analyses all targets; returns Bazel's errors, "" if there are none."""
        done = self.run("build", "--nobuild", "--keep_going", "--color=no", "//...")
        return "" if done.returncode == 0 else done.stderr

    def build(self, *targets: str) -> str:
        """Builds targets; returns Bazel's errors, "" if there are none."""
        done = self.run("build", "--cxxopt=-std=c++17", "--jobs=2", "--keep_going", "--color=no", *targets)
        return "" if done.returncode == 0 else done.stderr

    def built(self, path: str) -> str:
        """Returns the text of a file that a build has made."""
        return (self.root / "bazel-bin" / path).read_text()

    def rules(self) -> dict[str, Rule]:
        """Returns the rules of our packages by label."""
        packages = " + ".join(f"//{package}:all" for package in PACKAGES)
        done = self.run("query", "--output=xml", packages)
        assert done.returncode == 0, done.stderr
        return {
            rule.attrib["name"]: Rule(
                *(
                    tuple(label.attrib["value"] for label in rule.findall(f"list[@name='{kind}']/*"))
                    for kind in ("srcs", "hdrs", "deps", "outs")
                ),
                alwayslink=rule.find("boolean[@name='alwayslink'][@value='true']") is not None,
            )
            for rule in ElementTree.fromstring(done.stdout).findall("rule")
        }

    def linked_files(self) -> set[str]:
        """Returns the source files of ours on which the targets that our patch changes depend."""
        done = self.run("query", f'kind("source file", deps(set({" ".join(self.hooks)})))')
        assert done.returncode == 0, done.stderr
        return {file_of(label) for label in done.stdout.split() if package_of(label) in PACKAGES}

    def installed(self) -> set[str]:
        """Returns the paths of our files, except the BUILD files."""
        files = (path for package in PACKAGES for path in (self.root / package).rglob("*") if path.is_file())
        return {str(path.relative_to(self.root)) for path in files if path.name != "BUILD"}


def package_of(label: str) -> str:
    return label.removeprefix("//").partition(":")[0]


def file_of(label: str) -> str:
    return label.removeprefix("//").replace(":", "/")


def install_overlay(root: Path) -> None:
    """Makes `root` a git repository with the files that the overlay patch adds to XLA's tree."""
    patch = root.with_suffix(".patch")
    subprocess.run([ROOT / "scripts" / "make_overlay_patch.sh", patch], check=True)
    subprocess.run(["git", "init", "-q", root], check=True)
    subprocess.run(["git", "apply", patch], cwd=root, check=True)


def _stubs(recorded: dict[str, Any]) -> dict[str, str]:
    """Returns the text of each file that stands for one of XLA's or of another repository."""
    texts: dict[str, str] = {"WORKSPACE": _WORKSPACE, "xla/BUILD": _HEADER}

    def declare(package: str, statement: str) -> None:
        texts.setdefault(f"{package}/BUILD", _HEADER)
        texts[f"{package}/BUILD"] += statement + "\n"

    for label, library in recorded["libraries"].items():
        name = label.partition(":")[2]
        headers = [os.path.relpath(header, package_of(label)) for header in library["headers"]]
        texts.update(dict.fromkeys(library["headers"], ""))
        deps = [*library["reaches"], *recorded["hooks"].get(label, ())]
        declare(package_of(label), _library(name, headers, deps, library["visibility"]))
    for label, ours in recorded["hooks"].items():
        if label in recorded["libraries"]:
            continue
        declare(package_of(label), _library(label.partition(":")[2], [], ours, ["//visibility:public"]))
    for label, group in recorded["package_groups"].items():
        # Older Bazel has no "public": here all packages are of one repository.
        values = {key: ["//..." if value == "public" else value for value in group[key]] for key in group}
        arguments = ", ".join(f"{key} = {json.dumps(value)}" for key, value in values.items())
        declare(package_of(label), f"package_group(name = {json.dumps(label.partition(':')[2])}, {arguments})")
    for label, functions in recorded["functions"].items():
        if label.startswith("//"):
            declare(package_of(label), "")
            texts[file_of(label)] = "".join(f"def {name}(*args):\n    return []\n" for name in functions)
    for label in recorded["external"]:
        repository, _, rest = label[1:].partition("//")
        package, _, name = rest.partition(":")
        if f"external/{repository}/WORKSPACE" not in texts:
            texts[f"external/{repository}/WORKSPACE"] = ""
            texts["WORKSPACE"] += f'local_repository(name = "{repository}", path = "external/{repository}")\n'
        declare(f"external/{repository}/{package}".rstrip("/"), _library(name, [], [], ["//visibility:public"]))
    texts[".bazelignore"] = "external\n"
    return texts | _ffi_headers()


def _library(name: str, headers: list[str], deps: Iterable[str], visibility: list[str]) -> str:
    values = {"name": name, "hdrs": headers, "deps": list(deps), "visibility": visibility}
    return f"cc_library({', '.join(f'{key} = {json.dumps(value)}' for key, value in values.items())})"


def misplaced_files(workspace: Workspace) -> list[str]:
    """Returns what is wrong with the files of our targets, one sentence each.

    Every installed file belongs to one target, reaches the binary, is no test's, and includes only what its target or a
    direct dependency of it exports. A rule that exports no headers may read those of another.
    """
    rules = workspace.rules()
    installed = workspace.installed()
    linked = workspace.linked_files()
    owners: dict[str, list[str]] = {}
    for label, rule in rules.items():
        for source in {*rule.srcs, *rule.hdrs}:
            owners.setdefault(file_of(source), []).append(label)
    for file, labels in owners.items():
        owners[file] = [label for label in labels if file in map(file_of, rules[label].hdrs)] or labels
    wrong = [
        f"{file} is in {len(owners.get(file, []))} targets"
        for file in sorted(installed)
        if len(owners.get(file, [])) != 1
    ]
    wrong += [f"{file} reaches no target of XLA's" for file in sorted(installed - linked)]
    wrong += [f"{file} is an input and is not installed" for file in sorted(linked - installed)]
    texts = {file: (workspace.root / file).read_text() for file in installed}
    wrong += [f"{file} is for tests" for file in sorted(installed) if _is_for_tests(file, texts[file])]
    wrong += [f"no installed file needs {file}" for file in sorted(_unused(texts, rules.values()))]
    for label, rule in rules.items():
        for file in sorted({file_of(source) for source in (*rule.srcs, *rule.hdrs)} & installed):
            if not file.endswith((".cc", ".h")):
                continue
            for header in re.findall(r'^#include "((?:xla|xla_patch|absl)/.*?)"', texts[file], re.MULTILINE):
                if not _can_include(workspace, header, label, rules):
                    wrong.append(f"{file} includes {header}, which no dep of {label} exports")
    return wrong


def _is_for_tests(file: str, text: str) -> bool:
    name = Path(file).stem
    return (
        name.startswith("test_")
        or name.endswith("_test")
        or re.search("#include .*(gtest|gmock|doctest)", text) is not None
    )


def _unused(texts: dict[str, str], rules: Iterable[Rule]) -> set[str]:
    """Returns the files that no file of the overlay for XLA needs, directly or through another.

    A source needs what it includes, a header needs its source, and a generated source needs its rule's inputs. What is
    always linked is needed.
    """
    rules = list(rules)
    inputs = {file_of(out): [file_of(source) for source in rule.srcs] for rule in rules for out in rule.outs}
    needed: set[str] = set()
    pending = [file for file in texts if file.startswith("xla/")]
    pending += [file_of(source) for rule in rules if rule.alwayslink for source in rule.srcs]
    while pending:
        file = pending.pop()
        if file in needed:
            continue
        needed.add(file)
        pending += inputs.get(file, ())
        pending += re.findall(r'#include "(xla_patch/.*?)"', texts.get(file, ""))
        pending.append(re.sub(r"\.h$", ".cc", file))
    return texts.keys() - needed


def _can_include(workspace: Workspace, header: str, label: str, rules: dict[str, Rule]) -> bool:
    for exporter in (label, *rules[label].deps):
        if header.startswith("absl/"):  # Abseil's targets export headers of their own package
            if package_of(exporter).endswith(f"//{header.rpartition('/')[0]}"):
                return True
        elif exporter in rules:
            if header in {file_of(file) for file in rules[exporter].hdrs}:
                return True
        elif header in workspace.exported.get(exporter, ()):
            return True
    return False
