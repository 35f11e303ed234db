# Two commands, each from a bare machine with Python 3.11 or newer:
#   make demo    the main job, on real data, in a few minutes
#   make test    everything that must hold, in a few minutes
# Both first make .venv with the core, all plugins and the test tools; when nothing changed, that
# takes no time. make test-slow runs what takes longer, make clean removes .venv.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
PLUGINS := $(sort $(wildcard plugins/*/pyproject.toml))
EDITABLE := -e . $(foreach plugin,$(PLUGINS),-e $(patsubst %/,%,$(dir $(plugin))))

# Compiled bytecode halves the start-up, and this variable would stop Python from keeping it.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-slow lint clean

demo: $(READY)
	@$(BIN)/python -m compileall -q zoo zoo_core plugins
	@$(BIN)/zoo list
	@echo
	@echo "Made: .venv with zoo-core and the plugins above."
	@echo "Next: $(BIN)/zoo info cnn, or zoo.create(\"cnn\") in $(BIN)/python."

test: $(READY) lint
	$(BIN)/python -m pytest -n 2 -m "not slow"

test-slow: $(READY)
	$(BIN)/python -m pytest -m slow

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

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
