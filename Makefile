.PHONY: check test demo book release check-plain bench-hop bench-fleet hub-history index-history promotion-proof pools-proof spool-proof ledger-history quotas-proof uwer-schema-proof ci supply-chain advisories sbom fuzz fuzz-all

check:
	cargo fmt --check
	cargo clippy --all-targets --locked -- -D warnings
	RUSTDOCFLAGS=-Dwarnings cargo doc --no-deps --locked --all-features

test:
	cargo test --locked

demo:
	cargo run --release --locked -- demo

# The documents as a book in target/book; needs mdbook. `mdbook serve` shows it in a browser.
book:
	@mdbook --version >/dev/null 2>&1 || { echo 'needs: cargo install mdbook --locked'; exit 1; }
	mdbook build

# The published programs, in target/dist: optimised by counts of a run under load, and laid out by what ran. Needs llvm-profdata, valgrind
# and cargo-cyclonedx; the variables are in the head of tools/release/build.
release:
	tools/release/build

# The plain build is the same program with any compiler wrapper and from any folder.
check-plain:
	tools/release/check-plain

# What one hop costs beside other proxies; needs wrk, nginx and haproxy: make bench-hop ARGS='--cases pinned --rounds 3'.
bench-hop:
	@for tool in wrk nginx haproxy taskset setpriv; do command -v $$tool >/dev/null || { echo "needs $$tool: a package of the distribution"; exit 1; }; done
	cargo build --release --locked
	cp "$${CARGO_TARGET_DIR:-target}/release/ojs-sidecar" "$${CARGO_TARGET_DIR:-target}/release/ojs-sidecar-as-released"
	cargo bench --locked --bench hop -- $(ARGS)

# One hub with many sidecars; ARGS names their numbers: make bench-fleet ARGS='200 9000'.
bench-fleet:
	cargo bench --locked --bench fleet -- $(ARGS)

# Hubs and their database fail by a plan, with twenty sidecars under load: make hub-history SEEDS='1 2 3'. Needs PostgreSQL.
SEEDS ?= 1 2 3 4 5 6 7 8
hub-history:
	for seed in $(SEEDS); do HUB_HISTORY_SEED=$$seed HUB_HISTORY_SIDECARS=20 HUB_HISTORY_FAULTS=12 \
		cargo test --locked --test it -- --nocapture hub::history || exit 1; done

# The index of three regions with faults, 100 000 jobs and a cut of 30 s: make index-history SEEDS='1 2 3'. Needs PostgreSQL.
index-history:
	for seed in $(SEEDS); do INDEX_HISTORY_SEED=$$seed INDEX_HISTORY_JOBS=100000 INDEX_HISTORY_FAULTS=12 INDEX_HISTORY_CUT=30 \
		cargo test --locked --test it -- --nocapture hub::index_history || exit 1; done

# Ten thousand waiting jobs of a lost region are taken over and cancelled there when it is back, on both engines. Needs PostgreSQL.
promotion-proof:
	PROMOTION_JOBS=10000 cargo test --locked --test it -- --nocapture hub::promotion

# Twenty sidecars with four workers each and twenty places, with kills of sidecars and hubs, on both engines: make pools-proof SEEDS='1 2 3'. Needs PostgreSQL.
pools-proof:
	for seed in $(SEEDS); do POOLS_SEED=$$seed POOLS_SIDECARS=20 POOLS_TOTAL=20 POOLS_FAULTS=18 \
		cargo test --locked --test it -- --nocapture --test-threads 1 hub::pools || exit 1; done

# A hundred thousand jobs through the outage spool, with kills while they are held and while they are sent; some minutes.
spool-proof:
	SPOOL_PROOF_QUEUES=50 SPOOL_PROOF_JOBS=2000 SPOOL_PROOF_KILLS=12 cargo test --locked --test it -- --nocapture spool::proof

# A hundred thousand changed tasks in XML are judged by the program and by the schema for senders alike; needs xmllint.
uwer-schema-proof:
	UWER_SCHEMA_MUTATIONS=100000 cargo test --locked --test it -- uwer::schema

# A hundred thousand jobs with a ledger: hubs, their database and thirty sidecars fail: make ledger-history SEEDS='1 2 3'. Needs PostgreSQL; some 40 minutes each.
ledger-history:
	for seed in $(SEEDS); do LEDGER_HISTORY_SEED=$$seed LEDGER_HISTORY_JOBS=100000 LEDGER_HISTORY_FAULTS=30 \
		cargo test --locked --test it -- --nocapture hub::ledger_history || exit 1; done

# Two simulated hours of quotas with a hundred sidecars, some minutes for each seed: make quotas-proof SEEDS='1 2 3'.
quotas-proof:
	for seed in $(SEEDS); do QUOTA_SIM_SEED=$$seed QUOTA_SIM_SECONDS=7200 \
		cargo test --locked --test sim -- --nocapture quotas::no_tenant || exit 1; done

ci:
	.ci/run

# Licences, sources and duplicates of what is linked.
supply-chain:
	.ci/supply-chain

# Known vulnerabilities of what is linked: ADVISORY_DB names a clone of the database, which cargo-deny fetches otherwise.
advisories:
	.ci/supply-chain advisories

# A software bill of materials, CycloneDX 1.5 in JSON, of what is linked into the program.
sbom:
	@cargo cyclonedx --version >/dev/null 2>&1 || { echo 'needs: cargo install cargo-cyclonedx --locked'; exit 1; }
	@mkdir -p target
	cargo cyclonedx --format json --spec-version 1.5 --target "$$(rustc -vV | sed -n 's/^host: //p')" --no-build-deps --override-filename ojs-sidecar.sbom
	mv ojs-sidecar.sbom.json target/
	@echo 'wrote target/ojs-sidecar.sbom.json'

# One fuzz target for so many seconds: make fuzz T=scanner SECONDS=600. Needs a nightly toolchain and cargo-fuzz. What it finds
# worth keeping stays below target/fuzz; a crash is written to fuzz/artifacts and becomes a named test.
FUZZ_TARGETS = scanner stamp request_head region_answers answer_framing configuration uwer_task
SECONDS = 60
fuzz:
	@case ' $(FUZZ_TARGETS) ' in *' $(T) '*) ;; *) echo 'make fuzz T=one of: $(FUZZ_TARGETS)'; exit 1;; esac
	@mkdir -p target/fuzz/corpus/$(T)
	cargo +nightly fuzz run --target-dir target/fuzz $(T) target/fuzz/corpus/$(T) fuzz/seeds/$(T) -- \
		-max_total_time=$(SECONDS) -timeout=10 -rss_limit_mb=2048 -max_len=4096

fuzz-all:
	@for target in $(FUZZ_TARGETS); do $(MAKE) fuzz T=$$target SECONDS=$(SECONDS) || exit 1; done
