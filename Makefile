# Every task of this repository by name; `make` alone lists them. Go and make are
# enough for most of them: example tools in other languages are skipped, with a line
# that says how to install what is missing. With CI=true nothing is skipped, and what
# is missing is installed (Debian, as root).

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

GO ?= go
BIN := bin
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION)
HOST := $(BIN)/awaken-host
HAND := $(BIN)/awaken-hand
PLUGINS := $(CURDIR)/$(BIN)/plugins
GUESTS := $(CURDIR)/$(BIN)/guests

SYSTEMS := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64
TEST ?= ./...
BENCH ?= .
FUZZTIME ?= 10s
KILLS ?= 1000

# The version is ours to set, and the go command would refuse a clone that belongs to
# another user.
export GOFLAGS := $(strip $(GOFLAGS) -buildvcs=false)
export GOTOOLCHAIN := local

# The race detector needs a C compiler. Without one the tests run all the same.
RACE = $(if $(or $(filter true,$(CI)),$(shell command -v $$($(GO) env CC) 2>/dev/null)),-race)

TOOLS := -modfile=.ci/tools/go.mod
LINT := $(GO) tool $(TOOLS) golangci-lint

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/awaken-host and bin/awaken-hand, static
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(HOST) ./cmd/awaken-host
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(HAND) ./cmd/awaken-hand

.PHONY: setup
setup: # install compilers, on build machines only
ifeq ($(CI),true)
	@.ci/setup
	@examples/wasm-tools/setup.sh
endif

.PHONY: tools
tools: setup # build the example tools
	@echo "building the example tools into $(BIN)/plugins"
	@$(MAKE) -s -C examples/wasm-tools OUT=$(PLUGINS)

.PHONY: guests
guests: tools ## build the example tools and the plugins of tests
	@echo "building the plugins of tests into $(BIN)/guests and $(BIN)/hostile"
	@$(MAKE) -s -C tests/guests OUT=$(GUESTS)
	@$(MAKE) -s -C tests/hostile OUT=$(CURDIR)/$(BIN)/hostile

.PHONY: opa
opa: # build OPA's own program, with which policies are compared
	@echo "building OPA into $(BIN)/opa: two minutes the first time"
	@$(GO) -C tests/opa build -o $(CURDIR)/$(BIN)/opa github.com/open-policy-agent/opa \
		|| { echo "$(BIN)/opa cannot be built: policies are not compared with opa eval" >&2; test "$${CI:-}" != true; }

# Clients refuse to parse the version that is not set.
KUBE_VERSION = $(shell $(GO) -C tests/kube list -m -f '{{.Version}}' k8s.io/kubernetes)

.PHONY: kube
kube: # build the Kubernetes that tests run, at the version of tests/kube/go.mod
	@echo "building Kubernetes into $(BIN): five minutes the first time"
	@CGO_ENABLED=0 $(GO) -C tests/kube build -trimpath -ldflags '-s -w -X k8s.io/component-base/version.gitVersion=$(KUBE_VERSION)' -o $(CURDIR)/$(BIN)/ tool \
		|| { echo "Kubernetes cannot be built: nothing is tested on it" >&2; test "$${CI:-}" != true; }

.PHONY: engines-program
engines-program: # build what starts the engines
	@CGO_ENABLED=0 $(GO) build -o $(BIN)/engines ./tests/engines

# Those that run already stay as they are.
.PHONY: engines
engines: setup kube engines-program ## start dockerd, podman and a Kubernetes for tests, as root
	@$(BIN)/engines up

.PHONY: engines-down
engines-down: engines-program ## stop the engines that make engines started
	@$(BIN)/engines down

# demo.sh gets the host and the folder of built, unsigned tools.
.PHONY: demo
demo: build tools ## show tools in several languages under a policy
	@$(MAKE) -s -C tests/guests OUT=$(GUESTS) c # its slow tool is what kill -9 is shown with
	@examples/wasm-tools/demo.sh $(CURDIR)/$(HOST) $(PLUGINS)

.PHONY: test
test: build guests opa $(if $(filter true,$(CI)),kube engines-program) ## run every test, with the race detector
	@echo "running every test$(if $(RACE), with the race detector): about a quarter of an hour on two cores, more on the first run" >&2
	@$(if $(RACE),,echo "no C compiler: testing without the race detector; to install one: apt-get install gcc libc6-dev" >&2)
	@$(GO) build -o $(BIN)/summary ./tests/summary
	@$(if $(filter true,$(CI)),trap '$(BIN)/engines down' EXIT; $(BIN)/engines up;) $(GO) test $(RACE) -json -p 2 -timeout 15m $(TEST) | $(BIN)/summary $(if $(filter true,$(CI)),-no-skips)

.PHONY: crash
crash: guests ## kill a host 1000 times and write docs/RELIABILITY.md
	@$(GO) build -o $(BIN)/crash ./tests/crash
	@$(BIN)/crash -kills $(KILLS) -guests $(GUESTS) -report docs/RELIABILITY.md

.PHONY: soak
soak: ## make 10,000 calls into plugins, a tenth of which die, and see that nothing grows
	@$(GO) test -run '^TestSoak$$' -count 1 -v -timeout 30m ./plugins/wasm -soak 10000

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME (10s)
	@git ls-files -co --exclude-standard '*_test.go' | xargs grep -oH '^func Fuzz[A-Za-z0-9_]*' | while IFS=: read -r file target; do \
		target=$${target#func }; echo "== $$(dirname "$$file") $$target"; \
		$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 100x "./$$(dirname "$$file")"; \
	done

.PHONY: bench
bench: guests ## run the benchmarks, or those that match BENCH
	@$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -p 1 -timeout 30m $(TEST)

.PHONY: cross
cross: ## build bin/awaken-host-<os>-<arch> and bin/awaken-hand-<os>-<arch> for every system
	@for system in $(SYSTEMS); do for program in awaken-host awaken-hand; do \
		out=$(BIN)/$$program-$${system%/*}-$${system#*/}; echo "$$out"; \
		CGO_ENABLED=0 GOOS=$${system%/*} GOARCH=$${system#*/} $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o "$$out" ./cmd/$$program; \
	done; done

# The same source and compiler give the same bytes, on any machine.
.PHONY: image
image: ## build bin/awaken-sandbox-linux-<arch>.tar, an image for sandboxes
	@for arch in amd64 arm64; do \
		CGO_ENABLED=0 GOOS=linux GOARCH=$$arch $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/awaken-hand-linux-$$arch ./cmd/awaken-hand && \
		$(GO) run ./packaging/image -hand $(BIN)/awaken-hand-linux-$$arch -arch $$arch -version '$(VERSION)' -out $(BIN)/awaken-sandbox-linux-$$arch.tar || exit; \
	done

.PHONY: fmt
fmt: ## format the Go files
	@$(LINT) fmt

.PHONY: check
check: check-format check-vet check-lint check-modules check-generated check-tree ## check everything that is no test

.PHONY: check-format
check-format:
	@.ci/step "format" .ci/check-format

.PHONY: check-vet
check-vet:
	@.ci/step "vet" $(GO) vet ./...
	@.ci/step "vet for macOS" env GOOS=darwin CGO_ENABLED=0 $(GO) vet ./...
	@.ci/step "vet of the example tools" $(MAKE) -C examples/wasm-tools check

.PHONY: check-lint
check-lint:
	@.ci/step "lint" $(LINT) run ./...

.PHONY: check-modules
check-modules:
	@.ci/step "modules" $(GO) mod tidy -diff
	@.ci/step "modules of the tools" $(GO) -C .ci/tools mod tidy -diff
	@.ci/step "modules of the example tools" $(GO) -C examples/wasm-tools mod tidy -diff
	@.ci/step "modules of OPA's program" $(GO) -C tests/opa mod tidy -diff
	@.ci/step "modules of the Kubernetes for tests" $(GO) -C tests/kube mod tidy -diff
	@.ci/step "modules verified" $(GO) mod verify

.PHONY: check-generated
check-generated:
	@.ci/step "generated files" .ci/check-generated

# Last: it also finds what the steps before it left behind.
.PHONY: check-tree
check-tree:
	@.ci/step "clean tree" .ci/check-tree

.PHONY: clean
clean: ## remove what was built
	@if [ -x $(BIN)/engines ]; then $(BIN)/engines down; fi
	rm -rf $(BIN)
