//! Ends: a call settles as it went, an execution ends as its call did, and cancelling never hides an effect.

use countersign_core::event::{CallOutcome, EventBody, Settlement, StartedBy};
use countersign_core::execution::Status;
use countersign_sdk::Outcome;

use crate::case::{Case, asked, handler_asked};
use crate::sample::{
    CALL, DELETES, DELETES_RESUMABLY, OVERWRITES, READS, REFRESHES, SENDS, by_answer, by_rule, failed,
    issued, settled, succeeded, verbatim,
};

const EFFECT: &str = "a call may have had an effect; it ends with its own outcome";

fn cancelled() -> EventBody {
    EventBody::Cancelled { by: None, reason: "shutdown".into() }
}

fn finished(outcome: CallOutcome) -> EventBody {
    EventBody::finished(outcome)
}

fn retrying() -> Case {
    Case::approved(DELETES).doubt().settle_doubt(Settlement::Retry)
}

#[test]
fn only_a_call_that_ran_succeeds_and_none_settles_over_an_open_question() {
    const NOT_SO: &str = "the call is in no phase to settle so";
    Case::new().issue(DELETES).refuse(settled(succeeded()), NOT_SO).settle(failed());
    asked().decide(Outcome::Approved).refuse(settled(succeeded()), NOT_SO).settle(failed());
    asked().decide(Outcome::Denied).refuse(settled(succeeded()), NOT_SO).settle(failed());
    asked().refuse(settled(failed()), "a question of the call is open");
    handler_asked().refuse(settled(succeeded()), "a question of the call is open");
    Case::approved(DELETES).settle_ok().refuse(settled(failed()), NOT_SO);
    let doubt = Case::approved(DELETES).doubt();
    doubt.refuse(settled(succeeded()), NOT_SO).refuse(settled(failed()), NOT_SO);
}

#[test]
fn nothing_happens_after_the_end() {
    const ENDED: &str = "the execution has ended";
    let finished = Case::approved(DELETES).settle_ok().finish();
    finished.refuse(cancelled(), ENDED).refuse(EventBody::finished(failed()), ENDED);
    Case::new().cancel().refuse(EventBody::CallIssued(issued(CALL, READS)), ENDED);
}

#[test]
fn an_execution_ends_as_its_call_did() {
    const OTHERWISE: &str = "its call ended otherwise";
    let done = Case::approved(DELETES).settle_ok();
    let other = CallOutcome::Succeeded(verbatim(&1.into()));
    done.clone().refuse(finished(failed()), OTHERWISE).refuse(finished(other), OTHERWISE);
    done.finish().expect_status(Status::Succeeded);
    let denied = asked().decide(Outcome::Denied).follow();
    denied.clone().refuse(finished(succeeded()), OTHERWISE).refuse(finished(failed()), OTHERWISE);
    denied.finish().expect_status(Status::Failed);
}

#[test]
fn an_execution_does_not_end_before_its_call() {
    const NOT_YET: &str = "its call is not settled";
    let before = [Case::new(), Case::new().issue(READS), asked(), Case::approved(DELETES), retrying()];
    for case in before {
        case.refuse(finished(succeeded()), NOT_YET).refuse(finished(failed()), NOT_YET);
    }
}

#[test]
fn cancel_waits_for_open_questions() {
    asked().refuse(cancelled(), "a question is open").withdraw(1).cancel();
    handler_asked().refuse(cancelled(), "a question is open").withdraw(1).cancel();
}

#[test]
fn what_cannot_have_had_an_effect_is_cancelled() {
    let harmless = [
        Case::new(),
        Case::new().issue(DELETES),
        asked().decide(Outcome::Approved),
        asked().decide(Outcome::Denied),
        Case::new().issue(READS).start(by_rule()).step("looked it up"),
        handler_asked().decide(Outcome::Denied).start(by_answer(1)),
        Case::approved(DELETES_RESUMABLY).ask_by_handler().withdraw(2),
    ];
    for case in harmless {
        assert!(!case.execution().calls().iter().any(|call| call.may_have_acted()), "\n{}", case.journal());
        case.cancel().expect_status(Status::Cancelled);
    }
}

/// Idempotent means that it may run again, not that it did nothing.
#[test]
fn a_running_call_that_may_have_acted_is_not_cancelled_also_if_it_is_idempotent() {
    let past_a_yes = |effects| {
        let asked = Case::new().issue(effects).start(by_rule()).ask_by_handler();
        asked.decide(Outcome::Approved).start(by_answer(1))
    };
    let acted = [
        Case::approved(DELETES),
        Case::approved(OVERWRITES),
        past_a_yes(READS),
        past_a_yes(REFRESHES),
        Case::approved(DELETES).ask_by_handler().decide(Outcome::Denied).start(by_answer(2)),
        Case::approved(DELETES).ask_by_handler().withdraw(2),
        Case::new().issue(SENDS).start(by_rule()),
    ];
    for case in acted {
        assert!(case.call().may_have_acted(), "\n{}", case.journal());
        case.refuse(cancelled(), EFFECT);
    }
}

#[test]
fn a_call_that_recorded_a_step_is_not_cancelled() {
    let paid = Case::approved(DELETES).step("charge the card").ask_by_handler().withdraw(2);
    paid.refuse(cancelled(), EFFECT);
}

#[test]
fn an_execution_whose_call_is_settled_is_not_cancelled() {
    Case::approved(DELETES).settle_ok().refuse(cancelled(), EFFECT);
    Case::approved(DELETES).settle(failed()).refuse(cancelled(), EFFECT);
    asked().decide(Outcome::Denied).follow().refuse(cancelled(), EFFECT);
}

/// Nobody knows what the first run did, and the second does not tell.
#[test]
fn neither_a_doubt_nor_its_retry_is_cancelled_as_if_the_first_run_had_done_nothing() {
    Case::approved(DELETES).doubt().refuse(cancelled(), EFFECT);
    retrying().refuse(cancelled(), EFFECT);
    let again = retrying().start(StartedBy::Retry);
    again.clone().refuse(cancelled(), EFFECT);
    again.ask_by_handler().withdraw(2).refuse(cancelled(), EFFECT);
    let past_a_yes = handler_asked().decide(Outcome::Approved).start(by_answer(1));
    let again = past_a_yes.doubt().settle_doubt(Settlement::Retry).start(StartedBy::Retry);
    again.refuse(cancelled(), EFFECT);
}

#[test]
fn a_retry_that_cannot_start_is_settled_as_failed_and_as_nothing_else() {
    retrying().refuse(settled(succeeded()), "in no phase to settle so");
    retrying().settle(failed()).finish().expect_status(Status::Failed);
}
