"""The overlay's BUILD files, loaded and analysed by Bazel beside stubs of XLA's targets."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from overlay_workspace import PATCHES, Workspace, facts, file_of, find_bazel, misplaced_files

from xla_shmem import _core

COMMITS = sorted(path.name for path in PATCHES.iterdir())
CORE = "xla_patch/BUILD"
SHMEM = "xla/backends/gpu/shmem/BUILD"

pytestmark = pytest.mark.timeout(600)

Edit = Callable[[str, str], None]


@pytest.fixture(scope="module")
def workspace(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """For the revision that the test asks for, otherwise for one of them."""
    bazel = find_bazel()
    if bazel is None:
        pytest.skip("no Bazel on this machine (scripts/find_bazel.sh); CI installs one")
    made = Workspace(tmp_path_factory.mktemp("overlay") / "xla", getattr(request, "param", COMMITS[0]), bazel)
    yield made
    made.run("clean", "--expunge")
    made.run("shutdown")


@pytest.fixture
def edit(workspace: Workspace) -> Iterator[Edit]:
    """Changes files of the workspace until the test ends; takes a path and its new text."""
    before: dict[Path, str | None] = {}

    def change(path: str, text: str) -> None:
        file = workspace.root / path
        before.setdefault(file, file.read_text() if file.exists() else None)
        file.write_text(text)

    yield change
    for file, text in before.items():
        if text is None:
            file.unlink()
        else:
            file.write_text(text)


@pytest.mark.parametrize("workspace", COMMITS, indirect=True)
def test_bazel_loads_and_analyses_every_package(workspace: Workspace) -> None:
    assert workspace.analyse() == ""


def test_the_shared_core_builds(workspace: Workspace) -> None:
    assert workspace.build("//xla_patch:all") == ""
    assert _core.kernel_source() in workspace.built("xla_patch/nvshmem/gpu/kernel_source.cc")


@pytest.mark.parametrize("workspace", COMMITS, indirect=True)
def test_every_installed_file_is_used_and_can_include_what_it_includes(workspace: Workspace) -> None:
    assert misplaced_files(workspace) == []


def test_the_hooks_are_the_labels_that_the_patch_adds() -> None:
    for commit in COMMITS:
        patch = (PATCHES / commit / "nvshmem.patch").read_text()
        added = re.findall(r'^\+\s+"(//xla/backends/gpu/shmem:\w+)",$', patch, re.MULTILINE)
        recorded: dict[str, Any] = facts(commit)
        assert recorded["revision"] == commit
        assert sorted(added) == sorted(label for labels in recorded["hooks"].values() for label in labels)


def hooked_files(commit: str) -> dict[str, tuple[list[str], str]]:
    """Returns, by file of upstream's, our headers that the patch includes there and the other lines that it adds."""
    hooked = {}
    for diff in (PATCHES / commit / "nvshmem.patch").read_text().split("diff --git ")[1:]:
        path = diff.partition(" ")[0].removeprefix("a/")
        added = re.findall(r"^\+(?!\+)(.*)$", diff, re.MULTILINE)
        includes = [found[1] for line in added if (found := re.match(r'#include "(.*/shmem/.*)"', line))]
        hooked[path] = includes, "\n".join(line for line in added if not line.startswith("#include"))
    return {path: hook for path, hook in hooked.items() if path.endswith(".cc")}


def wrong_hooks(workspace: Workspace, commit: str) -> list[str]:
    """Returns what is wrong with the lines that the patch adds to upstream's sources, one sentence each."""
    rules = workspace.rules()
    wrong = []
    for path, (headers, code) in hooked_files(commit).items():
        package = f"//{path.rpartition('/')[0]}:"
        labels = [
            label for target, ours in facts(commit)["hooks"].items() if target.startswith(package) for label in ours
        ]
        exported = {file_of(header) for label in labels for header in rules[label].hdrs}
        wrong += [f"{path} includes {header}, which no label exports" for header in headers if header not in exported]
        declared = "".join((workspace.root / header).read_text() for header in headers if header in exported)
        names = sorted(set(re.findall(r"\w*(?:Shmem|Nvshmem)\w*", code)))
        wrong += [
            f"{path} has {name}, which no header declares" for name in names if not re.search(rf"\b{name}\b", declared)
        ]
    return wrong


@pytest.mark.parametrize("workspace", COMMITS, indirect=True)
def test_upstreams_sources_include_and_call_what_our_headers_have(workspace: Workspace) -> None:
    for commit in COMMITS:
        assert wrong_hooks(workspace, commit) == []
        calls = sum(bool(headers) for headers, _ in hooked_files(commit).values())
        assert calls == len(facts(commit)["hooks"]) >= 3


def test_a_renamed_function_of_a_hook_is_noticed(workspace: Workspace, edit: Edit) -> None:
    header = "xla/backends/gpu/shmem/shmem_backend_assignment.h"
    edit(header, (workspace.root / header).read_text().replace("AssignShmemBackends", "AssignBackends"))
    assert "xla/service/gpu/gpu_compiler.cc has AssignShmemBackends, which no header declares" in wrong_hooks(
        workspace, COMMITS[0]
    )


def test_a_header_that_a_hook_includes_and_its_label_lacks_is_noticed(workspace: Workspace, edit: Edit) -> None:
    edit(SHMEM, replaced(workspace, SHMEM, 'hdrs = ["shmem_thunk_substitution.h"]', "hdrs = []"))
    (sentence,) = wrong_hooks(workspace, COMMITS[0])[:1]
    header = "xla/backends/gpu/shmem/shmem_thunk_substitution.h"
    assert sentence == f"xla/service/gpu/gpu_executable.cc includes {header}, which no label exports"


def replaced(workspace: Workspace, path: str, old: str, new: str) -> str:
    text = (workspace.root / path).read_text()
    assert old in text
    return text.replace(old, new, 1)


def test_a_file_listed_twice_is_refused(workspace: Workspace, edit: Edit) -> None:
    edit(CORE, replaced(workspace, CORE, '+ [":kernel_source"]', '+ [":kernel_source", "thunks/gpu/lanes.cc"]'))
    assert "Label '//xla_patch:thunks/gpu/lanes.cc' is duplicated in the 'srcs' attribute" in workspace.analyse()


def test_two_targets_of_one_name_are_refused(workspace: Workspace, edit: Edit) -> None:
    edit(CORE, (workspace.root / CORE).read_text() + 'cc_library(name = "types")\n')
    assert "existing cc_library rule" in workspace.analyse()


def test_a_label_that_this_xla_does_not_have_is_refused(workspace: Workspace, edit: Edit) -> None:
    edit(SHMEM, replaced(workspace, SHMEM, "runtime:collective_params", "runtime:collective_parameters"))
    assert "no such target '//xla/backends/gpu/runtime:collective_parameters'" in workspace.analyse()


def test_a_label_of_ours_that_does_not_exist_is_refused(workspace: Workspace, edit: Edit) -> None:
    edit(SHMEM, replaced(workspace, SHMEM, "//xla_patch:transfers", "//xla_patch:transfer"))
    assert "no such target '//xla_patch:transfer'" in workspace.analyse()


def test_a_target_that_xla_cannot_see_is_refused(workspace: Workspace, edit: Edit) -> None:
    edit(SHMEM, replaced(workspace, SHMEM, "//xla:__subpackages__", "//visibility:private"))
    assert "is not visible from target '//xla:debug_options_flags'" in workspace.analyse()


def test_a_dependency_on_what_depends_on_us_is_refused(workspace: Workspace, edit: Edit) -> None:
    edit(
        SHMEM,
        replaced(workspace, SHMEM, '"//xla/hlo/ir:hlo",', '"//xla/hlo/ir:hlo", "//xla/service/gpu:gpu_executable",'),
    )
    assert "cycle in dependency graph" in workspace.analyse()


@pytest.mark.parametrize(
    ("path", "text", "wrong"),
    [
        ("xla_patch/assigner/stray/orphan.cc", "", "is in 0 targets"),
        ("xla_patch/thunks/gpu/orphan.cc", "", "no installed file needs"),
        ("xla_patch/nvshmem/gpu/kernels/orphan.h", "", "no installed file needs"),
        ("xla_patch/types/test_values.h", "", "is for tests"),
        ("xla_patch/types/values.h", "#include <gtest/gtest.h>\n", "is for tests"),
        (
            "xla_patch/types/reaches_up.h",
            '#include "xla_patch/thunks/gpu/transfers.h"\n',
            "includes xla_patch/thunks/gpu/transfers.h, which no dep of //xla_patch:types exports",
        ),
    ],
)
def test_a_misplaced_file_is_noticed(workspace: Workspace, edit: Edit, path: str, text: str, wrong: str) -> None:
    (workspace.root / path).parent.mkdir(exist_ok=True)
    edit(path, text)
    assert any(path in sentence and wrong in sentence for sentence in misplaced_files(workspace))


def test_an_input_that_is_not_installed_is_noticed(workspace: Workspace, edit: Edit) -> None:
    edit(CORE, replaced(workspace, CORE, '"nvshmem/gpu/kernels/kernels.cu"', '"nvshmem/gpu/kernels/sent.cu"'))
    wrong = misplaced_files(workspace)
    assert "xla_patch/nvshmem/gpu/kernels/sent.cu is an input and is not installed" in wrong
    assert "xla_patch/nvshmem/gpu/kernels/kernels.cu is in 0 targets" in wrong
    assert "missing input file '//xla_patch:nvshmem/gpu/kernels/sent.cu'" in workspace.build("//xla_patch:all")


def test_a_target_that_nothing_of_xla_needs_is_noticed(workspace: Workspace, edit: Edit) -> None:
    edit("xla_patch/idle.cc", "")
    edit(CORE, (workspace.root / CORE).read_text() + 'cc_library(name = "idle", srcs = ["idle.cc"])\n')
    assert "xla_patch/idle.cc reaches no target of XLA's" in misplaced_files(workspace)


def test_an_include_without_its_dep_is_noticed(workspace: Workspace, edit: Edit) -> None:
    edit(SHMEM, replaced(workspace, SHMEM, '        "//xla/runtime:process_id",\n', ""))
    assert (
        "xla/backends/gpu/shmem/shmem_runtime.h includes xla/runtime/process_id.h, which no dep of "
        "//xla/backends/gpu/shmem:shmem_runtime exports"
    ) in misplaced_files(workspace)


def test_the_facts_name_nothing_that_the_overlay_does_not_use() -> None:
    import xla_labels

    for commit in COMMITS:
        recorded = facts(commit)
        assert xla_labels.named_labels() == {*recorded["libraries"], *recorded["external"]}
        assert json.loads(xla_labels.as_json(recorded)) == recorded
