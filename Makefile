# From a bare machine with Python 3.11 or newer:
#   make install puts the core and all plugins into .venv
#   make demo    trains a network on real images, evaluates it, shows the report; a few minutes
#   make test    everything that must hold, in a few minutes
# All make .venv first, with the core, all plugins and the test tools; when nothing changed, that
# takes no time. make test-often N=20 runs the quick tests in many orders, make test-slow runs what
# takes longer, make campaign MINUTES=60 tries to take the zoo down, make clean removes .venv.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
# Ray is large: make test-slow installs it.
PLUGINS := $(filter-out plugins/zoo-ray/%,$(sort $(wildcard plugins/*/pyproject.toml)))
SOURCES := $(shell find zoo zoo_core plugins/zoo-cnn/zoo_cnn -name '*.py')
EDITABLE := -e . $(foreach plugin,$(PLUGINS),-e $(patsubst %/,%,$(dir $(plugin))))

# Compiled bytecode halves the start-up, and this variable would stop Python from keeping it.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: install demo test test-often test-slow campaign lint manifest docs clean

install: $(READY)

# The training is done once; make demo then shows it again until the code changes.
demo: runs/.demo
	@run=$$(cat runs/.demo) && echo && \
	echo "Made: a trained model and its report in $$run" && \
	echo "Look: $$run/report.md, and the plots in $$run/pictures" && \
	echo "Next: $(BIN)/zoo list" && \
	echo "      $(BIN)/zoo predict $$run IMAGE.jpg" && \
	echo "      $(BIN)/zoo train efficientnet_lite0_finetune --dataset ./FOLDER_WITH_YOUR_PHOTOGRAPHS"

# CIFAR-10, from wherever this machine can get it; without any network, the made-up dataset.
runs/.demo: $(READY) $(SOURCES)
	@$(BIN)/python -m compileall -q zoo zoo_core plugins
	@$(BIN)/zoo list
	@mkdir -p runs
	@if $(BIN)/zoo data fetch cifar10; then data=cifar10; else data=synthetic; fi; \
	echo "Training cnn on $$data for 2 epochs, about two minutes on two cores ..."; \
	$(BIN)/zoo train cnn --dataset $$data --epochs 2 --set schedule=one_cycle --runs runs > runs/.demo.out
	@run=$$(tail -n 1 runs/.demo.out) && $(BIN)/zoo evaluate "$$run" && echo "$$run" > $@

# One thread for each test process: more would only wait for each other. Three processes, because
# a fifth of the time a test waits for a disk or for another process. A file stays in one of them:
# what its tests share is made once. Order and random numbers are new each time; pytest's first
# lines say how to have them again.
QUICK = OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 3 --dist loadfile -m "not slow"

test: $(READY) lint
	$(QUICK)

# N times with N seeds, until one fails.
N ?= 20
test-often: $(READY)
	@for seed in $$($(BIN)/python -c "import random; print(*random.sample(range(2**32), $(N)))"); do \
	  $(QUICK) -q --randomly-seed=$$seed || { echo "Failed: --randomly-seed=$$seed"; exit 1; }; \
	  echo "Passed: --randomly-seed=$$seed"; \
	done

# A test may take half an hour here before pytest prints where it stands.
test-slow: $(READY)
	$(BIN)/uv pip install --python $(BIN)/python --constraint constraints.txt -e plugins/zoo-ray
	$(BIN)/python -m pytest -m slow -o faulthandler_timeout=1800

# docs/reliability.md says what these campaigns try. SEED=7 repeats one, ONLY=kills,calls chooses,
# RECORD=1 adds a row to the table there. Not part of continuous integration.
MINUTES ?= 60
campaign: $(READY)
	PYTHONPATH=tests $(BIN)/python -m campaigns --minutes $(MINUTES) \
	  $(if $(SEED),--seed $(SEED)) $(if $(ONLY),--only $(ONLY)) $(if $(RECORD),--record)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

# weights_manifest.json again, from the lists of the plugins here; docs/weights.md says more.
manifest: $(READY)
	ZOO_MANIFEST=weights_manifest.json $(BIN)/python weights_manifest.py

# docs/reference again, a page for each public class.
docs: $(READY)
	$(BIN)/python docs/reference.py

# constraints.txt pins what everybody tests with; the plugins themselves ask for ranges only.
$(READY): pyproject.toml $(PLUGINS) constraints.txt requirements-dev.txt Makefile
	@$(PYTHON) -c "import sys; sys.exit('Zoo needs Python 3.11 or newer, this is ' + sys.version.split()[0] if sys.version_info < (3, 11) else 0)"
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt uv
	$(BIN)/uv pip install --python $(BIN)/python --compile-bytecode --constraint constraints.txt \
	  --requirement requirements-dev.txt $(EDITABLE)
	$(BIN)/python -m compileall -q zoo zoo_core plugins
	@touch $(READY)

clean:
	rm -rf .venv
