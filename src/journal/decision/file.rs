//! Notes in the journal's file.

use rusqlite::{Connection, params};
use serde_json::Value;

use super::note::{Wanted, kept};
use super::row::{FOUND_MAX, Row};

/// An older version of the program passes over this table.
pub(crate) const TABLES: &str = "
CREATE TABLE IF NOT EXISTS decision (
  number INTEGER PRIMARY KEY, job_id TEXT, federation_id TEXT, request_id TEXT, document TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS decision_job ON decision (job_id);
CREATE INDEX IF NOT EXISTS decision_federation ON decision (federation_id);
CREATE INDEX IF NOT EXISTS decision_request ON decision (request_id);
";

/// Writes rows, all or none, and drops the oldest beyond so many.
pub(crate) fn save(connection: &mut Connection, rows: &[Row], rows_max: usize) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    {
        let mut insert = transaction.prepare("INSERT OR REPLACE INTO decision VALUES (?1,?2,?3,?4,?5)")?;
        for Row { number, document } in rows {
            let [job, federation, request] =
                ["job_id", "federation_id", "request_id"].map(|key| document[key].as_str());
            insert.execute(params![whole(*number), job, federation, request, document.to_string()])?;
        }
    }
    let rows_max = i64::try_from(rows_max).unwrap_or(i64::MAX);
    let beyond =
        "DELETE FROM decision WHERE number <= (SELECT number FROM decision ORDER BY number DESC LIMIT 1 OFFSET ?1)";
    transaction.execute(beyond, [rows_max])?;
    transaction.commit()
}

/// The file's notes of a job, the newest first.
pub(crate) fn find(connection: &Connection, wanted: &Wanted) -> rusqlite::Result<Vec<(u64, Value)>> {
    let (column, id) = match wanted {
        Wanted::Job(id) => ("job_id", id),
        Wanted::Federation(id) => ("federation_id", id),
        Wanted::Request(id) => ("request_id", id),
    };
    let question =
        format!("SELECT number, document FROM decision WHERE {column}=?1 ORDER BY number DESC LIMIT {FOUND_MAX}");
    let mut statement = connection.prepare(&question)?;
    let rows = statement.query_map([kept(id)], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)))?;
    let mut found = Vec::new();
    for row in rows {
        let (number, document) = row?;
        // A document that cannot be read is passed over: the others are still true.
        if let (Ok(number), Ok(mut document)) = (u64::try_from(number), serde_json::from_str::<Value>(&document)) {
            document["durable"] = true.into();
            found.push((number, document));
        }
    }
    Ok(found)
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
