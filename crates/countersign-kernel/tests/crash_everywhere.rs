//! R1 to R9 hold after a crash at every journal append and every effect, also when recovery crashes.

use countersign_core::elicitation::Origin;
use countersign_kernel::Answer;
use countersign_kernel::ports::ElicitationRow;
use countersign_testkit::crash::{Report, Scenario, everywhere};
use countersign_testkit::world::{fill, yes};
use serde_json::json;

fn always_yes(_: &ElicitationRow) -> Option<Answer> {
    Some(yes())
}

fn checked(scenario: &Scenario) -> Report {
    everywhere(scenario).checked()
}

#[test]
fn an_approved_call_runs_at_most_once_and_is_never_lost() {
    let what = json!({ "what": "x" });
    let report = checked(&Scenario {
        calls: vec![("lab.destroy_each", what)],
        person: always_yes,
        effects: 1,
        ..Scenario::default()
    });
    assert!(report.doubts > 0, "some crash must leave a doubt, or the harness crashes nowhere that matters");
}

#[test]
fn a_denied_call_never_runs() {
    let what = json!({ "what": "x" });
    let deny: fn(&ElicitationRow) -> Option<Answer> = |_| Some(Answer::Deny);
    checked(&Scenario {
        calls: vec![("lab.destroy", what)],
        person: deny,
        effects: 0,
        ..Scenario::default()
    });
}

#[test]
fn an_expired_call_never_runs() {
    let what = json!({ "what": "x" });
    checked(&Scenario {
        calls: vec![("lab.destroy", what)],
        person: |_| None,
        effects: 0,
        ..Scenario::default()
    });
}

#[test]
fn a_form_asked_by_a_handler_is_answered_once() {
    let person: fn(&ElicitationRow) -> Option<Answer> = |_| Some(fill(json!({ "warehouse_id": "WH-7" })));
    checked(&Scenario { calls: vec![("lab.form", json!({}))], person, effects: 0, ..Scenario::default() });
}

#[test]
fn an_approval_asked_by_a_handler_lets_it_past_at_most_once() {
    let amount = json!({ "amount": 20_000 });
    let report = checked(&Scenario {
        calls: vec![("lab.transfer", amount)],
        person: always_yes,
        effects: 1,
        ..Scenario::default()
    });
    assert!(report.doubts > 0);
}

#[test]
fn a_question_that_the_gate_has_asked_is_not_asked_again_whatever_crashes() {
    let from_gate: fn(&ElicitationRow) -> Option<Answer> = |row| {
        assert_eq!(row.elicitation.origin, Origin::Gate, "it is asked once, and by the gate");
        Some(yes())
    };
    for about in ["nothing", "call", "same"] {
        let report = checked(&Scenario {
            calls: vec![("lab.sure", json!({ "what": "x", "about": about }))],
            person: from_gate,
            effects: 1,
            ..Scenario::default()
        });
        assert!(report.doubts > 0);
    }
}

#[test]
fn a_question_about_something_else_than_the_gate_asked_is_asked_and_answered_once() {
    let report = checked(&Scenario {
        calls: vec![("lab.sure", json!({ "what": "x", "about": "other" }))],
        person: always_yes,
        effects: 1,
        ..Scenario::default()
    });
    assert!(report.doubts > 0);
}

#[test]
fn recorded_steps_are_not_repeated() {
    let what = json!({ "what": "x" });
    checked(&Scenario {
        calls: vec![("lab.steps", what)],
        person: always_yes,
        effects: 2,
        ..Scenario::default()
    });
}

#[test]
fn two_questions_at_once_are_each_answered_once() {
    let report = checked(&Scenario {
        calls: vec![("lab.two", json!({}))],
        person: always_yes,
        effects: 1,
        ..Scenario::default()
    });
    assert!(report.doubts > 0);
}

#[test]
fn calls_side_by_side_do_not_disturb_one_another() {
    let calls = vec![
        ("lab.destroy_each", json!({ "what": "a" })),
        ("lab.destroy", json!({ "what": "b" })),
        ("lab.confirm", json!({})),
    ];
    checked(&Scenario { calls, person: always_yes, effects: 3, ..Scenario::default() });
}

/// The person answers only what is asked after the rules changed, so that everything meets the change while it waits.
#[test]
fn what_waits_when_the_rules_change_is_judged_again_and_runs_at_most_once() {
    let person: fn(&ElicitationRow) -> Option<Answer> =
        |row| row.elicitation.because.contains("Stricter.").then(yes);
    let asked_again = "[[rule]]\nmatch = \"lab.destroy_each\"\neffect = \"ask\"\nreason = \"Stricter.\"\n";
    let denied = "[[rule]]\nmatch = \"lab.*\"\neffect = \"deny\"\n";
    let destroy = || ("lab.destroy_each", json!({ "what": "x" }));
    let transfer = ("lab.transfer", json!({ "amount": 20_000 }));
    for (rules, calls) in [(asked_again, vec![destroy()]), (denied, vec![destroy(), transfer])] {
        // Where the first process lives long enough for the question to expire, nothing runs: no effect can be demanded.
        checked(&Scenario { calls, person, later_rules: Some(rules), ..Scenario::default() });
    }
}
