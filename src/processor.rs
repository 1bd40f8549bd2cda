//! Whether the processor is one that this build is for.
//!
//! A release for x86-64 is for processors of the third level, AVX2 and what came with it, which the compiler then uses anywhere: on
//! others it would end by an illegal instruction, somewhere. Whether they are there must be asked in the program's own crate, which
//! `.cargo/rustc` has built for all processors: in the library the answer would be part of the build.

/// What is missing of what the library was built for; nothing where it fits.
#[cfg(target_arch = "x86_64")]
pub(crate) fn missing() -> Vec<&'static str> {
    macro_rules! detected {
        ($($feature:tt)*) => {
            [$(($feature, std::is_x86_feature_detected!($feature))),*]
        };
    }
    if !ojs_sidecar::IS_FOR_AVX2 {
        return Vec::new();
    }
    let wanted = detected!("avx" "avx2" "bmi1" "bmi2" "f16c" "fma" "lzcnt" "movbe");
    wanted.into_iter().filter(|(_, is_there)| !is_there).map(|(feature, _)| feature).collect()
}

/// Nothing: what others have is not asked for.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) const fn missing() -> Vec<&'static str> {
    Vec::new()
}
