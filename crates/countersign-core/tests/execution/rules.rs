//! The rules of DESIGN.md that the state machine alone can keep, one by one: who may let what happen, and how often.
//!
//! Those about time are in `clock`, about doubt and retries in `doubt`, about settling, ending and cancelling in `ends`.

use countersign_core::bounds::{MAX_ASKS_PER_CALL, MAX_JOURNAL_EVENTS, MAX_STEPS_PER_CALL};
use countersign_core::canonical::Canonical;
use countersign_core::digest::{Digest, Fingerprint};
use countersign_core::elicitation::{Decider, Decision, Elicitation, Origin};
use countersign_core::event::{CallIssued, Event, EventBody, Kind, Settlement, Started, StartedBy};
use countersign_core::execution::{ApplyError, End, Execution};
use countersign_core::ids::CallNo;
use countersign_sdk::{AskKind, FormSchema, Outcome, Principal, SessionId, ToolPath};
use serde_json::json;

use crate::case::{Case, asked, handler_asked};
use crate::sample::{
    CALL, DELETES, READS, ann, ask, by_answer, by_rule, decided, decision, eli, failed, form, gra, issued,
    ms, policy_version, question, settled, start, started, succeeded, tok, verbatim, withdrawal,
};

const ANOTHER: &str = "the gate asks for approval of the call as it will run, and nothing else";
const NO_PHASE: &str = "the call is in no phase to start on this authority";
const USED: &str = "the decision is not there, or was used";

fn step() -> EventBody {
    EventBody::StepRecorded { call: CALL, name: "s".into(), value: verbatim(&1.into()) }
}

#[test]
fn nothing_starts_on_a_question_that_is_open_or_was_not_answered_with_yes() {
    asked().refuse(start(by_answer(1)), NO_PHASE).refuse(start(by_rule()), NO_PHASE);
    for no in [Outcome::Denied, Outcome::Cancelled] {
        asked().decide(no).refuse(start(by_answer(1)), NO_PHASE).refuse(start(by_rule()), NO_PHASE);
    }
    asked().withdraw(1).refuse(start(by_answer(1)), NO_PHASE);
    asked().at(1_003).decide(Outcome::Expired).refuse(start(by_answer(1)), NO_PHASE);
}

#[test]
fn nothing_starts_on_the_answer_to_another_question() {
    asked().decide(Outcome::Approved).refuse(start(by_answer(2)), NO_PHASE);
    handler_asked().ask_by_handler().decide_on(2, Outcome::Approved).refuse(start(by_answer(1)), USED);
    let past = Case::approved(DELETES).ask_by_handler().decide(Outcome::Approved);
    past.refuse(start(by_answer(1)), NO_PHASE);
}

/// What `ask`, `start_call` and `authorise` compare is worth nothing if the call itself may carry any digest.
#[test]
fn the_digest_of_an_issued_call_is_the_digest_of_what_it_says() {
    const FORGED: &str = "its digest is not the digest of what it says";
    let honest = || issued(CALL, DELETES);
    let args = Canonical::of(&json!({ "id": "everything" })).unwrap();
    let forged = [
        CallIssued { args, ..honest() },
        CallIssued { path: ToolPath::parse("notes.drop").unwrap(), ..honest() },
        CallIssued { fingerprint: Fingerprint(Digest::of(b"another tool")), ..honest() },
        CallIssued { policy_version: Digest::of(b"another policy"), ..honest() },
        CallIssued { digest: policy_version(), ..honest() },
    ];
    for call in forged {
        Case::new().refuse(EventBody::CallIssued(call), FORGED);
    }
    let others = [
        Started { requester: Principal::agent("mallory").unwrap(), ..started(Kind::Call) },
        Started { session: SessionId::parse("ses_2").unwrap(), ..started(Kind::Call) },
    ];
    for facts in others {
        Case::of_facts(facts).refuse(EventBody::CallIssued(honest()), FORGED);
    }
}

#[test]
fn the_gate_asks_about_the_very_call() {
    let gate = || question(eli(1), Origin::Gate, ms(3));
    let other_args = Canonical::of(&json!({ "id": "a harmless one" })).unwrap();
    let crooked = [
        Elicitation { digest: policy_version(), ..gate() },
        Elicitation { args: other_args, ..gate() },
        Elicitation { tool: ToolPath::parse("notes.read").unwrap(), ..gate() },
    ];
    for question in crooked {
        Case::new().issue(DELETES).refuse(ask(question), ANOTHER);
    }
    Case::new().issue(DELETES).apply(ask(gate()));
}

#[test]
fn the_gate_asks_yes_or_no_and_for_no_fields() {
    for kind in [form(), AskKind::Form { schema: FormSchema::confirm() }] {
        let asks_for_fields = Elicitation { kind, ..question(eli(1), Origin::Gate, ms(3)) };
        Case::new().issue(DELETES).refuse(ask(asks_for_fields), ANOTHER);
    }
}

#[test]
fn a_grant_answers_approvals_and_fills_in_no_form() {
    let by_grant = |case: &Case| {
        let by = Decider::Grant { id: gra(1) };
        decided(eli(1), Decision { by, ..decision(Outcome::Approved, case.next_at()) })
    };
    for kind in [form(), AskKind::Form { schema: FormSchema::confirm() }] {
        let case = Case::new().issue(READS).start(by_rule()).ask_by_handler_for(kind);
        let body = by_grant(&case);
        case.refuse(body, "a grant answers approvals only");
    }
    let case = handler_asked();
    let body = by_grant(&case);
    case.apply(body).start(by_answer(1));
}

#[test]
fn a_bare_gate_has_no_handler_that_asks() {
    let through = Case::of(Kind::Gate).issue(DELETES).start(by_rule());
    let question = through.handlers_question();
    through.refuse(ask(question), "a bare gate has no handler");
}

#[test]
fn a_gate_that_was_answered_does_not_ask_again() {
    for outcome in [Outcome::Approved, Outcome::Denied] {
        let again = question(eli(2), Origin::Gate, ms(5));
        asked().decide(outcome).refuse(ask(again), "in no phase to ask");
    }
}

#[test]
fn nobody_decides_what_is_not_theirs_to_decide() {
    let at = ms(2_000);
    let says = |by: &Decider, outcome| decided(eli(1), Decision { by: by.clone(), ..decision(outcome, at) });
    let late = || asked().at(2_000);
    for outcome in [Outcome::Approved, Outcome::Denied, Outcome::Cancelled] {
        late().refuse(says(&Decider::Clock, outcome), "only the clock expires, and does nothing else");
    }
    let gateway = Decider::Gateway { reason: "the tool changed".into() };
    for outcome in [Outcome::Approved, Outcome::Denied] {
        late().refuse(says(&gateway, outcome), "the gateway may only cancel");
    }
    for by in [ann(), Decider::Grant { id: gra(1) }, gateway] {
        late().refuse(says(&by, Outcome::Expired), "only the clock expires");
    }
    for outcome in [Outcome::Denied, Outcome::Cancelled] {
        let by_grant = Decision { by: Decider::Grant { id: gra(1) }, ..decision(outcome, ms(4)) };
        let event = Event { at: ms(4), body: decided(eli(1), by_grant) };
        assert!(asked().execution().clone().apply(&event).is_err(), "a grant says yes or nothing");
    }
}

#[test]
fn the_first_decision_stands() {
    for first in [Outcome::Approved, Outcome::Denied, Outcome::Cancelled] {
        let case = asked().decide(first);
        for second in [Outcome::Approved, Outcome::Denied, Outcome::Cancelled] {
            let again = decided(eli(1), decision(second, case.next_at()));
            case.clone().refuse(again, "the elicitation was decided already");
        }
        let withdrawn = decided(eli(1), withdrawal(case.next_at()));
        case.refuse(withdrawn, "the elicitation was decided already");
    }
    let used = Case::approved(DELETES);
    let no = decided(eli(1), decision(Outcome::Denied, used.next_at()));
    used.refuse(no, "the elicitation was decided already");
}

#[test]
fn one_approval_starts_one_call_once() {
    Case::approved(DELETES).refuse(start(by_answer(1)), NO_PHASE);
    Case::approved(DELETES).doubt().refuse(start(by_answer(1)), NO_PHASE);
    let retrying = Case::approved(DELETES).doubt().settle_doubt(Settlement::Retry);
    retrying.refuse(start(by_answer(1)), NO_PHASE).refuse(start(by_rule()), NO_PHASE);
    handler_asked().decide(Outcome::Approved).start(by_answer(1)).refuse(start(by_answer(1)), USED);
}

#[test]
fn questions_have_their_own_ids_and_a_handlers_are_numbered() {
    let case = handler_asked();
    let skipped = question(eli(2), Origin::Handler { ordinal: 2 }, ms(5));
    let repeated = question(eli(2), Origin::Handler { ordinal: 0 }, ms(5));
    let same_id = question(eli(1), Origin::Handler { ordinal: 1 }, ms(5));
    let stray = Elicitation { call: CallNo(1), ..question(eli(2), Origin::Handler { ordinal: 1 }, ms(5)) };
    case.refuse(ask(skipped), "numbered in order")
        .refuse(ask(repeated), "numbered in order")
        .refuse(ask(same_id), "an elicitation id is used once")
        .refuse(ask(stray), "no such call");
}

#[test]
fn a_form_lets_nothing_happen_but_a_bare_confirmation_does() {
    let after = |kind| {
        let answered = Case::new().issue(READS).start(by_rule()).ask_by_handler_for(kind);
        answered.decide(Outcome::Approved).start(by_answer(1))
    };
    let confirm = countersign_sdk::AskKind::Form { schema: countersign_sdk::FormSchema::confirm() };
    assert!(!after(form()).call().would_be_in_doubt());
    assert!(after(confirm).call().would_be_in_doubt(), "yes to a form without fields is a yes");
}

#[test]
fn a_later_no_does_not_undo_what_an_earlier_yes_let_happen() {
    let past_a_yes = handler_asked().decide(Outcome::Approved).start(by_answer(1));
    let then_a_no = past_a_yes.ask_by_handler().decide(Outcome::Denied).start(by_answer(2));
    assert!(then_a_no.call().would_be_in_doubt());
}

#[test]
fn an_execution_is_one_call() {
    let second = || EventBody::CallIssued(issued(CallNo(1), READS));
    Case::new().refuse(second(), "calls are numbered in issue order");
    for kind in [Kind::Call, Kind::Gate] {
        Case::of(kind).issue(READS).refuse(second(), "it consists of one call");
    }
}

#[test]
fn a_journal_begins_with_started_and_has_it_once() {
    let issued = Event { at: ms(1), body: EventBody::CallIssued(issued(CALL, READS)) };
    assert_eq!(Execution::replay([]), Err(ApplyError::Empty));
    let error = Execution::replay([&issued]).unwrap_err();
    let expected =
        "event CallIssued does not fit: a journal begins with Started (execution in state nothing)";
    assert_eq!(error.to_string(), expected);
    Case::new().refuse(EventBody::Started(started(Kind::Call)), "it started already");
}

#[test]
fn a_journal_cut_short_anywhere_is_a_journal() {
    let case =
        Case::approved(DELETES).ask_by_handler().decide(Outcome::Denied).start(by_answer(2)).settle_ok();
    let events = case.finish().events().to_vec();
    for cut in 1..=events.len() {
        let execution = Execution::replay(&events[..cut]).unwrap();
        assert_eq!(execution.version(), cut as u64);
        assert_eq!(execution.status().is_final(), cut == events.len());
    }
}

#[test]
fn an_execution_knows_what_it_was_started_with_and_how_it_ended() {
    let facts = Started { token: Some(tok(3)), idempotency_key: Some("k".into()), ..started(Kind::Gate) };
    let execution = Execution::start(&Event { at: ms(7), body: EventBody::Started(facts.clone()) }).unwrap();
    assert_eq!((execution.id(), execution.kind()), (facts.execution, Kind::Gate));
    assert_eq!((execution.session(), execution.requester()), (&facts.session, &facts.requester));
    assert_eq!((execution.token(), execution.idempotency_key()), (Some(tok(3)), Some("k")));
    assert_eq!((execution.started_at(), execution.end()), (ms(7), None));
    let finished = Case::approved(DELETES).settle(failed()).finish();
    assert_eq!(
        finished.execution().end(),
        Some(&End::Finished { at: ms(7), outcome: failed(), logs: vec![] })
    );
    assert_eq!(finished.execution().failure().unwrap().code, "tool_failed");
    let stopped = Case::new().cancel();
    assert_eq!(
        stopped.execution().end(),
        Some(&End::Cancelled { at: ms(2), reason: "no longer wanted".into() })
    );
    assert_eq!(stopped.execution().failure(), None);
    assert_eq!(asked().execution().asked()[0].at, ms(3));
}

#[test]
fn a_refusal_names_the_event_the_state_and_the_problem() {
    let event = Event { at: ms(4), body: settled(succeeded()) };
    let error = asked().execution().clone().apply(&event).unwrap_err();
    let expected =
        "event CallSettled does not fit: a question of the call is open (execution in state waiting)";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_call_asks_and_records_only_so_often() {
    let mut case = Case::new().issue(READS).start(by_rule());
    for _ in 0..MAX_ASKS_PER_CALL {
        case = case.ask_by_handler();
    }
    let one_more = case.handlers_question();
    case.refuse(ask(one_more), "asked as often as it may");
    let mut case = Case::new().issue(READS).start(by_rule());
    for _ in 0..MAX_STEPS_PER_CALL {
        case = case.apply(step());
    }
    case.refuse(step(), "recorded as many steps as it may");
}

#[test]
fn a_full_journal_takes_nothing_more_but_is_not_poisoned() {
    let event = |body| Event { at: ms(9), body };
    let settlement = Settlement::Retry;
    let by = crate::sample::principal("ann");
    let round = [
        event(EventBody::FoundInDoubt { call: CALL, reason: None }),
        event(EventBody::DoubtSettled { call: CALL, settlement, by }),
        event(start(StartedBy::Retry)),
    ];
    let mut execution = Case::approved(DELETES).execution().clone();
    let mut rounds = round.iter().cycle();
    while execution.version() < MAX_JOURNAL_EVENTS {
        execution.apply(rounds.next().unwrap()).unwrap();
    }
    for _ in 0..2 {
        assert_eq!(execution.apply(rounds.next().unwrap()), Err(ApplyError::Full));
    }
    assert!(ApplyError::Full.to_string().contains("100000 events"));
}
