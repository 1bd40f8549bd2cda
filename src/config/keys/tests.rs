use proptest::prelude::*;

use super::*;

#[test]
fn paths_are_unique_and_aliases_point_to_keys() {
    for (at, key) in keys().iter().enumerate() {
        assert!(!keys()[..at].iter().any(|other| other.path == key.path), "{}", key.path);
        assert!(!key.doc.is_empty() && !key.doc.contains(['|', '\n']), "{}", key.path);
    }
    for alias in ALIASES {
        assert!(keys().iter().any(|key| key.path == alias.key), "{}", alias.written);
        assert!(!keys().iter().any(|key| key.path == alias.written), "{}", alias.written);
    }
}

#[test]
fn a_misspelt_key_is_answered_with_the_nearest_one() {
    for (path, near) in [
        ("regions[3].wieght", "weight"),
        ("regions[0].tls.certificate", "cert"),
        ("routing.stratgy", "strategy"),
        ("rooting", "routing"),
        ("timeout", "health_check.timeout"),
        ("health_check.cooldown", "circuit_breaker.cooldown"),
        ("health_check.interval_second", "interval_seconds"),
        ("failover.retry_budget.flor", "floor"),
    ] {
        assert!(unknown_rule(path).contains(&format!("did you mean {near}?")), "{path}: {}", unknown_rule(path));
    }
    assert!(unknown_rule("zzz").contains("no such key"));
    assert!(unknown_rule("regions[1].bearer_token").contains("bearer_token_file"));
}

proptest! {
    #[test]
    fn no_text_makes_a_kind_panic_and_what_is_settled_stays_settled(text in "\\PC{0,24}", at in 0..keys().len()) {
        let kind = keys()[at].kind;
        if let Ok(settled) = kind.settle(kind.read(&text)) {
            prop_assert_eq!(kind.settle(settled.clone()), Ok(settled));
        }
    }
}
