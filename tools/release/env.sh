# What the release scripts share: flags of the caller change nothing, and builds go through tools/release/rustc. Read by other scripts.
if [ -n "${RUSTC_WRAPPER-}${CARGO_BUILD_RUSTC_WRAPPER-}" ]; then
	echo 'RUSTC_WRAPPER is set: a release needs its own compiler wrapper; unset it, or use `cargo build --release`' >&2
	exit 2
fi
unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS CARGO_BUILD_RUSTFLAGS CARGO_BUILD_TARGET
unset TRAIN_COUNT TRAIN_PROFILE TRAIN_CPU TRAIN_SCRIPT TRAIN_SYMBOLS
for name in $(env | sed -nE 's/^(CARGO_PROFILE_RELEASE_[A-Z_]+|CARGO_TARGET_[A-Z0-9_]+_RUSTFLAGS)=.*/\1/p'); do
	unset "$name"
done
target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target"
target=$(cd "$target" && pwd)
# Everything that is made on the way to a release.
work=$target/release-work
mkdir -p "$work"
wrapper=$PWD/tools/release/rustc
host=$(rustc -vV | sed -n 's/^host: //p')

# Compiles the load that trains a build. It is no part of the program: its own speed does not matter.
build_load() {
	CARGO_PROFILE_BENCH_LTO=off CARGO_PROFILE_BENCH_CODEGEN_UNITS=16 cargo bench --locked --bench hop --no-run
}

# Runs the load: train PROGRAM [CALLS].
train() {
	CARGO_PROFILE_BENCH_LTO=off CARGO_PROFILE_BENCH_CODEGEN_UNITS=16 cargo bench --locked --bench hop -- train "$@"
}

# The compiler, the libraries and the settings that the names in a profile and in an order belong to.
stamp() {
	{
		rustc -vV
		cat Cargo.lock
		sed -n '/^\[profile\.release/,$p' Cargo.toml
	} | cksum
}
