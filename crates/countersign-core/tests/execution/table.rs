//! The state machine as tables: which event fits which phase, and what each phase says of itself.
//!
//! A change of any cell shows in review. The tables state what is so; `rules` and `properties` state what must be.

use std::fmt::Write as _;

use countersign_core::event::{Event, EventBody, Settlement, StartedBy};
use countersign_core::execution::{ApplyError, Execution, Next};
use countersign_sdk::{Effects, Outcome};

use crate::case::Case;
use crate::offers::fitting;
use crate::sample::{
    CALL, DELETES, DELETES_RESUMABLY, OVERWRITES, READS, REFRESHES, SENDS, by_answer, by_rule, failed, form,
};

/// Every phase a destructive call of a resumable tool can be in, and those that differ where it is not resumable, under the short name that heads its column.
fn phases() -> Vec<(&'static str, &'static str, Case)> {
    let issued = || Case::new().issue(DELETES_RESUMABLY);
    let running = || Case::approved(DELETES_RESUMABLY);
    let held = || Case::approved(DELETES).ask_by_handler();
    let asking = || running().ask_by_handler();
    let one_of_two = || asking().ask_by_handler().decide_on(2, Outcome::Approved).start(by_answer(2));
    let retrying = || running().doubt().settle_doubt(Settlement::Retry);
    vec![
        ("new", "accepted, no call issued", Case::new()),
        ("iss", "Issued", issued()),
        ("ask", "Asked", issued().ask()),
        ("clr", "Cleared", issued().ask().decide(Outcome::Approved)),
        ("ref", "Refused", issued().ask().decide(Outcome::Denied)),
        ("wdn", "Refused, its question withdrawn", issued().ask().withdraw(1)),
        ("run", "Running, fresh", running()),
        ("opn", "Running, its question open", asking()),
        ("frm", "Running, its form open", running().ask_by_handler_for(form())),
        ("ans", "Running, its question answered", asking().decide(Outcome::Approved)),
        ("pst", "Running, let past its question", asking().decide(Outcome::Approved).start(by_answer(2))),
        (
            "o+a",
            "Running, one question open, one answered",
            asking().ask_by_handler().decide_on(2, Outcome::Approved),
        ),
        ("o+p", "Running, one question open, let past another", one_of_two()),
        ("o-h", "Running, not resumable, its question open", held()),
        ("a-h", "Running, not resumable, its question answered", held().decide(Outcome::Approved)),
        ("dbt", "InDoubt", running().doubt()),
        ("rty", "Retrying", retrying()),
        ("agn", "Running again after a retry", retrying().start(StartedBy::Retry)),
        ("set", "Settled with success", running().settle_ok()),
        ("bad", "Settled with failure", running().settle(failed())),
        ("fin", "Finished", running().settle_ok().finish()),
        ("can", "Cancelled", issued().cancel()),
    ]
}

/// The letter of a problem, a new one if it was not seen before.
fn letter(problem: &'static str, legend: &mut Vec<&'static str>) -> char {
    let seen = legend.iter().position(|known| *known == problem);
    let index = seen.unwrap_or_else(|| {
        legend.push(problem);
        legend.len() - 1
    });
    char::from(b'a' + u8::try_from(index).unwrap())
}

#[test]
fn each_event_fits_exactly_the_phases_it_should() {
    let phases = phases();
    let (mut table, mut legend) = (String::new(), Vec::new());
    let header: String = phases.iter().map(|(short, ..)| format!(" {short:>4}")).collect();
    writeln!(table, "{:36}{header}", "").unwrap();
    for (row, offer) in fitting(Case::new().execution(), Case::new().next_at()).iter().enumerate() {
        write!(table, "{:36}", offer.name).unwrap();
        for (.., case) in &phases {
            let offer = &fitting(case.execution(), case.next_at())[row];
            let cell = match case.execution().clone().apply(&offer.event) {
                Ok(()) => "ok".to_owned(),
                Err(ApplyError::Illegal { problem, .. }) => letter(problem, &mut legend).to_string(),
                Err(other) => panic!("{other}"),
            };
            write!(table, " {cell:>4}").unwrap();
        }
        table.push('\n');
    }
    for (short, long, _) in &phases {
        write!(table, "\n{short} {long}").unwrap();
    }
    table.push('\n');
    for (i, problem) in legend.iter().enumerate() {
        write!(table, "\n{} {problem}", letter(problem, &mut legend.clone()[..=i].to_vec())).unwrap();
    }
    insta::assert_snapshot!("event_by_phase", table);
}

#[test]
fn each_phase_says_where_it_stands_and_what_is_next() {
    let mut table = String::new();
    for (_, name, mut case) in phases() {
        let live = case.execution().next();
        let _permit = case.execution_mut().take_permit(CALL);
        let execution = case.execution();
        writeln!(table, "{name}: {}", execution.status().as_str()).unwrap();
        writeln!(table, "    next: {live:?}").unwrap();
        if execution.next() != live {
            writeln!(table, "    next, once its permit is taken: {:?}", execution.next()).unwrap();
        }
        let replayed = case.replayed();
        if replayed.next() != case.execution().next() {
            writeln!(table, "    after a crash: {:?}", replayed.next()).unwrap();
        }
    }
    insta::assert_snapshot!("what_each_phase_says", table);
}

/// The running phases that a crash can meet, with every question answered so that only the effects and the marks count.
fn crashes(effects: Effects) -> Vec<(&'static str, Case)> {
    let running = || Case::new().issue(effects).start(by_rule());
    let said = |outcome| running().ask_by_handler().decide(outcome);
    let filled_in = running().ask_by_handler_for(form()).decide(Outcome::Approved).start(by_answer(1));
    let past = said(Outcome::Approved).start(by_answer(1));
    vec![
        ("fresh", running()),
        ("after a step", running().step("charge")),
        ("at a question", running().ask_by_handler()),
        ("at a question, answered", said(Outcome::Approved)),
        ("let past a yes", past.clone()),
        ("let past a no", said(Outcome::Denied).start(by_answer(1))),
        ("let past a form", filled_in),
        ("let past a yes, then at a question", past.ask_by_handler()),
    ]
}

#[test]
fn what_a_crash_leaves_follows_from_the_effects_and_the_last_mark() {
    let mut table =
        format!("{:14}{:36}{:10}{:10}{:9}{}\n", "", "", "in doubt", "recovery", "re-entry", "cancel");
    let kinds = [
        ("reads", READS),
        ("refreshes", REFRESHES),
        ("sends", SENDS),
        ("deletes", DELETES),
        ("resumable", DELETES_RESUMABLY),
        ("overwrites", OVERWRITES),
    ];
    for (kind, effects) in kinds {
        for (point, case) in crashes(effects) {
            let doubt = if case.call().would_be_in_doubt() { "yes" } else { "no" };
            let recovery = match case.replayed().next() {
                Next::FindInDoubt(CALL, None) => "doubt",
                Next::EnterAgain(CALL) => "rerun",
                Next::AwaitPeople => "waits",
                other => panic!("{other:?}"),
            };
            let again = Event { at: case.next_at(), body: EventBody::CallReentered { call: CALL } };
            let re_entry = if case.replayed().apply(&again).is_ok() { "yes" } else { "no" };
            let cancel = if may_cancel(case.execution()) { "yes" } else { "no" };
            writeln!(table, "{kind:14}{point:36}{doubt:10}{recovery:10}{re_entry:9}{cancel}").unwrap();
        }
    }
    insta::assert_snapshot!("what_a_crash_leaves", table);
}

fn may_cancel(execution: &Execution) -> bool {
    let offers = fitting(execution, crate::sample::ms(100));
    let cancel = offers.iter().find(|offer| offer.name == "Cancelled").unwrap();
    execution.clone().apply(&cancel.event).is_ok()
}
