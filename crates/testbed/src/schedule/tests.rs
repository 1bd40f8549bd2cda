use proptest::prelude::*;

use super::*;

fn ms(time: &str) -> u64 {
    u64::try_from(time.parse::<Timestamp>().unwrap().as_millisecond()).unwrap()
}

fn check_next(expression: &str, zone: &str, after: &str, expected: &[&str]) {
    let schedule = Schedule::parse(expression, zone).unwrap();
    let mut moment = ms(after);
    for expected in expected {
        moment = schedule.next(moment).unwrap();
        assert_eq!(crate::text::rfc3339(moment), format!("{expected}.000Z"), "{expression} {zone} {after}");
    }
}

#[test]
fn an_expression_fires_at_the_times_that_it_names() {
    let after = "2026-03-15T10:30:00Z"; // a Sunday
    for (expression, expected) in [
        ("* * * * *", ["2026-03-15T10:31:00", "2026-03-15T10:32:00"]),
        ("*/20 * * * *", ["2026-03-15T10:40:00", "2026-03-15T11:00:00"]),
        ("5/20 9-11 * * *", ["2026-03-15T10:45:00", "2026-03-15T11:05:00"]),
        ("0 9 * * MON-fri", ["2026-03-16T09:00:00", "2026-03-17T09:00:00"]),
        ("0 0 * * 7", ["2026-03-22T00:00:00", "2026-03-29T00:00:00"]),
        ("0 0 * * 5-7/2", ["2026-03-20T00:00:00", "2026-03-22T00:00:00"]),
        ("30 2 1,20 jan,APR *", ["2026-04-01T02:30:00", "2026-04-20T02:30:00"]),
        ("0 0 17 * 1", ["2026-03-16T00:00:00", "2026-03-17T00:00:00"]),
        ("0 0 29 2 *", ["2028-02-29T00:00:00", "2032-02-29T00:00:00"]),
        ("15,45 30 10 * * *", ["2026-03-15T10:30:15", "2026-03-15T10:30:45"]),
        ("@hourly", ["2026-03-15T11:00:00", "2026-03-15T12:00:00"]),
        ("@daily", ["2026-03-16T00:00:00", "2026-03-17T00:00:00"]),
        ("@weekly", ["2026-03-22T00:00:00", "2026-03-29T00:00:00"]),
        ("@monthly", ["2026-04-01T00:00:00", "2026-05-01T00:00:00"]),
        ("@annually", ["2027-01-01T00:00:00", "2028-01-01T00:00:00"]),
        ("@every 1h30m", ["2026-03-15T12:00:00", "2026-03-15T13:30:00"]),
        ("@every 500ms", ["2026-03-15T10:30:01", "2026-03-15T10:30:02"]),
    ] {
        check_next(expression, "UTC", after, &expected);
    }
    assert_eq!(Schedule::parse("0 0 31 2 *", "UTC").unwrap().next(ms(after)), None);
}

#[test]
fn a_time_zone_moves_the_times_and_a_change_of_clocks_neither_invents_nor_repeats_one() {
    let (tokyo, new_york) = ("Asia/Tokyo", "America/New_York");
    check_next("0 9 * * *", tokyo, "2026-03-15T10:30:00Z", &["2026-03-16T00:00:00"]);
    check_next("0 9 * * *", new_york, "2026-03-15T10:30:00Z", &["2026-03-15T13:00:00"]);
    // 02:30 does not exist on 8 March, and 01:30 comes twice on 1 November.
    check_next("30 2 * * *", new_york, "2026-03-07T07:30:00Z", &["2026-03-09T06:30:00"]);
    check_next("30 1 * * *", new_york, "2026-10-31T05:30:00Z", &["2026-11-01T05:30:00", "2026-11-02T06:30:00"]);
    // Asked within the second of the two hours.
    check_next("30 1 * * *", new_york, "2026-11-01T06:10:00Z", &["2026-11-02T06:30:00"]);
}

#[test]
fn what_is_no_expression_or_no_time_zone_is_refused() {
    for expression in [
        "",
        "not a valid cron",
        "0 0 0 0 0 0 0",
        "99 25 32 13 8",
        "* * * *",
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * * 13 *",
        "* * * * 8",
        "*/0 * * * *",
        "5-1 * * * *",
        "+5 * * * *",
        "1- * * * *",
        ", * * * *",
        "a * * * *",
        "* * L * *",
        "@never",
        "@every",
        "@every soon",
        "@every -5m",
        "@every 0s",
    ] {
        let refused = Schedule::parse(expression, "UTC").unwrap_err();
        assert!(matches!(refused, Invalid::Member("cron", _)), "{expression}: {refused:?}");
    }
    for zone in ["", "EST", "+05:00", "UTC+5", "Nowhere/Land", "../UTC", "/etc/passwd"] {
        let refused = Schedule::parse("@daily", zone).unwrap_err();
        assert!(matches!(refused, Invalid::Member("timezone", _)), "{zone}: {refused:?}");
    }
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused_and_the_next_time_is_later(expression in "[@*/,0-9a-z -]{0,20}", now in 0_u64..4_000_000_000_000) {
        if let Ok(schedule) = Schedule::parse(&expression, "Europe/Berlin") {
            prop_assert!(schedule.next(now).is_none_or(|next| next > now));
        }
    }
}
