//! Whole journals: each way a call can go, event by event, with its audit record and what the execution says after it.

use countersign_core::audit::AuditEntry;
use countersign_core::canonical::Canonical;
use countersign_core::elicitation::Decision;
use countersign_core::event::{Settlement, StartedBy};
use countersign_core::execution::{Next, Status};
use countersign_sdk::Outcome;
use serde_json::json;

use crate::case::Case;
use crate::sample::{
    CALL, DELETES, READS, by_answer, by_grant, by_rule, decision, eli, failed, form, verbatim,
};

#[test]
fn an_approved_call_runs_once_and_ends_with_its_value() {
    let case = Case::new()
        .expect_next(&Next::Issue)
        .issue(DELETES)
        .expect_next(&Next::Judge(CALL))
        .ask()
        .expect_status(Status::Waiting)
        .expect_next(&Next::AwaitPeople)
        .decide(Outcome::Approved)
        .expect_status(Status::Running)
        .expect_next(&Next::Start(CALL))
        .start(by_answer(1))
        .expect_next(&Next::Enter(CALL))
        .settle_ok()
        .finish()
        .expect_status(Status::Succeeded)
        .expect_next(&Next::Done);
    insta::assert_snapshot!("approve", case.journal());
}

#[test]
fn a_denied_call_never_starts_and_the_caller_reads_why() {
    let case = Case::new().issue(DELETES).ask();
    let no = Decision { comment: Some("wrong note".into()), ..decision(Outcome::Denied, case.next_at()) };
    let case = case.decide_with(1, no).follow().finish().expect_status(Status::Failed);
    insta::assert_snapshot!("deny", case.journal());
}

#[test]
fn a_question_closed_without_an_answer_starts_nothing() {
    let case = Case::new().issue(DELETES).ask().decide(Outcome::Cancelled).follow().finish();
    insta::assert_snapshot!("close", case.expect_status(Status::Failed).journal());
}

#[test]
fn the_gateway_withdraws_the_question_before_it_cancels() {
    let case = Case::new().issue(DELETES).ask().withdraw(1).cancel();
    insta::assert_snapshot!("cancel", case.expect_status(Status::Cancelled).journal());
}

#[test]
fn a_question_nobody_answered_in_time_ends_as_expired() {
    let case = Case::new().issue(DELETES).ask().at(1_003).decide(Outcome::Expired).follow().finish();
    insta::assert_snapshot!("expire", case.expect_status(Status::Failed).journal());
}

#[test]
fn a_handler_gets_the_fields_it_asked_for() {
    let case = Case::new().issue(READS).start(by_rule()).ask_by_handler_for(form());
    let data = Some(Canonical::of(&json!({ "branch": "main" })).unwrap());
    let filled_in = Decision { data, ..decision(Outcome::Approved, case.next_at()) };
    let case = case.decide_with(1, filled_in).start(by_answer(1)).settle_ok().finish();
    insta::assert_snapshot!("form", case.expect_status(Status::Succeeded).journal());
}

#[test]
fn a_step_is_kept_beside_the_call() {
    let case = Case::approved(DELETES).step("charge").step("ship").settle(failed()).finish();
    insta::assert_snapshot!("step", case.expect_status(Status::Failed).journal());
}

#[test]
fn two_questions_of_one_handler_are_answered_in_any_order() {
    let case = Case::new()
        .issue(READS)
        .start(by_rule())
        .ask_by_handler()
        .ask_by_handler()
        .expect_status(Status::Waiting)
        .decide_on(2, Outcome::Approved)
        .expect_status(Status::Running)
        .start(by_answer(2))
        .decide_on(1, Outcome::Denied)
        .expect_status(Status::Running)
        .start(by_answer(1))
        .settle_ok()
        .finish();
    insta::assert_snapshot!("two_parallel_questions", case.journal());
}

#[test]
fn a_doubt_settled_as_done_ends_with_the_persons_value() {
    let done = Settlement::Done { value: verbatim(&json!({ "deleted": "by hand" })) };
    let case = Case::approved(DELETES)
        .doubt()
        .expect_status(Status::InDoubt)
        .expect_next(&Next::AwaitSettlement(CALL))
        .settle_doubt(done)
        .finish();
    insta::assert_snapshot!("doubt_settled_as_done", case.expect_status(Status::Succeeded).journal());
}

#[test]
fn a_doubt_settled_as_failed_ends_with_the_persons_words() {
    let failed = Settlement::Failed { message: "it never arrived".into() };
    let case = Case::approved(DELETES).doubt().settle_doubt(failed).finish();
    insta::assert_snapshot!("doubt_settled_as_failed", case.expect_status(Status::Failed).journal());
}

#[test]
fn a_doubt_settled_as_retry_runs_once_more_with_its_steps() {
    let case = Case::approved(DELETES)
        .step("charge")
        .doubt()
        .settle_doubt(Settlement::Retry)
        .expect_status(Status::Running)
        .expect_next(&Next::Start(CALL))
        .start(StartedBy::Retry);
    assert_eq!(case.call().run().unwrap().steps.len(), 1, "recorded work is not repeated");
    insta::assert_snapshot!("doubt_settled_as_retry", case.settle_ok().finish().journal());
}

#[test]
fn a_grant_starts_a_call_without_a_question() {
    let case = Case::new().issue(DELETES).start(by_grant()).settle_ok().finish();
    insta::assert_snapshot!("grant", case.expect_status(Status::Succeeded).journal());
}

#[test]
fn a_rule_starts_a_call_without_a_question() {
    let case = Case::new().issue(READS).start(by_rule()).settle_ok().finish();
    insta::assert_snapshot!("rule", case.expect_status(Status::Succeeded).journal());
}

/// The snapshots show it as well; this is what an auditor joins by.
#[test]
fn the_audit_of_a_decision_names_its_call_and_that_of_a_start_its_question() {
    let case = Case::approved(DELETES);
    let entry = |i: usize| AuditEntry::of(case.execution(), &case.events()[i]);
    let told = |i| (entry(i).what, entry(i).call, entry(i).elicitation);
    assert_eq!(told(3), ("Decided".into(), Some(CALL), Some(eli(1))));
    assert_eq!(told(4), ("CallStarted".into(), Some(CALL), Some(eli(1))));
    let by_rule = Case::new().issue(READS).start(by_rule());
    assert_eq!(AuditEntry::of(by_rule.execution(), &by_rule.events()[2]).elicitation, None);
}
