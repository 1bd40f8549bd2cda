//! One connection to a database, made anew where it was lost.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

use super::super::super::postgres_settings::PostgresSettings;
use super::super::content::{ANSWER_WAIT, RecordError};
use super::super::postgres_error::PostgresError;
use super::connect::{Connected, connect};
use super::schema;

/// A value of a statement, with its type, so that the server prepares nothing.
pub(super) type Value<'v> = (&'v (dyn ToSql + Sync), Type);

/// Waits before a connection takes the place of one that did not answer: the first, and the longest. The server may keep a process for each
/// that was given up until the statement ends there.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

#[derive(Debug, Default)]
struct State {
    connected: Option<Connected>,
    /// Before this, no connection is made; and the pause behind the next one that does not answer.
    paused: Option<(Instant, Duration)>,
}

/// One connection to a database.
#[derive(Debug, Default)]
pub(in crate::hub::record) struct Line(Mutex<State>);

impl Line {
    /// The rows of one statement. A connection that is lost, does not answer in time or is to a server that takes no writes is given up.
    ///
    /// Errors: [`RecordError`].
    pub(super) async fn ask(
        &self,
        settings: &PostgresSettings,
        statement: &str,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>, RecordError> {
        let client = self.client(settings).await?;
        let error = match tokio::time::timeout(ANSWER_WAIT, client.query_typed(statement, values)).await {
            Ok(Ok(rows)) => {
                self.0.lock().await.paused = None;
                return Ok(rows);
            }
            Ok(Err(error)) => RecordError::from(PostgresError::Server(error)),
            Err(_) => RecordError::Slow,
        };
        if error.ends_connection() {
            self.give_up(&client, matches!(error, RecordError::Slow)).await;
        }
        Err(error)
    }

    async fn client(&self, settings: &PostgresSettings) -> Result<Arc<Client>, RecordError> {
        let mut state = self.0.lock().await;
        if let Some(connected) = state.connected.as_ref().filter(|it| !it.client.is_closed()) {
            return Ok(Arc::clone(&connected.client));
        }
        if state.paused.is_some_and(|(until, _)| until > Instant::now()) {
            return Err(RecordError::Paused);
        }
        let connected = connect(settings).await?;
        let checked = tokio::time::timeout(ANSWER_WAIT, schema::check(&connected.client)).await;
        checked.map_err(|_| RecordError::Slow)??;
        Ok(Arc::clone(&state.connected.insert(connected).client))
    }

    async fn give_up(&self, client: &Arc<Client>, is_slow: bool) {
        let mut state = self.0.lock().await;
        if !state.connected.as_ref().is_some_and(|it| Arc::ptr_eq(&it.client, client)) {
            return;
        }
        state.connected = None;
        if is_slow {
            let pause = state.paused.map_or(PAUSES.0, |(_, pause)| pause);
            state.paused = Some((Instant::now() + pause, (pause * 2).min(PAUSES.1)));
        }
    }
}
