//! From a yes to a start: what `authorise` checks at the last moment, and what a permit is good for.

use countersign_core::digest::{Digest, Fingerprint};
use countersign_core::elicitation::{Elicitation, Origin};
use countersign_core::event::{Event, EventBody, Kind, Settlement, StartedBy};
use countersign_core::execution::{Execution, Recovery, Refusal};
use countersign_core::ids::CallNo;
use countersign_sdk::{Effects, Outcome};
use proptest::prelude::{ProptestConfig, any};
use proptest::{prop_assert_eq, proptest};

use crate::case::Case;
use crate::sample::{
    CALL, DELETES, DELETES_RESUMABLY, OVERWRITES, PATIENCE, READS, REFRESHES, SENDS, ask, by_answer,
    by_grant, by_rule, eli, fingerprint, ms, policy_version, question, start,
};

/// Approved at 4, the question asked at 3.
fn cleared() -> Case {
    Case::new().issue(DELETES).ask().decide(Outcome::Approved)
}

const EXPIRY: u64 = 3 + PATIENCE;

fn authorise(case: &Case, now: u64) -> Result<EventBody, Refusal> {
    case.execution().authorise(CALL, ms(now), fingerprint(), policy_version())
}

/// What `authorise` should say, first reason first.
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
        let said = case.execution().authorise(CALL, ms(now), Fingerprint(Digest::of(tool)), Digest::of(policy));
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
        assert_eq!(authorise(&case, 10), Err(Refusal::NotApproved), "\n{}", case.journal());
    }
    assert_eq!(
        cleared().execution().authorise(CallNo(1), ms(10), fingerprint(), policy_version()),
        Err(Refusal::NotApproved)
    );
}

#[test]
fn a_person_who_says_retry_authorises_one_start() {
    let retrying = Case::approved(DELETES).doubt().settle_doubt(Settlement::Retry);
    let again = authorise(&retrying, 10).unwrap();
    assert_eq!(again, start(StartedBy::Retry));
    assert_eq!(authorise(&retrying.apply(again), 10), Err(Refusal::NotApproved));
}

/// R14: the tool may have been replaced while its call was in doubt. The policy does not matter: a person spoke last.
#[test]
fn a_retry_starts_only_the_tool_that_was_approved() {
    let retrying = Case::approved(DELETES).doubt().settle_doubt(Settlement::Retry);
    let with = |tool, policy| retrying.execution().authorise(CALL, ms(20), tool, policy);
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
        let under = |policy| case.execution().authorise(CALL, ms(10), fingerprint(), policy);
        assert_eq!(under(now), Ok(start(by_answer(1))));
        assert_eq!(under(policy_version()), Err(Refusal::PolicyChanged));
        let other = Fingerprint(Digest::of(b"another tool"));
        assert_eq!(
            case.execution().authorise(CALL, ms(10), other, now),
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
    let started = cleared.execution().authorise(CALL, ms(20), fingerprint(), now);
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
        assert!(case.execution_mut().take_permit_again(CALL).is_none(), "\n{}", case.journal());
    }
}

#[test]
fn a_replayed_start_is_not_entered_again_unless_that_leaves_no_doubt() {
    let past_a_yes = |effects: Effects| {
        let asked = Case::new().issue(effects).start(by_rule()).ask_by_handler();
        asked.decide(Outcome::Approved).start(by_answer(1))
    };
    let cases = [
        (Case::approved(DELETES), Recovery::FoundInDoubt(CALL)),
        (Case::approved(DELETES).ask_by_handler(), Recovery::FoundInDoubt(CALL)),
        (Case::approved(DELETES_RESUMABLY).ask_by_handler(), Recovery::Rerun(CALL)),
        (Case::new().issue(SENDS).start(by_rule()), Recovery::FoundInDoubt(CALL)),
        (Case::new().issue(SENDS).start(by_rule()).ask_by_handler(), Recovery::FoundInDoubt(CALL)),
        (Case::approved(OVERWRITES), Recovery::Rerun(CALL)),
        (Case::new().issue(READS).start(by_rule()), Recovery::Rerun(CALL)),
        (past_a_yes(READS), Recovery::FoundInDoubt(CALL)),
        (past_a_yes(REFRESHES), Recovery::Rerun(CALL)),
    ];
    for (case, recovery) in cases {
        let mut replayed = case.replayed();
        assert_eq!(replayed.recover(), [recovery], "\n{}", case.journal());
        assert!(replayed.take_permit(CALL).is_none());
        let again = replayed.take_permit_again(CALL);
        assert_eq!(again.is_some(), recovery == Recovery::Rerun(CALL), "\n{}", case.journal());
    }
    assert_eq!(Case::approved(DELETES).doubt().execution().recover(), []);
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
    let at_ask = Case::approved(DELETES_RESUMABLY).ask_by_handler();
    let at = at_ask.next_at();
    assert!(at_ask.replayed().take_permit_again(CALL).is_some());
    assert!(poison(at_ask.replayed(), at).take_permit_again(CALL).is_none());
}

#[test]
fn one_crash_yields_one_permit_to_enter_again() {
    let at_ask = Case::approved(DELETES_RESUMABLY).ask_by_handler();
    for mut replayed in [at_ask.replayed(), Case::approved(OVERWRITES).replayed()] {
        assert!(replayed.take_permit_again(CALL).is_some());
        assert!(replayed.take_permit_again(CALL).is_none());
        assert!(replayed.take_permit(CALL).is_none());
    }
}

/// A second handler beside it would get the same answer.
#[test]
fn a_handler_that_is_running_is_not_entered_again() {
    let mut case = Case::approved(DELETES);
    assert!(case.execution_mut().take_permit(CALL).is_some());
    let mut case = case.ask_by_handler();
    assert!(case.execution_mut().take_permit_again(CALL).is_none());
    let mut not_entered_yet = Case::approved(OVERWRITES);
    assert!(not_entered_yet.execution_mut().take_permit_again(CALL).is_none(), "it has its own permit");
    assert!(not_entered_yet.execution_mut().take_permit(CALL).is_some());
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
fn a_gate_has_nothing_to_await_once_it_let_through() {
    use countersign_core::execution::Next;
    let through = Case::of(Kind::Gate).issue(DELETES).ask().decide(Outcome::Approved).start(by_answer(1));
    let through = through.expect_next(&Next::Run(CALL));
    assert_eq!(through.replayed().next(), Next::Run(CALL), "the embedding program runs it, not this process");
    through.settle_ok().finish();
}
