# Every target sets up $(VENV) first, which takes a few minutes once. VENV=none uses the python3 at hand instead, with
# what is installed there: for hosts where nothing can be installed.

VENV ?= .venv
SHELL := /bin/sh

ifeq ($(VENV),none)
PY := python3
READY :=
READY_GPU :=
READY_TORCH :=
READY_INSTRUCTOR :=
OF_VENV :=
else
PY := $(VENV)/bin/python
READY := $(VENV)/.ready-dev
# In terminals and notebooks of JupyterLab `autograder` and `python` are those of the environment.
OF_VENV := PATH="$(abspath $(VENV))/bin:$$PATH"
READY_GPU := $(VENV)/.ready-gpu
READY_TORCH := $(VENV)/.ready-torch
READY_INSTRUCTOR := $(VENV)/.ready-instructor
endif

# The checkout is what runs, wherever the packages come from; a PYTHONPATH of the user's own stays behind it.
export PYTHONPATH := $(CURDIR)$(if $(PYTHONPATH),:$(PYTHONPATH))

.DEFAULT_GOAL := help
.PHONY: help venv torch grade test test-all stored test-gpu test-judge test-instructor test-long lab bench bench-cpu validate notebooks reports site pages lint clean

help:  ## show this list
	@echo "make grade    grade every reference solution (on the GPU if there is one, else on the emulator)"
	@echo "make test     run the tests that need no GPU"
	@echo "make lab      open JupyterLab at the first chapter, in copies of your own (mine/)"
	@echo
	@sed -n 's/^\([a-z-]*\):.*  ## /\1 /p' Makefile | while read name text; do printf '  %-10s %s\n' "$$name" "$$text"; done
	@echo
	@echo "VENV=none     use the python3 at hand and what is installed there, for example: make grade VENV=none"

venv: $(READY)  ## set up .venv, nothing else
	@echo "Ready: $(PY)"

torch: $(READY) $(READY_TORCH)  ## add PyTorch, which chapter 14 and lab 15 need
	@echo "Ready: $(PY), with torch"

ifneq ($(VENV),none)
# One after the other into the same folder, however many jobs make may run.
$(READY_TORCH) $(READY_GPU): | $(READY)
$(READY_INSTRUCTOR): | $(READY_TORCH)
endif

$(VENV)/.ready-%: pyproject.toml $(wildcard constraints*.txt) scripts/setup.sh
	@sh scripts/setup.sh $(VENV) $*

grade: $(READY) $(READY_TORCH)  ## grade every reference solution into build/report
	@$(PY) -m autograder reference

# Tests start hundreds of processes, which would compile this project's modules each if nobody kept them compiled. They
# use all processors side by side; BLAS, which would use all of them for each product, gets one.
PYTEST = PYTHONDONTWRITEBYTECODE= OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(PY) -m pytest -q
HERE := not gpu and not multigpu and not instructor and not pages

test: $(READY) $(READY_TORCH)  ## run the tests that need no GPU, no process and no compiler, and a few that do: two minutes
	@$(PYTEST) -m "$(HERE) and (not processes and not slow or smoke)" $$($(PY) scripts/test_workers.py 1)

test-all: $(READY) $(READY_TORCH)  ## run the other tests that need no GPU, and compile what make test has stored
	@WARPLAB_STORED=check $(PYTEST) -m "$(HERE) and (stored or (processes or slow) and not smoke)" $$($(PY) scripts/test_workers.py 2)

stored: $(READY) $(READY_TORCH)  ## renew tests/stored.zip, what make test runs in place of a compiler
	@rm -f tests/stored.zip
	@WARPLAB_STORED=renew $(PYTEST) -m "$(HERE) and stored and not processes" $$($(PY) scripts/test_workers.py 1)

test-gpu: $(READY) $(READY_TORCH)  ## run the tests that need a GPU, keeping their record
	@$(PY) -m benchmarks.gpu_tests

test-judge: $(READY) $(READY_TORCH)  ## judge the judge: right, wrong and cheating submissions, a line each
	@$(PY) -m benchmarks.judge

test-instructor: $(READY) $(READY_TORCH) $(READY_INSTRUCTOR)  ## with nbgrader, otter, Docker and Slurm, which are started as root
	@$(OF_VENV) sh scripts/docker_engine.sh sh scripts/slurm_node.sh env $(PYTEST) \
		-m instructor $$($(PY) scripts/test_workers.py 1) tests/autograder

test-long: $(READY) $(READY_TORCH)  ## what make test samples, whole: submissions, 200 seeds, rungs, killed processes, Colab's packages
	@WARPLAB_STORED=check WARPLAB_ENVIRONMENTS=1 WARPLAB_FAULTS=100 WARPLAB_SEEDS=200 WARPLAB_WHOLE=1 $(PYTEST) \
		-m "not gpu and not multigpu and not instructor" $$($(PY) scripts/test_workers.py 2) \
		tests/autograder/test_faults.py tests/autograder/classroom/test_class.py \
		tests/autograder/classroom/test_class_faults.py tests/labs tests/gemm \
		tests/systems/megakernel tests/systems/network tests/own_kernels tests/peer tests/plan tests/ptx tests/notebooks tests/systems/search \
		tests/sharded tests/course/figures tests/emulator/corpus tests/emulator/test_machine_code.py tests/test_toolkits.py

lab: $(READY)  ## open JupyterLab at the first chapter, in copies of your own (mine/)
	@$(PY) -m course.own_notebooks
	@$(OF_VENV) JUPYTER_PATH="$(CURDIR)/autograder/panel$${JUPYTER_PATH:+:$$JUPYTER_PATH}" \
		JUPYTER_CONFIG_PATH="$(CURDIR)/autograder/panel/config$${JUPYTER_CONFIG_PATH:+:$$JUPYTER_CONFIG_PATH}" \
		$(PY) -m jupyter lab $(if $(filter 0,$(shell id -u)),--allow-root) \
		--ServerApp.root_dir="$(CURDIR)" mine/00_start_here.ipynb

bench: $(READY_GPU)  ## measure this GPU into benchmarks/results; GEMM=1: products beside cuBLAS; NET=1: collectives
	@$(PY) -m benchmarks.$(if $(NET),collectives,$(if $(GEMM),bench_gemm,bench_gpu))

bench-cpu: $(READY)  ## measure the emulator against Numba's simulator
	@$(PY) -m benchmarks.bench_emulator

validate: $(READY)  ## compare the emulator's counters with Nsight Compute's (needs a GPU and ncu)
	@$(PY) -m benchmarks.validate

notebooks: $(READY) $(READY_TORCH)  ## run the chapters that changed into build/notebooks
	@$(PY) -m scripts.notebooks

site: $(READY) $(READY_TORCH)  ## build the site into build/site/html
	@$(MAKE) --no-print-directory -j2 notebooks reports
	@$(PY) -m website && echo "Open build/site/html/index.html"

reports: $(READY) $(READY_TORCH)  ## grade the reference solutions for the site, if what grades depend on changed
	@$(PY) -m website.reports

pages: $(READY)  ## write notebooks/*.ipynb, docs/facts.md and docs/instructions.md
	@$(PY) -m scripts.notebooks --pair
	@$(PY) -m scripts.facts
	@$(PY) -m warplab.emulator.lowering.coverage > docs/instructions.md

lint: $(READY)  ## check style, spelling, types, which module may import which, records and pages
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check --quiet .
	@$(PY) -m codespell_lib
	@$(PY) -m autograder handouts --check
	@$(PY) -m mypy
	@for task in labs/*/task.py; do $(PY) -m mypy --no-error-summary $$task || exit 1; done
	@$(PY) -c "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True, no_logo=True))"
	@$(PYTEST) -n0 -m pages $$(grep -rl --include='test_*.py' pytest.mark.pages tests)

clean:  ## remove what was built, .venv and all
	@rm -rf build corpus/judge/build .venv .pytest_cache .ruff_cache .mypy_cache .import_linter_cache .hypothesis *.egg-info
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
