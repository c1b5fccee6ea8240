"""The backends that comparisons run: environments, dumps of rank 0, and proof that collectives moved."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hlo_samples import CPU_SYNC

from xla_shmem.backends import PLUGIN, STOCK, Backend, BackendError, collectives, dumping, keep_compiled_modules
from xla_shmem.cli.main import main
from xla_shmem.xla_flags import FLAG, MARKER


def test_only_the_plugins_run_has_the_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", f"--xla_cpu_enable_fast_math=false {FLAG}=true")
    monkeypatch.setenv(MARKER, "1")
    moved, stock = (backend.environment(os.environ) for backend in (PLUGIN, STOCK))
    assert f"{FLAG}=true" in moved["XLA_FLAGS"]
    assert FLAG not in stock.get("XLA_FLAGS", "")
    assert stock.get(MARKER) != "1"
    assert "--xla_cpu_enable_fast_math=false" in stock["XLA_FLAGS"]
    assert (moved["JAX_PLATFORMS"], PLUGIN.environment({}, gpus=True)["JAX_PLATFORMS"]) == ("cpu", "cuda,cpu")


def test_further_variables_are_those_of_the_job() -> None:
    backend = Backend("some", True, (("XLA_SHMEM_OPS", "all-reduce"),))
    assert backend.environment({"XLA_SHMEM_OPS": "all"})["XLA_SHMEM_OPS"] == "all-reduce"
    assert PLUGIN.environment({"XLA_SHMEM_OPS": "all"})["XLA_SHMEM_OPS"] == "all"


@pytest.mark.parametrize(("rank", "dumps"), [("0", True), ("1", False)])
def test_only_rank_0_dumps_and_the_old_dump_goes(rank: str, dumps: bool, tmp_path: Path) -> None:
    folder = tmp_path / "hlo"
    folder.mkdir()
    (folder / "old").touch()
    command = dumping(["/bin/sh", "-c", 'echo "$XLA_FLAGS" "$@"', "sh"], folder, ".*step.*")
    assert not folder.exists()
    environ = {"XLA_SHMEM_LOCAL_RANK": rank, "XLA_FLAGS": "--mine"}
    output = subprocess.run([*command, "argument"], env=environ, capture_output=True, text=True, check=True).stdout
    assert output.split()[0] == "--mine"
    assert output.split()[-1] == "argument"
    assert (f"--xla_dump_to={folder} --xla_dump_hlo_module_re=.*step.* --xla_dump_hlo_as_proto" in output) == dumps


def test_only_compiled_modules_are_kept(tmp_path: Path) -> None:
    for name in ("a.cpu_after_optimizations.hlo.pb", "a.before_optimizations.hlo.pb", "a.ll"):
        (tmp_path / name).touch()
    (tmp_path / "folder").mkdir()
    keep_compiled_modules(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["a.cpu_after_optimizations.hlo.pb"]


def test_a_run_that_moved_nothing_is_refused(tmp_path: Path) -> None:
    module = tmp_path / "module_0001.jit_step.cpu_after_optimizations.txt"
    module.write_text(CPU_SYNC)
    assert len(collectives(tmp_path)[0].records) == 3
    STOCK.check(tmp_path)
    with pytest.raises(BackendError, match="no collective of the training step was moved to SHMEM"):
        PLUGIN.check(tmp_path)
    main(["inspect", "decide", str(module), "--output", str(module)], standalone_mode=False)
    PLUGIN.check(tmp_path)


def test_a_run_without_a_dump_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="The decisions cannot be shown: "):
        PLUGIN.check(tmp_path / "missing")
