//! Doubt: what is recorded when a process died over a call, who settles it, and what a retry starts with.

use countersign_core::elicitation::Origin;
use countersign_core::event::{Event, EventBody, Settlement, StartedBy};
use countersign_core::execution::{Next, Phase, Status};
use countersign_sdk::Outcome;

use crate::case::{Case, asked, handler_asked};
use crate::sample::{
    CALL, DELETES, DELETES_RESUMABLY, by_answer, decided, eli, ms, principal, start, verbatim, withdrawal,
};

const NO_PHASE: &str = "the call is in no phase to start on this authority";

/// Let past its first question (2) while its second (3) is open.
fn past_one_of_two() -> Case {
    let two = Case::approved(DELETES_RESUMABLY).ask_by_handler().ask_by_handler();
    two.decide_on(2, Outcome::Approved).start(by_answer(2))
}

/// R4: `next` says what to record; the questions that nobody can answer any more are withdrawn first, also after
/// their expiry.
#[test]
fn the_open_questions_of_a_doubtful_call_are_withdrawn_before_the_doubt_is_recorded() {
    for at in [20, 9_999] {
        let case = past_one_of_two().at(at);
        let mut found = case.replayed();
        assert_eq!(found.next(), Next::FindInDoubt(CALL, None));
        let doubt = || EventBody::FoundInDoubt { call: CALL, reason: None };
        case.refuse(doubt(), "a question of the call is open");
        let withdrawn = decided(eli(3), withdrawal(ms(at)));
        found.apply(&Event { at: ms(at), body: withdrawn }).unwrap();
        assert_eq!(found.next(), Next::FindInDoubt(CALL, None), "withdrawing is no mark of the handler's");
        found.apply(&Event { at: ms(at), body: doubt() }).unwrap();
        assert_eq!((found.status(), found.next()), (Status::InDoubt, Next::AwaitSettlement(CALL)));
    }
}

#[test]
fn an_answer_left_over_from_an_earlier_run_does_not_keep_a_retry_from_waiting() {
    let doubt = past_one_of_two().withdraw(3).doubt();
    let mut again = doubt.settle_doubt(Settlement::Retry).start(StartedBy::Retry);
    assert!(again.execution_mut().take_permit(CALL).is_some());
    again.ask_by_handler().expect_status(Status::Waiting).expect_next(&Next::AwaitPeople);
}

#[test]
fn one_retry_is_one_start() {
    let again = Case::approved(DELETES).doubt().settle_doubt(Settlement::Retry).start(StartedBy::Retry);
    again.refuse(start(StartedBy::Retry), NO_PHASE).doubt().refuse(start(StartedBy::Retry), NO_PHASE);
    Case::new().issue(DELETES).refuse(start(StartedBy::Retry), NO_PHASE);
    asked().decide(Outcome::Approved).refuse(start(StartedBy::Retry), NO_PHASE);
}

#[test]
fn an_answer_that_one_run_did_not_use_is_no_answer_to_the_next() {
    let answered = Case::approved(DELETES).ask_by_handler().decide(Outcome::Approved);
    let again = answered.doubt().settle_doubt(Settlement::Retry).start(StartedBy::Retry);
    let again = again.refuse(start(by_answer(2)), NO_PHASE);
    let again = again.ask_by_handler();
    let origin = again.execution().asked().last().unwrap().elicitation.origin;
    assert_eq!(origin, Origin::Handler { ordinal: 0 }, "a run numbers its own questions");
    again.refuse(start(by_answer(2)), NO_PHASE).decide(Outcome::Denied).start(by_answer(3));
}

#[test]
fn a_person_settles_a_doubt_once() {
    let settle = |settlement| EventBody::DoubtSettled { call: CALL, settlement, by: principal("ann") };
    let done = || Settlement::Done { value: verbatim(&1.into()) };
    Case::approved(DELETES).refuse(settle(done()), "the call is not in doubt");
    let settled = Case::approved(DELETES).doubt().settle_doubt(done());
    assert!(matches!(settled.call().phase(), Phase::Settled(_)));
    settled.refuse(settle(Settlement::Retry), "the call is not in doubt");
    handler_asked()
        .refuse(EventBody::FoundInDoubt { call: CALL, reason: None }, "a question of the call is open");
}
