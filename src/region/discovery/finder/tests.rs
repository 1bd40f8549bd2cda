use super::super::said::MalformedError;
use super::*;
use crate::config::{DiscoveryDefaults, RegionTls, parse_url};

const INTERVAL: Duration = Duration::from_secs(30);

fn config() -> DiscoveryConfig {
    DiscoveryConfig {
        dns: None,
        directory: None,
        hub: true,
        allow: vec!["eu-*".to_owned(), "ap-*".to_owned()],
        identity: "spiffe://test/{region}".to_owned(),
        interval: INTERVAL,
        regions_max: 4,
        changes_per_minute: 3,
        trust_tags: false,
        cache: None,
        defaults: DiscoveryDefaults { weight: 1, tags: Vec::new(), max_queue_depth: None, tls: RegionTls::default() },
    }
}

fn seen(source: RegionSource, id: &str, host: &str) -> Sighting {
    let url = parse_url(&format!("https://{host}.example.com")).unwrap();
    Sighting { id: RegionId::parse(id).unwrap(), source, url, weight: None, tags: Vec::new() }
}

fn look(regions: &[(&str, &str)]) -> Look {
    let sightings = regions.iter().map(|(id, host)| seen(RegionSource::Dns, id, host)).collect();
    Look { source: RegionSource::Dns, sightings, malformed: Vec::new(), is_complete: true }
}

/// A finder, and its time.
struct Stage {
    finder: Finder,
    now: Instant,
}

impl Stage {
    fn new() -> Self {
        Self { finder: Finder::new(&config()), now: Instant::now() }
    }

    fn look(&mut self, regions: &[(&str, &str)]) -> Vec<(String, &'static str)> {
        let rejected = self.finder.on_look(self.now, &look(regions));
        rejected.into_iter().map(|it| (it.about, it.why.as_str())).collect()
    }

    /// Every proof that is due ends so; returns those that were asked.
    fn prove(&mut self, proof: Result<(), ProofFailure>) -> Vec<String> {
        let due = self.finder.to_prove(self.now, 100);
        for seen in &due {
            self.finder.on_proof(self.now, &seen.id, &seen.url, proof);
        }
        due.iter().map(|seen| seen.id.to_string()).collect()
    }

    fn apply(&mut self) -> Vec<(String, ChangeKind)> {
        self.finder.apply(self.now).into_iter().map(|it| (it.id.to_string(), it.kind)).collect()
    }

    fn pass(&mut self, by: Duration) {
        self.now += by;
    }

    fn in_force(&self) -> Vec<(String, String)> {
        self.finder.in_force().into_iter().map(|it| (it.id.to_string(), it.url.host)).collect()
    }

    /// With these regions in force, and room for changes.
    fn with(regions: &[(&str, &str)]) -> Self {
        let mut stage = Self::new();
        stage.look(regions);
        stage.prove(Ok(()));
        stage.apply();
        assert_eq!(stage.in_force().len(), regions.len());
        stage.pass(MINUTE);
        stage
    }
}

#[test]
fn a_region_is_in_force_once_it_has_proved_itself_and_not_before() {
    let mut stage = Stage::new();
    assert!(stage.look(&[("eu-1", "a")]).is_empty());
    assert!(stage.apply().is_empty());
    assert_eq!(stage.prove(Err(ProofFailure::Identity)), ["eu-1"]);
    assert!(stage.apply().is_empty() && stage.prove(Ok(())).is_empty(), "not asked again at once");
    stage.pass(INTERVAL);
    assert_eq!(stage.prove(Ok(())), ["eu-1"]);
    assert_eq!(stage.apply(), [("eu-1".to_owned(), ChangeKind::Added)]);
}

#[test]
fn ids_that_are_not_allowed_and_those_of_the_file_are_turned_away() {
    let mut stage = Stage::new();
    stage.finder.set_statics(BTreeSet::from([RegionId::parse("eu-9").unwrap()]));
    let rejected = stage.look(&[("us-1", "a"), ("eu-9", "b"), ("eu-1", "c")]);
    assert_eq!(rejected, [("us-1".to_owned(), "not_allowed"), ("eu-9".to_owned(), "static")]);
    assert_eq!(stage.prove(Ok(())), ["eu-1"]);
    stage.apply();
    assert!(stage.finder.set_statics(BTreeSet::from([RegionId::parse("eu-1").unwrap()])), "the file names it now");
    assert!(stage.in_force().is_empty());
}

#[test]
fn a_changed_address_proves_itself_while_the_old_one_goes_on() {
    let mut stage = Stage::with(&[("eu-1", "old")]);
    stage.look(&[("eu-1", "new")]);
    stage.prove(Err(ProofFailure::Identity));
    assert!(stage.apply().is_empty());
    assert_eq!(stage.in_force(), [("eu-1".to_owned(), "old.example.com".to_owned())]);
    stage.pass(INTERVAL);
    stage.prove(Ok(()));
    assert_eq!(stage.apply(), [("eu-1".to_owned(), ChangeKind::Changed)]);
    assert_eq!(stage.in_force(), [("eu-1".to_owned(), "new.example.com".to_owned())]);
}

#[test]
fn an_answer_for_an_address_that_is_wanted_no_more_proves_nothing() {
    let mut stage = Stage::with(&[("eu-1", "old")]);
    stage.look(&[("eu-1", "good")]);
    let asked = stage.finder.to_prove(stage.now, 8);
    stage.look(&[("eu-1", "liar")]);
    assert!(stage.finder.to_prove(stage.now, 8).is_empty(), "one question at a time");
    stage.finder.on_proof(stage.now, &asked[0].id, &asked[0].url, Ok(()));
    assert!(stage.apply().is_empty());
    assert_eq!(stage.finder.to_prove(stage.now, 8)[0].url.host, "liar.example.com");
}

#[test]
fn a_region_goes_after_two_looks_that_agree_and_an_interval_between() {
    let mut stage = Stage::with(&[("eu-1", "a"), ("eu-2", "b")]);
    stage.look(&[("eu-1", "a")]);
    assert!(stage.apply().is_empty());
    stage.pass(INTERVAL / 2);
    stage.look(&[("eu-1", "a")]);
    assert!(stage.apply().is_empty(), "too soon after the first");
    stage.pass(INTERVAL / 2);
    stage.look(&[("eu-1", "a"), ("eu-2", "b")]);
    stage.look(&[("eu-1", "a")]);
    assert!(stage.apply().is_empty(), "the second look had it");
    stage.pass(INTERVAL);
    stage.look(&[("eu-1", "a")]);
    assert_eq!(stage.apply(), [("eu-2".to_owned(), ChangeKind::Removed)]);
}

#[test]
fn an_answer_that_lost_every_region_or_could_not_be_read_whole_takes_none_out() {
    let mut stage = Stage::with(&[("eu-1", "a"), ("eu-2", "b")]);
    for _ in 0..3 {
        stage.look(&[("ap-7", "liar")]);
        stage.prove(Err(ProofFailure::Identity));
        stage.finder.on_look(
            stage.now,
            &Look {
                is_complete: false,
                malformed: vec![("b.example.com".to_owned(), MalformedError("torn"))],
                ..look(&[("eu-1", "a")])
            },
        );
        assert!(stage.apply().is_empty());
        stage.pass(INTERVAL);
    }
    assert_eq!(stage.in_force().len(), 2);
}

#[test]
fn regions_that_moved_all_together_go_once_a_new_one_has_proved_itself() {
    let mut stage = Stage::with(&[("eu-1", "a")]);
    for _ in 0..3 {
        stage.look(&[("ap-1", "b")]);
        stage.prove(Ok(()));
        stage.apply();
        stage.pass(MINUTE);
    }
    assert_eq!(stage.in_force(), [("ap-1".to_owned(), "b.example.com".to_owned())]);
}

#[test]
fn so_many_changes_a_minute_the_oldest_first_and_no_more_regions_than_there_may_be() {
    let mut stage = Stage::new();
    let rejected = stage.look(&[("eu-1", "a"), ("eu-2", "b"), ("eu-3", "c"), ("eu-4", "d"), ("eu-5", "e")]);
    assert_eq!(rejected, [("eu-5".to_owned(), "full")]);
    stage.prove(Ok(()));
    assert_eq!(stage.apply().len(), 3);
    assert_eq!(stage.finder.waiting(), 1);
    assert_eq!(stage.finder.next_due(), Some(stage.now + MINUTE));
    stage.pass(MINUTE / 2);
    // One that flaps meanwhile waits behind it.
    let mut heavy = look(&[("eu-1", "a"), ("eu-2", "b"), ("eu-3", "c"), ("eu-4", "d")]);
    heavy.sightings[0].weight = Some(9);
    stage.finder.on_look(stage.now, &heavy);
    assert!(stage.apply().is_empty());
    stage.pass(MINUTE / 2);
    let changes = stage.apply();
    assert_eq!(changes, [("eu-4".to_owned(), ChangeKind::Added), ("eu-1".to_owned(), ChangeKind::Changed)]);
}

#[test]
fn of_two_addresses_for_an_id_the_one_in_force_is_kept() {
    let mut stage = Stage::with(&[("eu-1", "b")]);
    assert_eq!(stage.look(&[("eu-1", "a"), ("eu-1", "b")]), [("eu-1".to_owned(), "ambiguous")]);
    assert!(stage.prove(Ok(())).is_empty() && stage.apply().is_empty());
    assert_eq!(stage.in_force(), [("eu-1".to_owned(), "b.example.com".to_owned())]);
}

#[test]
fn a_directory_goes_before_a_hub_and_a_hub_before_a_name_server() {
    let mut stage = Stage::with(&[("eu-1", "dns")]);
    for (source, host, wins) in [
        (RegionSource::Hub, "hub", "hub.example.com"),
        (RegionSource::Directory, "file", "file.example.com"),
        (RegionSource::Hub, "hub2", "file.example.com"),
    ] {
        let sightings = vec![seen(source, "eu-1", host)];
        stage.finder.on_look(stage.now, &Look { source, sightings, malformed: Vec::new(), is_complete: true });
        stage.prove(Ok(()));
        stage.apply();
        assert_eq!(stage.in_force(), [("eu-1".to_owned(), wins.to_owned())], "{source:?}");
    }
}

#[test]
fn what_the_last_process_knew_proves_itself_again_without_waiting_and_outlives_silence() {
    let mut stage = Stage::new();
    let known = ["eu-1", "eu-2", "eu-3", "eu-4"].map(|id| seen(RegionSource::Dns, id, id));
    stage.finder.restore(known.to_vec());
    assert!(stage.finder.is_settling() && stage.in_force().is_empty());
    assert_eq!(stage.prove(Ok(())).len(), 4);
    assert_eq!(stage.apply().len(), 4, "more than a minute's changes");
    assert!(!stage.finder.is_settling());
    assert_eq!(stage.finder.to_keep(), known);
}

#[test]
fn what_the_last_process_knew_and_is_away_now_is_kept_for_the_next() {
    let mut stage = Stage::new();
    stage.finder.restore(vec![seen(RegionSource::Dns, "eu-1", "a"), seen(RegionSource::Dns, "us-1", "b")]);
    stage.prove(Err(ProofFailure::Unreachable));
    assert!(!stage.finder.is_settling() && stage.apply().is_empty());
    assert_eq!(stage.finder.to_keep().len(), 1, "us-1 is not allowed any more");
    stage.look(&[("eu-2", "b")]);
    assert_eq!(stage.finder.to_keep().len(), 1);
}

#[test]
fn a_region_of_before_that_is_not_in_force_makes_no_look_trusted() {
    let mut stage = Stage::new();
    stage.finder.restore(["eu-1", "eu-2", "eu-3"].map(|id| seen(RegionSource::Dns, id, id)).to_vec());
    for asked in stage.finder.to_prove(stage.now, 8) {
        let proof = if asked.id.as_str() == "eu-3" { Err(ProofFailure::Unreachable) } else { Ok(()) };
        stage.finder.on_proof(stage.now, &asked.id, &asked.url, proof);
    }
    stage.apply();
    for _ in 0..3 {
        stage.pass(MINUTE);
        stage.look(&[("eu-3", "eu-3")]);
        assert!(stage.apply().is_empty());
    }
    assert_eq!(stage.in_force().len(), 2);
}

#[test]
fn a_look_that_names_a_region_of_another_source_or_at_another_place_takes_none_out() {
    let mut stage = Stage::with(&[("eu-1", "a"), ("eu-2", "b")]);
    let sightings = vec![seen(RegionSource::Directory, "ap-1", "file")];
    let of_directory = Look { source: RegionSource::Directory, sightings, malformed: Vec::new(), is_complete: true };
    stage.finder.on_look(stage.now, &of_directory);
    stage.prove(Ok(()));
    assert_eq!(stage.apply().len(), 1);
    for wrong in [("ap-1", "file"), ("eu-1", "liar")] {
        for _ in 0..3 {
            stage.pass(MINUTE);
            stage.look(&[wrong]);
            stage.prove(Err(ProofFailure::Identity));
            assert!(stage.apply().is_empty());
        }
    }
    assert_eq!(stage.in_force().len(), 3);
}

#[test]
fn the_one_that_was_asked_longest_ago_is_asked_first_and_failures_wait_longer() {
    let mut stage = Stage::new();
    stage.look(&[("eu-1", "a"), ("eu-2", "b"), ("eu-3", "c")]);
    let mut asked = Vec::new();
    for _ in 0..4 {
        for seen in stage.finder.to_prove(stage.now, 1) {
            stage.finder.on_proof(stage.now, &seen.id, &seen.url, Err(ProofFailure::Unreachable));
            asked.push(seen.id.to_string());
        }
        stage.pass(INTERVAL);
    }
    assert_eq!(asked, ["eu-1", "eu-2", "eu-3", "eu-1"]);
    // It has failed twice: one interval is too short by now.
    assert!(!stage.prove(Err(ProofFailure::Unreachable)).contains(&"eu-1".to_owned()));
    stage.pass(INTERVAL);
    assert_eq!(stage.prove(Ok(())), ["eu-1"]);
}

#[test]
fn an_id_that_was_never_in_force_is_forgotten_also_by_looks_that_were_not_read_whole() {
    let mut stage = Stage::with(&[("eu-1", "a")]);
    stage.look(&[("eu-1", "a"), ("ap-1", "x"), ("ap-2", "y"), ("ap-3", "z")]);
    let torn = || Look { is_complete: false, ..look(&[("eu-3", "c")]) };
    let room = |stage: &mut Stage| stage.finder.on_look(stage.now, &torn()).is_empty();
    assert!(!room(&mut stage) && !room(&mut stage) && !room(&mut stage));
    assert!(room(&mut stage));
    assert_eq!(stage.in_force().len(), 1);
}
