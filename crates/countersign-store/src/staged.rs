//! A change made ready for the writer, in the caller's own time.
//!
//! The writer's thread serves every caller, so JSON, checksums and ids are made here, by the committing task.

use countersign_core::audit::record_text;
use countersign_core::ids::{GrantId, UserId};
use countersign_core::retention::question_bytes;
use countersign_kernel::ports::{
    ElicitationRow, ExecutionRow, GrantWrite, JournalWrite, LoginWrite, Requirement, SessionRow, SourceWrite,
    StoreError, TokenRow, TokenWrite, UserMay, UserRow, UserWrite, Write,
};
use countersign_sdk::{Principal, PrincipalId, Role, SessionId};

use crate::rows::{
    Blob, Body, Stored as _, TimedBlob, cannot_be_stored, checksum_seed, execution_sum, millis, short_digest,
};

/// A [`Write`], with everything in its stored form.
#[derive(Debug)]
pub(crate) struct Staged {
    pub(crate) live_tokens: Vec<(Blob, i64)>,
    pub(crate) users_who_may: Vec<(Blob, UserMay)>,
    pub(crate) live_logins: Vec<(Blob, i64)>,
    pub(crate) pending_below: Vec<(SessionId, usize)>,
    /// Requesters, and how many open elicitations and bytes of them they must have fewer than.
    pub(crate) requester_below: Vec<(PrincipalId, usize, usize)>,
    pub(crate) sessions_below: Vec<(PrincipalId, usize)>,
    pub(crate) journal: Option<StagedJournal>,
    pub(crate) grants: Vec<StagedGrant>,
    pub(crate) session: Option<SessionRow>,
    pub(crate) users: Vec<StagedUser>,
    pub(crate) tokens: Vec<StagedToken>,
    pub(crate) logins: Vec<StagedLogin>,
    pub(crate) sources: Vec<StagedSource>,
    pub(crate) rulebook: Option<[u8; 32]>,
    /// The text of its audit record, if it has one.
    pub(crate) audit: Option<String>,
}

/// A [`JournalWrite`].
#[derive(Debug)]
pub(crate) struct StagedJournal {
    pub(crate) execution: TimedBlob,
    /// How many events there are before it.
    pub(crate) expected: u64,
    /// How many events it adds.
    pub(crate) events: u64,
    pub(crate) body: Body,
    pub(crate) row: ExecutionRow,
    pub(crate) sum: i64,
    pub(crate) opened: Vec<StagedElicitation>,
    pub(crate) decided: Vec<TimedBlob>,
}

/// An elicitation that the events opened.
#[derive(Debug)]
pub(crate) struct StagedElicitation {
    pub(crate) id: TimedBlob,
    pub(crate) expires_at: i64,
    pub(crate) subject: i64,
    pub(crate) bytes: i64,
    pub(crate) is_decided: bool,
}

/// A [`GrantWrite`].
#[derive(Debug)]
pub(crate) enum StagedGrant {
    Give {
        id: Blob,
        session: SessionId,
        token: Option<Blob>,
        user: Option<Blob>,
        expires_at: Option<i64>,
        uses_left: Option<u32>,
        body: Body,
    },
    Use {
        id: GrantId,
        blob: Blob,
        now: i64,
    },
    Expire(Blob),
    Revoke(Blob),
    Clear(SessionId),
}

/// A [`TokenWrite`].
#[derive(Debug)]
pub(crate) enum StagedToken {
    Create {
        id: Blob,
        hash: [u8; 32],
        created_at: i64,
        revoked_at: Option<i64>,
        owner: Option<Blob>,
        expires_at: Option<i64>,
        body: Body,
    },
    Revoke {
        id: Blob,
        at: i64,
    },
    Adopt {
        id: Blob,
        principal: Principal,
        owner: Option<Blob>,
    },
    Used {
        id: Blob,
        at: i64,
    },
}

/// A [`UserWrite`].
#[derive(Debug)]
pub(crate) enum StagedUser {
    Create { id: Blob, name: String, created_at: i64, may_decide: bool, disabled_at: Option<i64>, body: Body },
    Change { id: Blob, roles: Vec<Role>, may_decide: bool, disabled_at: Option<i64> },
}

/// A [`LoginWrite`].
#[derive(Debug)]
pub(crate) enum StagedLogin {
    Begin { id: Blob, user: Blob, token: Option<Blob>, began_at: i64, expires_at: i64 },
    End { id: Blob, at: i64 },
}

/// A [`SourceWrite`].
#[derive(Debug)]
pub(crate) enum StagedSource {
    Put { name: String, body: Body },
    Remove { name: String },
    Accept { source: String, origin: String, body: Body },
    Forget { source: String, origin: String },
}

impl StagedSource {
    fn of(write: SourceWrite) -> Result<Self, StoreError> {
        Ok(match write {
            SourceWrite::Put(row) => Self::Put { body: Body::of(&row, 0)?, name: row.name },
            SourceWrite::Remove { name } => Self::Remove { name },
            SourceWrite::Accept(row) => {
                Self::Accept { body: Body::of(&row, 0)?, source: row.source, origin: row.origin }
            }
            SourceWrite::Forget { source, origin } => Self::Forget { source, origin },
        })
    }
}

impl Staged {
    /// Makes a change ready.
    pub(crate) fn of(write: Write) -> Result<Self, StoreError> {
        let Write { require, journal, grants, session, users, tokens, logins, sources, rulebook, audit } =
            write;
        let mut staged = Self {
            live_tokens: Vec::new(),
            users_who_may: Vec::new(),
            live_logins: Vec::new(),
            pending_below: Vec::new(),
            requester_below: Vec::new(),
            sessions_below: Vec::new(),
            journal: journal.map(StagedJournal::of).transpose()?,
            grants: grants.into_iter().map(StagedGrant::of).collect::<Result<_, _>>()?,
            session,
            users: users.into_iter().map(StagedUser::of).collect::<Result<_, _>>()?,
            tokens: tokens.into_iter().map(StagedToken::of).collect::<Result<_, _>>()?,
            logins: logins.into_iter().map(StagedLogin::of).collect(),
            sources: sources.into_iter().map(StagedSource::of).collect::<Result<_, _>>()?,
            rulebook: rulebook.map(|digest| *digest.as_bytes()),
            audit: if audit.is_empty() {
                None
            } else {
                Some(record_text(&audit).map_err(|error| cannot_be_stored(&error))?)
            },
        };
        for requirement in require {
            match requirement {
                Requirement::TokenLive { id, now } => staged.live_tokens.push((id.blob(), millis(now))),
                Requirement::User { id, may } => staged.users_who_may.push((id.blob(), may)),
                Requirement::LoginLive { id, now } => staged.live_logins.push((id.blob(), millis(now))),
                Requirement::PendingBelow { session, bound } => staged.pending_below.push((session, bound)),
                Requirement::RequesterPendingBelow { requester, open, bytes } => {
                    staged.requester_below.push((requester, open, bytes));
                }
                Requirement::SessionsBelow { principal, bound } => {
                    staged.sessions_below.push((principal, bound));
                }
            }
        }
        Ok(staged)
    }
}

impl StagedJournal {
    /// How many events the journal has with these.
    pub(crate) fn version(&self) -> i64 {
        i64::try_from(self.expected.saturating_add(self.events)).unwrap_or(i64::MAX)
    }

    fn of(write: JournalWrite) -> Result<Self, StoreError> {
        let JournalWrite { expected, commit, row, opened, decided } = write;
        let first = i64::try_from(expected).unwrap_or(i64::MAX);
        Ok(Self {
            sum: execution_sum(&row),
            execution: row.id.blob(),
            expected,
            events: commit.events(),
            body: Body::new(commit.into_text(), checksum_seed(row.id, first)),
            opened: opened
                .iter()
                .map(|asked| StagedElicitation::of(asked, &row))
                .collect::<Result<_, _>>()?,
            decided: decided.iter().map(|id| id.blob()).collect(),
            row,
        })
    }
}

impl StagedElicitation {
    fn of(asked: &ElicitationRow, row: &ExecutionRow) -> Result<Self, StoreError> {
        // They are stored once, with the execution.
        if (asked.execution, &asked.session, &asked.requester, &asked.owner)
            != (row.id, &row.session, &row.requester, &row.owner)
        {
            let id = asked.elicitation.id;
            return Err(StoreError::Corrupt(format!(
                "{id} names another execution, session or requester than {}",
                row.id
            )));
        }
        let asked_for = &asked.elicitation;
        Ok(Self {
            id: asked_for.id.blob(),
            expires_at: millis(asked_for.expires_at),
            subject: short_digest(asked_for.subject()),
            bytes: i64::try_from(question_bytes(asked_for)).unwrap_or(i64::MAX),
            is_decided: asked.decision.is_some(),
        })
    }
}

impl StagedGrant {
    fn of(write: GrantWrite) -> Result<Self, StoreError> {
        Ok(match write {
            GrantWrite::Give(grant) => Self::Give {
                id: grant.id.blob(),
                token: grant.token.map(|token| token.blob()),
                user: grant.user().map(|user| user.blob()),
                expires_at: grant.expires_at.map(millis),
                uses_left: grant.uses_left,
                body: Body::of(&grant, 0)?,
                session: grant.session,
            },
            GrantWrite::Use { id, now } => Self::Use { id, blob: id.blob(), now: millis(now) },
            GrantWrite::Expire(id) => Self::Expire(id.blob()),
            GrantWrite::Revoke(id) => Self::Revoke(id.blob()),
            GrantWrite::Clear(session) => Self::Clear(session),
        })
    }
}

impl StagedToken {
    fn of(write: TokenWrite) -> Result<Self, StoreError> {
        Ok(match write {
            TokenWrite::Create(row) => Self::Create {
                id: row.id.blob(),
                hash: *row.hash.as_bytes(),
                created_at: millis(row.created_at),
                revoked_at: row.revoked_at.map(millis),
                owner: owner(&row.principal),
                expires_at: row.expires_at.map(millis),
                body: Body::of(&TokenRow { last_used_at: None, ..row }, 0)?,
            },
            TokenWrite::Revoke { id, at } => Self::Revoke { id: id.blob(), at: millis(at) },
            TokenWrite::Adopt { id, principal } => {
                Self::Adopt { id: id.blob(), owner: owner(&principal), principal }
            }
            TokenWrite::Used { id, at } => Self::Used { id: id.blob(), at: millis(at) },
        })
    }
}

/// The user whose disabling makes a principal's token worthless; none in a program without users.
pub(crate) fn owner(principal: &Principal) -> Option<Blob> {
    let user: UserId = principal.user()?.as_str().parse().ok()?;
    Some(user.blob())
}

impl StagedUser {
    fn of(write: UserWrite) -> Result<Self, StoreError> {
        Ok(match write {
            UserWrite::Create(row) => Self::Create {
                id: row.id.blob(),
                name: row.name.clone(),
                created_at: millis(row.created_at),
                may_decide: may_decide(&row.roles),
                disabled_at: row.disabled_at.map(millis),
                body: Body::of(&UserRow { disabled_at: None, ..row }, 0)?,
            },
            UserWrite::Change { id, roles, disabled_at } => Self::Change {
                id: id.blob(),
                may_decide: may_decide(&roles),
                roles,
                disabled_at: disabled_at.map(millis),
            },
        })
    }
}

impl StagedLogin {
    fn of(write: LoginWrite) -> Self {
        match write {
            LoginWrite::Begin(row) => Self::Begin {
                id: row.id.blob(),
                user: row.user.blob(),
                token: row.token.map(|token| token.blob()),
                began_at: millis(row.began_at),
                expires_at: millis(row.expires_at),
            },
            LoginWrite::End { id, at } => Self::End { id: id.blob(), at: millis(at) },
        }
    }
}

/// Whether a user with these roles decides.
pub(crate) fn may_decide(roles: &[Role]) -> bool {
    roles.iter().any(|role| matches!(role, Role::Approver | Role::Admin))
}
