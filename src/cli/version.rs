//! The build, for `--version`: release, commit, target, plain or trained, and processor level.

macro_rules! long {
    ($processor:literal) => {
        concat!(
            env!("CARGO_PKG_VERSION"),
            "\ncommit: ",
            env!("OJS_BUILD_COMMIT"),
            "\ntarget: ",
            env!("OJS_BUILD_TARGET"),
            ", ",
            env!("OJS_BUILD_PROFILE"),
            " build, ",
            env!("OJS_BUILD_KIND"),
            "\nprocessor: ",
            $processor
        )
    };
}

/// Shape: `0.2.0`, then a line each for commit, target with profile and kind (`plain` or `trained`), and processor level.
pub(super) const LONG: &str = if crate::IS_FOR_AVX2 { long!("x86-64-v3 (AVX2)") } else { long!("baseline") };
