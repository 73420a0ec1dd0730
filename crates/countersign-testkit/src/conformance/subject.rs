//! Something to store: fresh executions, elicitations, grants and tokens that no other test knows of.

#![expect(clippy::expect_used, reason = "a fixture that cannot be made is a failed test")]

use std::borrow::Cow;
use std::sync::Arc;

use countersign_core::audit::AuditEntry;
use countersign_core::canonical::Canonical;
use countersign_core::commit::StoredCommit;
use countersign_core::digest::{Digest, Fingerprint};
use countersign_core::elicitation::{Decider, Decision, Elicitation, Origin, Proof};
use countersign_core::event::{Event, EventBody, Kind, Started};
use countersign_core::execution::Status;
use countersign_core::grant::{Grant, GrantedTool};
use countersign_core::ids::{CallNo, ElicitationId, ExecutionId, GrantId, TokenId};
use countersign_core::time::Timestamp;
use countersign_kernel::ports::{
    ElicitationRow, Entropy as _, ExecutionRow, GrantWrite, JournalWrite, Requirement, SystemEntropy,
    TokenRow, TokenWrite, Write,
};
use countersign_sdk::{AskKind, Outcome, Principal, PrincipalId, Remember, SessionId, ToolPath};

/// When a subject begins, unless a test says otherwise.
pub const BEGIN_MS: u64 = 1_700_000_000_000;

/// An execution of a requester of its own, in a session of its own.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Subject {
    pub id: ExecutionId,
    pub session: SessionId,
    /// The requester.
    pub requester: PrincipalId,
    pub key: Option<String>,
    pub created_at: Timestamp,
}

#[expect(missing_docs, reason = "the names say it")]
impl Subject {
    pub fn new() -> Self {
        Self {
            id: fresh(ExecutionId::from_random),
            session: fresh_session(),
            requester: fresh_principal(),
            key: None,
            created_at: at(0),
        }
    }

    /// Another execution of the same requester in the same session.
    #[must_use]
    pub fn sibling(&self) -> Self {
        Self { id: fresh(ExecutionId::from_random), key: None, ..self.clone() }
    }

    /// The same, under a key.
    #[must_use]
    pub fn keyed(self, key: &str) -> Self {
        Self { key: Some(key.to_owned()), ..self }
    }

    /// The same, accepted so many milliseconds after the beginning.
    #[must_use]
    pub fn created(self, ms: u64) -> Self {
        Self { created_at: at(ms), ..self }
    }

    pub fn row(&self, status: Status) -> ExecutionRow {
        ExecutionRow {
            id: self.id,
            kind: Kind::Call,
            status,
            session: self.session.clone(),
            requester: self.requester.clone(),
            owner: None,
            tool: Some(tool()),
            key: self.key.clone(),
            created_at: self.created_at,
            updated_at: self.created_at,
        }
    }

    pub fn started(&self) -> Event {
        let started = Started {
            execution: self.id,
            kind: Kind::Call,
            session: self.session.clone(),
            requester: Principal::agent(self.requester.as_str()).expect("a good id"),
            token: None,
            idempotency_key: self.key.clone(),
            requested: None,
            script: None,
        };
        Event { at: self.created_at, body: EventBody::Started(started) }
    }

    /// A change of its journal, with an audit record that tells of each event.
    #[expect(clippy::needless_pass_by_value, reason = "tests hand over the events they just made")]
    pub fn append(&self, expected: u64, status: Status, events: Vec<Event>) -> Write {
        let audit = events.iter().map(|event| self.entry(event.body.name())).collect();
        let commit = StoredCommit::of(&events, None).expect("events can be stored");
        let journal =
            JournalWrite { expected, commit, row: self.row(status), opened: vec![], decided: vec![] };
        Write { journal: Some(journal), audit, ..Write::default() }
    }

    /// The change that makes it exist.
    pub fn start(&self) -> Write {
        self.append(0, Status::Running, vec![self.started()])
    }

    /// The change that makes it exist, and wait for these. Those with a decision are decided at once.
    pub fn ask(&self, asked: Vec<ElicitationRow>) -> Write {
        let mut events = vec![self.started()];
        for row in &asked {
            let body = EventBody::Asked(Arc::clone(&row.elicitation));
            events.push(Event { at: row.asked_at, body });
            if let Some(decision) = row.decision.clone() {
                let body = EventBody::Decided { elicitation: row.elicitation.id, decision };
                events.push(Event { at: row.asked_at, body });
            }
        }
        let mut write = self.append(0, Status::Waiting, events);
        if let Some(journal) = &mut write.journal {
            journal.opened = asked;
        }
        write
    }

    /// The change that decides one of its elicitations.
    pub fn decide(&self, expected: u64, id: ElicitationId, decision: &Decision) -> Write {
        let body = EventBody::Decided { elicitation: id, decision: decision.clone() };
        let mut write = self.append(expected, Status::Running, vec![Event { at: decision.at, body }]);
        write.journal.iter_mut().for_each(|journal| journal.decided = vec![id]);
        write
    }

    /// A question of it, open, asked and expiring so many milliseconds after the beginning.
    pub fn elicitation(&self, asked_ms: u64, expires_ms: u64) -> ElicitationRow {
        let elicitation = Elicitation {
            id: fresh(ElicitationId::from_random),
            call: CallNo(0),
            origin: Origin::Gate,
            kind: AskKind::Approval,
            tool: tool(),
            message: "Delete all of it?".into(),
            args: Canonical::of(&serde_json::json!({ "which": "ünïcödé \u{202e}", "n": [1, 2.5, null] }))
                .expect("within bounds"),
            digest: fresh(|bits| Digest::of(&bits)),
            because: "rule 3".into(),
            remember: Remember::Session,
            expires_at: at(expires_ms),
            line: Some(7),
        };
        ElicitationRow {
            elicitation: Arc::new(elicitation),
            execution: self.id,
            session: self.session.clone(),
            requester: self.requester.clone(),
            owner: None,
            asked_at: at(asked_ms),
            decision: None,
        }
    }

    /// A grant in its session.
    pub fn grant(&self) -> Grant {
        let fingerprint = Fingerprint(Digest::of(b"as it was"));
        Grant {
            id: fresh(GrantId::from_random),
            session: self.session.clone(),
            tools: vec![GrantedTool { path: tool(), fingerprint }],
            args: None,
            pattern: Some("lab.*".into()),
            by: self.requester.clone(),
            token: None,
            elicitation: None,
            given_at: at(0),
            expires_at: None,
            uses_left: None,
        }
    }

    /// An audit entry of it.
    pub fn entry(&self, what: impl Into<Cow<'static, str>>) -> AuditEntry {
        AuditEntry {
            execution: Some(self.id),
            ..AuditEntry::bare(self.created_at, what, Some(self.requester.clone()), "detail".into())
        }
    }
}

impl Default for Subject {
    fn default() -> Self {
        Self::new()
    }
}

/// A piece of work, as an event.
pub fn step(n: u64) -> Event {
    let value = countersign_core::canonical::Verbatim::of(&serde_json::json!(n)).expect("within bounds");
    Event { at: at(n), body: EventBody::StepRecorded { call: CallNo(0), name: format!("step {n}"), value } }
}

/// A decision by a person.
pub fn decision(outcome: Outcome) -> Decision {
    let by = Decider::Person { principal: fresh_principal(), token: None };
    let comment = Some("as agreed".into());
    Decision {
        outcome,
        by,
        channel: "test".into(),
        proof: Some(Proof::Token),
        at: at(5),
        comment,
        data: None,
    }
}

/// A token that is not revoked, made so many milliseconds after the beginning.
pub fn token(created_ms: u64) -> TokenRow {
    let principal = Principal::agent(fresh_principal().as_str()).expect("a good id");
    TokenRow {
        id: fresh(TokenId::from_random),
        hash: fresh(|bits| Digest::of(&bits)),
        name: "laptop".into(),
        principal,
        attended: false,
        created_at: at(created_ms),
        expires_at: None,
        last_used_at: None,
        revoked_at: None,
    }
}

/// That a token is good.
pub fn live(token: &TokenRow) -> Requirement {
    Requirement::TokenLive { id: token.id, now: at(50) }
}

/// The change that adds a token.
pub fn create(token: &TokenRow) -> Write {
    Write { tokens: vec![TokenWrite::Create(token.clone())], ..Write::default() }
}

/// The change that revokes a token.
pub fn revoke(token: &TokenRow) -> Write {
    Write { tokens: vec![TokenWrite::Revoke { id: token.id, at: at(9) }], ..Write::default() }
}

/// A change of grants alone.
pub fn grants(writes: Vec<GrantWrite>) -> Write {
    Write { grants: writes, ..Write::default() }
}

/// So many milliseconds after the beginning.
pub fn at(ms: u64) -> Timestamp {
    Timestamp::from_millis(BEGIN_MS + ms)
}

/// The tool that everything is about.
pub fn tool() -> ToolPath {
    ToolPath::parse("lab.things.delete").expect("a good path")
}

/// A new session.
pub fn fresh_session() -> SessionId {
    SessionId::parse(&fresh(|bits| format!("ses_{:032x}", u128::from_be_bytes(bits)))).expect("a good id")
}

/// A new principal.
pub fn fresh_principal() -> PrincipalId {
    PrincipalId::parse(&fresh(|bits| format!("p-{:032x}", u128::from_be_bytes(bits)))).expect("a good id")
}

/// Something made of random bits.
pub fn fresh<T>(make: impl FnOnce([u8; 16]) -> T) -> T {
    make(SystemEntropy.bits().expect("the system has entropy"))
}
