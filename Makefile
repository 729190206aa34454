# Everything runs from a fresh clone: each target makes what it needs.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
SOURCES := operator/gpushare memorytest devcluster demo bench tools tests
export PYTHONPATH := operator:.
# Where it is set, each of a thousand processes would compile the program anew.
unexport PYTHONDONTWRITEBYTECODE
# A build that hangs is a failure. Each test has a limit of its own, so that the one that hangs is named.
LIMIT = timeout --foreground --kill-after=30

SHARDS = --numprocesses=2 --dist=loadfile
# Four clusters keep two processors busy: their tests wait more than they compute.
# In the order of the names: files of one long test would all come last otherwise, side by side.
CLUSTERS = --numprocesses=4 --dist=loadfile --no-loadscope-reorder

.PHONY: help
help: ## Show the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' \
		| while IFS=$$'\t' read -r name text; do printf '  %-18s %s\n' "$$name" "$$text"; done

$(READY): requirements/build.txt requirements/dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Python 3.11 or newer is needed; set PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@# Of what is installed the first run needs little: it is compiled when it is imported.
	$(BIN)/pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r requirements/build.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r requirements/dev.txt
	@touch $@

.PHONY: demo
demo: $(READY) ## Show the whole main job on a real control plane; SCENE=NAME plays one, KEEP=1 leaves it up, HELM=1 installs it by Helm, POLICY=1 without a webhook
	@$(LIMIT) 7200 $(BIN)/python -m demo $(if $(KEEP),--keep) $(if $(HELM),--installation=helm) $(if $(POLICY),--installation=policy) $(addprefix --scene=,$(SCENE))

# Side by side, since each waits now and then, the longest first; then the one that fills the machine by itself.
.PHONY: test
test: $(READY) ## Run what each change must pass: unit tests, lint, the chart, the demo, the main job on a real control plane
	$(LIMIT) 2400 $(BIN)/python -m devcluster build
	@$(MAKE) --no-print-directory --jobs=3 --output-sync=target test-unit demo lint test-chart
	@$(MAKE) --no-print-directory test-integration

.PHONY: test-rest
test-rest: $(READY) ## Run the other forms: installation and upgrades, outages, certificates, Prometheus, the image, the page in a browser
	$(LIMIT) 2400 $(BIN)/python -m devcluster build
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target test-image test-browser
	@$(MAKE) --no-print-directory test-install
	@$(MAKE) --no-print-directory test-outages
	@$(MAKE) --no-print-directory demo HELM=1
	@$(MAKE) --no-print-directory demo POLICY=1

.PHONY: test-all
test-all: ## Run every suite that needs no other version or checkout: hours
	@for suite in test test-node test-rest test-company test-node-long test-safety test-faults test-chaos test-soak test-simulate fuzz; do \
		$(MAKE) --no-print-directory $$suite; done

.PHONY: test-unit
test-unit: $(READY) ## Run the unit tests
	$(BIN)/pytest tests/unit --timeout=180 $(SHARDS)

.PHONY: test-image
test-image: $(READY) ## Carry out the Dockerfile's steps without an engine, and start the program from there
	$(BIN)/pytest tests/image --timeout=280 $(SHARDS)

.PHONY: test-release
test-release: $(READY) ## Build the image by buildah and look into it; push the chart to a registry and install it from there
	$(LIMIT) 2400 $(BIN)/python -m devcluster build
	$(BIN)/pytest tests/release -p no:randomly --timeout=600

.PHONY: test-chart
test-chart: $(READY) ## Render the chart with many values, and apply each as a dry run
	$(LIMIT) 2400 $(BIN)/python -m devcluster build
	$(BIN)/pytest tests/integration/chart -p no:randomly --timeout=180 $(SHARDS)

# What every run leaves to longer suites, by the markers of pyproject.toml.
DEFAULT = -p no:randomly --timeout=300 -m "not long and not chaos and not soak"
MAIN_JOB = ownership pools nodechange rollout teardown webhook policy commands
.PHONY: test-integration
test-integration: $(READY) ## Run the main job's tests against the real control plane
	$(LIMIT) 2400 $(BIN)/python -m devcluster build
	rights=$$(mktemp -d) && trap 'rm -rf "$$rights"' EXIT \
		&& GPUSHARE_RIGHTS="$$rights" $(BIN)/pytest $(MAIN_JOB:%=tests/integration/%) $(DEFAULT) $(CLUSTERS) \
		&& $(BIN)/python -m tests.rights "$$rights"

.PHONY: test-install
test-install: $(READY) ## Install, upgrade and remove by Helm; hold the rules against Prometheus, type the pages' commands
	$(LIMIT) 2400 $(BIN)/python -m devcluster build --kube-score
	$(LIMIT) 1200 $(BIN)/python -m devcluster build --prometheus || test "$${CI:-}" != true # then its tests are skipped
	$(BIN)/pytest tests/integration/install tests/integration/usage $(DEFAULT) $(CLUSTERS)

.PHONY: test-outages
test-outages: $(READY) ## Disturb the API server, its answers and the certificates; watch two controllers
	$(LIMIT) 2400 $(BIN)/python -m devcluster build
	$(BIN)/pytest tests/integration/outages tests/integration/simulator tests/chaos $(DEFAULT) $(CLUSTERS)

.PHONY: test-simulate
test-simulate: $(READY) ## Play random queues of pods on the real kube-scheduler, thrice each, beside what simulate predicts (QUEUES=20 a stage)
	$(LIMIT) 2400 $(BIN)/python -m devcluster build
	$(BIN)/pytest tests/integration/simulate -p no:randomly -s --timeout=5400

.PHONY: test-policy-agreement
test-policy-agreement: $(READY) ## Compare the admission policy with the webhook on 10,000 new random pods (PODS=100000)
	$(LIMIT) 2400 $(BIN)/python -m devcluster build
	GPUSHARE_POLICY_PODS=$(or $(PODS),10000) $(BIN)/pytest tests/integration/policy -p no:randomly --timeout=5400

.PHONY: test-company
test-company: $(READY) ## Run other projects' controllers beside the operator, the real ones: Kueue, KubeRay, KServe
	$(LIMIT) 2400 $(BIN)/python -m devcluster build
	$(LIMIT) 2400 $(BIN)/python -m devcluster build --company || test "$${CI:-}" != true # then their tests are skipped
	$(BIN)/pytest tests/company -p no:randomly --timeout=300 --durations=5 $(SHARDS)

BROWSER := $(VENV)/.browser
$(BROWSER): $(READY) requirements/browser.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/browser.txt
	@touch $@

.PHONY: test-browser
test-browser: $(BROWSER) ## Look at the page in a Chromium without a window, by Playwright, beside the real control plane
	$(LIMIT) 600 $(BIN)/python -m devcluster browser || test "$${CI:-}" != true # then they are skipped
	$(LIMIT) 2400 $(BIN)/python -m devcluster build
	$(BIN)/pytest tests/browser -p no:randomly --timeout=120 $(SHARDS)

.PHONY: screenshots
screenshots: $(BROWSER) ## Draw the page's pictures, docs/images/page-{light,dark}.png
	$(LIMIT) 300 $(BIN)/python -m tools.screenshots docs/images

# What the API server's version may change most.
VERSIONED = api chart chart_account chart_matrix chart_teardown chart_rights cli_migrate devcluster \
	event_series eviction faults_watch faults_writes gitops modes quota tenants webhook webhook_isolation
.PHONY: test-version
test-version: $(READY) ## Run a selection of tests and the demo by Helm on another Kubernetes, VERSION=1.34; without it, list those tested
	@test -n "$(VERSION)" || { echo "make test-version: say which Kubernetes, VERSION=1.34. Tested:" >&2; \
		$(BIN)/python -m tools.tested_versions; exit 1; }
	bin=$$($(LIMIT) 4800 $(BIN)/python -m devcluster build --kubernetes $(VERSION)) && export DEVCLUSTER_BIN="$$bin" \
		&& $(BIN)/pytest $(foreach name,$(VERSIONED),$(wildcard tests/integration/*/test_$(name).py)) $(DEFAULT) $(CLUSTERS) \
		&& folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT \
		&& $(LIMIT) 900 $(BIN)/python -m demo --installation=helm --folder "$$folder/demo"

# The oldest that the chart accepts; 1.30 has no later patch release.
OLDEST = $(shell sed -nE 's/^- \{version: ([0-9.]+),.*/\1/p' tools/tested-versions.yaml | head -1)
.PHONY: test-oldest
test-oldest: ## Run the same on the oldest Kubernetes that the chart accepts
	@$(MAKE) --no-print-directory test-version VERSION=$(OLDEST)

# Each worker has a node of its own. Where the machine can't hold one the tests are skipped.
NODES = --numprocesses=3 --dist=loadfile --no-loadscope-reorder
.PHONY: test-node
test-node: test-release ## Install the operator on a real node and change its isolation there, as root: kubelet, containerd, the image
	$(LIMIT) 2400 $(BIN)/python -m devcluster build
	$(BIN)/pytest tests/node -p no:randomly --timeout=300 -m "not long" $(NODES)

.PHONY: test-node-long
test-node-long: $(READY) ## The same for what takes minutes there, and what takes two nodes
	$(LIMIT) 2400 $(BIN)/python -m devcluster build
	$(BIN)/pytest tests/node -p no:randomly --timeout=600 -m long $(NODES)

.PHONY: test-safety
test-safety: $(READY) ## Show that each safety rule is held by tests: take it out, see them fail
	$(BIN)/python -m tools.mutations

.PHONY: fuzz
fuzz: $(READY) ## Play hundreds of random histories, thousands of pods and calls, each new (HISTORIES=N REVIEWS=N)
	$(BIN)/pytest tests/unit --hypothesis-profile=fuzz -m hypothesis $(SHARDS)
	GPUSHARE_HISTORIES=$(or $(HISTORIES),400) GPUSHARE_REVIEWS=$(or $(REVIEWS),1000) \
		$(BIN)/pytest -p no:randomly -o faulthandler_timeout=0 --hypothesis-profile=fuzz \
		tests/unit/planner/test_planner_histories.py tests/unit/planner/test_wild_histories.py \
		tests/unit/forecast/test_forecast_histories.py tests/unit/snapshot/test_admission_histories.py \
		tests/unit/admission/test_placement_oracle.py tests/unit/admission/test_wild_placement.py \
		tests/unit/webhook/test_webhook_robustness.py

.PHONY: compare-decisions
compare-decisions: $(READY) ## Play the same random histories in BEFORE, another checkout, and here; fail where a decision differs (HISTORIES=N)
	$(BIN)/python -m tests.unit.planner.recorded_decisions --before "$(BEFORE)" --histories $(or $(HISTORIES),5000)

.PHONY: test-faults
test-faults: $(READY) ## Run storms of a minute each, and other forms of what make test tries once
	$(LIMIT) 2400 $(BIN)/python -m devcluster build
	$(BIN)/pytest tests/integration -p no:randomly --timeout=300 -m long --ignore=tests/integration/simulate

.PHONY: test-chaos
test-chaos: $(READY) ## Kill the operator at every write of a rollout, and disturb it otherwise, watched from outside
	$(LIMIT) 2400 $(BIN)/python -m devcluster build
	$(BIN)/pytest tests/chaos tests/integration -p no:randomly -o faulthandler_timeout=0 --timeout=900 -m chaos $(SHARDS)

.PHONY: test-soak
test-soak: $(READY) ## Replace the webhook's certificate 20 times, and its CA, under 50 pods a second
	$(LIMIT) 2400 $(BIN)/python -m devcluster build
	$(BIN)/pytest tests/integration -p no:randomly -m soak

.PHONY: lint
lint: $(READY) ## Check style, the files' length and names, types and the direction of imports
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/python -m tools.layout
	$(BIN)/mypy
	$(BIN)/lint-imports --config pyproject.toml
	$(BIN)/hadolint Dockerfile
	$(BIN)/zizmor --quiet --offline --strict-collection --pedantic .github/workflows

.PHONY: format
format: $(READY) ## Put the code in shape
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

.PHONY: crds
crds: $(READY) ## Write crds/ and the chart's copy from the API's models
	$(BIN)/python -m gpushare.api.crd > crds/gpusharepools.yaml
	$(BIN)/python -m gpushare.api.crd gpushareadmissiontables > crds/gpushareadmissiontables.yaml
	@# No link: Flux leaves links out of what it takes from a repository.
	cp crds/*.yaml chart/files/

.PHONY: workload-kinds
workload-kinds: $(READY) ## Write the chart's copy of the kinds whose pods are known, and their projects' schemas
	$(BIN)/python -m gpushare.workload_kinds > chart/files/workload-kinds.yaml
	$(BIN)/python -m tools.workload_kind_schemas > tests/kit/values/workload-kind-schemas.json

.PHONY: chart-objects
chart-objects: $(READY) ## Render the chart's roles and webhooks, with which `gpushare doctor` compares an installation
	$(BIN)/python -m tools.chart_objects > operator/gpushare/analysis/doctor/chart.json

.PHONY: chart-docs
chart-docs: $(READY) ## Write the chart's README from the comments of its values
	$(BIN)/python -m tools.chart_readme > chart/README.md

.PHONY: golden
golden: $(READY) ## Write the answers and messages in tests/golden anew; review the difference
	GOLDEN=write $(BIN)/pytest tests/unit/cli/test_golden.py -q
	$(BIN)/python -m tools.program_messages > tests/golden/messages.txt

.PHONY: program-docs
program-docs: $(READY) ## Write the parts of pages in docs that are made from the program
	$(BIN)/python -m tools.generated_pages

.PHONY: cluster
cluster: $(READY) ## Start a control plane with its kubeconfig in .dev/kubeconfig
	@$(BIN)/python -m devcluster up

.PHONY: cluster-down
cluster-down: $(READY) ## End it; nothing is left running
	@$(BIN)/python -m devcluster down

.PHONY: node
node: $(READY) ## Start a control plane with a real node, as root, in .dev/node; EDITION=Basic installs image, chart and plugin there
	@$(BIN)/python -m devcluster node $(if $(EDITION),--edition=$(EDITION))

.PHONY: node-down
node-down: $(READY) ## End it; no process, mount and cgroup stays
	@$(BIN)/python -m devcluster node-down

COMPILE = build/uv/bin/uv pip compile --quiet --upgrade --python-version=3.11 --generate-hashes \
	--custom-compile-command="make requirements"

.PHONY: requirements
requirements: ## Pin and hash the newest allowed versions of what pyproject.toml names
	$(PYTHON) -m venv build/uv && build/uv/bin/pip install --quiet uv
	$(COMPILE) pyproject.toml --output-file=requirements/plugin.txt
	$(COMPILE) pyproject.toml --excludes=<(echo kubernetes) --output-file=requirements/runtime.txt
	$(COMPILE) pyproject.toml --group=dev --output-file=requirements/dev.txt
	for name in build go browser audit; do $(COMPILE) --group=$$name --output-file=requirements/$$name.txt; done

AUDIT := build/audit
$(AUDIT)/.ready: requirements/audit.txt
	$(PYTHON) -m venv $(AUDIT)
	$(AUDIT)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/audit.txt
	@touch $@

.PHONY: sbom
sbom: $(AUDIT)/.ready ## Write the CycloneDX bill of what the image runs on, build/sbom.json
	@PYTHONWARNINGS=ignore $(AUDIT)/bin/cyclonedx-py requirements --pyproject pyproject.toml \
		--mc-type application --output-reproducible --output-file build/sbom.json requirements/runtime.txt

.PHONY: audit
audit: $(READY) $(AUDIT)/.ready ## Look for known vulnerabilities in it; says so where there is no data
	@$(BIN)/python -m tools.vulnerabilities $(AUDIT)/bin/pip-audit

IMAGE ?= gpushare-operator:dev
SOURCE ?=
RELEASE := $(shell sed -nE 's/^version = "(.*)"/\1/p' pyproject.toml)

.PHONY: version
version: ## Print the version
	@echo $(RELEASE)

# Mirrors of Docker Hub and of PyPI; without them the Dockerfile's defaults hold.
BASE_REGISTRY ?=
PIP_INDEX_URL ?=
MIRRORS = $(foreach name,BASE_REGISTRY PIP_INDEX_URL,$(if $($(name)),--build-arg $(name)=$($(name))))
IMAGE_FLAGS = $(BUILD_FLAGS) $(MIRRORS) --build-arg VERSION=$(RELEASE) --build-arg SOURCE=$(SOURCE) \
	--build-arg REVISION=$$(git rev-parse HEAD)

.PHONY: image
image: ## Build the image, by docker, podman or nerdctl, else buildah (IMAGE=NAME:TAG BASE_REGISTRY=HOST/PATH PIP_INDEX_URL=URL BUILD_FLAGS="--platform linux/amd64,linux/arm64 --push")
	@for engine in "docker buildx" "podman buildx" nerdctl; do \
		if $${engine% *} info >/dev/null 2>&1; then exec $$engine build $(IMAGE_FLAGS) --tag $(IMAGE) .; fi; \
	done; \
	$(MAKE) --silent $(READY) && exec $(BIN)/python -m devcluster image $(IMAGE_FLAGS) $(IMAGE)

CHART_PACKAGE = build/gpushare-operator-$(RELEASE).tgz
REPOSITORY ?= gpushare-operator
DIGEST ?=

.PHONY: chart-package
chart-package: ## Package the chart in build, for the image REPOSITORY=NAME DIGEST=sha256:...
	rm -rf build/chart $(CHART_PACKAGE) && mkdir -p build && cp -R chart build/chart
	sed -i -e '/^image:/,/^$$/ { s|repository: .*|repository: $(REPOSITORY)|; s|digest: .*|digest: "$(DIGEST)"| }' \
		build/chart/values.yaml
	helm package build/chart --version $(RELEASE) --app-version $(RELEASE) --destination build

.PHONY: chart-push
chart-push: chart-package ## Push it to CHARTS=oci://HOST/PATH; its digest is then in build/chart.digest
	helm push $(HELM_FLAGS) $(CHART_PACKAGE) $(CHARTS) 2>&1 | tee build/chart-push.log
	sed -n 's/^Digest: //p' build/chart-push.log | grep '^sha256:' > build/chart.digest

.PHONY: plugin
plugin: $(READY) ## Build the kubectl plugin's archives and its manifest for Krew, in build/plugin (SOURCE=URL)
	@test -n "$(SOURCE)" || { echo "make plugin: say where its releases are, SOURCE=URL" >&2; exit 1; }
	$(BIN)/python -m tools.krew_plugin --source "$(SOURCE)"

.PHONY: base-image
base-image: ## Print the digest that the Dockerfile's base has in its registry today; docker with buildx
	@tag=$$(sed -nE '1,/^FROM/s|^FROM .BASE_REGISTRY/([^@]+)@.*|$(or $(BASE_REGISTRY),docker.io/library)/\1|p' Dockerfile); echo "$$tag"; \
		docker buildx imagetools inspect "$$tag" --format '{{.Manifest.Digest}}'

.PHONY: clean
clean: ## Remove what the targets made here (built binaries stay in the user's cache)
	@if [ -x $(BIN)/python ]; then $(BIN)/python -m devcluster node-down && $(BIN)/python -m devcluster down; fi
	rm -rf $(VENV) .dev build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

BENCHES = event labels rollout memory admission policy answers load planner simulate elastic usage
.PHONY: bench
bench: $(READY) ## Measure one thing: BENCH=event, labels, rollout, memory, admission, policy, answers, load, planner, simulate, elastic or usage (ARGS="--help")
	@test -n "$(filter $(BENCHES),$(BENCH))" || { echo "make bench: say which, BENCH=event; there are $(BENCHES)" >&2; exit 1; }
	$(LIMIT) 2400 $(BIN)/python -m devcluster build
	$(LIMIT) 7200 $(BIN)/python -m bench.$(BENCH) $(ARGS)

.PHONY: bench-check
bench-check: $(READY) ## Measure all of them, one after another; fails where one exceeds its limit
	$(LIMIT) 2400 $(BIN)/python -m devcluster build
	@missed=; for each in $(BENCHES); do \
		$(LIMIT) 7200 $(BIN)/python -m bench.$$each || missed="$$missed $$each"; \
	done; \
	test -z "$$missed" || { echo "make bench-check: a limit is exceeded, or was not measured:$$missed" >&2; exit 1; }

HAMI ?=
.PHONY: bench-peers
bench-peers: $(READY) ## Measure NFD, and HAMi (HAMI=FOLDER of its source), at the operator's work (ARGS="--help")
	$(LIMIT) 2400 $(BIN)/python -m devcluster build
	$(LIMIT) 10800 $(BIN)/python -m bench.peers $(if $(HAMI),--hami "$(HAMI)") $(ARGS)
