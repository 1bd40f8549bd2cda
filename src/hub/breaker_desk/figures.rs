//! The figures of breakers and incidents.

use std::fmt::Write as _;

use super::BreakerDesk;

impl BreakerDesk {
    /// Adds the figures in the text form of Prometheus.
    pub(in crate::hub) fn metrics(&self, out: &mut String) {
        for (name, help, kind, value) in [
            ("ojs_hub_incidents_open", "Incidents that are open: stopped job types", "gauge", self.open().len() as u64),
            ("ojs_hub_breaker_trips_total", "Incidents that this hub has opened", "counter", self.trips.get()),
            (
                "ojs_hub_breaker_uncounted_total",
                "Ends of jobs that no breaker counts, because as many types and tenants are counted as may be",
                "counter",
                self.uncounted.get(),
            ),
            (
                "ojs_hub_breaker_late_total",
                "Ends of jobs that no breaker counts, because by the clock of their sidecar they are from before the window",
                "counter",
                self.late.get(),
            ),
            (
                "ojs_hub_breaker_unplaced_total",
                "Types and tenants that failed too often and were not stopped, because as many incidents are open as may be",
                "counter",
                self.unplaced_ever.get(),
            ),
        ] {
            // Writing to a String cannot fail.
            let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
        }
        let name = "ojs_hub_incident_messages_total";
        let _ = writeln!(
            out,
            "# HELP {name} Messages about incidents to the webhook, by the result\n# TYPE {name} counter"
        );
        for (result, count) in
            [("sent", &self.messages_sent), ("failed", &self.messages_failed), ("given_up", &self.messages_given_up)]
        {
            let _ = writeln!(out, "{name}{{result=\"{result}\"}} {}", count.get());
        }
    }
}
