"""scripts/build_jaxlib.sh, and the patches that it adds to XLA. Nothing is built here."""

from __future__ import annotations

import os
import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from xla_shmem.gpu.jax_plugin import PATCHED_LABEL

ROOT = Path(__file__).parents[3]
PATCHES = ROOT / "xla_patch" / "patches"
BUILD = ROOT / "scripts" / "build_jaxlib.sh"
RELEASES = {
    "jax-v0.10.2": "5a9e73cbd92530cac2ac36f4736a774b2412afe2",
    "jax-v0.11.0": "131bf41acb4650e4391a640c3f1859c1c86ad74b",
}

WORKSPACE_BZL = """def repo():
    tf_http_archive(
        name = "xla",
        patch_file = [
            # Add any patch files here.
            "//third_party/xla:its_own.patch",
        ],
    )
"""
BUILD_PY = """import pathlib, sys
print("build.py", *sys.argv[1:])
output = next(a.split("=", 1)[1] for a in sys.argv if a.startswith("--output_path="))
pathlib.Path(output).mkdir(parents=True, exist_ok=True)
(pathlib.Path(output) / "jaxlib-0.whl").write_text("a wheel")
"""


def run(*command: str | Path, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    identity = {f"GIT_{role}_{what}": "x" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    env = {**os.environ, **identity, **environment}
    return subprocess.run(
        [str(part) for part in command], cwd=cwd, env=env, text=True, capture_output=True, check=False
    )


@pytest.fixture
def jax_repository(tmp_path: Path) -> Path:
    """A git repository with the files of jax that the script touches, tagged as the release."""
    path = tmp_path / "upstream"
    (path / "third_party" / "xla").mkdir(parents=True)
    (path / "build").mkdir()
    (path / "third_party" / "xla" / "workspace.bzl").write_text(WORKSPACE_BZL)
    (path / "third_party" / "xla" / "revision.bzl").write_text(f'XLA_COMMIT = "{RELEASES["jax-v0.10.2"]}"\n')
    (path / "build" / "build.py").write_text(BUILD_PY)
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "release"], ["tag", "jax-v0.10.2"]):
        assert run("git", *command, cwd=path).returncode == 0
    return path


@pytest.mark.parametrize("release", RELEASES)
def test_dry_run_prints_clone_patches_and_build(release: str, tmp_path: Path) -> None:
    work = tmp_path / "work"
    options = ["--jax", release, "--cuda", "13", "--compute-capabilities", "sm_90,sm_100", "--wheels", "jax-cuda-pjrt"]
    done = run(BUILD, "--dry-run", *options, "--work", work, "--python", "3.12", "--jobs", "3")
    assert done.returncode == 0, done.stderr
    assert not work.exists()
    commands = [line[2:].replace("\\", "") for line in done.stdout.splitlines() if line.startswith("+ ")]
    assert f"git clone --quiet --depth 1 --branch {release} https://github.com/jax-ml/jax {work}/jax" in commands
    hooks = PATCHES / RELEASES[release] / "nvshmem.patch"
    assert f"cp {hooks} {work}/jax/third_party/xla/xla_shmem_nvshmem.patch" in commands
    build = next(line for line in commands if line.startswith("python3 build/build.py"))
    for part in (
        "--wheels=jax-cuda-pjrt",
        "--cuda_major_version=13",
        "--cuda_compute_capabilities=sm_90,sm_100",
        "--python_version=3.12",
        f"--output_path={work}/wheels",
        "--bazel_options=--jobs=3",
        "--bazel_options=--repo_env=ML_WHEEL_TYPE=release",
        f"--bazel_options=--repo_env=ML_WHEEL_VERSION_SUFFIX=+{PATCHED_LABEL}",
    ):
        assert part in build.split()


def test_an_unknown_release_is_refused_with_the_list_of_patched_xlas() -> None:
    done = run(BUILD, "--dry-run", "--jax", "jax-v0.9.0")
    assert done.returncode == 1
    assert "no patch for jax-v0.9.0" in done.stderr
    assert all(commit in done.stderr for commit in RELEASES.values())
    assert "docs/patched-jaxlib.md" in done.stderr


def test_missing_tools_are_named_before_the_build_starts(tmp_path: Path, jax_repository: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in ("bash", "dirname", "realpath", "nproc", "awk", "df", "sed", "cat", "grep"):
        found = run("bash", "-c", f"command -v {tool}").stdout.strip()
        (tools / tool).symlink_to(found)
    done = run(BUILD, "--work", tmp_path / "work", PATH=str(tools), JAX_URL=str(jax_repository))
    assert done.returncode == 1
    for tool in ("python3", "git", "patch", "clang", "bazelisk"):
        assert re.search(rf"^  {tool}: ", done.stderr, re.MULTILINE), done.stderr
    assert "not started" in done.stderr
    assert not (tmp_path / "work").exists()


def test_both_patches_are_listed_once_and_a_second_run_continues(tmp_path: Path, jax_repository: Path) -> None:
    work = tmp_path / "work"
    texts = []
    for _ in range(2):
        done = run(BUILD, "--force", "--work", work, JAX_URL=str(jax_repository))
        assert done.returncode == 0, done.stderr
        assert "jaxlib-0.whl" in done.stdout
        texts.append((work / "jax" / "third_party" / "xla" / "workspace.bzl").read_text())
    assert texts[0] == texts[1]
    listed = re.findall(r'"//third_party/xla:(.*?)"', texts[0])
    assert sorted(listed) == ["its_own.patch", "xla_shmem_nvshmem.patch", "xla_shmem_overlay.patch"]


def test_a_jax_that_pins_another_xla_is_refused(tmp_path: Path, jax_repository: Path) -> None:
    (jax_repository / "third_party" / "xla" / "revision.bzl").write_text('XLA_COMMIT = "0123abcd"\n')
    for command in (["commit", "-qam", "another pin"], ["tag", "-f", "jax-v0.10.2"]):
        assert run("git", *command, cwd=jax_repository).returncode == 0
    done = run(BUILD, "--force", "--work", tmp_path / "work", JAX_URL=str(jax_repository))
    assert done.returncode == 1
    assert f"pins XLA 0123abcd, the patch is for {RELEASES['jax-v0.10.2']}" in done.stderr
    assert "build.py" not in done.stdout


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The files that the overlay patch adds to an XLA tree."""
    patch, tree = tmp_path / "overlay.patch", tmp_path / "xla"
    assert run(ROOT / "scripts" / "make_overlay_patch.sh", patch).returncode == 0
    assert run("git", "init", "-q", tree).returncode == 0
    applied = run("git", "apply", patch, cwd=tree)
    assert applied.returncode == 0, applied.stderr
    return tree


def test_overlay_patch_adds_our_files_unchanged(tree: Path) -> None:
    thunk = Path("backends/gpu/shmem/shmem_thunk.h")
    assert (tree / "xla" / thunk).read_text() == (ROOT / "xla_patch" / "overlay" / "xla" / thunk).read_text()
    for core in ("assigner/assigner.cc", "thunks/gpu/transfers.cc", "nvshmem/gpu/kernels.cu"):
        assert (tree / "xla_patch" / core).read_text() == (ROOT / "xla_patch" / core).read_text()
    builds = sorted(str(path.relative_to(tree)) for path in tree.rglob("BUILD"))
    assert builds == [
        "xla/backends/gpu/shmem/BUILD",
        "xla/backends/gpu/transforms/collectives/shmem/BUILD",
        "xla_patch/BUILD",
    ]
    # Every file that BUILD names is there, except those that it generates.
    named = re.findall(r'"((?:nvshmem|thunks)/[\w/.]+)"', (tree / "xla_patch" / "BUILD").read_text())
    generated = {"nvshmem/gpu/kernel_source.cc"}
    assert [name for name in named if name not in generated and not (tree / "xla_patch" / name).exists()] == []


def bazel_targets(build: Path) -> dict[str, dict[str, list[str]]]:
    """Sources, headers and deps of each cc_library of a BUILD file, with its globs evaluated."""
    package = build.parent
    targets: dict[str, dict[str, list[str]]] = {}

    def glob(include: list[str], exclude: tuple[str, ...] | list[str] = ()) -> list[str]:
        def matches(patterns: tuple[str, ...] | list[str]) -> set[str]:
            return {str(path.relative_to(package)) for pattern in patterns for path in package.glob(pattern)}

        return sorted(matches(include) - matches(exclude))

    def cc_library(name: str, srcs: tuple[str, ...] = (), hdrs: tuple[str, ...] = (), **others: Any) -> None:
        if name in targets:  # Bazel refuses the whole package
            raise ValueError(f"{build} has two targets named {name}")
        targets[name] = {"srcs": list(srcs), "hdrs": list(hdrs), "deps": others.get("deps", [])}

    def ignore(*_: Any, **__: Any) -> list[str]:
        return []

    names = {"glob": glob, "cc_library": cc_library}
    ignored = dict.fromkeys(("load", "package", "genrule", "cuda_rpath_flags"), ignore)
    exec(build.read_text(), {**names, **ignored})  # our own file, in the part of Starlark that is Python too
    return targets


def misplaced_files(tree: Path) -> list[str]:
    """Errors of the targets: files in no target or in two, test headers, and includes of headers out of reach."""
    targets: dict[str, dict[str, list[str]]] = {}
    for build in tree.rglob("BUILD"):
        package = build.parent.relative_to(tree)
        for name, target in bazel_targets(build).items():
            targets[f"//{package}:{name}"] = {
                **{kind: [str(package / file) for file in target[kind]] for kind in ("srcs", "hdrs")},
                "deps": [f"//{package}{dep}" if dep.startswith(":") else dep for dep in target["deps"]],
            }
    installed = {str(path.relative_to(tree)) for ending in ("*.cc", "*.h") for path in tree.rglob(ending)}
    listings = Counter(file for target in targets.values() for file in target["srcs"] + target["hdrs"])
    wrong = [f"{file} is in {listings[file]} targets" for file in sorted(installed) if listings[file] != 1]
    wrong += [f"{file} is for tests" for file in sorted(installed) if "gtest" in (tree / file).read_text()]

    def reachable(label: str) -> set[str]:
        target = targets.get(label, {"hdrs": [], "deps": []})
        return set(target["hdrs"]).union(*(reachable(dep) for dep in target["deps"]))

    for label, target in targets.items():
        headers = reachable(label)
        for file in {*target["srcs"], *target["hdrs"]} & installed:
            included = re.findall(r'#include "(xla(?:_patch/|/backends/gpu/shmem/).*?)"', (tree / file).read_text())
            wrong += [f"{file} of {label} cannot include {name}" for name in included if name not in headers]
    return wrong


def test_every_installed_file_is_in_one_target_that_can_include_what_it_includes(tree: Path) -> None:
    assert misplaced_files(tree) == []


def test_a_file_in_two_targets_or_in_none_is_noticed(tree: Path) -> None:
    build = tree / "xla_patch" / "BUILD"
    text = build.read_text()
    build.write_text(text + 'cc_library(name = "twice", srcs = ["thunks/gpu/transfers.cc"], deps = [":transfers"])\n')
    assert misplaced_files(tree) == ["xla_patch/thunks/gpu/transfers.cc is in 2 targets"]
    build.write_text(text)
    (tree / "xla_patch" / "stray.cc").write_text("")
    assert misplaced_files(tree) == ["xla_patch/stray.cc is in 0 targets"]


def test_two_targets_of_one_name_are_refused(tree: Path) -> None:
    build = tree / "xla_patch" / "BUILD"
    build.write_text(build.read_text() + 'cc_library(name = "types", hdrs = glob(["types/*.h"]))\n')
    with pytest.raises(ValueError, match="two targets named types"):
        misplaced_files(tree)


@pytest.mark.parametrize("commit", RELEASES.values())
def test_a_patch_adds_few_lines_to_few_files(commit: str) -> None:
    lines = (PATCHES / commit / "nvshmem.patch").read_text().splitlines()
    assert sum(line.startswith("+++ ") for line in lines) <= 11
    assert sum(line.startswith("+") and not line.startswith("+++") for line in lines) <= 40
    # git needs one line of upstream's before and one after a hunk to find its place.
    hunks = sum(line.startswith("@@ ") for line in lines)
    assert sum(line.startswith(" ") for line in lines) <= 2 * hunks


def upstream_text(source: Path, commit: str, path: str) -> str | None:
    """The text of a file in that revision; `source` is a working tree or a bare repository."""
    for git_dir in (source, source / ".git"):
        shown = run("git", f"--git-dir={git_dir}", "show", f"{commit}:{path}")
        if shown.returncode == 0:
            return shown.stdout
    return None


@pytest.mark.parametrize("commit", RELEASES.values())
def test_patches_apply_to_the_exact_text_of_upstream(commit: str, tmp_path: Path) -> None:
    source = os.environ.get("XLA_SRC")
    if source is None:
        pytest.skip("not checked: XLA_SRC names no clone of openxla/xla")
    hooks = PATCHES / commit / "nvshmem.patch"
    for path in re.findall(r"^\+\+\+ b/(.*)$", hooks.read_text(), re.MULTILINE):
        text = upstream_text(Path(source), commit, path)
        assert text is not None, f"{source} has no {path} of {commit}; XLA_SRC must be a clone with its history"
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    overlay = tmp_path / "overlay.patch"
    assert run(ROOT / "scripts" / "make_overlay_patch.sh", overlay).returncode == 0
    assert run("git", "init", "-q", tmp_path).returncode == 0
    # git and Bazel's `patches` accept no fuzz.
    checked = run("git", "apply", "--check", hooks, overlay, cwd=tmp_path)
    assert checked.returncode == 0, checked.stderr
    patched = run("patch", "-p1", "-F0", "-i", hooks, cwd=tmp_path)
    assert patched.returncode == 0, patched.stdout
    assert "offset" not in patched.stdout
