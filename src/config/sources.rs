//! Where settings come from.

use std::path::PathBuf;

/// Where settings come from. Later sources win: files in their order, then variables, then flags.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// Files in YAML or JSON. A list in a later file replaces the whole list of an earlier one.
    pub files: Vec<PathBuf>,
    /// Variables with their values; those without the prefix `OJSF_` are passed over. `__` stands between levels.
    pub env: Vec<(String, String)>,
    /// Dotted keys, such as `log.level`, with their values.
    pub flags: Vec<(String, String)>,
}
