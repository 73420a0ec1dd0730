//! R1 to R9 hold for scripts after a crash at every journal append and every effect, also when recovery crashes.

use countersign_kernel::Answer;
use countersign_kernel::ports::ElicitationRow;
use countersign_testkit::crash::{Report, Scenario, everywhere};
use countersign_testkit::world::yes;

use crate::fixture::host;

fn checked(
    scripts: Vec<&'static str>,
    person: fn(&ElicitationRow) -> Option<Answer>,
    effects: usize,
) -> Report {
    everywhere(&Scenario { scripts, host: Some(host()), person, effects, ..Scenario::default() }).checked()
}

#[test]
fn calls_one_after_the_other_run_at_most_once_and_are_never_lost() {
    let source = r#"
        const seen = [];
        for (const what of ["a", "b"]) {
            await tools.lab.read({ what });
            seen.push(await tools.lab.destroy_each({ what }).then((r) => r.done, (e) => e.code));
        }
        return seen;"#;
    let report = checked(vec![source], |_| Some(yes()), 2);
    assert!(report.doubts > 0, "some crash must leave a doubt, or the harness crashes nowhere that matters");
}

#[test]
fn calls_side_by_side_do_not_disturb_one_another() {
    let source = r#"
        const all = await Promise.allSettled([
            tools.lab.destroy_each({ what: "a" }),
            tools.lab.read({ what: "r" }),
            tools.lab.transfer({ amount: 20000 }),
            tools.lab.nothing_of_the_kind({}),
        ]);
        return all.map((one) => one.status);"#;
    checked(vec![source], |_| Some(yes()), 2);
}

#[test]
fn denied_calls_never_run_and_their_scripts_go_on() {
    let source = r#"
        let codes = [];
        for (const what of ["a", "b"]) await tools.lab.destroy_each({ what }).catch((e) => codes.push(e.code));
        await sleep(300);
        return codes;"#;
    checked(vec![source], |_| Some(Answer::Deny), 0);
}
