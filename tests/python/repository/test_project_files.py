"""Files for the forge, editors and package indexes: they are valid, and what they name exists."""

from __future__ import annotations

import configparser
import importlib.metadata
import re
import tomllib
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

import xla_shmem
from xla_shmem.cli.main import main

ROOT = Path(__file__).parents[3]
TARGETS = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
PROJECTS = {
    name: tomllib.loads((ROOT / folder / "pyproject.toml").read_text())
    for name, folder in {"xla-shmem": ".", "long-context": "python/long_context"}.items()
}
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def _yaml(path: str | Path) -> Any:
    return yaml.safe_load((ROOT / path).read_text())


def _commands(workflow: dict[Any, Any]) -> list[str]:
    return [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]


def _pythons(workflow: dict[Any, Any]) -> set[str]:
    return {
        version
        for job in workflow["jobs"].values()
        for version in job.get("strategy", {}).get("matrix", {}).get("python", [])
    }


def test_there_is_a_workflow() -> None:
    assert [path.name for path in WORKFLOWS] == ["ci.yml"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_calls_targets_of_the_makefile_and_nothing_else(path: Path) -> None:
    workflow = _yaml(path)
    assert workflow[True].keys() == {"pull_request", "push"}  # YAML 1.1 reads `on` as a bool
    commands = _commands(workflow)
    called = [re.fullmatch(r"make ([\w-]+) PYTHON=python", command) for command in commands]
    assert all(called), commands
    assert {match[1] for match in called if match} == {"test", "lint", "docs"} <= TARGETS


def test_the_workflow_runs_every_python_that_the_package_names() -> None:
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECTS["xla-shmem"]["project"]["classifiers"]))
    assert _pythons(_yaml(".github/workflows/ci.yml")) == set(named) == {"3.11", "3.12", "3.13", "3.14"}
    assert PROJECTS["xla-shmem"]["project"]["requires-python"] == f">={named[0]}"


def test_the_form_for_defects_asks_for_what_doctor_says() -> None:
    form = _yaml(".github/ISSUE_TEMPLATE/bug.yml")
    assert form.keys() >= {"name", "description", "body"}
    fields = {part["id"]: part for part in form["body"] if part["type"] != "markdown"}
    assert "xla-shmem doctor --json" in fields["doctor"]["attributes"]["label"]
    assert fields["doctor"]["validations"]["required"] is True
    for command in re.findall(r"xla-shmem (\w+)", (ROOT / ".github/ISSUE_TEMPLATE/bug.yml").read_text()):
        assert command in main.list_commands(click.Context(main))


def test_pre_commit_calls_a_script_that_exists() -> None:
    (repository,) = _yaml(".pre-commit-config.yaml")["repos"]
    (hook,) = repository["hooks"]
    assert repository["repo"] == "local"
    assert hook["language"] == "system"
    script, _, mode = hook["entry"].split()
    assert (ROOT / script).stat().st_mode & 0o111
    assert f'"$mode" = {mode} ]' in (ROOT / script).read_text()


def test_dependabot_looks_where_dependencies_are() -> None:
    updates = {update["package-ecosystem"]: update for update in _yaml(".github/dependabot.yml")["updates"]}
    assert updates.keys() == {"github-actions", "pip"}
    for directory in updates["pip"]["directories"]:
        assert (ROOT / directory.lstrip("/") / "pyproject.toml").is_file()


def test_the_citation_agrees_with_the_package() -> None:
    citation = _yaml("CITATION.cff")
    assert citation.keys() >= {"cff-version", "message", "title", "authors"}  # which the format requires
    assert citation["cff-version"] == "1.2.0"
    for project in PROJECTS.values():
        assert project["project"]["authors"] == citation["authors"] == [{"name": "The xla-shmem authors"}]
        assert project["project"]["license"] == citation["license"] == "Apache-2.0"


@pytest.mark.parametrize("name", PROJECTS)
def test_the_version_is_that_of_the_tag_and_has_one_fallback(name: str) -> None:
    project = PROJECTS[name]
    assert project["project"]["dynamic"] == ["version"]
    last = re.search(r"^## \[(\d\S*)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert last is not None
    if name == "xla-shmem":
        fallbacks = {project["tool"]["setuptools_scm"]["fallback_version"]}
    else:
        hatch = project["tool"]["hatch"]["version"]
        fallbacks = {hatch["fallback-version"], hatch["raw-options"]["fallback_version"]}
    assert fallbacks == {last[1]}


def test_the_package_says_the_version_with_which_it_was_built() -> None:
    built = importlib.metadata.version("xla-shmem")
    assert xla_shmem.__version__ == built
    assert built.startswith(("0.", "1.")), "built without a version"
    # Nothing else states one, so nothing else can differ.
    files = [ROOT / "pyproject.toml", *(ROOT / "python").rglob("*.toml"), *(ROOT / "python").rglob("*.py")]
    assert len(files) > 100
    stated = re.compile(r"""^(?:version|__version__) *= *["'][0-9](?!\+not)""", re.MULTILINE)
    assert [path for path in files if stated.search(path.read_text())] == []


@pytest.mark.parametrize(
    "link", re.findall(r"\]\(([^)#:]+)", (ROOT / "SECURITY.md").read_text() + (ROOT / "CONTRIBUTING.md").read_text())
)
def test_what_the_root_pages_link_exists(link: str) -> None:
    assert (ROOT / link).is_file()


def test_the_editors_settings_are_those_of_the_formatters() -> None:
    settings = configparser.ConfigParser()
    settings.read_string("[top]\n" + (ROOT / ".editorconfig").read_text())
    assert settings["top"]["root"] == "true"
    assert settings["*"]["max_line_length"] == str(PROJECTS["xla-shmem"]["tool"]["ruff"]["line-length"]) == "120"
    assert settings["Makefile"]["indent_style"] == "tab"
    assert "ColumnLimit: 120" in (ROOT / ".clang-format").read_text()
