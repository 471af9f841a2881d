# Rutter needs Go, git and make. `make demo` and `make test` say what else they
# install; everything that is built lands in .build and public.

GO      ?= go
BIN     := .build/rutter
SOURCES := $(shell git ls-files -co --exclude-standard '*.go' '*.yaml' 'site/*' 'content/*' go.mod go.sum)

.PHONY: all demo test check site bench clean

all: $(BIN) site .build/schema.json

# schema.json is what editors check runbooks against as they are typed.
.build/schema.json: $(BIN)
	$(BIN) schema > $@

$(BIN): $(SOURCES)
	@mkdir -p .build
	$(GO) build -trimpath -o $@ ./cmd/rutter

# site is the built-in knowledge base as pages, in public/.
site: $(BIN)
	$(BIN) build --out public

# demo: from nothing to a procedure read, planned and run on a live cluster.
demo: site
	$(BIN) drill force-unpeer --case controllers-gone --show --report .build/demo-report.md
	@echo
	@echo "The site:   file://$(CURDIR)/public/index.html"
	@echo "The report: $(CURDIR)/.build/demo-report.md"

# test: every test there is, on practice clusters that live as long as it runs.
test: $(BIN)
	@.ci/need gcc chromium
	$(BIN) practice exec --clusters a,b,c,d,e,f,g,h,i -- .ci/test

# check: what can be told without running anything but the compiler.
check:
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); echo "run gofmt on these"; exit 1; }
	$(GO) vet ./...
	cd executor/practice && $(GO) vet ./...
	$(GO) tool staticcheck ./...
	$(GO) test -count=1 -run 'TestLayers|TestFileSize' .
	$(GO) mod tidy -diff
	cd executor/practice && $(GO) mod tidy -diff

clean:
	rm -rf .build public dist
