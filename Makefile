.DEFAULT_GOAL := help
.PHONY: help up demo test fresh check bench format clean

# Further arguments for pytest: make test PYTEST_ARGS="-k subnet -x"
PYTEST_ARGS ?=
# Tests wait for other processes most of the time: more of them at once than there are cores. A file's tests stay together.
TEST_WORKERS ?= 4

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

up: ## the whole service on this machine until Ctrl-C: API on 127.0.0.1:9696, Open vSwitch, the agent
	@scripts/setup run
	@.venv/bin/neutrino up

demo: ## a tour on real packets: two hosts, a router, a floating IP, with the openstack client
	@scripts/setup demo
	@.venv/bin/neutrino lab demo

test: ## install what is missing, check the code, run the whole test suite
	@scripts/setup test
	@$(MAKE) --no-print-directory check
	.venv/bin/python -m pytest -n $(TEST_WORKERS) --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

fresh: ## follow the README on a bare Debian, in namespaces of its own (DEBIAN=12|13, TESTS=some|all, KEEP=1)
	@DEBIAN="$(DEBIAN)" TESTS="$(TESTS)" KEEP="$(KEEP)" scripts/fresh

check: ## lint, format, types, import rules
	@scripts/setup test
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy --strict src/neutrino
	.venv/bin/lint-imports

bench: ## measure the API on SQLite, PostgreSQL and MariaDB, the feed with a thousand hosts, and a host
	@scripts/setup test
	.venv/bin/python -m tests.bench.run
	.venv/bin/python -m tests.bench.hosts
	.venv/bin/python -m tests.bench.wiring

format: ## format the code, and repair what the linter can
	@scripts/setup test
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .

clean: ## remove .venv and everything that was generated
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src -maxdepth 1 -name '*.egg-info' -exec rm -rf {} +
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
