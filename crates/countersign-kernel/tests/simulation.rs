//! A thousand random schedules of calls, decisions, faults, crashes and clock jumps, each repeatable by its seed.

use std::collections::{BTreeMap, BTreeSet};

use countersign_testkit::simulation::{self, Feature};

const SCHEDULES: u64 = 1_000;
/// How many schedules have one feature, and how many have all of them.
const FEATURED: u64 = 200;

/// `cargo xtask soak` runs the same with larger numbers.
#[expect(clippy::disallowed_methods, reason = "the soak's numbers come from outside")]
fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn a_thousand_schedules_keep_the_rules() {
    let from = number("COUNTERSIGN_SOAK_FROM", 0);
    let schedules = number("COUNTERSIGN_SOAK_SCHEDULES", SCHEDULES);
    for seed in from..from + schedules {
        let found = simulation::run(seed);
        assert!(found.is_empty(), "seed {seed}: {found:#?}");
    }
    println!("{schedules} schedules from seed {from} kept the rules");
}

/// Seed 560 lost the answer to a first write that had happened: the execution was in the store and nobody drove it.
#[test]
fn an_execution_whose_first_write_lost_its_answer_is_taken_up() {
    assert_eq!(simulation::run(560), Vec::<String>::new());
}

#[test]
fn a_schedule_is_the_same_each_time_it_is_run() {
    assert_eq!(simulation::trace(42), simulation::trace(42));
    let all = &Feature::ALL;
    assert_eq!(simulation::trace_with(42, all), simulation::trace_with(42, all));
}

/// Runs schedules with features. All that are red are named, so that each can be run again alone.
fn keep_the_rules(features: &[Feature]) {
    let from = number("COUNTERSIGN_SOAK_FROM", 0);
    let schedules = number("COUNTERSIGN_SOAK_SCHEDULES", FEATURED);
    let red: Vec<(u64, Vec<String>)> = (from..from + schedules)
        .map(|seed| (seed, simulation::run_with(seed, features)))
        .filter(|(_, found)| !found.is_empty())
        .collect();
    let mut kinds: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for (seed, found) in &red {
        for kind in found.iter().map(|violation| without_ids(violation)).collect::<BTreeSet<_>>() {
            kinds.entry(kind).or_default().push(*seed);
        }
    }
    let lines = kinds
        .iter()
        .map(|(kind, seeds)| format!("\n{:>5} {kind}: {:?}", seeds.len(), &seeds[..seeds.len().min(8)]));
    let lines: String = lines.collect();
    let first = red.first();
    assert!(
        red.is_empty(),
        "{} of {schedules} red with {features:?}:{lines}\nthe first: {first:#?}",
        red.len()
    );
}

/// What a violation says, without what differs from seed to seed.
fn without_ids(violation: &str) -> String {
    let words = violation.split(' ').map(|word| match word.split_once('_') {
        Some((kind, id)) if id.len() > 20 => format!("{kind}_…"),
        _ => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn the_rules_hold_where_reads_fail() {
    keep_the_rules(&[Feature::FailingReads]);
}

#[test]
fn everything_goes_on_without_a_restart_once_the_store_works_again() {
    keep_the_rules(&[Feature::FaultyLastLife]);
}

#[test]
fn everything_goes_on_without_a_restart_once_the_store_can_be_read_and_written_again() {
    keep_the_rules(&[Feature::FaultyLastLife, Feature::FailingReads]);
}

#[test]
fn scripts_keep_the_rules_and_an_acknowledged_cancel_is_kept() {
    keep_the_rules(&[Feature::Scripts]);
}

#[test]
fn a_key_names_one_execution_in_every_process() {
    keep_the_rules(&[Feature::Keys]);
}

#[test]
fn everything_expires_where_nobody_answers() {
    keep_the_rules(&[Feature::Expiry]);
}

#[test]
fn everything_expires_where_nobody_answers_and_reads_failed_before() {
    keep_the_rules(&[Feature::Expiry, Feature::FaultyLastLife, Feature::FailingReads]);
}

#[test]
fn a_doubt_may_be_settled_by_a_retry() {
    keep_the_rules(&[Feature::Retries]);
}

#[test]
fn a_handler_that_asks_after_it_acted_acts_once() {
    keep_the_rules(&[Feature::AskingAfterActing, Feature::Retries]);
}

#[test]
fn a_handler_that_brings_the_process_down_is_given_up() {
    keep_the_rules(&[Feature::FatalHandlers]);
}

#[test]
fn the_rules_hold_under_all_of_it() {
    keep_the_rules(&Feature::ALL);
}
