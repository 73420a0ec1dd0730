//! One gated call, told commit by commit as the kernel does.

use std::sync::Arc;

use countersign_core::audit::AuditEntry;
use countersign_core::canonical::{Canonical, Verbatim};
use countersign_core::commit::StoredCommit;
use countersign_core::digest::{Binding, Digest, Fingerprint};
use countersign_core::elicitation::{Decider, Decision, Elicitation, Origin, Proof};
use countersign_core::event::{CallIssued, CallOutcome, Event, EventBody, Kind, Started, StartedBy};
use countersign_core::execution::Execution;
use countersign_core::ids::{CallNo, ElicitationId, ExecutionId, TokenId};
use countersign_kernel::ports::{ElicitationRow, ExecutionRow, JournalWrite, Requirement, Write};
use countersign_sdk::{AskKind, Effects, Outcome, Principal, PrincipalId, Remember, SessionId, ToolPath};
use countersign_testkit::conformance::subject::{at, fresh};
use serde_json::json;

const CALL: CallNo = CallNo(0);

/// A call of a tool with small arguments, in one of a hundred sessions.
pub(crate) struct Call {
    id: ExecutionId,
    asked: ElicitationId,
    n: u64,
    execution: Option<Execution>,
    decided: bool,
}

impl Call {
    pub(crate) fn new(n: u64) -> Self {
        let id = fresh(|bits| ExecutionId::new(at(n), bits));
        let asked = fresh(|bits| ElicitationId::new(at(n), bits));
        Self { id, asked, n, execution: None, decided: false }
    }

    pub(crate) fn id(&self) -> ExecutionId {
        self.id
    }

    pub(crate) fn is_started(&self) -> bool {
        self.decided
    }

    pub(crate) fn ask(&mut self) -> Write {
        let asked = EventBody::Asked(Arc::new(self.question()));
        let write = self.commit(vec![self.started(), self.issued(true), asked]);
        let requester = self.requester();
        let room = vec![
            Requirement::PendingBelow { session: self.session(), bound: usize::MAX },
            Requirement::RequesterPendingBelow { requester, open: usize::MAX, bytes: usize::MAX },
        ];
        Write { require: room, ..write }
    }

    pub(crate) fn decide(&mut self) -> Write {
        self.decided = true;
        let principal = PrincipalId::parse("usr_0000000000000000000000000000000a").expect("a good id");
        let decision = Decision {
            outcome: Outcome::Approved,
            by: Decider::Person { principal, token: Some(TokenId::from_random([7; 16])) },
            channel: "console".into(),
            proof: Some(Proof::Token),
            at: at(self.n + 10),
            comment: None,
            data: None,
        };
        let decided = EventBody::Decided { elicitation: self.asked, decision };
        let by = StartedBy::Decision { elicitation: self.asked };
        self.commit(vec![decided, EventBody::CallStarted { call: CALL, by }])
    }

    pub(crate) fn settle(&mut self) -> Write {
        self.commit(vec![settled(), EventBody::finished(outcome())])
    }

    pub(crate) fn read(mut self) -> Write {
        let by = StartedBy::Policy { rule: "default: read-only tools are allowed".into() };
        let started = EventBody::CallStarted { call: CALL, by };
        let events =
            vec![self.started(), self.issued(false), started, settled(), EventBody::finished(outcome())];
        self.commit(events)
    }

    fn session(&self) -> SessionId {
        SessionId::parse(&format!("ses_{:032x}", self.n % 100)).expect("a good id")
    }

    fn requester(&self) -> PrincipalId {
        PrincipalId::parse("laptop-agent").expect("a good id")
    }

    fn started(&self) -> EventBody {
        EventBody::Started(Started {
            execution: self.id,
            kind: Kind::Call,
            session: self.session(),
            requester: Principal::agent(self.requester().as_str()).expect("a good id"),
            token: Some(TokenId::from_random([9; 16])),
            idempotency_key: None,
            requested: None,
            script: None,
        })
    }

    fn args(&self) -> Canonical {
        Canonical::of(&json!({ "id": self.n, "title": "Groceries" })).expect("within bounds")
    }

    fn digest(&self) -> Digest {
        let binding = Binding {
            tool: &tool(),
            fingerprint: fingerprint(),
            args: &self.args(),
            requester: &self.requester(),
            session: &self.session(),
            policy_version: Digest::of(b"the policy"),
        };
        binding.digest()
    }

    fn issued(&self, destructive: bool) -> EventBody {
        EventBody::CallIssued(CallIssued {
            call: CALL,
            path: tool(),
            fingerprint: fingerprint(),
            effects: Effects { destructive, read_only: !destructive, ..Effects::default() },
            args: self.args(),
            policy_version: Digest::of(b"the policy"),
            digest: self.digest(),
            requested: None,
            line: None,
            source: Some("demo".into()),
        })
    }

    fn question(&self) -> Elicitation {
        Elicitation {
            id: self.asked,
            call: CALL,
            origin: Origin::Gate,
            kind: AskKind::Approval,
            tool: tool(),
            message: "Permanently delete note \"Groceries\"? This cannot be undone.".into(),
            args: self.args(),
            digest: self.digest(),
            because: "Destructive tool; needs approval by default".into(),
            remember: Remember::Session,
            expires_at: at(self.n + 86_400_000),
            line: None,
        }
    }

    fn commit(&mut self, bodies: Vec<EventBody>) -> Write {
        let events: Vec<Event> = bodies.into_iter().map(|body| Event { at: at(self.n + 10), body }).collect();
        for event in &events {
            match &mut self.execution {
                Some(execution) => execution.apply(event).expect("it fits"),
                none => *none = Some(Execution::start(event).expect("it starts")),
            }
        }
        let execution = self.execution.as_ref().expect("it was started");
        let opened = events.iter().filter_map(|event| match &event.body {
            EventBody::Asked(asked) => execution.find(asked.id),
            _ => None,
        });
        let opened = opened.map(|asked| ElicitationRow {
            elicitation: asked.elicitation.clone(),
            execution: self.id,
            session: self.session(),
            requester: self.requester(),
            owner: None,
            asked_at: asked.at,
            decision: None,
        });
        let decided = events.iter().filter_map(|event| match &event.body {
            EventBody::Decided { elicitation, .. } => Some(*elicitation),
            _ => None,
        });
        let row = ExecutionRow {
            id: self.id,
            kind: Kind::Call,
            status: execution.status(),
            session: self.session(),
            requester: self.requester(),
            owner: None,
            tool: execution.calls().first().map(|call| call.path.clone()),
            key: None,
            created_at: execution.started_at(),
            updated_at: execution.latest(),
        };
        let audit = events.iter().map(|event| AuditEntry::of(execution, event)).collect();
        let journal = JournalWrite {
            expected: execution.version() - events.len() as u64,
            row,
            opened: opened.collect(),
            decided: decided.collect(),
            commit: StoredCommit::of(&events, Some(execution)).expect("events can be stored"),
        };
        Write { journal: Some(journal), audit, ..Write::default() }
    }
}

fn outcome() -> CallOutcome {
    CallOutcome::Succeeded(Verbatim::of(&json!({ "deleted": true, "left": 12 })).expect("within bounds"))
}

fn settled() -> EventBody {
    EventBody::CallSettled { call: CALL, outcome: outcome() }
}

fn tool() -> ToolPath {
    ToolPath::parse("notes.delete").expect("a good path")
}

fn fingerprint() -> Fingerprint {
    Fingerprint(Digest::of(b"notes.delete as it is"))
}
