//! What the tests' events are made of: one agent, one tool, one session, and ids from small counters.
//!
//! Every value here is what the kernel would write: digests are those of the binding, decisions are made by whoever may
//! make them. A test that wants a crooked event bends one of these.

use std::sync::Arc;

use countersign_core::canonical::{Canonical, Verbatim};
use countersign_core::digest::{Binding, Digest, Fingerprint};
use countersign_core::elicitation::{Decider, Decision, Elicitation, Origin};
use countersign_core::event::{
    CallIssued, CallOutcome, EventBody, Failure, Kind, Script, Started, StartedBy,
};
use countersign_core::execution::call_digest;
use countersign_core::ids::{CallNo, ElicitationId, ExecutionId, GrantId, TokenId};
use countersign_core::time::Timestamp;
use countersign_sdk::{
    AskKind, Effects, FormSchema, Outcome, Principal, PrincipalId, Remember, Resumable, SessionId, ToolPath,
};
use serde_json::json;

/// The one call of an execution.
pub(crate) const CALL: CallNo = CallNo(0);
/// How long a question stays open, in milliseconds.
pub(crate) const PATIENCE: u64 = 1_000;

/// Runs freely.
pub(crate) const READS: Effects = Effects {
    destructive: false,
    idempotent: false,
    open_world: false,
    read_only: false,
    resumable: Resumable::Unsaid,
};
/// Runs freely, and twice is once.
pub(crate) const REFRESHES: Effects = Effects {
    destructive: false,
    idempotent: true,
    open_world: false,
    read_only: false,
    resumable: Resumable::Unsaid,
};
/// Needs a yes, and must not run twice.
pub(crate) const DELETES: Effects = Effects {
    destructive: true,
    idempotent: false,
    open_world: false,
    read_only: false,
    resumable: Resumable::Unsaid,
};
/// Needs a yes, must not run twice, and may be entered again at its questions.
pub(crate) const DELETES_RESUMABLY: Effects = Effects { resumable: Resumable::Yes, ..DELETES };
/// Runs freely, but must not run twice: a request to somebody else's service.
pub(crate) const SENDS: Effects = Effects { resumable: Resumable::No, ..READS };
/// Needs a yes, but twice is once.
pub(crate) const OVERWRITES: Effects = Effects {
    destructive: true,
    idempotent: true,
    open_world: false,
    read_only: false,
    resumable: Resumable::Unsaid,
};

const fn bits(n: u8) -> [u8; 16] {
    let mut bits = [0; 16];
    bits[15] = n;
    bits
}

pub(crate) const fn eli(n: u8) -> ElicitationId {
    ElicitationId::from_random(bits(n))
}

pub(crate) const fn gra(n: u8) -> GrantId {
    GrantId::from_random(bits(n))
}

pub(crate) const fn tok(n: u8) -> TokenId {
    TokenId::from_random(bits(n))
}

pub(crate) const fn ms(at: u64) -> Timestamp {
    Timestamp::from_millis(at)
}

pub(crate) fn principal(name: &str) -> PrincipalId {
    PrincipalId::parse(name).unwrap()
}

pub(crate) fn fingerprint() -> Fingerprint {
    Fingerprint(Digest::of(b"the tool as it was"))
}

pub(crate) fn policy_version() -> Digest {
    Digest::of(b"the policy as it was")
}

pub(crate) fn args() -> Canonical {
    Canonical::of(&json!({ "id": 7 })).unwrap()
}

pub(crate) fn verbatim(value: &serde_json::Value) -> Verbatim {
    Verbatim::of(value).unwrap()
}

pub(crate) fn started(kind: Kind) -> Started {
    Started {
        execution: ExecutionId::from_random(bits(1)),
        kind,
        session: SessionId::parse("ses_1").unwrap(),
        requester: Principal::agent("agent").unwrap(),
        token: None,
        idempotency_key: None,
        requested: None,
        script: (kind == Kind::Script).then(|| Box::new(script())),
    }
}

pub(crate) fn script() -> Script {
    let code = "await tools.notes.delete({ id: 7 });\n";
    Script {
        source: "await tools.notes.delete({ id: 7 } as Note);\n".into(),
        code: code.into(),
        mappings: "AAAA".into(),
        digest: Digest::of(code.as_bytes()),
        seed: Digest::of(b"seed"),
    }
}

/// A call as a script asks for it.
pub(crate) fn requested(call: CallNo, effects: Effects) -> CallIssued {
    let issued = issued(call, effects);
    CallIssued { requested: Some(call_digest(issued.path.as_str(), &issued.args)), ..issued }
}

pub(crate) fn issued(call: CallNo, effects: Effects) -> CallIssued {
    let (facts, path, args) = (started(Kind::Call), ToolPath::parse("notes.delete").unwrap(), args());
    let binding = Binding {
        tool: &path,
        fingerprint: fingerprint(),
        args: &args,
        requester: &facts.requester.id,
        session: &facts.session,
        policy_version: policy_version(),
    };
    let digest = binding.digest();
    CallIssued {
        call,
        path,
        fingerprint: fingerprint(),
        effects,
        args,
        policy_version: policy_version(),
        digest,
        requested: None,
        line: None,
        source: None,
    }
}

/// A yes-or-no question about the call, asked at `at`.
pub(crate) fn question(id: ElicitationId, origin: Origin, at: Timestamp) -> Elicitation {
    let issued = issued(CALL, DELETES);
    Elicitation {
        id,
        call: CALL,
        origin,
        kind: AskKind::Approval,
        tool: issued.path,
        message: "Permanently delete note \"7\"?".into(),
        args: issued.args,
        digest: issued.digest,
        because: match origin {
            Origin::Gate => "rule 1".into(),
            Origin::Handler { .. } => "the tool asks".into(),
        },
        remember: Remember::Call,
        expires_at: ms(at.as_millis() + PATIENCE),
        line: None,
    }
}

/// A question with one field, which lets nothing happen.
pub(crate) fn form() -> AskKind {
    let schema =
        json!({ "type": "object", "properties": { "branch": { "type": "string" } }, "required": ["branch"] });
    AskKind::Form { schema: FormSchema::new(&schema).unwrap() }
}

pub(crate) fn ann() -> Decider {
    Decider::Person { principal: principal("ann"), token: Some(tok(1)) }
}

/// The decision as whoever may make it makes it: the clock expires, a person says everything else.
pub(crate) fn decision(outcome: Outcome, at: Timestamp) -> Decision {
    let (by, channel) = match outcome {
        Outcome::Expired => (Decider::Clock, "clock"),
        Outcome::Approved | Outcome::Denied | Outcome::Cancelled => (ann(), "console"),
    };
    Decision { outcome, by, channel: channel.into(), proof: None, at, comment: None, data: None }
}

/// What the gateway itself may decide: that nobody needs to any more.
pub(crate) fn withdrawal(at: Timestamp) -> Decision {
    let by = Decider::Gateway { reason: "the execution was cancelled".into() };
    Decision { by, channel: "gateway".into(), ..decision(Outcome::Cancelled, at) }
}

pub(crate) fn ask(elicitation: Elicitation) -> EventBody {
    EventBody::Asked(Arc::new(elicitation))
}

pub(crate) fn decided(id: ElicitationId, decision: Decision) -> EventBody {
    EventBody::Decided { elicitation: id, decision }
}

pub(crate) fn start(by: StartedBy) -> EventBody {
    EventBody::CallStarted { call: CALL, by }
}

pub(crate) fn settled(outcome: CallOutcome) -> EventBody {
    EventBody::CallSettled { call: CALL, outcome }
}

pub(crate) fn by_rule() -> StartedBy {
    StartedBy::Policy { rule: "rule 2".into() }
}

pub(crate) fn by_grant() -> StartedBy {
    StartedBy::Grant { id: gra(1) }
}

/// On the decision of the `n`th question.
pub(crate) fn by_answer(n: u8) -> StartedBy {
    StartedBy::Decision { elicitation: eli(n) }
}

pub(crate) fn succeeded() -> CallOutcome {
    CallOutcome::Succeeded(verbatim(&json!({ "deleted": true })))
}

pub(crate) fn failed() -> CallOutcome {
    CallOutcome::Failed(Failure::new("tool_failed", "There is no note 7."))
}
