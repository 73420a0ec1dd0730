//! A thousand random schedules of calls, decisions, faults, crashes and clock jumps, each repeatable by its seed.

use countersign_testkit::simulation;

const SCHEDULES: u64 = 1_000;

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
}
