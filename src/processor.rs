//! Whether the processor is one that this build is for.
//!
//! A trained release for x86-64-v3 uses AVX2 and its companions anywhere: another processor would end the program with an illegal
//! instruction at a random place. This check is in the program's own crate, which `tools/release/rustc` compiles for all processors: in the
//! library the compiler would take the answer for granted. A build by cargo alone runs on every x86-64 processor.

/// The processor features that the library was built for and that are missing; empty where it fits.
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

/// Empty: other architectures have no levels.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) const fn missing() -> Vec<&'static str> {
    Vec::new()
}
