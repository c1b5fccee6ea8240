"""The runner of the GPU check: sections that crash, hang or are interrupted, the report, a machine without a GPU."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "benchmarks" / "gpu"))

from gpu_check import __main__ as check_program  # noqa: E402
from gpu_check import packages, plan, records, runner  # noqa: E402
from gpu_check.report import Report  # noqa: E402
from gpu_check.runner import Outcome, Section  # noqa: E402

RECORD = "from gpu_check import records\n"


def section(program: str, limit: float = 20, **options: object) -> Section:
    environment = {"PYTHONPATH": str(ROOT / "benchmarks" / "gpu")}
    return Section("part", "A part", [sys.executable, "-c", program], limit, environment, **options)  # type: ignore[arg-type]


def outcome_of(program: str, folder: Path, limit: float = 20, left: float = 100) -> Outcome:
    return runner.run(section(program, limit), folder / "part.log", left)


def test_a_section_with_good_checks_passes(tmp_path: Path) -> None:
    outcome = outcome_of(RECORD + "records.check('sum', True, 'fine')", tmp_path)
    assert (outcome.status, outcome.reason, outcome.exit_status) == ("passed", "", 0)
    assert outcome.records == [{"kind": "check", "name": "sum", "ok": True, "detail": "fine"}]


def test_a_failed_check_fails_the_section_and_is_named(tmp_path: Path) -> None:
    outcome = outcome_of(RECORD + "records.check('sum', False)\nrecords.check('ring', True)", tmp_path)
    assert (outcome.status, outcome.reason) == ("failed", "failed: sum")


def test_of_many_failed_checks_the_first_are_named() -> None:
    lines = [{"kind": "check", "name": f"check {number}", "ok": False, "detail": ""} for number in range(9)]
    assert runner.judge(0, 10, lines) == "failed: check 0, check 1, check 2, check 3 and 5 more"


def test_a_crash_keeps_earlier_findings_and_the_last_lines(tmp_path: Path) -> None:
    crash = "import os, signal\nprint('about to crash', flush=True)\nos.kill(os.getpid(), signal.SIGSEGV)"
    outcome = outcome_of(RECORD + "records.check('sum', True)\n" + crash, tmp_path)
    assert (outcome.status, outcome.reason) == ("failed", "killed by SIGSEGV")
    assert len(outcome.records) == 1
    assert "about to crash" in outcome.output


def test_a_section_that_hangs_is_stopped_with_all_its_processes(tmp_path: Path) -> None:
    program = f"""
import signal, subprocess, time
signal.signal(signal.SIGTERM, lambda *_: None)  # as JAX does
child = subprocess.Popen(["sleep", "60"])
open({str(tmp_path / "child")!r}, "w").write(str(child.pid))
time.sleep(60)
"""
    old, runner.GRACE_S = runner.GRACE_S, 0.3
    try:
        outcome = outcome_of(program, tmp_path, limit=1)
    finally:
        runner.GRACE_S = old
    assert (outcome.status, outcome.reason, outcome.exit_status) == ("failed", "stopped after 1 s", None)
    assert gone(int((tmp_path / "child").read_text()))


def test_ranks_that_do_not_agree_fail(tmp_path: Path) -> None:
    program = "import os\n" + RECORD
    for rank, digest in enumerate(("a", "b")):
        program += f"os.environ['OMPI_COMM_WORLD_RANK'] = '{rank}'\nrecords.same('total', '{digest}')\n"
    assert outcome_of(program, tmp_path).reason == "failed: total differs between ranks"


def test_a_section_without_findings_counts_as_not_run(tmp_path: Path) -> None:
    outcome = outcome_of(RECORD + "records.left_out('tool', 'it is not on PATH')", tmp_path)
    assert (outcome.status, outcome.reason) == ("not run", "it is not on PATH")


def test_without_time_left_nothing_is_started(tmp_path: Path) -> None:
    outcome = outcome_of("raise SystemExit(1)", tmp_path, left=0.5)
    assert (outcome.status, outcome.exit_status) == ("not run", None)
    assert "GPU_CHECK_SECONDS" in outcome.reason


def test_a_missing_program_is_named(tmp_path: Path) -> None:
    outcome = runner.run(Section("part", "A part", ["/no/such/program"], 5), tmp_path / "part.log", 100)
    assert (outcome.status, outcome.reason) == ("failed", "cannot start /no/such/program: No such file or directory")


def test_an_incomplete_line_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "part.jsonl").write_text('{"kind": "check", "name": "a", "ok": true, "detail": ""}\n{"kind": "che')
    assert [record["name"] for record in records.read(tmp_path / "part.jsonl")] == ["a"]


def report_of(*outcomes: Outcome, ended: str = "complete") -> Report:
    return Report("2026-01-02T03:04:05+00:00", "abc", list(outcomes), 12.0, ended)


GOOD = Outcome(section(""), "passed", "", 1.0, 0, [{"kind": "check", "name": "sum", "ok": True, "detail": ""}])
BAD = Outcome(section(""), "failed", "exit status 3", 1.0, 3, [], ["Traceback", "boom"], "ValueError: boom")
HALF = Outcome(
    section(""),
    "failed",
    "failed: ring",
    1.0,
    0,
    [
        {"kind": "check", "name": "ring", "ok": True, "detail": ""},
        {"kind": "check", "name": "ring", "ok": False, "detail": "3|4 wrong"},
    ],
)
MEASURED = {"kind": "row", "table": "Speed", "columns": {"bytes": 1024, "µs": 12.3456}}


def test_a_report_passes_only_if_something_was_checked_and_nothing_failed() -> None:
    assert report_of(GOOD).passed
    assert not report_of(GOOD, BAD).passed
    assert not report_of(runner.not_run(section(""), "no GPU")).passed
    assert not report_of(GOOD, ended="stopped by SIGINT").passed
    only_tried = Outcome(section("", counts=False), "failed", "exit status 1", 1.0, 1)
    assert report_of(GOOD, only_tried).passed


def test_the_report_names_what_failed_and_shows_its_output(tmp_path: Path) -> None:
    rows = Outcome(section(""), "passed", "", 1.0, 0, [MEASURED])
    report_of(GOOD, BAD, rows, HALF).write(tmp_path)
    text = (tmp_path / "report.md").read_text()
    assert text.startswith("# GPU check: not passed")
    assert "| `part`: A part | **failed** | 1 | exit status 3 |" in text
    assert "Traceback\nboom" in text
    assert "1 checks ok: sum." in text
    assert "| ring | 1 of 2 | 3\\|4 wrong |" in text
    assert "### Speed\n\n| bytes | µs |\n|---|---|\n| 1024 | 12.3 |" in text
    value = json.loads((tmp_path / "report.json").read_text())
    assert not value["passed"]
    assert [part["status"] for part in value["sections"]] == ["passed", "failed", "passed", "failed"]
    assert value["sections"][1]["output"] == ["Traceback", "boom"]


def test_the_summary_names_each_failure_with_its_first_error() -> None:
    assert report_of(GOOD, BAD, HALF).summary() == [
        "1 passed, 2 failed, 0 not run",
        "FAILED part: exit status 3 -- ValueError: boom",
        "FAILED part: failed: ring",
    ]


@pytest.mark.parametrize(
    ("output", "error"),
    [
        (["fine", "[1] xla_shmem: no peer", "[0] RuntimeError: later"], "[1] xla_shmem: no peer"),
        (["Traceback (most recent call last):", "  File", "jax.errors.JaxRuntimeError: INTERNAL"], "jax.errors.Jax"),
        (["a.cc:3:5: error: expected ';'"], "a.cc:3:5: error: expected"),
        (["no error here", "[0] W1123 12:28 x.cc:1] failed; ERROR: late", "last error: UNKNOWN"], "3 wrong"),
    ],
)
def test_the_first_error_is_found_in_the_output_or_among_the_checks(output: list[str], error: str) -> None:
    failed = {"kind": "check", "name": "ring", "ok": False, "detail": "3 wrong"}
    assert runner.first_error(output, [failed]).startswith(error)


def test_a_section_that_hangs_leaves_the_later_ones_their_time() -> None:
    part = section("", limit=60, kept_s=10)
    assert runner.limit_of(part, seconds_left=450, kept=100) == 60
    assert runner.limit_of(part, seconds_left=130, kept=100) == 30
    assert runner.limit_of(part, seconds_left=55, kept=100) == pytest.approx(5)


def test_every_section_on_a_gpu_keeps_time_and_has_a_larger_limit() -> None:
    sections = list(plan.on_gpu("python", 1, ""))
    assert [part.name for part in sections[:6]] == [
        "doctor", "kernels", "transfers-1", "transfers-2", "jax-2", "jax-2-graphs",
    ]  # fmt: skip
    assert all(0 < part.kept_s < part.limit_s for part in sections)
    build = plan.build(ROOT, ROOT, "")
    needed = sum(part.kept_s for part in sections if not part.why_not)
    assert needed + build.kept_s + plan.machine(ROOT).kept_s <= check_program.TOTAL_S


def test_an_emulated_gpu_is_named_first_and_has_no_times(tmp_path: Path) -> None:
    program = RECORD + "records.measured_row('Speed', {'µs': 1.5}, bytes=4)\nrecords.check('sum', True)"
    environment = {"PYTHONPATH": str(ROOT / "benchmarks" / "gpu"), records.EMULATED: "1"}
    part = Section("part", "A part", [sys.executable, "-c", program], 20, environment)
    report = report_of(runner.run(part, tmp_path / "part.log", 100))
    report.emulated = True
    report.write(tmp_path)
    head, _, rest = (tmp_path / "report.md").read_text().partition("**Emulated: this ran on tests/gpu_emulator")
    assert head == "# GPU check: passed (emulated GPU)\n\n"
    assert "| 4 | emulated: not measured |" in rest
    value = json.loads((tmp_path / "report.json").read_text())
    assert value["emulated"]
    assert value["seconds"] is None
    assert value["sections"][0]["seconds"] is None


def test_a_missing_package_and_what_it_brings_are_named_with_the_way_to_carry_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "half.py").write_text("import neither_here")
    known = packages.Package("half-wheel", "half", {"neither_here": "neither-here-wheel"})
    unknown = packages.Package("whole-wheel", "nowhere_at_all", {"json": "json"})
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = packages.troubles(Path(sys.executable), [known, unknown, packages.Package("json", "json")])
    assert found["half-wheel"].error == "ModuleNotFoundError: No module named 'neither_here'"
    assert found["half-wheel"].absent == ("neither-here-wheel",)
    assert found["whole-wheel"].absent == ("whole-wheel",)
    assert set(found) == {"half-wheel", "whole-wheel"}
    line = packages.how_to_carry(["half-wheel"])
    version = f"--python-version {sys.version_info[0]}.{sys.version_info[1]} "
    assert version in line
    assert "-d wheels half-wheel" in line


def gone(pid: int) -> bool:
    """Returns whether a process ends soon. A zombie has ended."""
    give_up = time.monotonic() + 5
    while time.monotonic() < give_up:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.02)
    return False


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="a machine with a GPU would run everything")
def test_a_machine_without_a_gpu_gets_a_report_that_says_so(tmp_path: Path) -> None:
    environment = {**os.environ, "GPU_CHECK_BASE_PYTHON": sys.executable, "GPU_CHECK_WORK": str(tmp_path / "work")}
    command = ["bash", str(ROOT / "scripts" / "gpu_check.sh"), str(tmp_path / "out")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1, done.stdout + done.stderr
    value = json.loads((tmp_path / "out" / "report.json").read_text())
    assert not value["passed"]
    assert value["ended"] == "complete"
    assert value["facts"]["GPUs"] == 0
    sections = {part["name"]: part for part in value["sections"]}
    assert sections["machine"]["status"] == "passed"
    for name in ("build", "kernels", "jax-2", "train"):
        assert sections[name]["status"] == "not run"
        assert sections[name]["reason"].startswith("no GPU: ")
    assert "GPU check: not passed" in (tmp_path / "out" / "report.md").read_text()


NOT_INSTALLED = """
import importlib.metadata, runpy
distribution = importlib.metadata.distribution

def without_the_package(name):
    if name == "xla-shmem":
        raise importlib.metadata.PackageNotFoundError(name)
    return distribution(name)

importlib.metadata.distribution = without_the_package
runpy.run_module("gpu_check.machine", run_name="__main__")
"""


def test_the_machine_is_read_before_the_package_is_installed(tmp_path: Path) -> None:
    found = tmp_path / "records.jsonl"
    environment = {**os.environ, **plan.machine(ROOT).environment, records.VARIABLE: str(found)}
    command = [sys.executable, "-c", NOT_INSTALLED]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "GPUs" in {record["name"] for record in records.read(found)}


def test_an_unknown_section_is_refused(tmp_path: Path) -> None:
    command = ["bash", str(ROOT / "scripts" / "gpu_check.sh"), str(tmp_path / "out"), "kernals"]
    environment = {**os.environ, "GPU_CHECK_BASE_PYTHON": sys.executable}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "no section kernals; there are doctor, kernels, " in done.stderr


INTERRUPTED = """
import sys
from gpu_check import __main__ as check, plan
from gpu_check.runner import Section
sleeper = f"import subprocess; p = subprocess.Popen(['sleep', '60']); open({child!r}, 'w').write(str(p.pid)); p.wait()"
plan.machine = lambda root: Section("machine", "Machine", [sys.executable, "-c", sleeper], 60)
sys.exit(check.main([{out!r}]))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_section_and_the_report_is_written(tmp_path: Path, number: signal.Signals) -> None:
    child, out = tmp_path / "child", tmp_path / "out"
    program = INTERRUPTED.replace("{child!r}", repr(str(child))).replace("{out!r}", repr(str(out)))
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "benchmarks" / "gpu"),
        "GPU_CHECK_WORK": str(tmp_path / "work"),
    }
    check = subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True)
    give_up = time.monotonic() + 20
    while not (child.exists() and child.read_text()) and time.monotonic() < give_up:
        time.sleep(0.02)
    check.send_signal(number)
    output, _ = check.communicate(timeout=20)
    assert check.returncode == 128 + number
    assert "not passed" in output
    assert gone(int(child.read_text()))
    value = json.loads((out / "report.json").read_text())
    assert value["ended"] == f"stopped by {number.name}"
    assert value["sections"][0]["status"] == "not run"
