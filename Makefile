.PHONY: check test demo ci

check:
	cargo fmt --check
	cargo clippy --all-targets --locked -- -D warnings
	RUSTDOCFLAGS=-Dwarnings cargo doc --no-deps --locked

test:
	cargo test --locked

demo:
	cargo run --release --locked -- demo

ci:
	.ci/run
