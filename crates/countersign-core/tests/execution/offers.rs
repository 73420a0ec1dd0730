//! Every kind of event, made to fit a given execution as well as it can be.
//!
//! [`fitting`] is what an honest kernel might write next: right numbers, right ids, right decider, right time. Whether
//! it is legal is then the phase's doing alone. [`crooked`] is what no honest kernel writes; it is never legal.

use countersign_core::canonical::Canonical;
use countersign_core::digest::Digest;
use countersign_core::elicitation::{Decider, Decision, Elicitation, Origin};
use countersign_core::event::{
    CallIssued, CallOutcome, Event, EventBody, Failure, Kind, Settlement, StartedBy,
};
use countersign_core::execution::{Asked, AskedState, Execution, Phase};
use countersign_core::ids::{CallNo, ElicitationId};
use countersign_core::time::Timestamp;
use countersign_sdk::{Outcome, ToolPath};
use serde_json::json;

use crate::sample::{
    CALL, DELETES, ask, by_grant, by_rule, decided, decision, eli, failed, form, gra, issued, ms,
    policy_version, principal, question, settled, start, started, succeeded, verbatim, withdrawal,
};

/// One event that could come next.
#[derive(Debug, Clone)]
pub(crate) struct Offer {
    pub(crate) name: &'static str,
    pub(crate) event: Event,
}

fn offer(name: &'static str, at: Timestamp, body: EventBody) -> Offer {
    Offer { name, event: Event { at, body } }
}

/// Each event kind, and each variant of it that a phase may treat differently.
pub(crate) fn fitting(execution: &Execution, at: Timestamp) -> Vec<Offer> {
    let next_call = CallNo(u32::try_from(execution.calls().len()).unwrap());
    let settle_doubt = |settlement| EventBody::DoubtSettled { call: CALL, settlement, by: principal("ann") };
    let outcome = execution.calls().first().and_then(|call| match call.phase() {
        Phase::Settled(outcome) => Some(outcome.clone()),
        _ => None,
    });
    let mut offers = vec![
        offer("Started", at, EventBody::Started(started(Kind::Call))),
        offer("CallIssued", at, EventBody::CallIssued(issued(next_call, DELETES))),
    ];
    offers.extend(questions_and_answers(execution, at));
    let policy_version = Digest::of(b"the policy as it is now");
    offers.extend([
        offer("Rejudged", at, EventBody::Rejudged { call: CALL, policy_version }),
        offer("CallStarted by a rule", at, start(by_rule())),
        offer("CallStarted by a grant", at, start(by_grant())),
        offer("CallStarted by the gate's decision", at, start(answer_to(asked_by_gate(execution), 1))),
        offer("CallStarted by a handler's decision", at, start(answer_to(asked_by_handler(execution), 2))),
        offer("CallStarted as a retry", at, start(StartedBy::Retry)),
        offer("CallReentered", at, EventBody::CallReentered { call: CALL }),
        offer(
            "StepRecorded",
            at,
            EventBody::StepRecorded { call: CALL, name: "s".into(), value: verbatim(&1.into()) },
        ),
        offer("CallSettled with success", at, settled(succeeded())),
        offer("CallSettled with failure", at, settled(failed())),
        offer("Finished as the call was settled", at, EventBody::finished(outcome.unwrap_or_else(failed))),
        offer("Cancelled", at, EventBody::Cancelled { by: None, reason: "shutdown".into() }),
        offer("FoundInDoubt", at, EventBody::FoundInDoubt { call: CALL, reason: None }),
        offer("DoubtSettled as done", at, settle_doubt(Settlement::Done { value: verbatim(&1.into()) })),
        offer("DoubtSettled as failed", at, settle_doubt(Settlement::Failed { message: "no".into() })),
        offer("DoubtSettled as retry", at, settle_doubt(Settlement::Retry)),
    ]);
    offers
}

fn questions_and_answers(execution: &Execution, at: Timestamp) -> Vec<Offer> {
    let fresh = fresh(execution);
    let handler = Origin::Handler { ordinal: next_ordinal(execution) };
    let open = open_or_last(execution).map(|a| &a.elicitation);
    let id = open.map_or(eli(1), |e| e.id);
    let expiry = open.map_or(at, |e| e.expires_at.max(at));
    let fields = Elicitation { kind: form(), ..question(fresh, handler, at) };
    let by_grant = Decision { by: Decider::Grant { id: gra(1) }, ..decision(Outcome::Approved, at) };
    vec![
        offer("Asked by the gate", at, ask(gates_question(execution, at))),
        offer("Asked by the handler", at, ask(question(fresh, handler, at))),
        offer("Asked by the handler for fields", at, ask(fields)),
        offer("Decided: approved", at, decided(id, decision(Outcome::Approved, at))),
        offer("Decided: approved by a grant", at, decided(id, by_grant)),
        offer("Decided: denied", at, decided(id, decision(Outcome::Denied, at))),
        offer("Decided: closed by the person", at, decided(id, decision(Outcome::Cancelled, at))),
        offer("Decided: withdrawn by the gateway", at, decided(id, withdrawal(at))),
        offer("Decided: expired", expiry, decided(id, decision(Outcome::Expired, expiry))),
    ]
}

/// Events that are wrong in themselves, in any phase.
pub(crate) fn crooked(execution: &Execution, at: Timestamp) -> Vec<Offer> {
    let stranger = eli(250);
    let skipping = Origin::Handler { ordinal: next_ordinal(execution) + 1 };
    let unheard = Failure::new("unheard_of", "No call ended like this.");
    let mut offers = vec![
        offer("a call under no digest of its own", at, EventBody::CallIssued(forged(execution))),
        offer("an ordinal left out", at, ask(question(fresh(execution), skipping, at))),
        offer("a decision about nothing", at, decided(stranger, decision(Outcome::Approved, at))),
        offer("a start on no decision", at, start(StartedBy::Decision { elicitation: stranger })),
        offer("a call that is not there", at, EventBody::FoundInDoubt { call: CallNo(9), reason: None }),
        offer("an end of its own", at, EventBody::finished(CallOutcome::Failed(unheard))),
    ];
    offers.extend(crooked_gates(execution, at));
    if let Some(asked) = open_or_last(execution) {
        offers.extend(crooked_answers(&asked.elicitation, next_ordinal(execution), at));
    }
    offers.extend(yesterday(execution));
    offers
}

fn forged(execution: &Execution) -> CallIssued {
    let next_call = CallNo(u32::try_from(execution.calls().len()).unwrap());
    CallIssued { digest: Digest::of(b"something else"), ..issued(next_call, DELETES) }
}

/// Questions of the gate that show the person something else than what will run.
fn crooked_gates(execution: &Execution, at: Timestamp) -> Vec<Offer> {
    let gate = || gates_question(execution, at);
    let args = Canonical::of(&json!({ "id": "a harmless one" })).unwrap();
    let tool = ToolPath::parse("notes.read").unwrap();
    vec![
        offer("the gate about another digest", at, ask(Elicitation { digest: policy_version(), ..gate() })),
        offer("the gate about other arguments", at, ask(Elicitation { args, ..gate() })),
        offer("the gate about another tool", at, ask(Elicitation { tool, ..gate() })),
        offer("the gate with a form", at, ask(Elicitation { kind: form(), ..gate() })),
    ]
}

/// Whatever fits, but dated before the last event.
fn yesterday(execution: &Execution) -> Vec<Offer> {
    let Some(before) = execution.latest().as_millis().checked_sub(1).map(ms) else { return Vec::new() };
    let mut offers = fitting(execution, before);
    for offer in &mut offers {
        offer.event.at = before;
        if let EventBody::Decided { decision, .. } = &mut offer.event.body {
            decision.at = before;
        }
    }
    offers
}

/// Answers that nobody may give, and the question asked once more.
fn crooked_answers(known: &Elicitation, ordinal: u32, at: Timestamp) -> Vec<Offer> {
    let late = known.expires_at.max(at);
    let early = ms(known.expires_at.as_millis() - 1).min(at);
    let after = ms(at.as_millis() + 1);
    let by_clock = Decision { by: Decider::Clock, ..decision(Outcome::Approved, at) };
    let by_gateway = Decision { outcome: Outcome::Approved, ..withdrawal(at) };
    let by_grant = Decision { by: Decider::Grant { id: gra(1) }, ..decision(Outcome::Denied, at) };
    let by_hand = Decision { outcome: Outcome::Expired, ..decision(Outcome::Approved, late) };
    vec![
        offer("an id asked twice", at, ask(question(known.id, Origin::Handler { ordinal }, at))),
        offer("an approval that comes too late", late, decided(known.id, decision(Outcome::Approved, late))),
        offer("a denial that comes too late", late, decided(known.id, decision(Outcome::Denied, late))),
        offer("an expiry that comes too early", early, decided(known.id, decision(Outcome::Expired, early))),
        offer("an approval by the clock", at, decided(known.id, by_clock)),
        offer("an approval by the gateway", at, decided(known.id, by_gateway)),
        offer("a denial by a grant", at, decided(known.id, by_grant)),
        offer("an expiry by a person", late, decided(known.id, by_hand)),
        offer("a backdated denial", after, decided(known.id, decision(Outcome::Denied, at))),
        offer("a postdated withdrawal", at, decided(known.id, withdrawal(after))),
    ]
}

/// The gate's question about the call as it is bound now.
fn gates_question(execution: &Execution, at: Timestamp) -> Elicitation {
    let question = question(fresh(execution), Origin::Gate, at);
    let digest = execution.call(CALL).map_or(question.digest, |call| call.digest);
    Elicitation { digest, ..question }
}

fn fresh(execution: &Execution) -> ElicitationId {
    eli(u8::try_from(execution.asked().len() + 1).unwrap())
}

fn next_ordinal(execution: &Execution) -> u32 {
    let run = execution.calls().first().and_then(|call| call.run());
    run.map_or(0, |run| u32::try_from(run.asks.len()).unwrap())
}

fn open_or_last(execution: &Execution) -> Option<&Asked> {
    let mut asked = execution.asked().iter();
    asked.clone().find(|a| a.state == AskedState::Open).or_else(|| asked.next_back())
}

fn asked_by_gate(execution: &Execution) -> Option<&Asked> {
    execution.asked().iter().rfind(|a| a.elicitation.origin == Origin::Gate)
}

/// The handler's question whose answer waits to be used, or else its last one.
fn asked_by_handler(execution: &Execution) -> Option<&Asked> {
    let mut asked = execution.asked().iter().filter(|a| a.elicitation.origin != Origin::Gate);
    asked.clone().find(|a| matches!(a.state, AskedState::Decided(_))).or_else(|| asked.next_back())
}

fn answer_to(asked: Option<&Asked>, otherwise: u8) -> StartedBy {
    StartedBy::Decision { elicitation: asked.map_or(eli(otherwise), |a| a.elicitation.id) }
}
