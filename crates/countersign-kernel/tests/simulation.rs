//! A thousand random schedules of calls, decisions, faults, crashes and clock jumps, each repeatable by its seed.

use countersign_testkit::simulation;

const SCHEDULES: u64 = 1_000;

#[test]
fn a_thousand_schedules_keep_the_rules() {
    for seed in 0..SCHEDULES {
        let found = simulation::run(seed);
        assert!(found.is_empty(), "seed {seed}: {found:#?}");
    }
}

#[test]
fn a_schedule_is_the_same_each_time_it_is_run() {
    assert_eq!(simulation::trace(42), simulation::trace(42));
}
