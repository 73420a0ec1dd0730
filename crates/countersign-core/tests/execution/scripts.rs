//! Scripts: many calls in one execution, what they were given in which order, and a replay that is held against it.

use countersign_core::bounds;
use countersign_core::event::{CallOutcome, Event, EventBody, Failure, Kind, Settlement, Started};
use countersign_core::execution::{
    ApplyError, Became, Completed, Execution, Next, Status, call_digest, sleep_digest,
};
use countersign_core::ids::{CallNo, RequestNo};
use countersign_sdk::Outcome;

use crate::case::Case;
use crate::sample::{
    DELETES, READS, args, by_answer, by_rule, decision, eli, failed, issued, ms, principal, requested,
    started, succeeded,
};

const ONE: CallNo = CallNo(1);

fn answered(case: &Case) -> Vec<u32> {
    case.execution().completed(0).map(|completed| completed.request.0).collect()
}

fn refused(case: Case) -> Case {
    let failure = Failure::new("tool_not_found", "There is no tool \"notes.drop\".");
    let path = "notes.drop".to_owned();
    let requested = call_digest(&path, &args());
    case.apply(EventBody::CallRefused { path, requested, failure })
}

fn asleep(case: Case, ms: u64) -> Case {
    case.apply(EventBody::SleepStarted { ms })
}

fn waits(case: Case, seen: u32) -> Case {
    case.apply(EventBody::ScriptWaits { seen })
}

#[test]
fn a_script_reads_pauses_goes_on_and_ends_with_its_value() {
    let case = Case::script()
        .expect_next(&Next::RunScript)
        .read(0)
        .request(DELETES)
        .expect_next(&Next::Judge(ONE))
        .ask_about(1)
        .expect_status(Status::Waiting)
        .expect_next(&Next::AwaitPeople)
        .decide(Outcome::Approved)
        .expect_next(&Next::Start(ONE))
        .start_call(1, by_answer(1))
        .expect_next(&Next::Enter(ONE))
        .settle_call(1, succeeded())
        .expect_status(Status::Running)
        .expect_next(&Next::RunScript)
        .end(succeeded())
        .expect_status(Status::Succeeded);
    insta::assert_snapshot!("script", case.journal());
}

#[test]
fn several_calls_wait_at_once_and_each_is_decided_by_itself() {
    let case = Case::script().request(DELETES).request(DELETES).request(READS);
    let case = case.start_call(2, by_rule()).ask_about(0).ask_about(1);
    let case = case.expect_status(Status::Running).settle_call(2, succeeded());
    assert_eq!(case.execution().open().count(), 2);
    let case = waits(case, 1).expect_status(Status::Waiting);
    let case = case.decide_on(2, Outcome::Denied).expect_status(Status::Running);
    let Next::Settle(no, failure) = case.execution().next() else { panic!("the refusal is to be recorded") };
    assert_eq!((no, failure.code.as_str()), (ONE, "denied"));
    let case = case.settle_call(1, CallOutcome::Failed(failure)).decide_on(1, Outcome::Approved);
    let case = case.start_call(0, by_answer(1)).settle_call(0, succeeded());
    assert_eq!(answered(&case), [2, 1, 0], "in the order they were recorded, not made");
    case.end(failed()).expect_status(Status::Failed);
}

#[test]
fn an_approval_of_one_call_starts_no_other() {
    let case = Case::script().request(DELETES).request(DELETES).ask_about(0).ask_about(1);
    let case = case.decide_on(1, Outcome::Approved);
    let other = EventBody::CallStarted { call: ONE, by: by_answer(1) };
    let case = case.refuse(other, "in no phase to start on this authority");
    let twice = case.start_call(0, by_answer(1)).settle_call(0, succeeded());
    let again = EventBody::CallStarted { call: CallNo(0), by: by_answer(1) };
    twice.refuse(again, "in no phase to start on this authority");
}

#[test]
fn a_script_that_may_still_have_something_to_say_does_not_wait_for_people() {
    let case = Case::script().read(0).request(DELETES).request(DELETES);
    let case = case.ask_about(1).ask_about(2).expect_status(Status::Waiting);
    let case = case.decide_on(1, Outcome::Denied).settle_call(1, failed());
    let case = case.expect_status(Status::Running).expect_next(&Next::RunScript);
    assert_eq!(
        case.replayed().status(),
        Status::Running,
        "a crash here must not lose what the script would do next"
    );
    waits(case, 2).expect_status(Status::Waiting);
}

#[test]
fn a_sleeping_script_is_not_parked_and_wakes_in_time_only() {
    let case = asleep(Case::script().request(DELETES), 10).ask_about(0);
    let case = case.expect_status(Status::Running);
    let wake = |request| EventBody::SleepEnded { request: RequestNo(request) };
    let case = case.refuse(wake(1), "its sleep is not over").refuse(wake(0), "it does not sleep");
    let case =
        case.refuse(wake(9), "no such request").at(13).apply(wake(1)).refuse(wake(1), "it does not sleep");
    assert_eq!(answered(&case), [1]);
    let slept = case.execution().completed(0).next();
    let null = countersign_core::canonical::Verbatim::null();
    let expected = Completed { request: RequestNo(1), at: ms(13), outcome: CallOutcome::Succeeded(null) };
    assert_eq!(slept, Some(expected));
    waits(case, 1).expect_status(Status::Waiting);
}

#[test]
fn the_longest_sleep_is_bounded_at_its_edge() {
    let case = asleep(Case::script(), bounds::MAX_SLEEP_MS);
    case.refuse(EventBody::SleepStarted { ms: bounds::MAX_SLEEP_MS + 1 }, "nothing sleeps that long");
}

#[test]
fn a_refused_request_is_answered_at_once_and_is_no_call() {
    let case = refused(Case::script()).read(0);
    assert_eq!(case.execution().calls().len(), 1);
    assert_eq!(answered(&case), [0, 1]);
    let became: Vec<_> = case.execution().progress().requests().iter().map(|r| &r.became).collect();
    assert!(matches!(became[..], [Became::Refused { .. }, Became::Call(CallNo(0))]), "{became:?}");
    let first = case.execution().completed(0).next().map(|completed| completed.outcome);
    assert!(matches!(first, Some(CallOutcome::Failed(failure)) if failure.code == "tool_not_found"));
}

#[test]
fn a_replay_is_held_against_its_journal_and_the_difference_is_named_with_both_digests() {
    let case = asleep(refused(Case::script().request(DELETES)), 5);
    let execution = case.execution();
    let same = [call_digest("notes.delete", &args()), call_digest("notes.drop", &args()), sleep_digest(5)];
    for (no, digest) in same.into_iter().enumerate() {
        assert!(execution.holds_against(RequestNo(no as u32), digest).unwrap().is_some());
    }
    assert_eq!(
        execution.holds_against(RequestNo(3), sleep_digest(5)),
        Ok(None),
        "what is new is not recorded"
    );
    for (no, other) in [(0, sleep_digest(5)), (1, same[0]), (2, sleep_digest(6))] {
        let divergence = execution.holds_against(RequestNo(no), other).unwrap_err();
        assert_eq!(divergence.request, RequestNo(no));
        let text = divergence.to_string();
        assert!(text.contains(&other.to_string()) && text.contains(&same[no as usize].to_string()), "{text}");
    }
    let missing = execution.missing(RequestNo(1)).to_string();
    assert!(missing.contains("notes.drop") && missing.contains("asks for nothing"), "{missing}");
}

#[test]
fn two_requests_share_a_digest_only_if_they_are_the_same() {
    let one = call_digest("a.b", &args());
    assert_eq!(one, call_digest("a.b", &args()));
    assert_ne!(one, call_digest("a.c", &args()));
    assert_ne!(sleep_digest(1), sleep_digest(2));
}

#[test]
fn a_call_in_doubt_stops_the_whole_script_until_a_person_settles_it() {
    let case = Case::script().request(DELETES).request(DELETES).request(READS).ask_about(0).ask_about(1);
    let case = case.decide_on(1, Outcome::Approved).start_call(0, by_answer(1));
    let case =
        case.apply(EventBody::FoundInDoubt { call: CallNo(0), reason: None }).decide_on(2, Outcome::Approved);
    let case = case.expect_status(Status::InDoubt).expect_next(&Next::AwaitSettlement(CallNo(0)));
    assert_eq!(case.execution().next_of_calls().count(), 0, "nothing is done about the others either");
    let settle = |settlement| EventBody::DoubtSettled { call: CallNo(0), settlement, by: principal("ann") };
    let case = case.refuse(EventBody::finished(succeeded()), "a call of it is not settled");
    let again = case.clone().apply(settle(Settlement::Retry)).expect_next(&Next::Start(CallNo(0)));
    assert!(answered(&again).is_empty());
    let case = case.apply(settle(Settlement::Failed { message: "it never arrived".into() }));
    assert_eq!(answered(&case), [0], "the script is given what the person said");
    case.expect_next(&Next::Start(ONE));
}

#[test]
fn after_a_crash_what_ran_is_found_in_doubt_or_entered_again_each_by_itself() {
    let case = Case::script().request(DELETES).request(READS).ask_about(0).decide(Outcome::Approved);
    let case = case.start_call(0, by_answer(1)).start_call(1, by_rule());
    let live: Vec<Next> = case.execution().next_of_calls().collect();
    assert_eq!(live, [Next::Enter(CallNo(0)), Next::Enter(ONE)]);
    let found: Vec<Next> = case.replayed().next_of_calls().collect();
    assert_eq!(found, [Next::FindInDoubt(CallNo(0), None), Next::EnterAgain(ONE)]);
}

#[test]
fn a_script_is_cancelled_though_its_calls_have_acted_but_not_while_one_acts() {
    let done = Case::script().request(DELETES).ask_about(0).decide(Outcome::Approved);
    let done = done.start_call(0, by_answer(1));
    let reason = "a call may have had an effect";
    let cancelled = || EventBody::Cancelled { by: None, reason: "no longer wanted".into() };
    let done = done.refuse(cancelled(), reason).settle_call(0, succeeded()).request(DELETES).ask_about(1);
    let done = done.refuse(cancelled(), "a question is open").withdraw(2).apply(cancelled());
    done.expect_status(Status::Cancelled);
}

#[test]
fn a_script_ends_only_when_each_of_its_calls_has() {
    let case =
        Case::script().request(READS).refuse(EventBody::finished(succeeded()), "a call of it is not settled");
    let cancelled = CallOutcome::Failed(Failure::new("cancelled", "The script ended without it."));
    case.settle_call(0, cancelled).end(succeeded()).expect_status(Status::Succeeded);
}

#[test]
fn only_scripts_do_what_scripts_do_and_calls_what_calls_do() {
    let call = Case::new();
    for body in [
        EventBody::CallRefused {
            path: "a.b".into(),
            requested: sleep_digest(1),
            failure: Failure::new("x", "y"),
        },
        EventBody::SleepStarted { ms: 1 },
        EventBody::ScriptWaits { seen: 0 },
    ] {
        call.clone().refuse(body, "it is no script");
    }
    call.refuse(EventBody::CallIssued(requested(CallNo(0), READS)), "only a script asks for calls");
    let script = Case::script();
    script.clone().refuse(EventBody::CallIssued(issued(CallNo(0), READS)), "says what was asked for");
    script.clone().refuse(EventBody::ScriptWaits { seen: 1 }, "it cannot have seen that");
    let forgetful = waits(script.read(0), 1);
    forgetful.refuse(EventBody::ScriptWaits { seen: 0 }, "it cannot have seen that");
}

#[test]
fn a_script_without_code_and_a_call_with_it_are_refused() {
    let bare = Started { script: None, ..started(Kind::Script) };
    let laden = Started { kind: Kind::Call, ..started(Kind::Script) };
    for facts in [bare, laden] {
        let first = Event { at: ms(1), body: EventBody::Started(facts) };
        assert!(matches!(Execution::start(&first), Err(ApplyError::Illegal { .. })));
    }
}

#[test]
fn a_script_asks_for_as_much_as_it_may_and_no_more() {
    let mut case = Case::script();
    for _ in 0..bounds::MAX_CALLS {
        let event = Event { at: case.next_at(), body: EventBody::SleepStarted { ms: 0 } };
        case.execution_mut().apply(&event).unwrap();
    }
    let event = Event { at: ms(9), body: EventBody::SleepStarted { ms: 0 } };
    assert!(matches!(case.execution_mut().apply(&event), Err(ApplyError::Illegal { problem, .. })
        if problem.contains("as much as it may")));
}

#[test]
fn an_answer_to_one_of_several_questions_leaves_the_others_open() {
    let case = Case::script().request(DELETES).request(DELETES).ask_about(0).ask_about(1);
    let late = decision(Outcome::Approved, case.next_at());
    let case = case.decide_with(2, late);
    assert_eq!(case.execution().open().map(|e| e.id).collect::<Vec<_>>(), [eli(1)]);
    case.expect_next(&Next::Start(ONE));
}
