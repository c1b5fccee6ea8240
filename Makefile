# Every target sets itself up. It needs Linux, Python 3.11+, git, a C++17 compiler and the package registries. Suites that
# need more say so below; they are not part of `make test`.
# The newest supported Python of this machine: only 3.12 and newer have the newest JAX.
ifndef PYTHON
PYTHON := $(or $(shell scripts/find_python.sh 3.14 3.13 3.12 3.11),python3)
endif
VENV ?= .venv
BIN := $(VENV)/bin
# Two test files at a time, or three of those whose jobs wait or sleep. So `make test` fills two cores.
PYTEST_2 := $(BIN)/python -m pytest -q -n 2 --dist loadfile
PYTEST_3 := $(BIN)/python -m pytest -q -n 3 --dist loadfile
# Those of the overlay have a target of their own.
PYTHON_TESTS := tests/python tests/hlo tests/bindings tests/protocol_models/test_protocol_names.py \
  tests/simulator/test_simulator_mutants.py \
  --ignore tests/python/repository/test_overlay_in_bazel.py
JOB_TESTS := tests/e2e tests/examples tests/gpu_emulated tests/gpu_aot

.PHONY: demo quick test check bench lint install test-cpp check-cpp test-tsan test-python test-jobs test-training \
  gpu-wheels test-gpu-emulated test-browser test-e2e-slow test-jax-ragged test-random simulate check-models \
  test-compat test-tutorial test-upstream test-clients test-bazel test-overlay test-patched-xla test-faults \
  test-hosts table2 docs fuzz wheels test-wheels clean

# The main job: trains a small Llama with ring attention twice, on SHMEM and on stock JAX, and compares.
demo: install
	$(BIN)/xla-shmem demo

# For each save, in two minutes.
quick: install
	$(PYTEST_2) $(PYTHON_TESTS) -m "not slow and not form"

# The tests that every change must pass: one form of each behaviour, in nine to ten minutes on two cores. C++ tests sleep,
# so they run beside all others; jobs and training begin when Python's tests have ended.
test: install
	$(MAKE) --no-print-directory --jobs=4 --output-sync JOBS_AFTER=test-python test-cpp test-jobs test-training

# Further forms, shapes, seeds and numbers of ranks of the same behaviours, and C++ under sanitizers.
check: check-cpp gpu-wheels
	$(PYTEST_2) --no-loadscope-reorder $(JOB_TESTS) -m "form and not slow"
	$(PYTEST_2) $(PYTHON_TESTS) tests/long_context -m "form and not slow"

# C++ unit tests.
test-cpp: install
	scripts/test_cpp.sh $(BIN) assertions

# The same under AddressSanitizer and UndefinedBehaviorSanitizer.
check-cpp: install
	scripts/test_cpp.sh $(BIN) address,undefined

# Those of modules with threads under ThreadSanitizer.
test-tsan: install
	scripts/test_cpp.sh $(BIN) thread '^(shm|nvshmem|thunks|stress|gpu_thunks|pjrt|observe)_test'

test-python: install
	$(PYTEST_2) $(PYTHON_TESTS) -m "not slow and not form"

# Jobs on CPUs. The real XLA:GPU compiler from the wheels of the stock CUDA plugin, and an emulated CUDA
# driver and NVSHMEM below JAX's own GPU client (tests/gpu_emulator); these need no GPU, driver or CUDA toolkit.
test-jobs: gpu-wheels $(JOBS_AFTER)
	E2E_WARM_START=1 $(PYTEST_3) --no-loadscope-reorder $(JOB_TESTS) -m "not slow and not form"

test-training: install $(JOBS_AFTER)
	$(BIN)/python -m pytest -q tests/long_context -m "not slow and not form"

# Emulated GPUs: four processes, more seeds, mutants of our code, gpu_check as a whole; and the emulator's own tests,
# and a job, under AddressSanitizer and UndefinedBehaviorSanitizer.
test-gpu-emulated: install
	$(BIN)/python tests/gpu_emulator/emulator.py --test --sanitizers=address,undefined
	$(PYTEST_2) tests/gpu_emulated -m slow

# The page of `xla-shmem inspect --html` in headless Chromium; Chromium must be installed.
test-browser: install
	$(BIN)/python -m pytest -q tests/browser

# Jobs of larger forms, `compare` as a job, a Slurm cluster; not those of test-faults.
test-e2e-slow: install
	$(PYTEST_2) tests/e2e tests/examples -m slow --ignore=tests/e2e/test_faults.py --ignore=tests/e2e/test_training_faults.py

# JAX's own tests of ragged all-to-all, without their skip of CPUs. JAX_TESTS: the folder tests/ of JAX's repository at
# the release's tag. Other releases: JAX_TESTS=... COMPAT_RELEASES=0.12.0.1 COMPAT_TESTS=tests/jax_ragged make test-compat
test-jax-ragged: install
	$(BIN)/python -m pytest -q tests/jax_ragged

# Random programs in jobs of two and four processes, compared with NumPy, and planted faults that must be found.
# RANDOM_PROGRAMS=10000 make test-random runs more; RANDOM_SEED=N repeats a search, RANDOM_SECONDS=N limits it.
test-random: install
	$(BIN)/python -m pytest -q -s tests/random_programs

# Longer trainings; 50 steps of the tensor-parallelism tutorial's model reach the published accuracy and loss.
test-tutorial: install
	$(BIN)/python -m pytest -q tests/long_context -m slow

# The other supported JAX releases, each in its own environment (0.12 needs Python 3.12 or newer).
test-compat:
	scripts/test_compat.sh

# Our assigner against XLA's, in JAX releases that still had one (docs/differences.md); needs no GPU and no driver.
test-upstream: install
	scripts/test_upstream.sh $(BIN) $(PYTHON)

# MaxText's trainer, and the tests of JAX, NetKet and jaxDecomp, with the flag and without it. CLIENTS=quick make
# test-clients runs a part.
test-clients: install
	scripts/test_clients.sh $(BIN)

# Processes killed, stopped, paused, slowed down and forked at random points: 180 runs of the C++ runtime, 24 of a
# training job (XLA_SHMEM_FAULT_RUNS=500 XLA_SHMEM_FAULT_SEED=1 make test-faults runs more), and 13 jobs of `launch`.
test-faults: install
	XLA_SHMEM_FAULT_RUNS=180 scripts/test_cpp.sh $(BIN) "" faults
	$(BIN)/python -m pytest -q tests/e2e/test_training_faults.py tests/e2e/test_faults.py

# Jobs on several hosts, each made of namespaces on this machine: where collectives go, values, failures, and that nothing
# is left behind. Needs iproute2, and root or a system that permits user namespaces.
test-hosts: install
	$(BIN)/python -m pytest -q tests/hosts -m "not slow"

# The CPU runtime in a deterministic simulator: fixed seeds, SIMULATE_SECONDS of new ones, a job of 4,096 PEs, and
# planted mistakes. Needs clang. SIMULATE_SECONDS=7200 make simulate runs for hours.
simulate: install
	$(BIN)/python -m pytest -q tests/simulator

# Models of both transports' protocols, of which Spin looks at every state, and mistakes planted in them. Needs spin and
# gcc.
check-models: install
	$(BIN)/python -m pytest -q tests/protocol_models

# The same C++ core and tests with Bazel, and test-patched-xla. BAZEL_OPTIONS="-c fastbuild" compiles faster.
test-bazel:
	scripts/bazel_test.sh $(BAZEL_OPTIONS)

# The overlay for a patched XLA as jax's build gets it: Bazel builds the shared core, and loads the rest beside stubs.
test-overlay: install
	scripts/find_bazel.sh >/dev/null
	$(BIN)/python -m pytest -q tests/python/repository/test_overlay_in_bazel.py

# Every source of the overlay compiled, linked and run with the real XLA:GPU, from a nightly wheel of TensorFlow (620 MB);
# then JAX on it, on emulated GPUs. Needs clang 16 or newer; half a minute of compiling a file.
test-patched-xla:
	BAZEL_TARGETS="//tests/overlay/... //xla_patch/overlay/..." scripts/bazel_test.sh $(BAZEL_OPTIONS)
	COMPAT_RELEASES=0.10.2 COMPAT_TESTS=tests/overlay scripts/test_compat.sh

# Feeds mutated modules to the pass, under sanitizers, for FUZZ_SECONDS; FUZZ_RUNS=40000: the same each time.
fuzz: install
	scripts/fuzz.sh $(BIN) $(if $(FUZZ_RUNS),runs=$(FUZZ_RUNS),$(or $(FUZZ_SECONDS),60))

# Tables of transport and pass speed; see docs/performance.md. BENCH_VS=stock,mpi compares with MPI too (docs/bench.md).
BENCH_VS ?= stock
bench: install
	for p in 2 4; do $(BIN)/xla-shmem bench -n $$p -b 4K -e 64M -f 4 --op all --vs $(BENCH_VS) \
	  --output out/bench/$$p-processes.json --png out/bench/$$p-processes.png || exit 1; done
	$(BIN)/python benchmarks/pass_benchmark.py
	$(BIN)/python benchmarks/compile_benchmark.py

# docs/data/table2.json: Llama 3 8B compiled for each row of Table 2 in NVIDIA's post, without a GPU; about ten minutes.
table2: gpu-wheels
	$(BIN)/python tools/table2.py --wheels .venv-gpu-$$($(BIN)/python -c "import jax; print(jax.__version__)") docs/data/table2.json
	$(BIN)/python tools/predict_page.py

# Builds the documentation; open out/site/index.html.
docs: install
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

lint: install
	scripts/lint.sh $(BIN)

# manylinux_2_28 wheels in dist/: one for CPython 3.11, and one with the stable ABI for 3.12 and newer.
wheels:
	scripts/wheels.sh

# Those wheels in bare environments of Python 3.11, 3.12 and 3.13, without a compiler: doctor, and a job.
test-wheels: install wheels
	$(BIN)/python -m pytest -q tests/built_wheels

# XLA:GPU and what it needs, from the wheels of JAX's CUDA plugin.
gpu-wheels: install
	scripts/setup_gpu_aot.sh $(BIN)

install:
	@scripts/setup.sh $(PYTHON) $(VENV)

clean:
	rm -rf build dist out $(VENV) .venv-gpu-* .venv-jax-* .venv-upstream-* .venv-clients .venv-maxtext-*
