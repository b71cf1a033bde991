# Every target makes what it needs: `make static` is enough after a clone.
# On Linux, torch without CUDA takes less disk. Install it first:
#   python3 -m venv .venv && .venv/bin/pip install torch torchvision --index-url https://download.pytorch.org/whl/cpu
VENV ?= .venv
# A Python to build $(VENV) with: make test PYTHON=/opt/python3.12/bin/python3
PYTHON ?= python3 python3.13 python3.12 python3.11 python3.10 python
# More for the command: make static ARGS="--preset smoke"
ARGS ?=
# Two processes that take one test at a time, those on Ray first: tests/conftest.py
SHARED_OUT := -n 2 --dist loadgroup --no-loadscope-reorder

BIN := $(VENV)/bin/python
# Present from the first step of a first install until its last: such a $(VENV) is made anew.
UNFINISHED := $(VENV)/.unfinished
BASE := $(VENV)/.installed
DEV := $(VENV)/.installed-dev
CLUSTER := $(VENV)/.installed-cluster
DOCS := $(VENV)/.installed-docs

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help static identity gridworld report test coverage test-cluster lint types docs check install install-dev clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

static: $(BASE) ## static arithmetic (paper 4.1), laptop preset; ARGS="..." adds flags
	@$(call run,nalu_ray.tune static $(ARGS))

identity: $(BASE) ## failure to extrapolate the identity (paper figure 1)
	@$(call run,nalu_ray.tune identity $(ARGS))

gridworld: $(BASE) ## time tracking in the gridworld by A3C and IMPALA (paper 4.5, figure 5)
	@$(call run,nalu_ray.tune gridworld $(ARGS))

report: $(BASE) ## tables, figures and the HTML page from stored rows
	@$(call run,nalu_ray.report $(ARGS))

test: $(DEV) ## run the tests; ARGS="-m 'not slow'" leaves out the long ones
	$(BIN) -m pytest $(SHARED_OUT) $(ARGS)

coverage: $(DEV) ## the tests, and the share of the code that they run (processes of Ray not counted)
	$(BIN) -m pytest $(SHARED_OUT) --cov --cov-report=term $(ARGS)

test-cluster: $(CLUSTER) ## hosts, commands and disks that fail, pages in a browser: 25 minutes; some need root
	$(BIN) -m pytest tests/cluster tests/results/test_page.py::test_in_chromium tests/results/test_page.py::test_an_agent_moves_in_chromium $(ARGS)

lint: $(DEV) ## style and likely bugs
	$(BIN) -m ruff check .
	$(BIN) -m ruff format --check .

types: $(DEV) ## static types
	$(BIN) -m mypy

docs: $(DOCS) ## build the documentation site in site/ and check its links
	NO_MKDOCS_2_WARNING=1 $(BIN) -m mkdocs build --strict --quiet
	@echo "open site/index.html"

check: lint types test ## all three

install: $(BASE) ## install the package into $(VENV)
	@$(go-on)

install-dev: $(DEV) ## ... and what tests, lint and types need
	@$(go-on)

clean: ## remove builds and caches; keeps results/ and $(VENV)
	rm -rf build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -path ./$(VENV) -prune -o -name __pycache__ -type d -exec rm -rf {} +

$(BASE): pyproject.toml
	@$(make-venv)
	$(BIN) -m pip install --disable-pip-version-check --editable .
	@touch $@ && rm -f $(UNFINISHED)

$(DEV): pyproject.toml
	@$(make-venv)
	$(BIN) -m pip install --disable-pip-version-check --editable '.[dev]'
	@touch $(BASE) $@ && rm -f $(UNFINISHED)

$(CLUSTER): $(DEV)
	$(BIN) -m pip install --disable-pip-version-check --editable '.[cluster]'
	@touch $@

$(DOCS): $(BASE)
	$(BIN) -m pip install --disable-pip-version-check --editable '.[docs]'
	@touch $@

# Runs a command, then says how to run more of them, however it ended.
run = $(info $(BIN) -m $(1))$(BIN) -m $(1); code=$$?; $(go-on); exit $$code
# Prints nothing where $(VENV) is active already.
define go-on
[ "$$(command -v python)" = "$(abspath $(BIN))" ] || \
	echo "to run more, activate the environment: . $(VENV)/bin/activate"
endef

# Makes $(VENV), unless one stands that is not left over from an interrupted install. A candidate
# must run: a version manager's shim may exist for a Python that does not.
define make-venv
if [ -e $(UNFINISHED) ]; then \
	echo "$(VENV) is left over from an interrupted install: making it anew"; rm -rf $(VENV); \
fi; \
if $(BIN) -m pip --version >/dev/null 2>&1; then exit 0; fi; \
if [ -e $(VENV) ]; then \
	echo "$(VENV) has no working pip: remove it, or name another folder with VENV=" >&2; exit 1; \
fi; \
for candidate in $(PYTHON); do \
	if "$$candidate" -c "$(SUITABLE)" >/dev/null 2>&1; then \
		echo "making $(VENV) with $$("$$candidate" -V), $$(command -v "$$candidate")"; \
		mkdir -p $(VENV) && touch $(UNFINISHED) && exec "$$candidate" -m venv $(VENV); \
	fi; \
done; \
echo "no Python 3.10 to 3.13 with the venv module among: $(PYTHON)" >&2; \
echo "install one (Debian, Ubuntu: python3 and python3-venv), or name it: PYTHON=/path/to/python3" >&2; \
exit 1
endef
SUITABLE := import ensurepip, sys, venv; sys.exit(not (3, 10) <= sys.version_info[:2] < (3, 14))
