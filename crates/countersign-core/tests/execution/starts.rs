//! From a yes to a start: what `check_start` checks at the last moment, and what a permit is good for.

use countersign_core::bounds;
use countersign_core::digest::{Digest, Fingerprint};
use countersign_core::elicitation::{Elicitation, Origin};
use countersign_core::event::{Event, EventBody, Kind, Settlement, StartedBy};
use countersign_core::execution::{Execution, Next, Refusal, Status, Terms};
use countersign_core::ids::CallNo;
use countersign_sdk::{Effects, Outcome};
use proptest::prelude::{ProptestConfig, any};
use proptest::{prop_assert_eq, proptest};

use crate::case::Case;
use crate::sample::{
    CALL, DELETES, DELETES_RESUMABLY, OVERWRITES, PATIENCE, READS, REFRESHES, SENDS, ask, by_answer,
    by_grant, by_rule, eli, fingerprint, form, ms, policy_version, question, start,
};

/// Approved at 4, the question asked at 3.
fn cleared() -> Case {
    Case::new().issue(DELETES).ask().decide(Outcome::Approved)
}

const EXPIRY: u64 = 3 + PATIENCE;

fn terms(now: u64, fingerprint: Fingerprint, policy_version: Digest) -> Terms {
    Terms { now: ms(now), fingerprint, policy_version }
}

fn check(case: &Case, now: u64) -> Result<EventBody, Refusal> {
    case.execution().check_start(CALL, terms(now, fingerprint(), policy_version()))
}

/// What `check_start` should say, first reason first.
fn expected(now: u64, tool: &[u8], policy: &[u8]) -> Result<EventBody, Refusal> {
    if now >= EXPIRY {
        Err(Refusal::Expired(ms(EXPIRY)))
    } else if Fingerprint(Digest::of(tool)) != fingerprint() {
        Err(Refusal::ToolChanged)
    } else if Digest::of(policy) != policy_version() {
        Err(Refusal::PolicyChanged)
    } else {
        Ok(start(by_answer(1)))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_approved_call_starts_only_as_it_was_under_the_policy_that_was_and_in_time(
        now in EXPIRY - 5..EXPIRY + 5,
        change_tool in any::<bool>(),
        change_policy in any::<bool>(),
        noise in any::<[u8; 4]>(),
    ) {
        let tool: &[u8] = if change_tool { &noise } else { b"the tool as it was" };
        let policy: &[u8] = if change_policy { &noise } else { b"the policy as it was" };
        let case = cleared();
        let said = case.execution().check_start(CALL, terms(now, Fingerprint(Digest::of(tool)), Digest::of(policy)));
        prop_assert_eq!(&said, &expected(now, tool, policy));
        if let Ok(start) = said {
            case.at(now).apply(start);
        }
    }
}

#[test]
fn a_refusal_has_a_code_and_says_what_to_do() {
    let told = [
        (
            Refusal::Expired(ms(EXPIRY)),
            "expired",
            "expired at 1970-01-01T00:00:01.003Z before the call could start",
        ),
        (Refusal::ToolChanged, "approval_void", "the tool changed since it was approved; call again"),
        (Refusal::PolicyChanged, "approval_void", "the policy changed since this was approved; call again"),
        (Refusal::NotApproved, "denied", "no unused approval"),
    ];
    for (refusal, code, words) in told {
        assert_eq!(refusal.code(), code);
        assert!(refusal.to_string().contains(words), "{refusal}");
    }
}

#[test]
fn only_an_unused_approval_is_authorised() {
    let issued = || Case::new().issue(DELETES);
    let running = || Case::approved(DELETES);
    let without = [
        Case::new(),
        issued(),
        issued().ask(),
        issued().ask().decide(Outcome::Denied),
        issued().start(by_rule()),
        running(),
        running().ask_by_handler().decide(Outcome::Approved),
        running().doubt(),
        running().settle_ok(),
        running().settle_ok().finish(),
        issued().cancel(),
    ];
    for case in without {
        assert_eq!(check(&case, 10), Err(Refusal::NotApproved), "\n{}", case.journal());
    }
    assert_eq!(
        cleared().execution().check_start(CallNo(1), terms(10, fingerprint(), policy_version())),
        Err(Refusal::NotApproved)
    );
}

#[test]
fn a_person_who_says_retry_authorises_one_start() {
    let retrying = Case::approved(DELETES).doubt().settle_doubt(Settlement::Retry);
    let again = check(&retrying, 10).unwrap();
    assert_eq!(again, start(StartedBy::Retry));
    assert_eq!(check(&retrying.apply(again).doubt(), 10), Err(Refusal::NotApproved));
}

/// R14: the tool may have been replaced while its call was in doubt. The policy does not matter: a person spoke last.
#[test]
fn a_retry_starts_only_the_tool_that_was_approved() {
    let retrying = Case::approved(DELETES).doubt().settle_doubt(Settlement::Retry);
    let with = |tool, policy| retrying.execution().check_start(CALL, terms(20, tool, policy));
    let other = Fingerprint(Digest::of(b"another tool"));
    assert_eq!(with(other, policy_version()), Err(Refusal::ToolChanged));
    assert_eq!(with(fingerprint(), Digest::of(b"another policy")), Ok(start(StartedBy::Retry)));
}

/// What the person approved keeps its digest when another policy leaves the question as it is; only that policy starts it.
#[test]
fn an_approval_that_another_policy_left_as_it_is_starts_under_that_policy_and_no_other() {
    let now = Digest::of(b"the policy as it is now");
    let rejudged = || EventBody::Rejudged { call: CALL, policy_version: now };
    let asked = || Case::new().issue(DELETES).ask();
    let digest = asked().call().digest;
    for case in [asked().apply(rejudged()).decide(Outcome::Approved), cleared().apply(rejudged())] {
        assert_eq!(case.call().digest, digest, "a digest does not change under whoever reads it");
        let under = |policy| case.execution().check_start(CALL, terms(10, fingerprint(), policy));
        assert_eq!(under(now), Ok(start(by_answer(1))));
        assert_eq!(under(policy_version()), Err(Refusal::PolicyChanged));
        let other = Fingerprint(Digest::of(b"another tool"));
        assert_eq!(
            case.execution().check_start(CALL, terms(10, other, now)),
            Err(Refusal::ToolChanged),
            "the tool is compared as ever"
        );
    }
}

/// Asked again, the question is another one: it has an id of its own, and binds the policy of now.
#[test]
fn a_question_that_is_asked_again_binds_the_policy_it_is_asked_under() {
    let now = Digest::of(b"the policy as it is now");
    let withdrawn = Case::new().issue(DELETES).ask().withdraw(1);
    let rejudged = withdrawn.apply(EventBody::Rejudged { call: CALL, policy_version: now });
    let digest = rejudged.call().digest;
    assert_ne!(digest, Case::new().issue(DELETES).call().digest);
    let question = Elicitation { digest, ..question(eli(2), Origin::Gate, rejudged.next_at()) };
    let cleared = rejudged.apply(ask(question)).decide(Outcome::Approved);
    let started = cleared.execution().check_start(CALL, terms(20, fingerprint(), now));
    assert_eq!(started, Ok(start(by_answer(2))));
}

/// R2: a person's no is the end of it. Only the gateway's own withdrawal is followed by another question.
#[test]
fn what_a_person_refused_is_not_asked_again() {
    for outcome in [Outcome::Denied, Outcome::Cancelled] {
        let refused = Case::new().issue(DELETES).ask().decide(outcome);
        let rejudged =
            EventBody::Rejudged { call: CALL, policy_version: Digest::of(b"the policy as it is now") };
        let refused = refused.refuse(rejudged, "the call is in no phase to be judged again");
        let again = question(eli(2), Origin::Gate, refused.next_at());
        refused.refuse(ask(again), "the call is in no phase to ask");
    }
}

/// R10: entering again is a start like any other.
#[test]
fn a_lost_handler_is_entered_again_only_as_the_tool_that_was_and_on_an_approval_that_counts() {
    let mut case = Case::approved(OVERWRITES);
    drop(case.execution_mut().take_permit(CALL));
    let lost = case.replayed();
    let again = || Ok(EventBody::CallReentered { call: CALL });
    let at = |now, tool| lost.check_start(CALL, terms(now, tool, policy_version()));
    assert_eq!(at(EXPIRY - 1, fingerprint()), again());
    assert_eq!(at(EXPIRY, fingerprint()), Err(Refusal::Expired(ms(EXPIRY))));
    assert_eq!(at(10, Fingerprint(Digest::of(b"another tool"))), Err(Refusal::ToolChanged));
}

/// A person's "run it again" does not count for ever.
#[test]
fn a_retry_that_nobody_started_for_a_day_does_not_start() {
    let retrying = Case::approved(DELETES).doubt().settle_doubt(Settlement::Retry);
    let settled = retrying.execution().latest();
    let end = settled.after(bounds::RETRY_VALID_FOR).as_millis();
    assert!(check(&retrying, end - 1).is_ok());
    assert_eq!(check(&retrying, end), Err(Refusal::Expired(ms(end))));
    retrying.doubt().expect_status(Status::InDoubt);
}

/// A handler that brings the process down is not entered for ever.
#[test]
fn the_third_death_without_progress_fails_a_safe_call_and_leaves_a_destructive_one_in_doubt() {
    let again = |case: Case| case.apply(EventBody::CallReentered { call: CALL });
    for (effects, by) in [(READS, by_rule()), (OVERWRITES, by_rule())] {
        let once = Case::new().issue(effects).start(by);
        assert_eq!(once.replayed().next(), Next::EnterAgain(CALL));
        let thrice = again(again(once));
        let next = thrice.replayed().next();
        if effects == READS {
            assert!(
                matches!(&next, Next::Settle(CALL, failure) if failure.code == "crashed_repeatedly"),
                "{next:?}"
            );
        } else {
            assert!(matches!(next, Next::FindInDoubt(CALL, Some(_))), "{next:?}");
        }
        let further = thrice.step("charge");
        assert_eq!(further.replayed().next(), Next::EnterAgain(CALL), "it got further");
    }
}

/// The process did not die over a handler that was merely parked.
#[test]
fn a_handler_that_is_entered_again_with_its_answer_counts_from_nothing() {
    let asked = Case::new().issue(READS).start(by_rule()).ask_by_handler_for(form());
    let mut case = asked.decide(Outcome::Approved);
    for _ in 0..3 {
        assert_eq!(case.replayed().next(), Next::EnterAgain(CALL));
        case = case.apply(EventBody::CallReentered { call: CALL });
    }
    assert!(matches!(case.replayed().next(), Next::Settle(..)), "\n{}", case.journal());
}

fn permits(execution: &mut Execution) -> usize {
    std::iter::from_fn(|| execution.take_permit(CALL)).take(5).count()
}

#[test]
fn each_recorded_start_yields_one_permit_and_being_let_past_yields_none() {
    let mut case = Case::approved(DELETES);
    assert_eq!(permits(case.execution_mut()), 1);
    let mut past = case.ask_by_handler().decide(Outcome::Approved).start(by_answer(2));
    assert_eq!(permits(past.execution_mut()), 0);
    let mut again = past.doubt().settle_doubt(Settlement::Retry).start(StartedBy::Retry);
    assert_eq!(permits(again.execution_mut()), 1);
}

#[test]
fn a_call_that_was_not_started_yields_no_permit() {
    let issued = || Case::new().issue(DELETES);
    let doubt = || Case::approved(DELETES).doubt();
    let settled = Case::approved(DELETES).settle_ok();
    let retrying = doubt().settle_doubt(Settlement::Retry);
    for mut case in [Case::new(), issued(), issued().ask(), cleared(), doubt(), retrying, settled] {
        assert!(case.execution_mut().take_permit(CALL).is_none(), "\n{}", case.journal());
    }
}

#[test]
fn a_replayed_start_is_not_entered_again_unless_that_leaves_no_doubt() {
    let past_a_yes = |effects: Effects| {
        let asked = Case::new().issue(effects).start(by_rule()).ask_by_handler();
        asked.decide(Outcome::Approved).start(by_answer(1))
    };
    let cases = [
        (Case::approved(DELETES), Next::FindInDoubt(CALL, None)),
        (Case::approved(DELETES).ask_by_handler(), Next::FindInDoubt(CALL, None)),
        (Case::approved(DELETES_RESUMABLY).ask_by_handler(), Next::AwaitPeople),
        (Case::new().issue(SENDS).start(by_rule()), Next::FindInDoubt(CALL, None)),
        (Case::new().issue(SENDS).start(by_rule()).ask_by_handler(), Next::FindInDoubt(CALL, None)),
        (Case::approved(OVERWRITES), Next::EnterAgain(CALL)),
        (Case::new().issue(READS).start(by_rule()), Next::EnterAgain(CALL)),
        (past_a_yes(READS), Next::FindInDoubt(CALL, None)),
        (past_a_yes(REFRESHES), Next::EnterAgain(CALL)),
    ];
    for (case, next) in cases {
        let mut replayed = case.replayed();
        assert_eq!(replayed.next(), next, "\n{}", case.journal());
        assert!(replayed.take_permit(CALL).is_none());
        let again = Event { at: ms(50), body: EventBody::CallReentered { call: CALL } };
        let fits = replayed.apply(&again).is_ok();
        assert_eq!(fits, !matches!(next, Next::FindInDoubt(..)), "\n{}", case.journal());
        assert_eq!(permits(&mut replayed), usize::from(fits), "\n{}", case.journal());
    }
    assert_eq!(Case::approved(DELETES).doubt().execution().lost_calls().count(), 0);
}

/// A journal that contradicts itself must not run anything.
#[test]
fn a_poisoned_execution_yields_no_permit() {
    let poison = |mut execution: Execution, at| {
        let event = Event { at, body: start(StartedBy::Retry) };
        execution.apply(&event).unwrap_err();
        execution
    };
    let fresh = Case::approved(DELETES);
    let at = fresh.next_at();
    assert!(fresh.execution().clone().take_permit(CALL).is_some());
    assert!(poison(fresh.execution().clone(), at).take_permit(CALL).is_none());
}

#[test]
fn one_record_of_entering_again_yields_one_permit() {
    let at_ask = Case::approved(DELETES_RESUMABLY).ask_by_handler();
    for mut replayed in [at_ask.replayed(), Case::approved(OVERWRITES).replayed()] {
        assert_eq!(permits(&mut replayed), 0);
        let again = Event { at: ms(50), body: EventBody::CallReentered { call: CALL } };
        replayed.apply(&again).unwrap();
        assert_eq!(permits(&mut replayed), 1);
        let twice = replayed.clone().apply(&again).unwrap_err().to_string();
        assert!(twice.contains("its handler is running"), "{twice}");
    }
}

/// A second handler beside it would get the same answer.
#[test]
fn a_handler_that_is_running_is_not_entered_again() {
    let mut case = Case::approved(DELETES);
    assert!(case.execution_mut().take_permit(CALL).is_some());
    case.ask_by_handler().refuse(EventBody::CallReentered { call: CALL }, "its handler is running");
}

#[test]
fn a_permit_carries_the_recorded_arguments_and_the_authority_they_run_on() {
    let by_decision_of_a_grant = || {
        let asked = Case::new().issue(DELETES).ask();
        let by = countersign_core::elicitation::Decider::Grant { id: crate::sample::gra(1) };
        let decision = crate::sample::decision(Outcome::Approved, asked.next_at());
        asked.decide_with(1, countersign_core::elicitation::Decision { by, ..decision }).start(by_answer(1))
    };
    let retried = Case::approved(DELETES).doubt().settle_doubt(Settlement::Retry).start(StartedBy::Retry);
    let cases = [
        Case::approved(DELETES),
        by_decision_of_a_grant(),
        Case::new().issue(DELETES).start(by_grant()),
        Case::new().issue(DELETES).start(by_rule()),
        retried,
        Case::new().issue(READS).start(by_rule()),
    ];
    let shown: Vec<_> = cases
        .into_iter()
        .map(|mut case| {
            let permit = case.execution_mut().take_permit(CALL).unwrap();
            assert_eq!(permit.call(), CALL);
            format!("{permit:?}")
        })
        .collect();
    insta::assert_snapshot!("permits", shown.join("\n"));
}

#[test]
fn a_gate_that_let_through_is_over() {
    let through = Case::of(Kind::Gate).issue(DELETES).ask().decide(Outcome::Approved).start(by_answer(1));
    through.settle_ok().finish().expect_next(&Next::Done);
}
