# Everything a developer types. `make check` is what CI runs first.

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null)
LDFLAGS  = -s -w $(if $(VERSION),-X prodigy/internal/cli.version=$(VERSION))
TOOL     = $(GO) tool -modfile=tools/go.mod
FUZZTIME ?= 30s
# How long the tests of a package may take on the slowest machine. It is only waited for when one hangs.
PATIENCE ?= 20m
PREFIX  ?= /usr/local

.DEFAULT_GOAL := help

help: ## Show this list
	@grep -hE '^[a-z][a-z-]*:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

build: ## Build bin/prodigy
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/prodigy ./cmd/prodigy

test: ## Run all tests
	$(GO) test -timeout $(PATIENCE) ./...

exhaustive: ## Run all cases of the tests that try a sample of them otherwise
	EXHAUSTIVE=1 $(GO) test -timeout 60m ./...

# The files of these tests are on the disk, not in memory.
race: ## Run the tests under the race detector, without the long ones
	TMPDIR=$${TMPDIR:-/tmp} $(GO) test -timeout $(PATIENCE) -race -short ./...

fuzz: ## Run every fuzz target for FUZZTIME (30s)
	@set -e; for pkg in $$($(GO) list ./...); do \
		for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			echo "$$pkg $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$pkg; \
		done; \
	done

bench: ## Hold prodigy against its peers and goals, write docs/benchmarks.md
	$(GO) run ./lab bench -out docs/benchmarks.md

bench-quick: ## The same on a smaller scale, in less than a minute
	$(GO) run ./lab bench -quick

bench-fleet: ## Hold a fleet against the local pool, and its throughput and memory against their goals
	$(GO) run ./lab bench -only fleet

bench-rationed: build ## Hold prodigy against GNU parallel and an asyncio client, with a service that rations its calls
	$(GO) run ./lab rationed

bench-code: ## Time parts of the code, with allocations
	$(GO) test -run '^$$' -bench . -benchmem ./internal/...

# SEED 0 stands for a random one, which is printed.
ROUNDS ?= 200
SEED   ?= 0
torture: ## Kill ROUNDS jobs (200) at random instants, resume them, look for losses
	$(GO) run ./lab torture -rounds $(ROUNDS) -seed $(SEED)

FLEETS  ?= 20
BROKERS ?= 1
torture-fleet: ## Run FLEETS rounds (20) of 1 to 4 jobs on fleets of 1 or 3 BROKERS (1) under faults, with SECURE=1 with TLS and credentials; look for losses and what ran twice
	$(GO) run ./lab chaos -rounds $(FLEETS) -nodes $(BROKERS) -seed $(SEED) $(if $(SECURE),-secure)

soak-fleet: ## Run one job for half an hour with a fault every 20 s, print memory every minute
	$(GO) run ./lab chaos -rounds 1 -soak 30m -seed $(SEED)

SECRETS ?= 20000
attack-secrets: ## Encode SECRETS random secrets (20,000) in every way, have commands print some, look for what masking leaves
	$(GO) test ./internal/mask -count=1 -timeout 0 -v -run 'TestNoEncoding|TestTextsWithout|RandomSecrets$$' -args -rounds $(SECRETS) -live 2 -seed $(SEED)

TRIALS ?= 2000
attack-damage: ## Damage files of jobs at TRIALS random places (2,000), and look whether each is harmless or told
	$(GO) run ./lab damage -trials $(TRIALS) -seed $(SEED)

agents-live: ## Run the real AI coding CLIs against a server that plays failures; skips what cannot be installed
	$(GO) run ./lab live $(LIVE)

NATS ?= v2.10.29 v2.15.2
stock-servers: ## Install nats-server as it is published, in the versions NATS, below bin
	@set -e; for version in $(NATS); do \
		GOBIN='$(CURDIR)/bin/nats-server-'$$version $(GO) install github.com/nats-io/nats-server/v2@$$version; \
	done

stock-broker: stock-servers ## Run the tests of fleets on these servers
	@set -e; for version in $(NATS); do \
		echo "nats-server $$version"; \
		$(GO) test -count=1 -short -timeout $(PATIENCE) -skip Full ./internal/natsfleet -args -nats-server '$(CURDIR)/bin/nats-server-'$$version/nats-server; \
	done

scale: ## Run a job of 200,000 items and look at its memory
	$(GO) test ./internal/mapreduce -run TestMemoryDoesNotGrowWithTheItems -scale

through-json: ## Run the tests of jobs through an executor that nothing but JSON reaches
	$(GO) test ./internal/mapreduce -count=1 -through-json

lint: vet modern staticcheck errcheck format deadcode ## Run everything that reads the code and runs nothing

.PHONY: vet modern staticcheck errcheck format deadcode stale cross
vet:
	$(GO) vet ./...

modern:
	@out=$$($(GO) fix -diff ./... 2>&1) || { echo "$$out"; echo "go fix: run make fmt" >&2; exit 1; }; \
	if [ -n "$$out" ]; then echo "$$out"; echo "go fix: run make fmt" >&2; exit 1; fi

staticcheck:
	$(TOOL) staticcheck ./...

errcheck:
	$(TOOL) errcheck ./...

format:
	@out=$$($(TOOL) gofumpt -l .) || exit 1; \
	if [ -n "$$out" ]; then echo "$$out"; echo "gofumpt: run make fmt" >&2; exit 1; fi

deadcode:
	@out=$$($(TOOL) deadcode -test ./...) || exit 1; \
	if [ -n "$$out" ]; then echo "$$out"; exit 1; fi

stale:
	$(GO) mod tidy -diff

cross:
	GOOS=linux $(GO) build -o /dev/null ./cmd/prodigy
	GOOS=darwin $(GO) vet ./...
	GOOS=windows $(GO) vet ./...

fmt: ## Format and modernise the code
	$(GO) fix ./...
	$(TOOL) gofumpt -w .

# The files that are made from the code are written by the tests that compare them.
generate: ## Rewrite golden files, schema and reference from the code
	$(GO) mod tidy
	$(GO) test $$(grep -rlE 'flag\.Bool\("update"' --include='*_test.go' . | xargs -n1 dirname | sort -u) -update

check: lint stale cross test race ## What CI runs, and the race detector on all packages

# What takes longer than people wait for: all cases, a job of 200,000 items, the broker that people run in the oldest version that is documented to
# do and in a new one, and the real CLIs in their newest versions, which change on their own and do not decide.
nightly: check exhaustive scale stock-broker torture torture-fleet ## Run the long checks, too
	timeout 300 $(MAKE) agents-live LIVE='-cli claude,codex -situations ok,401,empty' || echo 'agents-live: not as expected, see above'

man: ## Write the manual pages to bin/man
	$(GO) test ./internal/cli -tags man -count=1 -run '^TestManualPages$$' -man '$(CURDIR)/bin/man'

install: build man ## Install prodigy and its manual pages into PREFIX (/usr/local)
	install -d '$(DESTDIR)$(PREFIX)/bin' '$(DESTDIR)$(PREFIX)/share/man/man1'
	install -m 0755 bin/prodigy '$(DESTDIR)$(PREFIX)/bin'
	install -m 0644 bin/man/*.1 '$(DESTDIR)$(PREFIX)/share/man/man1'

# Where the release is published. A tree that make publish-tree wrote has it as its module.
REPO ?= $(shell $(GO) list -m)
release: ## Build release VERSION (v1.2.3) for REPO (github.com/OWNER/prodigy) in dist: archives, packages, image, checksums, texts for package managers
	$(GO) run ./lab release -version '$(VERSION)' -repo '$(REPO)'

release-check: ## Build a release that is not published, and try it as far as this machine can
	rm -rf bin/release
	$(GO) run ./lab release -version v0.0.0 -repo git.test/someone/prodigy -out bin/release
	tools/release-check bin/release

publish-tree: ## Write the committed tree to DIR with the module path MODULE (github.com/OWNER/prodigy), and test it there
	tools/publish-tree '$(MODULE)' '$(DIR)'

pictures: ## Remake the pictures of the README from real jobs, with tmux and chromium
	tools/pictures

clean: ## Remove what make build made
	rm -rf bin dist

.PHONY: help pictures build test exhaustive race fuzz bench bench-quick bench-fleet bench-rationed bench-code torture torture-fleet soak-fleet attack-secrets attack-damage stock-servers stock-broker scale through-json lint fmt generate check man install release release-check publish-tree clean nightly
