# Two commands on a fresh machine: `make demo` and `make test`. Each sets up what it needs in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO_ARGS ?=
PYTEST_ARGS ?=
# All that encoding with the model of the package imports
WHEEL_NEEDS := numpy tokenizers safetensors tqdm lazy_loader

.PHONY: demo test test-min lint docs wheel clean

$(VENV)/.demo: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[plots,search]"
	touch $@

$(VENV)/.dev: $(VENV)/.demo
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

demo: $(VENV)/.demo  ## train, evaluate and query a search encoder for the installed Python documentation
	$(BIN)/accelerate launch --num_processes 1 --num_machines 1 --mixed_precision no --dynamo_backend no \
		examples/run_demo.py --overwrite_output_dir $(DEMO_ARGS)

test: $(VENV)/.dev  ## every test, offline
	HF_HUB_OFFLINE=1 $(BIN)/python -m pytest -n 2 --dist loadgroup $(PYTEST_ARGS)

$(VENV)-min/.test: pyproject.toml constraints-min.txt
	test -x $(VENV)-min/bin/python || $(PYTHON) -m venv $(VENV)-min
	$(VENV)-min/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-min.txt -e ".[test]"
	touch $@

test-min: $(VENV)-min/.test  ## the fast tests, offline, against the oldest versions of the dependencies
	HF_HUB_OFFLINE=1 $(VENV)-min/bin/python -m pytest -n 2 --dist loadgroup -m "not slow and not data" $(PYTEST_ARGS)

lint: $(VENV)/.dev  ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

$(VENV)/.docs: $(VENV)/.demo
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[docs]"
	touch $@

docs: $(VENV)/.docs  ## the site, in build/site; a warning or a dead link is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

wheel: $(VENV)/.dev  ## build the wheel, check it, and run it where little else is installed
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*
	$(PYTHON) -m venv --clear $(VENV)-wheel
	$(VENV)-wheel/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt $(WHEEL_NEEDS)
	$(VENV)-wheel/bin/python -m pip install --quiet --disable-pip-version-check --no-deps dist/*.whl
	cd $(VENV)-wheel && bin/contrastive-st similarity "a cat sat" "a feline rested"

clean:
	rm -rf $(VENV) $(VENV)-min $(VENV)-wheel build dist out
