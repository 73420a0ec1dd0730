//! A change made ready for the writer, in the caller's own time.
//!
//! The writer's thread serves everybody, so whatever can be done before it (JSON, checksums, ids) is done here.

use countersign_core::audit::AuditEntry;
use countersign_core::ids::GrantId;
use countersign_kernel::ports::{
    ElicitationRow, ExecutionRow, GrantWrite, JournalWrite, Requirement, SessionRow, StoreError, TokenWrite,
    Write,
};
use countersign_sdk::SessionId;

use crate::rows::{Blob, Body, Stored as _, execution_sum, millis, place};

/// A [`Write`], with everything in its stored form.
#[derive(Debug)]
pub(crate) struct Staged {
    pub(crate) live_tokens: Vec<Blob>,
    pub(crate) pending_below: Vec<(SessionId, usize)>,
    pub(crate) journal: Option<StagedJournal>,
    pub(crate) grants: Vec<StagedGrant>,
    pub(crate) session: Option<SessionRow>,
    pub(crate) tokens: Vec<StagedToken>,
    pub(crate) audit: Vec<AuditEntry>,
}

/// A [`JournalWrite`].
#[derive(Debug)]
pub(crate) struct StagedJournal {
    pub(crate) execution: Blob,
    pub(crate) expected: u64,
    pub(crate) events: Vec<Body>,
    pub(crate) row: ExecutionRow,
    pub(crate) sum: i64,
    pub(crate) opened: Vec<StagedElicitation>,
    pub(crate) decided: Vec<(Blob, Body)>,
}

/// An elicitation that the events opened.
#[derive(Debug)]
pub(crate) struct StagedElicitation {
    pub(crate) id: Blob,
    pub(crate) asked_at: i64,
    pub(crate) expires_at: i64,
    pub(crate) digest: [u8; 32],
    pub(crate) body: Body,
    pub(crate) decision: Option<Body>,
}

/// A [`GrantWrite`].
#[derive(Debug)]
pub(crate) enum StagedGrant {
    Give {
        id: Blob,
        session: SessionId,
        token: Option<Blob>,
        expires_at: Option<i64>,
        uses_left: Option<u32>,
        body: Body,
    },
    Use {
        id: GrantId,
        blob: Blob,
        now: i64,
    },
    Revoke(Blob),
    Clear(SessionId),
}

/// A [`TokenWrite`].
#[derive(Debug)]
pub(crate) enum StagedToken {
    Create { id: Blob, hash: [u8; 32], created_at: i64, revoked_at: Option<i64>, body: Body },
    Revoke { id: Blob, at: i64 },
}

impl Staged {
    /// Makes a change ready.
    pub(crate) fn of(write: Write) -> Result<Self, StoreError> {
        let Write { require, journal, grants, session, tokens, audit } = write;
        let mut staged = Self {
            live_tokens: Vec::new(),
            pending_below: Vec::new(),
            journal: journal.map(StagedJournal::of).transpose()?,
            grants: grants.into_iter().map(StagedGrant::of).collect::<Result<_, _>>()?,
            session,
            tokens: tokens.iter().map(StagedToken::of).collect::<Result<_, _>>()?,
            audit,
        };
        for requirement in require {
            match requirement {
                Requirement::TokenLive(token) => staged.live_tokens.push(token.blob()),
                Requirement::PendingBelow { session, bound } => staged.pending_below.push((session, bound)),
            }
        }
        Ok(staged)
    }
}

impl StagedJournal {
    fn of(write: JournalWrite) -> Result<Self, StoreError> {
        let JournalWrite { expected, events, row, opened, decided } = write;
        let (execution, numbers) = (row.id.blob(), i64::try_from(expected).unwrap_or(i64::MAX)..);
        Ok(Self {
            sum: execution_sum(execution, &row),
            execution,
            expected,
            events: numbers
                .zip(&events)
                .map(|(seq, event)| Body::of(event, place(execution, seq)))
                .collect::<Result<_, _>>()?,
            opened: opened
                .iter()
                .map(|asked| StagedElicitation::of(asked, &row))
                .collect::<Result<_, _>>()?,
            decided: decided
                .iter()
                .map(|(id, decision)| Ok((id.blob(), Body::of(decision, place(id.blob(), 0))?)))
                .collect::<Result<_, StoreError>>()?,
            row,
        })
    }
}

impl StagedElicitation {
    fn of(asked: &ElicitationRow, row: &ExecutionRow) -> Result<Self, StoreError> {
        // They are stored once, with the execution.
        if (asked.execution, &asked.session, &asked.requester) != (row.id, &row.session, &row.requester) {
            let id = asked.elicitation.id;
            return Err(StoreError::Corrupt(format!(
                "{id} names another execution, session or requester than {}",
                row.id
            )));
        }
        let id = asked.elicitation.id.blob();
        Ok(Self {
            id,
            asked_at: millis(asked.asked_at),
            expires_at: millis(asked.elicitation.expires_at),
            digest: *asked.elicitation.digest.as_bytes(),
            body: Body::of(&asked.elicitation, place(row.id.blob(), millis(asked.asked_at)))?,
            decision: asked.decision.as_ref().map(|decision| Body::of(decision, place(id, 0))).transpose()?,
        })
    }
}

impl StagedGrant {
    fn of(write: GrantWrite) -> Result<Self, StoreError> {
        Ok(match write {
            GrantWrite::Give(grant) => Self::Give {
                id: grant.id.blob(),
                token: grant.token.map(|token| token.blob()),
                expires_at: grant.expires_at.map(millis),
                uses_left: grant.uses_left,
                body: Body::of(&grant, 0)?,
                session: grant.session,
            },
            GrantWrite::Use { id, now } => Self::Use { id, blob: id.blob(), now: millis(now) },
            GrantWrite::Revoke(id) => Self::Revoke(id.blob()),
            GrantWrite::Clear(session) => Self::Clear(session),
        })
    }
}

impl StagedToken {
    fn of(write: &TokenWrite) -> Result<Self, StoreError> {
        Ok(match write {
            TokenWrite::Create(row) => Self::Create {
                id: row.id.blob(),
                hash: *row.hash.as_bytes(),
                created_at: millis(row.created_at),
                revoked_at: row.revoked_at.map(millis),
                body: Body::of(row, 0)?,
            },
            TokenWrite::Revoke { id, at } => Self::Revoke { id: id.blob(), at: millis(*at) },
        })
    }
}
