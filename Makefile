.DEFAULT_GOAL := help
.PHONY: help up demo test durations fresh kernel openstack check bench curves format clean package release docs package-test bench-neutron takeover

# Further arguments for pytest: make test PYTEST_ARGS="-k subnet -x"
PYTEST_ARGS ?=
# Compiled modules are kept: the tests start over a thousand Python processes. Some environments forbid to write them.
unexport PYTHONDONTWRITEBYTECODE
# A killed make leaves nothing behind; one that gets SIGTERM passes it on.
ENDS_WITH_MAKE = exec setpriv --pdeathsig TERM --
# Three for each of two cores, as tests mostly wait for other processes: with four, a quarter of the machine was idle. Tests of
# one file run in one worker.
TEST_WORKERS ?= 6

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

up: ## run the whole service on this machine until Ctrl-C: API on 127.0.0.1:9696, Open vSwitch, agent
	@scripts/setup run
	@.venv/bin/neutrino up

demo: ## demonstrate it with real packets: two hosts, a router, a floating IP, the openstack client
	@scripts/setup demo
	@.venv/bin/neutrino lab demo

test: ## install what is missing, check the code, run the whole test suite
	@scripts/setup test
	@.venv/bin/python -m compileall -q src tests qa
	@$(MAKE) --no-print-directory lint
	@$(ENDS_WITH_MAKE) $(MAKE) --no-print-directory -j 2 types suite

fresh: ## follow the README on a bare Debian, in separate namespaces (DEBIAN=12|13, ARCH=amd64|arm64, TESTS=some|all|unit|none, KEEP=1)
	@DEBIAN="$(DEBIAN)" ARCH="$(ARCH)" TESTS="$(TESTS)" KEEP="$(KEEP)" scripts/fresh

.PHONY: test-python
test-python: ## run the unit and API tests with other versions of Python (PYTHON="3.12 3.13", TESTS="tests/unit", DATABASES=sqlite, MINUTES=45)
	@$(ENDS_WITH_MAKE) env PYTHON="$(PYTHON)" TESTS="$(TESTS)" DATABASES="$(DATABASES)" MINUTES="$(MINUTES)" TEST_WORKERS=$(TEST_WORKERS) scripts/test-python

kernel: ## test the kernel datapath of Open vSwitch in a QEMU guest: all flows, packets, and a whole cloud of two hosts (one to two hours without KVM)
	@scripts/setup kernel
	@.venv/bin/python -m qa.kernel.run $(PYTEST_ARGS)

openstack: ## run Nova, Keystone, Placement and Glance with libvirt on this networking service, and check it (one hour; ARGS="--only boot")
	@scripts/setup openstack
	@.venv/bin/python -m qa.openstack.run $(ARGS)

.PHONY: vhost-user
vhost-user: ## test vhost-user ports: Open vSwitch with DPDK, without hugepages, and QEMU guests (a quarter of an hour without KVM)
	@scripts/setup vhost-user
	@.venv/bin/python -m qa.vhost_user.run $(PYTEST_ARGS)

package: ## build the wheel and the Debian packages into dist/ (DEBIAN=12|13, ARCH=amd64|arm64, PACKAGE_VERSION=…)
	@DEBIAN="$(DEBIAN)" ARCH="$(ARCH)" PACKAGE_VERSION="$(PACKAGE_VERSION)" scripts/package

release: ## build a release of the last commit into dist/, twice, and compare: wheel, sources, packages, components, checksums (ARGS=--trial)
	@scripts/setup package
	@.venv/bin/python packaging/release --check $(ARGS)

docs: ## build the pages as a site with search and the API reference into build/docs, for offline use, and check its links
	@scripts/setup docs
	@.venv/bin/python -m qa.docs.build

package-test: package ## install, use, upgrade and purge the packages on a bare Debian with systemd (5 minutes; DEBIAN=12|13, STEPS=container, KEEP=1)
	@DEBIAN="$(DEBIAN)" KEEP="$(KEEP)" STEPS="$(STEPS)" scripts/package-test

.PHONY: image
image: package ## build an image of the server from Debian packages alone into dist/, by podman, and start it (DEBIAN=12|13, KEEP=1)
	@DEBIAN="$(DEBIAN)" KEEP="$(KEEP)" scripts/image

.PHONY: deploy-test
deploy-test: package ## deploy a cloud by Ansible on machines with systemd, in namespaces: install, use, upgrade, remove (SHAPE=small|full, DEBIAN=12|13, STEPS=list, KEEP=1)
	@scripts/setup deploy
	@scripts/setup keystone
	@SHAPE="$(SHAPE)" DEBIAN="$(DEBIAN)" STEPS="$(STEPS)" KEEP="$(KEEP)" scripts/deploy-test

check: ## lint, format, types, import rules
	@scripts/setup test
	@$(MAKE) --no-print-directory lint types

# A few seconds: `test` stops here, before the tests begin.
.PHONY: lint
lint:
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/lint-imports
	qa/page/check

# A minute of one core, some seconds with the cache of an earlier run: beside the tests.
TYPED = src/neutrino qa tests/faults packaging/debs
.PHONY: types
types:
	@MYPYPATH=packaging .venv/bin/mypy $(TYPED) || { echo "types: mypy has failed, see above: make fails at the end of the tests"; exit 1; }

.PHONY: suite
suite:
	@$(ENDS_WITH_MAKE) env WORKERS=$(TEST_WORKERS) scripts/suite $(PYTEST_ARGS)

durations: ## keep the durations of test files that the last "make test" has recorded: they decide the order of the tests
	cp build/durations.json tests/durations.json

bench: ## benchmark the API on SQLite, PostgreSQL and MariaDB, the feed with 5,000 hosts, and a host
	@scripts/setup test
	.venv/bin/python -m qa.bench.run
	.venv/bin/python -m qa.bench.hosts
	.venv/bin/python -m qa.bench.wiring
	@$(MAKE) --no-print-directory curves

bench-neutron: ## benchmark OpenStack Neutron (from PyPI) and this project on this machine in one run (gives up after three hours; ARGS="--ports 5000")
	@scripts/setup neutron
	.venv/bin/python -m qa.bench.neutron $(ARGS)

takeover: ## take over a cloud of real Neutron (from PyPI) on three lab hosts while traffic is measured (some minutes; ARGS="--hosts h2")
	@scripts/setup neutron
	.venv/bin/python -m qa.takeover.run $(ARGS)

curves: ## measure and plot the cost of operations against the size of a cloud (docs/images/growth-*.svg)
	@scripts/setup test
	.venv/bin/python -m qa.bench.curves --images docs/images --out docs/benchmarks-growth.json

format: ## format the code, and fix what the linter can
	@scripts/setup test
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .

clean: ## remove .venv and all generated files
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src -maxdepth 1 -name '*.egg-info' -exec rm -rf {} +
	find src tests qa -name __pycache__ -type d -prune -exec rm -rf {} +
