# Two commands for users (demo, test), one for maintainers (full). Each makes what it needs.
PYTHON ?= python3
SEED ?= 0
OUT ?= out/demo
ARGS ?=
COMMIT := $(shell git rev-parse --short=8 HEAD 2>/dev/null || echo 0)
export PYTHONSAFEPATH = 1
export PIP_DISABLE_PIP_VERSION_CHECK = 1

SOURCES := pyproject.toml setup.py $(shell find hal kernels devices dispatcher tensor autograd nn optim \
	data serialization vision testing cli plugins src/halon/__init__.py -type f \
	\( -name '*.py' -o -name '*.c' -o -name '*.h' -o -name '*.inc' -o -name '*.cl' -o -name '*.pyi' \
	-o -name '*.npz' -o -name 'pyproject.toml' \) -not -path '*/build/*' 2>/dev/null)

.PHONY: demo test lint tests pocl full clean
demo: .venv/ready
	.venv/bin/halon demo --seed $(SEED) --out $(OUT) $(ARGS)

test: lint tests pocl

lint: .venv-test/ready
	.venv-test/bin/ruff check .
	.venv-test/bin/ruff format --check .

tests: .venv-test/ready
	.venv-test/bin/python -m pytest tests -n 2 $(ARGS)

# A part of the OpenCL suite, chosen by the commit, once more on Debian's pocl; without pocl this says
# so, and fails where CI is set. `make full` runs all of it.
pocl: .venv-test/ready
	HALON_OPENCL_PLATFORM=portable \
	HALON_TEST_PART=$$($(PYTHON) -c "print(int('$(COMMIT)', 16) % 8)")/8 \
	.venv-test/bin/python -m pytest tests/devices -k opencl -n 2

# Everything, unsharded, and the figures of the demo over three seeds into docs/proof.
full: lint .venv-test/ready
	HALON_TEST_FULL=1 .venv-test/bin/python -m pytest tests -n 2
	HALON_TEST_FULL=1 HALON_OPENCL_PLATFORM=portable .venv-test/bin/python -m pytest tests/devices -k opencl -n 2
	.venv-test/bin/python bench/prove_demo.py

.venv/ready: $(SOURCES)
	$(PYTHON) -m venv .venv
	.venv/bin/pip install -q ".[opencl-cpu,demo]" ./plugins/example_py
	touch $@

.venv-test/ready: $(SOURCES)
	$(PYTHON) -m venv .venv-test
	.venv-test/bin/pip install -q ".[opencl-cpu,demo,test,dev]" ./plugins/example_py
	touch $@

clean:
	rm -rf .venv .venv-test build out *.egg-info src/*.egg-info
