# Everything a contributor runs. `make help` lists the targets.
CARGO ?= cargo
LOCKED ?= --locked
# The program that builds the image: docker, podman or buildah.
IMAGE_BUILDER ?= docker
IMAGE ?= topologist:dev
# The image in which the binary is built, such as name:tag@sha256:…; the default is in the Dockerfile.
IMAGE_BASE ?=

.PHONY: help build check test soak reference lint bench manifests definitions mutants image kubernetes
help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-12s %s\n", $$1, $$2}'

build: ## the release binary, in target/release/topologist
	$(CARGO) build $(LOCKED) --release

check: ## what every commit needs: format, lints, unit tests
	$(CARGO) fmt --all --check
	$(CARGO) clippy $(LOCKED) --workspace --all-targets -- -D warnings
	$(CARGO) test $(LOCKED) --lib

kubernetes: ## kube-apiserver, its companions and Cluster API's managers for the tests, built once
	tests/prerequisites
	tests/kubernetes/build
	tests/kubernetes/build controller-manager
	tests/kubernetes/build kubectl
	tests/kubernetes/build kustomize
	tests/kubernetes/build extension
	tests/kubernetes/build node
	tests/kubernetes/build reference
	tests/kubernetes/build answers

# Tests wait for timers and for other processes a good part of their time: one more at a time than there are processors.
test: export RUST_TEST_THREADS ?= $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 1)))
test: ## all tests, those on a real kube-apiserver included
	tests/prerequisites
	$(MAKE) --no-print-directory kubernetes & builder=$$!; $(CARGO) test $(LOCKED) --no-run || exit 1; wait $$builder
	$(CARGO) test $(LOCKED)

soak: kubernetes ## 300 edits on a real kube-apiserver, each compared with what plans said of it
	TOPOLOGIST_TEST_SOAK=1 $(CARGO) test $(LOCKED) --test cluster on_a_real_api_server_say_what_then_happens -- --nocapture

reference: kubernetes ## edits, hooks, the way back and Cluster API's own specs, with Cluster API alone as the control; needs root and two hours
	tests/kubernetes/build specs
	$(CARGO) test $(LOCKED) --test cluster reference::hooks -- --ignored --nocapture
	$(CARGO) test $(LOCKED) --test cluster reference::returns -- --ignored --nocapture
	$(CARGO) test $(LOCKED) --test cluster reference::table -- --ignored --nocapture
	$(CARGO) test $(LOCKED) --test cluster own_specs_of_cluster_api_pass -- --ignored --nocapture --test-threads=1

lint: ## format, clippy with warnings denied, and cargo deny where it is installed, with advisories if they can be fetched
	$(CARGO) fmt --all --check
	$(CARGO) clippy $(LOCKED) --workspace --all-targets -- -D warnings
	@if $(CARGO) deny --version >/dev/null 2>&1; then $(CARGO) deny check licenses bans sources && CARGO='$(CARGO)' .ci/advisories; \
	else echo 'cargo deny is not installed, so licenses, bans, sources and advisories are not checked (cargo install --locked cargo-deny)'; fi

bench: ## benchmarks in the profile of the image, with the budgets they are held against
	$(CARGO) bench $(LOCKED) --package topologist --benches --profile dist

manifests: ## write what the manifests take from the program: the CRDs
	$(CARGO) run $(LOCKED) --quiet -- crds --only cluster-api >manifests/crds/cluster.x-k8s.io.yaml.new
	mv manifests/crds/cluster.x-k8s.io.yaml.new manifests/crds/cluster.x-k8s.io.yaml
	$(CARGO) run $(LOCKED) --quiet -- crds --only embedded-provider >manifests/crds/topologist.dev.yaml.new
	mv manifests/crds/topologist.dev.yaml.new manifests/crds/topologist.dev.yaml

definitions: ## write the definitions of Cluster API's Kubeadm kinds that the program includes
	TOPOLOGIST_TEST_WRITE_DEFINITIONS=1 $(CARGO) test $(LOCKED) --test stories included_definitions::are_those

mutants: ## switch off one admission rule at a time: some fixture must notice
	$(CARGO) test $(LOCKED) --test stories every_rule_has_a_fixture_that_fails_without_it -- --nocapture

# buildah keeps layers only if it is told to; without them the second build would start from the beginning.
image: export BUILDAH_LAYERS = true
image: BASE_ARGUMENT = $(if $(IMAGE_BASE),--build-arg BASE='$(IMAGE_BASE)')
image: ## the container image, and its SBOM (CycloneDX) in target/sbom
	$(IMAGE_BUILDER) build $(BASE_ARGUMENT) --target sbom --output type=local,dest=target/sbom .
	$(IMAGE_BUILDER) build $(BASE_ARGUMENT) -t $(IMAGE) .
