//! The rows of a hub's audit trail, a part at a time.

use http::Method;

use crate::cli::arguments::HubArgs;
use crate::cli::order::{To, order};
use crate::cli::out::complain;
use crate::hub::AuditRow;

/// Hands each row behind a number to `each`, which says whether it takes further ones. `None`, and the reason is printed, where the hub does not
/// answer, or `each` fails.
pub(super) fn read_rows(
    hub: &HubArgs,
    mut after: u64,
    mut each: impl FnMut(AuditRow) -> Result<bool, String>,
) -> Option<()> {
    loop {
        let path = format!("/v1/hub/audit?after={after}");
        let mut document = order(To::Hub(hub), Method::GET, &path, |it| it["rows"].is_array())?;
        let Ok(rows) = serde_json::from_value::<Vec<AuditRow>>(document["rows"].take()) else {
            complain("the hub's rows are not those of this version of the program");
            return None;
        };
        let before = after;
        for row in rows {
            after = row.number;
            match each(row) {
                Ok(true) => {}
                Ok(false) => return Some(()),
                Err(error) => {
                    complain(error);
                    return None;
                }
            }
        }
        if document["more"] != true {
            return Some(());
        }
        if after <= before {
            complain("the hub says that there are more rows, and sends none behind the last one");
            return None;
        }
    }
}
