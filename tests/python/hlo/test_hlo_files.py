"""Reading and writing of HLO files."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hlo_samples import CPU_SYNC, GPU_GENERIC_ASYNC, STABLEHLO, gpu_start_done

from xla_shmem import _core
from xla_shmem.hlo.files import HloFileError, read_module, read_modules, to_text, write_module
from xla_shmem.hlo.module_devices import devices_needed


def _wrapped(proto: bytes, times: int = 1) -> bytes:
    """Puts a message into field 1 of another: HloProto, and HloSnapshot around that."""
    for _ in range(times):
        size, prefix = len(proto), b"\x0a"
        while size >= 0x80:
            prefix += bytes([size & 0x7F | 0x80])
            size >>= 7
        proto = prefix + bytes([size]) + proto
    return proto


@pytest.fixture(scope="module")
def proto(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("sample") / "m.txt"
    path.write_text(CPU_SYNC)
    return read_module(str(path)).proto


def test_text_proto_wrapped_proto_and_gzip_are_the_same_module(tmp_path: Path, proto: bytes) -> None:
    forms = {
        "a.txt": CPU_SYNC.encode(),
        "a.hlo": b"// a comment on an HloModule\n\n" + CPU_SYNC.encode(),
        "a.pb": proto,
        "b.pb": _wrapped(proto),
        "snapshot.pb": _wrapped(proto, 2),
        "a.txt.gz": gzip.compress(CPU_SYNC.encode()),
        "a.pb.gz": gzip.compress(proto),
        "no_extension": _wrapped(proto),
    }
    for name, data in forms.items():
        (tmp_path / name).write_bytes(data)
        module = read_module(str(tmp_path / name))
        assert module.name == "jit_step", name
        assert to_text("m", module.proto) == to_text("m", proto), name


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch, proto: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(proto))))
    module = read_module("-")
    assert (module.source, module.name) == ("<stdin>", "jit_step")


def test_partition_count_of_a_text_survives(proto: bytes) -> None:
    header = _core.module_header(proto)
    assert (header["replicas"], header["partitions"], header["devices"]) == (1, 4, [0, 1, 2, 3])
    assert ", num_partitions=4\n" in to_text("m", proto)


@pytest.mark.parametrize(
    ("name", "text", "platform"),
    [
        ("m.txt", CPU_SYNC, "cpu"),
        ("m.txt", gpu_start_done(None), "gpu"),
        ("m.txt", GPU_GENERIC_ASYNC, "gpu"),
        ("module_0001.f.sm_9.0_gpu_after_optimizations.txt", CPU_SYNC, "gpu"),
        ("module_0001.f.cpu_after_optimizations.txt", gpu_start_done(None), "cpu"),
    ],
)
def test_platform_is_that_of_the_dump_or_of_the_ops(tmp_path: Path, name: str, text: str, platform: str) -> None:
    (tmp_path / name).write_text(text)
    assert read_module(str(tmp_path / name)).platform == platform


def test_dump_directory_gives_each_final_module_once(tmp_path: Path, proto: bytes) -> None:
    for name in ("module_0001.f.cpu_after_optimizations", "module_0002.g.sm_9.0_gpu_after_optimizations"):
        (tmp_path / f"{name}.txt").write_text(CPU_SYNC)
        (tmp_path / f"{name}-buffer-assignment.txt").write_text("BufferAssignment:")
        (tmp_path / f"{name}-memory-usage-report.pb").write_bytes(b"\x08\x01")
    (tmp_path / "module_0001.f.cpu_after_optimizations.hlo.pb").write_bytes(_wrapped(proto))
    (tmp_path / "module_0001.f.before_optimizations.txt").write_text(CPU_SYNC)
    (tmp_path / "module_0001.f.debug_options").write_text("")
    assert [Path(module.source).name for module in read_modules(str(tmp_path))] == [
        "module_0001.f.cpu_after_optimizations.hlo.pb",
        "module_0002.g.sm_9.0_gpu_after_optimizations.txt",
    ]


def test_dump_of_stock_jax_is_read(tmp_path: Path) -> None:
    program = (
        "import jax, numpy as np\n"
        "from jax.sharding import Mesh, PartitionSpec as P\n"
        "mesh = Mesh(np.array(jax.devices()), ('x',))\n"
        "f = jax.shard_map(lambda x: jax.lax.psum(x, 'x'), mesh=mesh, in_specs=P('x'), out_specs=P())\n"
        "jax.jit(f).lower(np.zeros(8, np.float32)).compile()\n"
    )
    for flags, suffix in (("", ".txt"), (" --xla_dump_hlo_as_proto", ".hlo.pb")):
        directory = tmp_path / suffix
        subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ
            | {
                "XLA_FLAGS": f"--xla_dump_to={directory}{flags}",
                "JAX_NUM_CPU_DEVICES": "4",
                "JAX_PLATFORMS": "cpu",
            },
            check=True,
            timeout=60,
        )
        (module,) = read_modules(str(directory))
        assert module.source.endswith(suffix)
        assert module.platform == "cpu"
        assert (module.header["replicas"], module.header["partitions"]) == (1, 4)
        assert "all-reduce(" in to_text("m", module.proto)


def test_a_written_module_reads_back(tmp_path: Path, proto: bytes) -> None:
    for name in ("o.txt", "o.hlo", "o.pb", "o.txt.gz", "o.pb.gz"):
        write_module(str(tmp_path / name), proto)
        assert to_text("m", read_module(str(tmp_path / name)).proto) == to_text("m", proto)
    assert (tmp_path / "o.pb").read_bytes() == proto
    assert (tmp_path / "o.pb.gz").read_bytes().startswith(b"\x1f\x8b")


def _error(path: Path | str) -> str:
    with pytest.raises(HloFileError) as error:
        list(read_modules(str(path)))
    message = str(error.value)
    assert message.startswith(f"{path}")
    assert "\n" not in message
    return message


def test_missing_file_is_named(tmp_path: Path) -> None:
    assert _error(tmp_path / "none.txt").endswith("cannot be read: No such file or directory.")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_file_without_permission_is_named(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").touch(mode=0)
    assert _error(tmp_path / "secret.txt").endswith("cannot be read: Permission denied.")


@pytest.mark.parametrize(
    ("name", "data", "sentence"),
    [
        ("empty.txt", b"", "is empty."),
        ("blank.txt", b" \n", "is empty."),
        ("poem.txt", b"Roses are red,\nviolets are blue.\n", "is not an HLO"),
        ("noise.pb", bytes(range(256)) * 4, "is not an HLO"),
        ("other.pb", b"\x08\x01\x10\x02", "is not an HLO module"),
        ("stable.mlir", STABLEHLO.encode(), "StableHLO (MLIR), not HLO; give the compiled module"),
        (
            "broken.txt",
            b"HloModule m\n\nENTRY {\n",
            "cannot parse it (3:7: error: expects name); if a newer XLA",
        ),
        (
            "huge.txt",
            CPU_SYNC.replace("num_partitions=4", "num_partitions=99999999999").encode(),
            "at most 1048576",
        ),
        ("short.txt.gz", gzip.compress(CPU_SYNC.encode())[:-40], "the gzip data is truncated"),
        ("bad.txt.gz", b"\x1f\x8b\x08\x00" + b"\xff" * 40, "the gzip data is damaged"),
    ],
)
def test_bad_file_is_one_sentence(tmp_path: Path, name: str, data: bytes, sentence: str) -> None:
    (tmp_path / name).write_bytes(data)
    assert sentence in _error(tmp_path / name)


def test_truncated_proto_is_reported_as_truncated(tmp_path: Path, proto: bytes) -> None:
    (tmp_path / "cut.pb").write_bytes(proto[: len(proto) // 2])
    assert re.search("is not an HLO proto, or is truncated: .* at byte [0-9]+;", _error(tmp_path / "cut.pb"))


def test_every_truncation_is_an_error_or_still_a_module(proto: bytes) -> None:
    for end in range(0, len(proto), 7):
        for data in (proto[:end], _wrapped(proto)[:end]):
            with contextlib.suppress(ValueError):
                _core.module_header(_core.unwrap_module(data))


def test_empty_directory_is_named(tmp_path: Path) -> None:
    assert "no *after_optimizations* module, no HLO files; dump with" in _error(tmp_path)


def test_directory_without_final_modules_names_a_file_that_it_holds(tmp_path: Path) -> None:
    (tmp_path / "module_0001.f.before_optimizations.txt").write_text(CPU_SYNC)
    assert "only 1 other files such as module_0001.f.before_optimizations.txt" in _error(tmp_path)


def test_one_module_is_asked_of_a_directory_with_two(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.cpu_after_optimizations.txt").write_text(CPU_SYNC)
    with pytest.raises(HloFileError, match=r"holds 2 modules, one is needed; name a file in it"):
        read_module(str(tmp_path))


@pytest.mark.parametrize("name", ["o", "o.json", "o.gz", "o.mlir.gz"])
def test_output_needs_a_known_extension(tmp_path: Path, proto: bytes, name: str) -> None:
    with pytest.raises(HloFileError, match=r"extension must be \.txt or \.hlo \(text\) or \.pb"):
        write_module(str(tmp_path / name), proto)


def test_output_that_cannot_be_written_is_named(tmp_path: Path, proto: bytes) -> None:
    with pytest.raises(HloFileError, match=r"none/o\.pb: cannot be written: No such file or directory\."):
        write_module(str(tmp_path / "none" / "o.pb"), proto)


@pytest.mark.parametrize(
    ("collective", "devices"),
    [
        ("all-reduce(%p), replica_groups={{0,1},{2,3}}, to_apply=%sum", 4),
        ("all-reduce(%p), replica_groups=[2,8]<=[16], to_apply=%sum", 16),
        ("collective-permute(%p), source_target_pairs={{0,5},{5,0}}", 6),
        ("all-reduce(%p), replica_groups={}, to_apply=%sum", None),
        ("negate(%p)", None),
    ],
)
def test_devices_come_from_the_groups_of_a_module_without_assignment(
    tmp_path: Path, collective: str, devices: int | None
) -> None:
    (tmp_path / "m.txt").write_text(
        "HloModule m\n\n%sum {\n  %a = f32[] parameter(0)\n  %b = f32[] parameter(1)\n"
        "  ROOT %c = f32[] add(%a, %b)\n}\n\nENTRY %main {\n  %p = f32[4]{0} parameter(0)\n"
        f"  ROOT %r = f32[4]{{0}} {collective}\n}}\n"
    )
    assert devices_needed(read_module(str(tmp_path / "m.txt"))) == devices


def test_module_that_xla_rejects_is_an_error_with_its_name(proto: bytes) -> None:
    with pytest.raises(HloFileError, match=r"^some\.pb: XLA cannot read the module: "):
        to_text("some.pb", proto.replace(b"all-reduce", b"all-redcue"))
