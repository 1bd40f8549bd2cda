//! Values of rows and of statements.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use tokio_postgres::Row;

use super::super::super::audit::Head;
use super::super::content::State;
use super::super::postgres_error::PostgresError;
use crate::switch::Version;

/// The state of a record, by the columns change, name, switches, number, hash, taken, regions, pools and quotas.
pub(super) fn state(row: &Row) -> Result<State, PostgresError> {
    let rows = std::slice::from_ref(row);
    let head = match row.try_get::<_, Option<i64>>(3).map_err(PostgresError::content)? {
        Some(_) => Head { number: number(rows, 0, 3)?, hash: text(rows, 0, 4)? },
        None => Head::default(),
    };
    Ok(State {
        version: Version { name: text(rows, 0, 1)?, change: number(rows, 0, 0)? },
        switches: json(rows, 2)?,
        taken: json(rows, 5)?,
        regions: Arc::new(json(rows, 6)?),
        pools: Arc::new(json(rows, 7)?),
        quotas: Arc::new(json(rows, 8)?),
        head,
    })
}

fn json<T: DeserializeOwned>(rows: &[Row], column: usize) -> Result<T, PostgresError> {
    serde_json::from_str(&text(rows, 0, column)?).map_err(PostgresError::content)
}

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
