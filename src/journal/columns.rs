//! How columns of the file are read.

use rusqlite::Row;

use crate::base::RegionId;

pub(super) fn number(row: &Row<'_>, name: &str) -> rusqlite::Result<u64> {
    Ok(u64::try_from(row.get::<_, i64>(name)?).unwrap_or(0))
}

pub(super) fn region(row: &Row<'_>, name: &str) -> rusqlite::Result<Option<RegionId>> {
    Ok(row.get::<_, Option<String>>(name)?.and_then(|id| RegionId::parse(&id).ok()))
}
