//! The store: journals, what is derived from them, and the audit, in one transaction.
//!
//! Every method says what a crash before and after it leaves behind, because recovery relies on it.

use std::sync::Arc;

use async_trait::async_trait;
use countersign_core::audit::{AuditEntry, AuditRecord};
use countersign_core::commit::StoredCommit;
use countersign_core::digest::Digest;
use countersign_core::elicitation::{Decision, Elicitation};
use countersign_core::event::{Event, Kind};
use countersign_core::execution::Status;
use countersign_core::grant::Grant;
use countersign_core::ids::{ElicitationId, ExecutionId, GrantId, LoginId, TokenId, UserId};
use countersign_core::time::Timestamp;
use countersign_sdk::{Principal, PrincipalId, Role, SessionId, ToolPath};
use serde::{Deserialize, Serialize};

use super::source_rows::{SourceRow, SourceToolRow, SourceWrite};
use super::store_error::StoreError;

/// The port to the store of executions.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Makes one change, whole or not at all. `Ok` means it survives the loss of the process and of unsynced writes; a
    /// crash before the answer leaves it either whole or absent, and the caller must look.
    async fn commit(&self, write: Write) -> Result<Committed, StoreError>;

    /// Queues a change of which nothing depends: records of reads. It becomes durable with one of the next commits; a
    /// crash may lose it. Later reads find it. It is refused, never dropped, where the queue is full or an
    /// earlier write failed.
    fn commit_soon(&self, write: Write) -> Result<(), StoreError>;

    /// A whole journal, in order; empty where there is no such execution.
    async fn journal(&self, id: ExecutionId) -> Result<Vec<Event>, StoreError>;

    /// A journal from the event of this number on, counted from 0, for whoever shows it: at most `limit` events, and no more than
    /// [`ByteBudget`] allows.
    async fn journal_part(&self, id: ExecutionId, from: u64, limit: usize)
    -> Result<JournalPart, StoreError>;

    /// One execution's row.
    async fn execution(&self, id: ExecutionId) -> Result<Option<ExecutionRow>, StoreError>;

    /// Executions, newest first, in the order in which the store got to know them.
    async fn executions(
        &self,
        filter: ExecutionFilter,
        page: Page,
    ) -> Result<Listing<ExecutionRow>, StoreError>;

    /// The execution that a principal started under a key of its own.
    async fn by_key(&self, requester: &PrincipalId, key: &str) -> Result<Option<ExecutionId>, StoreError>;

    /// One elicitation, open or decided.
    async fn elicitation(&self, id: ElicitationId) -> Result<Option<ElicitationRow>, StoreError>;

    /// Elicitations, oldest first, in the order in which the store got to know them; in a page no more than [`ByteBudget`] allows.
    async fn elicitations(
        &self,
        filter: ElicitationFilter,
        page: Page,
    ) -> Result<Listing<ElicitationRow>, StoreError>;

    /// Open elicitations whose time is up, oldest expiry first, at most `limit`.
    async fn due(
        &self,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<(ElicitationId, ExecutionId)>, StoreError>;

    /// Grants whose time is up and that were not yet recorded as expired, oldest expiry first, at most `limit`.
    async fn due_grants(&self, now: Timestamp, limit: usize)
    -> Result<Vec<(GrantId, SessionId)>, StoreError>;

    /// When the next open elicitation, or the next grant that still counts, expires.
    async fn next_expiry(&self) -> Result<Option<Timestamp>, StoreError>;

    /// How much is unfinished and recorded, for whoever watches the gateway.
    async fn standing(&self) -> Result<Standing, StoreError>;

    /// The digest of the rules that judged all open questions last, as [`Write::rulebook`] recorded it.
    async fn rulebook(&self) -> Result<Option<Digest>, StoreError>;

    /// The grants of a session, also spent and expired ones; revoked ones are gone.
    async fn grants(&self, session: &SessionId) -> Result<Vec<Grant>, StoreError>;

    /// One session.
    async fn session(&self, id: &SessionId) -> Result<Option<SessionRow>, StoreError>;

    /// Sessions, newest first, each with how many of its grants could be used at `now`.
    async fn sessions(&self, now: Timestamp, page: Page) -> Result<Listing<SessionSummary>, StoreError>;

    /// The token with this hash, revoked or not.
    async fn token_by_hash(&self, hash: Digest) -> Result<Option<TokenRow>, StoreError>;

    /// All tokens, oldest first, in one part.
    async fn tokens(&self) -> Result<Listing<TokenRow>, StoreError>;

    /// All users, oldest first, in one part.
    async fn users(&self) -> Result<Listing<UserRow>, StoreError>;

    /// One login to the console, ended or not.
    async fn login(&self, id: LoginId) -> Result<Option<LoginRow>, StoreError>;

    /// All sources that were added, by name.
    async fn sources(&self) -> Result<Vec<SourceRow>, StoreError>;

    /// The accepted definitions of a source's tools, by origin.
    async fn source_tools(&self, source: &str) -> Result<Vec<SourceToolRow>, StoreError>;

    /// Audit records after a number, in order: at most `limit`, and no more than [`ByteBudget`] allows. Only where there are none, there
    /// are no more.
    async fn audit(&self, after: u64, limit: usize) -> Result<Vec<AuditRecord>, StoreError>;

    /// Whether changes can be stored, as far as is known: an error from a write that failed until one succeeds, which the store
    /// tries by itself. It costs nothing to ask.
    fn check_writable(&self) -> Result<(), StoreError>;
}

/// One change. Everything in it happens together or not at all.
#[derive(Debug, Clone, Default)]
pub struct Write {
    /// The requirements of the change.
    pub require: Vec<Requirement>,
    /// Events for one journal, with what is derived from them.
    pub journal: Option<JournalWrite>,
    /// Changes to grants.
    pub grants: Vec<GrantWrite>,
    /// A session to open; opening it again changes nothing.
    pub session: Option<SessionRow>,
    /// Changes to users. They happen before the changes to tokens.
    pub users: Vec<UserWrite>,
    /// Changes to tokens.
    pub tokens: Vec<TokenWrite>,
    /// Changes to logins.
    pub logins: Vec<LoginWrite>,
    /// Changes to sources, in this order.
    pub sources: Vec<SourceWrite>,
    /// Everything open has been judged by these rules and tools.
    pub rulebook: Option<Digest>,
    /// The transitions that it is. They become one audit record, in this order; where there are none, there is no record.
    pub audit: Vec<AuditEntry>,
}

/// Events for one journal.
#[derive(Debug, Clone)]
pub struct JournalWrite {
    /// How many events the journal has. Another number is a [`StoreError::Conflict`].
    pub expected: u64,
    /// The events, as they are stored: one row.
    pub commit: StoredCommit,
    /// The execution as it is after them. A key that another execution of the same requester has is a
    /// [`StoreError::KeyTaken`].
    pub row: ExecutionRow,
    /// Elicitations they opened, in this order. One with a decision was decided by these events too.
    pub opened: Vec<ElicitationRow>,
    /// Elicitations they decided, opened by earlier commits.
    pub decided: Vec<ElicitationId>,
}

/// A requirement that must hold at the moment of the change.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Requirement {
    /// The token exists, is neither revoked nor expired, and its user is not disabled; else [`StoreError::TokenRevoked`].
    TokenLive {
        id: TokenId,
        /// The moment of the change.
        now: Timestamp,
    },
    /// The user exists, is not disabled, and may do this; else [`StoreError::UserInactive`].
    User {
        id: UserId,
        /// The intended action.
        may: UserMay,
    },
    /// The login exists and has not ended; else [`StoreError::LoginEnded`].
    LoginLive {
        id: LoginId,
        /// The moment of the change.
        now: Timestamp,
    },
    /// The session has fewer open elicitations than this; else [`StoreError::TooManyPending`].
    PendingBelow { session: SessionId, bound: usize },
    /// The requester has fewer open elicitations than this in all of its sessions, and fewer bytes of them; else
    /// [`StoreError::RequesterFull`].
    RequesterPendingBelow {
        /// The requester of the executions that ask.
        requester: PrincipalId,
        /// The bound on how many are open.
        open: usize,
        /// The bound on their bytes, as [`question_bytes`](countersign_core::retention::question_bytes) counts them.
        bytes: usize,
    },
    /// The principal has fewer sessions than this; else [`StoreError::TooManySessions`].
    SessionsBelow {
        /// The owner of the sessions.
        principal: PrincipalId,
        bound: usize,
    },
}

/// The intended action of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserMay {
    /// Have something run for them.
    Act,
    /// Decide: they are an approver or an admin.
    Decide,
}

/// A change to a grant.
#[derive(Debug, Clone, PartialEq)]
pub enum GrantWrite {
    /// Remember an approval.
    Give(Grant),
    /// Use it once. One that is gone, used up, expired at `now`, or given by a user or with a token that no longer counts is
    /// a [`StoreError::GrantGone`].
    Use {
        /// The grant.
        id: GrantId,
        /// The moment of use.
        now: Timestamp,
    },
    /// It was found expired: it has no uses left from now on, whatever the clock says later.
    Expire(GrantId),
    /// Forget one. Forgetting what is not there changes nothing.
    Revoke(GrantId),
    /// Forget all of a session.
    Clear(SessionId),
}

/// A change to a token.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum TokenWrite {
    /// Add one.
    Create(TokenRow),
    /// Revoke one, from this moment on. Revoking again changes nothing.
    Revoke { id: TokenId, at: Timestamp },
    /// Give a token of an earlier version, which had no user, to this principal or owner.
    Adopt {
        id: TokenId,
        /// The principal that acts with it from now on.
        principal: Principal,
    },
    /// Note that it was used.
    Used { id: TokenId, at: Timestamp },
}

/// A change to a user.
#[derive(Debug, Clone, PartialEq)]
pub enum UserWrite {
    /// Add one. A name that another user has is a [`StoreError::NameTaken`].
    Create(UserRow),
    /// Change roles, or disable or enable one. Disabling ends all logins of the user.
    Change {
        /// The user.
        id: UserId,
        /// The roles from now on.
        roles: Vec<Role>,
        /// Since when they are disabled; nothing where they are not.
        disabled_at: Option<Timestamp>,
    },
}

/// A change to a login.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum LoginWrite {
    /// Add one, and forget those that expired before it began.
    Begin(LoginRow),
    /// End one. Ending what has ended changes nothing.
    End { id: LoginId, at: Timestamp },
}

/// The acknowledgement of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed {
    /// The number of its audit record; of the last record there is where it had none.
    pub audit_seq: u64,
}

/// An execution, for lists and recovery.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct ExecutionRow {
    pub id: ExecutionId,
    /// Its kind.
    pub kind: Kind,
    pub status: Status,
    pub session: SessionId,
    /// The requester.
    pub requester: PrincipalId,
    /// The user for whom it was asked; none in a program that embeds the gateway without users.
    pub owner: Option<PrincipalId>,
    /// The tool of its first call.
    pub tool: Option<ToolPath>,
    /// The caller's own key.
    pub key: Option<String>,
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

/// An elicitation, for inboxes and deciders.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct ElicitationRow {
    pub elicitation: Arc<Elicitation>,
    /// The execution that asks.
    pub execution: ExecutionId,
    pub session: SessionId,
    /// The requester.
    pub requester: PrincipalId,
    /// The user for whom it was requested.
    pub owner: Option<PrincipalId>,
    pub asked_at: Timestamp,
    /// How it ended, if it did.
    pub decision: Option<Decision>,
}

/// The scope of one conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionRow {
    /// Its id.
    pub id: SessionId,
    /// The owner.
    pub principal: PrincipalId,
    /// The client program, as it calls itself.
    pub client: String,
    /// When it was opened.
    pub opened_at: Timestamp,
}

/// A session in a list.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionSummary {
    /// The session.
    pub row: SessionRow,
    /// How many of its grants have uses and time left, and a giver whose token is not revoked.
    pub live_grants: u64,
}

/// A token. The secret itself is nowhere.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TokenRow {
    /// Its id.
    pub id: TokenId,
    /// SHA-256 of the secret.
    pub hash: Digest,
    /// Its name for people.
    pub name: String,
    /// The principal that acts with it. A user's tokens all act as that user.
    pub principal: Principal,
    /// Whether a person declared that the prompts of the client that holds it reach a person.
    #[serde(default)]
    pub attended: bool,
    /// When it was made.
    pub created_at: Timestamp,
    /// From here on it is good for nothing.
    #[serde(default)]
    pub expires_at: Option<Timestamp>,
    /// When it was last used, to the minute.
    #[serde(default)]
    pub last_used_at: Option<Timestamp>,
    /// When it was revoked, if it was.
    pub revoked_at: Option<Timestamp>,
}

/// A person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UserRow {
    /// The immutable id.
    pub id: UserId,
    /// The name, unique among users.
    pub name: String,
    /// The roles: approver, admin, or none for owning agents only.
    pub roles: Vec<Role>,
    /// When they were added.
    pub created_at: Timestamp,
    /// Since when they may do nothing, if that is so.
    pub disabled_at: Option<Timestamp>,
}

/// A login to the console.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct LoginRow {
    pub id: LoginId,
    pub user: UserId,
    /// The token they logged in with, if any: revoking it ends the login.
    pub token: Option<TokenId>,
    /// When it began.
    pub began_at: Timestamp,
    /// From here on it is over.
    pub expires_at: Timestamp,
    /// When it was ended, if it was.
    pub ended_at: Option<Timestamp>,
}

/// A choice of executions.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ExecutionFilter {
    /// Only these; empty means all.
    pub status: Vec<Status>,
    /// Only this requester's.
    pub requester: Option<PrincipalId>,
    /// Only those of this session.
    pub session: Option<SessionId>,
}

/// A choice of elicitations.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ElicitationFilter {
    /// Only open questions.
    pub open_only: bool,
    /// Only this execution's.
    pub execution: Option<ExecutionId>,
    /// Only those about this tool and these arguments ([`Elicitation::subject`]), in whatever session.
    pub subject: Option<Digest>,
    /// Only those requested for this user.
    pub owner: Option<PrincipalId>,
    /// Only those of this requester's executions.
    pub requester: Option<PrincipalId>,
}

/// How much is unfinished, and how much was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Standing {
    /// The number of the last audit record; zero before the first.
    pub recorded: u64,
    /// Elicitations nobody decided.
    pub open: u64,
    /// Executions that wait for a person.
    pub waiting: u64,
    /// Executions that something is to be done about.
    pub running: u64,
    /// Executions with a call in doubt.
    pub in_doubt: u64,
}

/// A part of a list. A cursor is opaque, from an earlier [`Listing`]; a foreign one is a [`StoreError::BadCursor`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The end of the page before.
    pub cursor: Option<String>,
    /// How many at most; the store may give fewer, never more than 1,000.
    pub limit: usize,
}

impl Page {
    /// The first so many.
    pub fn first(limit: usize) -> Self {
        Self { cursor: None, limit }
    }
}

/// The most bytes of stored items that are read for one part of a list.
pub const MAX_LISTING_BYTES: usize = 4 * 1024 * 1024;

/// How much of a list is read at once: items up to [`MAX_LISTING_BYTES`], and at least one, so that whoever follows the parts gets to
/// the end.
#[derive(Debug, Clone)]
pub struct ByteBudget {
    left: usize,
    is_untouched: bool,
}

impl ByteBudget {
    /// The budget of one part of a list.
    pub fn of_a_part() -> Self {
        Self { left: MAX_LISTING_BYTES, is_untouched: true }
    }

    /// Whether the next item, of this size, belongs to the part. Where it does not, the part ends before it.
    pub fn takes(&mut self, bytes: usize) -> bool {
        let fits = bytes <= self.left;
        let is_taken = fits || self.is_untouched;
        if is_taken {
            self.left = self.left.saturating_sub(bytes);
            self.is_untouched = false;
        }
        is_taken
    }
}

/// A part of a journal.
#[derive(Debug, Clone, PartialEq)]
pub struct JournalPart {
    /// The events, in order.
    pub events: Vec<Event>,
    /// The number of the event that follows; nothing at the end.
    pub next: Option<u64>,
}

/// A part of a list, and where to go on.
#[derive(Debug, Clone, PartialEq)]
pub struct Listing<T> {
    /// The items.
    pub items: Vec<T>,
    /// Where to go on; nothing at the end.
    pub next: Option<String>,
    /// Rows that belong among the items and cannot be read. Each takes the place of one item.
    pub damaged: Vec<DamagedRow>,
}

impl<T> Listing<T> {
    /// A list in one part, without damage.
    pub fn whole(items: Vec<T>) -> Self {
        Self { items, next: None, damaged: Vec::new() }
    }

    /// How many records there are, damaged ones too.
    pub fn recorded(&self) -> usize {
        self.items.len() + self.damaged.len()
    }
}

/// A record that is not what was written. It is shown as such, nothing is done with it, and nobody may do anything by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedRow {
    /// Its id, as far as that can be told.
    pub id: String,
    /// The execution it belongs to, where it belongs to one.
    pub execution: Option<ExecutionId>,
    /// When it was made.
    pub at: Timestamp,
    /// The problem.
    pub problem: String,
}
