//! Values of rows and of statements.

use tokio_postgres::Row;

use super::super::postgres_error::PostgresError;

pub(super) fn text(rows: &[Row], place: usize, column: usize) -> Result<String, PostgresError> {
    rows.get(place).ok_or_else(missing)?.try_get(column).map_err(PostgresError::content)
}

pub(super) fn number(rows: &[Row], place: usize, column: usize) -> Result<u64, PostgresError> {
    let number: i64 = rows.get(place).ok_or_else(missing)?.try_get(column).map_err(PostgresError::content)?;
    u64::try_from(number).map_err(PostgresError::content)
}

fn missing() -> PostgresError {
    PostgresError::content("a row is missing")
}

/// Times and numbers are far below 2^63.
pub(super) fn signed(number: u64) -> i64 {
    debug_assert!(i64::try_from(number).is_ok());
    i64::try_from(number).unwrap_or(i64::MAX)
}
