//! Time: who may decide until when, how long a yes is good, and that a journal's time never runs backwards.

use countersign_core::elicitation::{Decider, Decision};
use countersign_core::event::{Event, EventBody, Kind};
use countersign_core::execution::{Execution, Status};
use countersign_sdk::{AskKind, FormSchema, Outcome};

use crate::case::{Case, asked, handler_asked};
use crate::offers::fitting;
use crate::sample::{
    CALL, DELETES, PATIENCE, READS, by_answer, by_rule, decided, decision, eli, form, gra, issued, ms, start,
    started, withdrawal,
};

const BACKWARDS: &str = "time runs backwards";

#[test]
fn a_yes_starts_the_call_until_its_last_millisecond_and_not_at_its_expiry() {
    let cleared = || asked().decide(Outcome::Approved);
    cleared().at(1_002).start(by_answer(1)).expect_status(Status::Running);
    cleared().at(1_003).refuse(start(by_answer(1)), "the approval has expired");
    let answered = || handler_asked().decide(Outcome::Approved);
    answered().at(1_003).start(by_answer(1)).expect_status(Status::Running);
    answered().at(1_004).refuse(start(by_answer(1)), "the approval has expired");
}

#[test]
fn a_no_reaches_the_handler_at_any_time() {
    handler_asked().decide(Outcome::Denied).at(9_999).start(by_answer(1)).expect_status(Status::Running);
}

#[test]
fn people_decide_before_the_expiry_and_the_clock_from_it_on() {
    let (before, at) = (ms(3 + PATIENCE - 1), ms(3 + PATIENCE));
    let grant = |at| Decision { by: Decider::Grant { id: gra(1) }, ..decision(Outcome::Approved, at) };
    for outcome in [Outcome::Approved, Outcome::Denied, Outcome::Cancelled] {
        asked().at(1_002).decide_with(1, decision(outcome, before));
        asked().at(1_003).refuse(decided(eli(1), decision(outcome, at)), "the elicitation has expired");
    }
    asked().at(1_002).decide_with(1, grant(before));
    asked().at(1_003).refuse(decided(eli(1), grant(at)), "the elicitation has expired");
    asked().at(1_002).refuse(decided(eli(1), decision(Outcome::Expired, before)), "it has not expired yet");
    asked().at(1_003).decide_with(1, decision(Outcome::Expired, at));
}

/// A filled-in form lets nothing happen, so nothing is revived when its handler gets it late.
#[test]
fn a_filled_in_form_reaches_its_handler_also_after_the_questions_expiry() {
    let answered = |kind| {
        let asked = Case::new().issue(READS).start(by_rule()).ask_by_handler_for(kind);
        asked.decide(Outcome::Approved).at(9_999)
    };
    answered(form()).start(by_answer(1)).expect_status(Status::Running);
    let confirm = AskKind::Form { schema: FormSchema::confirm() };
    answered(confirm).refuse(start(by_answer(1)), "the approval has expired");
}

#[test]
fn a_clock_that_jumps_back_does_not_revive_an_expired_yes() {
    let case = Case::approved(DELETES).ask_by_handler().decide(Outcome::Approved);
    let seen = case.at(2_000).step("slow");
    seen.clone().refuse(start(by_answer(2)), "the approval has expired");
    seen.at(900).refuse(start(by_answer(2)), BACKWARDS);
}

#[test]
fn a_clock_that_jumps_back_does_not_reopen_an_expired_question() {
    let seen = Case::approved(DELETES).ask_by_handler().at(2_000).step("slow");
    let yes = |at| decided(eli(2), decision(Outcome::Approved, ms(at)));
    seen.clone().refuse(yes(2_001), "the elicitation has expired");
    seen.at(900).refuse(yes(900), BACKWARDS);
}

#[test]
fn no_event_of_any_kind_comes_before_the_last_and_all_may_come_with_it() {
    let cases = [Case::new(), Case::new().issue(DELETES), asked(), Case::approved(DELETES), handler_asked()];
    for case in cases {
        let latest = case.execution().latest();
        assert_eq!(latest, case.events().last().unwrap().at);
        for offer in fitting(case.execution(), latest) {
            if case.execution().clone().apply(&offer.event).is_err() {
                continue;
            }
            let earlier = ms(latest.as_millis() - 1);
            let mut event = Event { at: earlier, ..offer.event };
            if let EventBody::Decided { decision, .. } = &mut event.body {
                decision.at = earlier;
            }
            let error = case.execution().clone().apply(&event).unwrap_err().to_string();
            assert!(error.contains(BACKWARDS), "{}: {error}", offer.name);
        }
    }
}

#[test]
fn the_first_event_dates_the_journal_and_a_replay_knows_the_last() {
    let late = Event { at: ms(50), body: EventBody::Started(started(Kind::Call)) };
    let early = Event { at: ms(49), body: EventBody::CallIssued(issued(CALL, READS)) };
    let error = Execution::replay([&late, &early]).unwrap_err().to_string();
    assert!(error.contains(BACKWARDS), "{error}");
    assert_eq!(asked().at(700).withdraw(1).replayed().latest(), ms(700));
}

#[test]
fn a_decision_is_judged_by_the_time_it_is_recorded_at() {
    const OTHER: &str = "it was decided at another time";
    let backdated = decided(eli(1), decision(Outcome::Denied, ms(4)));
    asked().at(5_000).refuse(backdated, OTHER);
    let postdated = decided(eli(1), decision(Outcome::Expired, ms(5_000)));
    asked().at(4).refuse(postdated, OTHER);
    asked().at(4).refuse(decided(eli(1), withdrawal(ms(5))), OTHER);
}
