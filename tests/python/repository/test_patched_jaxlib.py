"""scripts/build_jaxlib.sh, and the patches that it adds to XLA. Nothing is built here."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from overlay_workspace import install_overlay

from xla_shmem.gpu.jax_plugin import PATCHED_LABEL

ROOT = Path(__file__).parents[3]
PATCHES = ROOT / "xla_patch" / "patches"
BUILD = ROOT / "scripts" / "build_jaxlib.sh"
RELEASES = {
    "jax-v0.10.2": "5a9e73cbd92530cac2ac36f4736a774b2412afe2",
    "jax-v0.11.0": "131bf41acb4650e4391a640c3f1859c1c86ad74b",
}

COMMITS = sorted(path.name for path in PATCHES.iterdir())

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
    # jax's build brings its compiler, and Bazel applies patches itself.
    assert set(re.findall(r"^  (\S+): ", done.stderr, re.MULTILINE)) - {"disk", "memory"} == {
        "python3",
        "git",
        "bazelisk",
    }
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


def test_the_container_copies_what_the_script_needs(tmp_path: Path, jax_repository: Path) -> None:
    recipe = (ROOT / "scripts" / "jaxlib.Dockerfile").read_text()
    for source, target in re.findall(r"^COPY (\w+) (\w+)$", recipe, re.MULTILINE):
        shutil.copytree(ROOT / source, tmp_path / target)
    (options,) = re.findall(r"^RUN scripts/build_jaxlib\.sh (.*) --output \S+$", recipe, re.MULTILINE)
    script = tmp_path / "scripts" / "build_jaxlib.sh"
    done = run(script, *options.split(), "--force", cwd=tmp_path, JAX_URL=str(jax_repository))
    assert done.returncode == 0, done.stderr
    assert "jaxlib-0.whl" in done.stdout


def test_a_jax_that_pins_another_xla_is_refused(tmp_path: Path, jax_repository: Path) -> None:
    (jax_repository / "third_party" / "xla" / "revision.bzl").write_text('XLA_COMMIT = "0123abcd"\n')
    for command in (["commit", "-qam", "another pin"], ["tag", "-f", "jax-v0.10.2"]):
        assert run("git", *command, cwd=jax_repository).returncode == 0
    done = run(BUILD, "--force", "--work", tmp_path / "work", JAX_URL=str(jax_repository))
    assert done.returncode == 1
    assert f"pins XLA 0123abcd, the patch is for {RELEASES['jax-v0.10.2']}" in done.stderr
    assert "build.py" not in done.stdout


def test_a_patch_for_another_xla_is_taken_if_it_is_asked_for(tmp_path: Path, jax_repository: Path) -> None:
    (other,) = set(COMMITS) - set(RELEASES.values())
    done = run(BUILD, "--force", "--work", tmp_path / "work", "--xla", other, JAX_URL=str(jax_repository))
    assert done.returncode == 0, done.stderr
    assert f"pins XLA {RELEASES['jax-v0.10.2']}; the patch is for {other}" in done.stderr
    added = tmp_path / "work" / "jax" / "third_party" / "xla" / "xla_shmem_nvshmem.patch"
    assert added.read_text() == (PATCHES / other / "nvshmem.patch").read_text()


def test_overlay_patch_adds_our_files_unchanged(tmp_path: Path) -> None:
    tree = tmp_path / "xla"
    install_overlay(tree)
    thunk = Path("backends/gpu/shmem/shmem_collective_thunk.h")
    assert (tree / "xla" / thunk).read_text() == (ROOT / "xla_patch" / "overlay" / "xla" / thunk).read_text()
    for core in ("assigner/assigner.cc", "thunks/gpu/transfers.cc", "nvshmem/gpu/kernels/kernels.cu"):
        assert (tree / "xla_patch" / core).read_text() == (ROOT / "xla_patch" / core).read_text()
    builds = sorted(str(path.relative_to(tree)) for path in tree.rglob("BUILD"))
    assert builds == [
        "xla/backends/gpu/shmem/BUILD",
        "xla/backends/gpu/transforms/collectives/shmem/BUILD",
        "xla_patch/BUILD",
    ]


@pytest.mark.parametrize("commit", COMMITS)
def test_a_patch_adds_few_lines_to_few_files(commit: str) -> None:
    lines = (PATCHES / commit / "nvshmem.patch").read_text().splitlines()
    files = [line.removeprefix("+++ b/") for line in lines if line.startswith("+++ ")]
    assert len(files) <= 7
    # A changed message would be another class for whatever was compiled with the old one.
    assert not any(file.endswith(".proto") for file in files)
    assert sum(line.startswith("+") and not line.startswith("+++") for line in lines) <= 18
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


@pytest.mark.parametrize("commit", COMMITS)
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
