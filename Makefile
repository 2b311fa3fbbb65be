.DEFAULT_GOAL := help
.PHONY: help up test check bench format clean

# Further arguments for pytest: make test PYTEST_ARGS="-k subnet -x"
PYTEST_ARGS ?=

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

up: ## start the server on 127.0.0.1:9696, with SQLite and without authentication
	@scripts/setup run
	@.venv/bin/neutrino up

test: ## install what is missing, check the code, run the whole test suite
	@scripts/setup test
	@$(MAKE) --no-print-directory check
	.venv/bin/python -m pytest $(PYTEST_ARGS)

check: ## lint, format, types, import rules
	@scripts/setup test
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy --strict src/neutrino
	.venv/bin/lint-imports

bench: ## measure the API on SQLite, PostgreSQL and MariaDB
	@scripts/setup test
	.venv/bin/python -m tests.bench.run

format: ## format the code, and repair what the linter can
	@scripts/setup test
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .

clean: ## remove .venv and everything that was generated
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src -maxdepth 1 -name '*.egg-info' -exec rm -rf {} +
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
