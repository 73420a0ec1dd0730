//! Findings: promises that the state machine does not keep yet. Each test is red until its hole is closed; then it moves
//! to `execution/rules.rs`.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that meets the unexpected stops there")]

#[path = "execution/case.rs"]
#[expect(dead_code, reason = "the fixture is shared; each binary uses a part of it")]
mod case;
#[path = "execution/sample.rs"]
#[expect(dead_code, reason = "the samples are shared; each binary uses a part of them")]
mod sample;

use countersign_core::audit::AuditEntry;
use countersign_core::canonical::Canonical;
use countersign_core::digest::{Digest, Fingerprint};
use countersign_core::elicitation::{Decider, Decision, Elicitation, Origin};
use countersign_core::event::{
    CallIssued, CallOutcome, Event, EventBody, Failure, Kind, Settlement, StartedBy,
};
use countersign_core::execution::{Recovery, Refusal, Status};
use countersign_sdk::{Outcome, ToolPath};
use serde_json::json;

use case::Case;
use sample::{
    CALL, DELETES, OVERWRITES, READS, by_answer, by_rule, decided, decision, eli, failed, form, gra, issued,
    ms, policy_version, principal, question, settled, start, succeeded, tok,
};

fn ask(elicitation: Elicitation) -> EventBody {
    EventBody::Asked(Box::new(elicitation))
}

fn cancelled() -> EventBody {
    EventBody::Cancelled { by: None, reason: "shutdown".into() }
}

fn refused(case: &Case, body: EventBody) -> bool {
    case.execution().clone().apply(&Event { at: case.next_at(), body }).is_err()
}

fn retrying() -> Case {
    Case::approved(DELETES).doubt().settle_doubt(Settlement::Retry)
}

// --- starting without a fitting approval -----------------------------------------------------------------------------

/// `issue` takes any digest. A call of one thing under the digest of another starts on an approval of the other: `ask` and
/// `start_call` compare two copies of the same unchecked field. Only `authorise` recomputes, and `apply` does not need it.
#[test]
fn f01_the_digest_of_an_issued_call_is_the_digest_of_what_it_says() {
    let args = Canonical::of(&json!({ "id": "everything" })).unwrap();
    let forged = CallIssued { args, ..issued(CALL, DELETES) };
    assert!(refused(&Case::new(), EventBody::CallIssued(forged)), "other arguments under the same digest");
    let forged = CallIssued { digest: policy_version(), ..issued(CALL, DELETES) };
    assert!(refused(&Case::new(), EventBody::CallIssued(forged)), "a digest of nothing");
}

/// The person is shown `elicitation.args` and `elicitation.tool`; nothing holds them to the call's for a gate's question.
#[test]
fn f02_the_gate_shows_the_person_the_very_arguments_and_tool_of_the_call() {
    let case = Case::new().issue(DELETES);
    let gate = || question(eli(1), Origin::Gate, ms(3));
    let args = Canonical::of(&json!({ "id": "a harmless one" })).unwrap();
    assert!(refused(&case, ask(Elicitation { args, ..gate() })), "other arguments");
    let tool = ToolPath::parse("notes.read").unwrap();
    assert!(refused(&case, ask(Elicitation { tool, ..gate() })), "another tool");
}

/// `Elicitation::authorises` says that a form with fields lets nothing happen, yet at the gate it clears the call.
#[test]
fn f03_a_form_with_fields_at_the_gate_does_not_clear_the_call() {
    let case = Case::new().issue(DELETES);
    let asks_for_fields = Elicitation { kind: form(), ..question(eli(1), Origin::Gate, ms(3)) };
    assert!(!asks_for_fields.authorises());
    assert!(refused(&case, ask(asks_for_fields)));
}

/// A grant is a remembered yes; it cannot know what to fill in. It may answer a form today, without data.
#[test]
fn f04_a_grant_does_not_fill_in_a_form() {
    let case = Case::new().issue(READS).start(by_rule()).ask_by_handler_for(form());
    let by_grant =
        Decision { by: Decider::Grant { id: gra(1) }, ..decision(Outcome::Approved, case.next_at()) };
    assert!(refused(&case, decided(eli(1), by_grant)));
}

/// R14: `authorise` returns the retry before it looks at the fingerprint, so that a tool replaced while the call was in
/// doubt runs on the approval of the old one.
#[test]
fn f05_a_retry_starts_only_the_tool_that_was_approved() {
    let other = Fingerprint(Digest::of(b"another tool"));
    let said = retrying().execution().authorise(CALL, ms(20), other, policy_version());
    assert_eq!(said, Err(Refusal::ToolChanged));
}

/// Belongs to the last: once a retry can be refused, it needs an end. `Retrying` takes a start or `Cancelled`, nothing else.
#[test]
fn f06_a_retry_that_cannot_start_can_be_settled_as_failed() {
    assert!(!refused(&retrying(), settled(failed())));
}

// --- time ------------------------------------------------------------------------------------------------------------

/// R7: "a clock that jumps never revives an expired elicitation". Here the journal itself has seen 2000, the question
/// expired at 1005, the clock jumps back to 900, and the yes is used.
#[test]
fn f07_a_clock_that_jumps_back_does_not_revive_an_expired_yes() {
    let case = Case::approved(DELETES).ask_by_handler().decide(Outcome::Approved);
    let seen = case.at(2_000).step("slow").at(900);
    assert!(refused(&seen, start(by_answer(2))));
}

#[test]
fn f08_a_clock_that_jumps_back_does_not_reopen_an_expired_question() {
    let case = Case::approved(DELETES).ask_by_handler();
    let seen = case.at(2_000).step("slow").at(900);
    assert!(refused(&seen, decided(eli(2), decision(Outcome::Approved, ms(900)))));
}

/// `timely` judges by `decision.at` alone, which nothing ties to the event's own time.
#[test]
fn f09_a_decision_is_judged_by_the_time_it_is_recorded_at() {
    let asked = || Case::new().issue(DELETES).ask();
    let backdated = decided(eli(1), decision(Outcome::Denied, ms(4)));
    assert!(refused(&asked().at(5_000), backdated), "recorded after the expiry, dated before it");
    let postdated = decided(eli(1), decision(Outcome::Expired, ms(5_000)));
    assert!(refused(&asked().at(4), postdated), "expired in advance");
}

/// A yes that its handler could not use in time is stuck: `CallStarted` on it is refused and poisons, `authorise` knows
/// only gates, and the question cannot be decided again. A filled-in form is lost the same way, though it authorises
/// nothing.
#[test]
fn f10_a_filled_in_form_reaches_its_handler_also_after_the_questions_expiry() {
    let asked = Case::new().issue(READS).start(by_rule()).ask_by_handler_for(form());
    let answered = asked.decide(Outcome::Approved).at(5_000);
    assert!(!refused(&answered, start(by_answer(1))));
}

// --- what hides an effect --------------------------------------------------------------------------------------------

#[test]
fn f11_an_execution_whose_call_succeeded_is_not_cancelled() {
    assert!(refused(&Case::approved(DELETES).settle_ok(), cancelled()));
}

/// Idempotent means that it may run again, not that it did nothing: `cancel` asks `would_be_in_doubt`, which is about the
/// former.
#[test]
fn f12_a_running_destructive_call_is_not_cancelled_also_if_it_is_idempotent() {
    assert!(refused(&Case::approved(OVERWRITES), cancelled()));
}

#[test]
fn f13_a_retry_is_not_cancelled_as_if_its_first_run_had_done_nothing() {
    assert!(refused(&retrying(), cancelled()));
}

#[test]
fn f14_a_call_that_recorded_a_step_is_not_cancelled() {
    let paid = Case::approved(DELETES).step("charge the card").ask_by_handler().withdraw(2);
    assert!(refused(&paid, cancelled()));
}

#[test]
fn f15_an_execution_ends_as_its_call_did() {
    let finish = |outcome| EventBody::Finished { outcome };
    let done = Case::approved(DELETES).settle_ok();
    assert!(refused(&done, finish(failed())), "a call that took effect, told as a failure");
    let denied = Case::new().issue(DELETES).ask().decide(Outcome::Denied).follow();
    assert!(refused(&denied, finish(succeeded())), "a denied call, told as a success");
    assert!(refused(&Case::new(), finish(succeeded())), "a success without a call");
}

// --- crash and recovery ----------------------------------------------------------------------------------------------

/// R4: let past one question while another is open, then a crash. `recover` says `FoundInDoubt`, `apply` refuses it
/// ("a question of the call is open") and poisons. The kernel would have to know to withdraw first; nothing says so.
#[test]
fn f16_what_recover_advises_can_be_recorded() {
    let two = Case::approved(DELETES).ask_by_handler().ask_by_handler();
    let one_past = two.decide_on(2, Outcome::Approved).start(by_answer(2));
    assert_eq!(one_past.replayed().recover(), [Recovery::FoundInDoubt(CALL)]);
    assert!(!refused(&one_past, EventBody::FoundInDoubt { call: CALL }));
}

/// `call_waits` looks at all answers of the call, also those that an earlier run left unused: the withdrawn question of
/// the first run keeps the second from ever being parked.
#[test]
fn f17_an_answer_left_over_from_an_earlier_run_does_not_keep_a_retry_from_waiting() {
    let two = Case::approved(DELETES).ask_by_handler().ask_by_handler();
    let one_past = two.decide_on(2, Outcome::Approved).start(by_answer(2)).withdraw(3).doubt();
    let again = one_past.settle_doubt(Settlement::Retry).start(StartedBy::Retry).ask_by_handler();
    again.expect_status(Status::Waiting);
}

/// "A journal that contradicts itself must not run anything": `apply` keeps to that, the permits do not.
#[test]
fn f18_a_poisoned_execution_yields_no_permit() {
    let poisoned = |mut case: Case| {
        let event = Event { at: case.next_at(), body: start(StartedBy::Retry) };
        case.execution_mut().apply(&event).unwrap_err();
        case
    };
    assert!(poisoned(Case::approved(DELETES)).execution_mut().take_permit(CALL).is_none());
    let mut at_ask = poisoned(Case::approved(DELETES).ask_by_handler());
    assert!(at_ask.execution_mut().take_permit_again(CALL).is_none());
}

/// "Leave to enter one handler once": `take_permit_again` spends nothing, so that one crash yields any number of permits.
#[test]
fn f19_one_crash_yields_one_permit_to_enter_again() {
    let mut replayed = Case::approved(DELETES).ask_by_handler().replayed();
    assert!(replayed.take_permit_again(CALL).is_some());
    assert!(replayed.take_permit_again(CALL).is_none());
}

/// "…after a crash": but nothing crashed here. The handler is running, and waits at its question; a second one beside it
/// gets the same answer.
#[test]
fn f20_a_handler_that_is_running_is_not_entered_again() {
    let mut case = Case::approved(DELETES);
    assert!(case.execution_mut().take_permit(CALL).is_some());
    let mut case = case.ask_by_handler();
    assert!(case.execution_mut().take_permit_again(CALL).is_none());
}

/// A gate has no handler of ours, so there is none to ask: today it waits for people and is to be run at once.
#[test]
fn f21_a_bare_gate_has_no_handler_that_asks() {
    let through = Case::of(Kind::Gate).issue(DELETES).start(by_rule());
    let question = through.handlers_question();
    assert!(refused(&through, ask(question)));
}

// --- stored forms ----------------------------------------------------------------------------------------------------

/// The version is looked at after the event was read, so that the one helpful message is not given where it is needed.
#[test]
fn f22_a_newer_version_is_refused_as_such_also_where_its_events_are_unknown() {
    let newer = r#"{"v":2,"at":1,"event":{"callForked":{"call":0}}}"#;
    let error = serde_json::from_str::<Event>(newer).unwrap_err().to_string();
    assert!(error.contains("run a newer countersign"), "{error}");
}

/// "One text for one value": but what is read is taken as it stands.
#[test]
fn f23_what_is_read_as_canonical_is_canonical_or_refused() {
    for text in [r#"{"b":1,"a":2}"#, r#"{ "a": 1 }"#, r#"{"a":1.0}"#, r#"{"a":1,"a":2}"#] {
        if let Ok(read) = serde_json::from_str::<Canonical>(text) {
            assert_eq!(Canonical::of(&read.to_value()).unwrap(), read, "{text}");
        }
    }
}

#[test]
fn f24_a_digest_has_one_spelling() {
    let digest = Digest::of(b"x").to_string();
    assert!("+f".repeat(32).parse::<Digest>().is_err(), "signs");
    assert!(digest.to_uppercase().parse::<Digest>().is_err(), "capitals");
}

// --- people and the audit --------------------------------------------------------------------------------------------

/// R6: the decider is the person. Who approved in the console and again in the terminal holds two tokens.
#[test]
fn f25_a_person_who_repeats_a_decision_with_another_token_repeats_it() {
    let yes = decision(Outcome::Approved, ms(5));
    let by = Decider::Person { principal: principal("ann"), token: Some(tok(2)) };
    assert!(yes.repeats(&Decision { by, ..yes.clone() }));
}

/// The entry has fields for call and question; both are known, neither is filled in where an auditor would join them.
#[test]
fn f26_the_audit_of_a_decision_names_its_call_and_that_of_a_start_its_question() {
    let case = Case::approved(DELETES);
    let entry = |i: usize| AuditEntry::of(case.execution(), &case.events()[i]);
    assert_eq!((entry(3).what.as_str(), entry(3).call), ("Decided", Some(CALL)));
    assert_eq!((entry(4).what.as_str(), entry(4).elicitation), ("CallStarted", Some(eli(1))));
}

/// Guards the tests above: a journal that is right in everything still goes through.
#[test]
fn an_honest_journal_passes() {
    let honest = Case::approved(DELETES).settle_ok().finish();
    assert_eq!(honest.replayed().status(), Status::Succeeded);
    let outcome = CallOutcome::Failed(Failure::new("invalid_input", "no such field"));
    Case::new().apply(EventBody::Finished { outcome }).expect_status(Status::Failed);
}
