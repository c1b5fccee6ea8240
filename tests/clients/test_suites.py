"""The tests of other projects have the same outcomes with the flag as on stock JAX, one by one.

jaxDecomp's tests come from PyPI. Those of JAX and NetKet are in no package; JAX_SOURCE and NETKET_SOURCE name their
checkouts.
"""

from __future__ import annotations

import os
import re
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from suite_runs import assert_same_outcomes, jax_multiprocess_suite, pytest_suite

# A loaded machine needs half an hour for one mode of some suites.
pytestmark = pytest.mark.timeout(6 * 3600)

QUICK = os.environ.get("CLIENTS") == "quick"
needs_time = pytest.mark.skipif(QUICK, reason="CLIENTS=quick")

# The suites' own options ask for coverage, and treat warnings of newer packages as errors.
_PLAIN = ("-o", "addopts=", "-o", "filterwarnings=", "-p", "no:cacheprovider", "-p", "no:warnings", "-q", "--tb=short")

# Files of jaxDecomp's tests, which of their tests, and devices of each of the four processes. The prime sizes grow with
# the cube of the number of devices.
_JAXDECOMP = {
    "halo": ("test_halo.py", "", 2),
    "transpose": ("test_transpose.py", "", 2),
    "fft": ("test_fft.py", " and not prime_sizes", 2),
    "fft-prime-sizes": ("test_fft.py", " and prime_sizes", 1),
}

# What NetKet's own script for several processes runs. Its distributed solvers need a package for GPUs.
_NETKET = ("test/sharding/test_sharding.py", "test/logging/test_hdf5_log.py")

# Tests of JAX that need several processes; the others there are about TPUs, GPUs or services. The first are sure to
# have collectives.
_COLLECTIVE = ("all_gather", "all_reduce", "all_to_all")
_MULTIPROCESS = (
    *_COLLECTIVE,
    "array",
    "axis_index",
    "host_callback",
    "multihost_utils",
    "pjit",
    "pmap",
    "wait_barrier",
)

# Processes, and devices of each.
_SHAPES = ((2, 1), (4, 1), (4, 2))

# Tests of JAX's pjit_test that cannot pass with the flag.
_PJIT_MAY_FAIL = (
    # jax 0.10.2 drops donation of a module that a transform returns (docs/sharp-bits.md).
    "testBufferDonationDifferentIOShapes",
    "testBufferDonationWithOutputShardingInference",
    # They count `all-reduce(` in the text of the compiled module, where a custom call is now.
    "test_minibatch_scan_unreduced_custom_vjp",
    "test_minibatch_scan_unreduced_grad",
    "test_scan_over_layers_minibatch_unreduced_custom_vjp",
    "test_scan_over_layers_minibatch_unreduced_grad",
)


def _checkout(variable: str, package: str) -> Path:
    folder = os.environ.get(variable)
    if not folder:
        pytest.skip(f"{variable} does not name a checkout of {package} {version(package)}")
    return Path(folder).resolve()


@pytest.fixture(scope="session")
def jax_tests() -> Path:
    """The folder of tests in a checkout of JAX, which must be of the installed release."""
    checkout = _checkout("JAX_SOURCE", "jax")
    release = re.search(r'^_version = "(.+)"', (checkout / "jax" / "version.py").read_text(), re.MULTILINE)
    assert release is not None, f"JAX_SOURCE={checkout}: jax/version.py names no release"
    wanted = version("jax")
    assert release[1] == wanted, f"JAX_SOURCE={checkout} is jax {release[1]}, not {wanted}; check out jax-v{wanted}"
    return checkout / "tests"


@pytest.mark.parametrize("name", ["halo"] if QUICK else _JAXDECOMP)
def test_jaxdecomp(name: str, tmp_path: Path) -> None:
    (tests,) = Path(sys.prefix, "sources").glob("jaxdecomp-*/tests")
    file, chosen, devices = _JAXDECOMP[name]
    ranks, devices = (2, 1) if QUICK else (4, devices)
    # With SLURM_JOB_ID its conftest calls jax.distributed.initialize().
    environ = {"SLURM_JOB_ID": "1", "JAX_NUM_CPU_DEVICES": str(devices)}
    # The first three want cuDecomp, a large machine and a cluster. The last one takes the first devices only: processes
    # without one fail before the collective, and stock JAX waits for them until its coordinator ends the job.
    arguments = [*_PLAIN, "-k", f"not cudecomp and not huge and not cluster and not sharded_vmap{chosen}", file]
    suite = pytest_suite(tests, arguments, ranks=ranks, timeout=3600, environ=environ)
    assert_same_outcomes(suite, tmp_path / name)


@needs_time
@pytest.mark.parametrize("ranks", [2, 4])
def test_netket(ranks: int, tmp_path: Path) -> None:
    files = [str(_checkout("NETKET_SOURCE", "netket") / name) for name in _NETKET]
    # NetKet's own import mode. With it, and outside the checkout, the tests import the installed netket.
    arguments = [*_PLAIN, "--import-mode=importlib", *files]
    environ = {"INITIALIZE": "1", "NETKET_SHARDING": "1"}
    suite = pytest_suite(tmp_path, arguments, ranks=ranks, timeout=5400, environ=environ)
    assert_same_outcomes(suite, tmp_path / f"netket-{ranks}")


@needs_time
@pytest.mark.parametrize(
    ("name", "processes", "devices"),
    # The tests of host_callback want four processes of two devices.
    [(name, *shape) for name in _MULTIPROCESS for shape in _SHAPES if name != "host_callback" or shape == (4, 2)],
)
def test_jax_multiprocess(name: str, processes: int, devices: int, jax_tests: Path, tmp_path: Path) -> None:
    file = jax_tests / "multiprocess" / f"{name}_test.py"
    suite = jax_multiprocess_suite(file, processes=processes, devices=devices, timeout=600)
    assert_same_outcomes(suite, tmp_path / f"{name}-{processes}x{devices}", moves=name in _COLLECTIVE)


@needs_time
@pytest.mark.parametrize("name", ["shard_map", "pmap", "pjit"])
def test_jax_in_one_process(name: str, jax_tests: Path, tmp_path: Path) -> None:
    # The conftest would put the checkout before the installed jax.
    suite = pytest_suite(jax_tests, [*_PLAIN, "--noconftest", f"{name}_test.py"], ranks=1, timeout=5400)
    assert_same_outcomes(suite, tmp_path / name, may_fail=_PJIT_MAY_FAIL if name == "pjit" else ())
