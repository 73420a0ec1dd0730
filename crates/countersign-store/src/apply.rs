//! One change, onto an open transaction.
//!
//! Two steps: [`Statements::check`] only reads and finds the reasons to refuse the change; [`Statements::write`] then writes.
//! So a change that is refused has written nothing, and its neighbours in the transaction need no savepoints. Where
//! writing itself refuses (an id that exists already, a grant used up by the same change), the writer starts the
//! transaction again, with savepoints.
//!
//! Where several things refuse a change, the first of these is answered: a token, user or login that no longer counts, a
//! conflict, a taken key, too many pending in the session, too many of the requester, too many sessions, a grant that is gone.

mod identities;
mod journal;

use std::collections::HashMap;

use countersign_core::audit::link;
use countersign_core::digest::Digest;
use countersign_core::ids::{LoginId, TokenId, UserId};
use countersign_kernel::ports::{SessionRow, StoreError, UserMay};
use rusqlite::{Connection, OptionalExtension as _, PrepFlags, Row, Statement, params};

use crate::fault::Fault;
use crate::names::Names;
use crate::recent::{ExistingExecution, Recent};
use crate::rows::{self, Blob, Stored as _, millis, session_sum};
use crate::staged::{Staged, StagedGrant};

/// The last audit record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    /// Its number; 0 where there is none.
    pub(crate) seq: u64,
    pub(crate) hash: Digest,
}

impl Head {
    /// Before the first record.
    pub(crate) const START: Self = Self { seq: 0, hash: Digest::ZERO };

    /// The head as it is stored.
    pub(crate) fn read(connection: &Connection) -> Result<Self, Fault> {
        let mut newest =
            connection.prepare_cached("SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1")?;
        let mut found = newest.query([])?;
        match found.next()? {
            Some(row) => Ok(Self { seq: rows::audit_number(row, 0)?, hash: rows::digest(row.get(1)?)? }),
            None => Ok(Self::START),
        }
    }
}

/// The condition for a token `t` to be valid at a time: neither revoked nor expired, and its user is not disabled.
macro_rules! live_token {
    ($now:literal) => {
        concat!(
            "t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > ",
            $now,
            ") AND (t.owner IS NULL OR EXISTS (SELECT 1 FROM users u WHERE u.id = t.owner AND u.disabled_at IS NULL))"
        )
    };
}

/// The condition for a grant `g` to be usable at a time: it has uses and time left, and its giver may still decide.
macro_rules! usable_grant {
    ($now:literal) => {
        concat!(
            "(g.uses_left IS NULL OR g.uses_left > 0) AND (g.expires_at IS NULL OR g.expires_at > ",
            $now,
            ") AND (g.token IS NULL OR EXISTS (SELECT 1 FROM tokens t WHERE t.id = g.token AND ",
            crate::apply::live_token!($now),
            ")) AND (g.user IS NULL OR EXISTS
                (SELECT 1 FROM users u WHERE u.id = g.user AND u.disabled_at IS NULL AND u.may_decide))"
        )
    };
}
pub(crate) use {live_token, usable_grant};

macro_rules! statements {
    ($($name:ident: $sql:expr,)*) => {
        /// Every statement the writer uses, prepared once.
        pub(crate) struct Statements<'c> {
            pub(crate) names: Names<'c>,
            recent: Recent<'c>,
            authority: Authority,
            $($name: Statement<'c>,)*
        }

        impl<'c> Statements<'c> {
            pub(crate) fn prepare(connection: &'c Connection) -> rusqlite::Result<Self> {
                Ok(Self {
                    names: Names::prepare(connection)?,
                    recent: Recent::prepare(connection)?,
                    authority: Authority::default(),
                    $($name: prepare_persistent(connection, $sql)?,)*
                })
            }
        }
    };
}

statements! {
    find_execution: "SELECT no, version, status, session, requester, last FROM executions WHERE id = ?1",
    find_key: "SELECT id FROM executions WHERE requester = ?1 AND key = ?2",
    // Live at some time: until when is in the last column.
    find_live_token: concat!("SELECT t.body, t.sum, o.body, o.sum, t.expires_at FROM tokens t LEFT JOIN users o ON o.id = t.owner
        WHERE t.id = ?1 AND ", live_token!("0")),
    find_active_user: "SELECT body, sum, may_decide FROM users WHERE id = ?1 AND disabled_at IS NULL",
    find_live_login: concat!("SELECT 1 FROM logins l JOIN users u ON u.id = l.user
        WHERE l.id = ?1 AND l.ended_at IS NULL AND l.expires_at > ?2 AND u.disabled_at IS NULL
        AND (l.token IS NULL OR EXISTS (SELECT 1 FROM tokens t WHERE t.id = l.token AND ", live_token!("?2"), "))"),
    find_sessions_of: "SELECT sessions FROM sessions_of_principal WHERE principal = ?1",
    find_usable_grant: concat!("SELECT 1 FROM grants g WHERE g.id = ?1 AND ", usable_grant!("?2")),
    insert_execution: "INSERT INTO executions
        (id, version, kind, status, session, requester, owner, tool, key, created_at, updated_at, last, sum)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
    // A statement that does not mention the status leaves its index alone.
    advance_execution: "UPDATE executions SET version = ?2, tool = ?3, updated_at = ?4, last = ?5 WHERE no = ?1",
    move_execution: "UPDATE executions SET version = ?2, tool = ?3, updated_at = ?4, last = ?5, status = ?6 WHERE no = ?1",
    insert_commit: "INSERT INTO journal (no, execution, first, previous, body, sum) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    insert_elicitation: "INSERT INTO elicitations
        (id, execution, asked, decided, expires_at, subject, bytes, sum)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    find_elicitation: "SELECT no, id, execution, asked, decided, expires_at, subject, bytes, sum
        FROM elicitations WHERE id = ?1",
    decide_elicitation: "UPDATE elicitations SET decided = ?2, sum = ?3 WHERE no = ?1",
    give_grant: "INSERT INTO grants (id, session, token, expires_at, uses_left, body, sum, user)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    use_grant: "UPDATE grants SET uses_left = uses_left - 1 WHERE id = ?1",
    expire_grant: "UPDATE grants SET uses_left = 0 WHERE id = ?1",
    revoke_grant: "DELETE FROM grants WHERE id = ?1",
    clear_grants: "DELETE FROM grants WHERE session = ?1",
    open_session: "INSERT INTO sessions (id, principal, client, opened_at, sum) VALUES (?1, ?2, ?3, ?4, ?5)
        ON CONFLICT (id) DO NOTHING",
    count_session_of: "INSERT INTO sessions_of_principal (principal, sessions) VALUES (?1, 1)
        ON CONFLICT (principal) DO UPDATE SET sessions = sessions + 1",
    create_token: "INSERT INTO tokens (id, hash, created_at, revoked_at, body, sum, owner, expires_at)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    revoke_token: "UPDATE tokens SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL",
    find_token: "SELECT body, sum, revoked_at, hash, owner, expires_at, last_used_at FROM tokens WHERE id = ?1",
    adopt_token: "UPDATE tokens SET body = ?2, sum = ?3, owner = ?4 WHERE id = ?1",
    use_token: "UPDATE tokens SET last_used_at = ?2 WHERE id = ?1",
    find_user_by_name: "SELECT 1 FROM users WHERE name = ?1",
    find_user: "SELECT body, sum, disabled_at, may_decide FROM users WHERE id = ?1",
    create_user: "INSERT INTO users (id, name, created_at, may_decide, disabled_at, body, sum)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    change_user: "UPDATE users SET may_decide = ?2, disabled_at = ?3, body = ?4, sum = ?5 WHERE id = ?1",
    begin_login: "INSERT INTO logins (id, user, token, began_at, expires_at) VALUES (?1, ?2, ?3, ?4, ?5)",
    forget_logins: "DELETE FROM logins WHERE expires_at <= ?1",
    end_login: "UPDATE logins SET ended_at = ?2 WHERE id = ?1 AND ended_at IS NULL",
    end_logins_of: "UPDATE logins SET ended_at = ?2 WHERE user = ?1 AND ended_at IS NULL",
    put_source: "INSERT INTO sources (name, body, sum) VALUES (?1, ?2, ?3)
        ON CONFLICT (name) DO UPDATE SET body = excluded.body, sum = excluded.sum",
    remove_source: "DELETE FROM sources WHERE name = ?1",
    forget_source_tools: "DELETE FROM source_tools WHERE source = ?1",
    accept_source_tool: "INSERT INTO source_tools (source, origin, body, sum) VALUES (?1, ?2, ?3, ?4)
        ON CONFLICT (source, origin) DO UPDATE SET body = excluded.body, sum = excluded.sum",
    forget_source_tool: "DELETE FROM source_tools WHERE source = ?1 AND origin = ?2",
    set_rulebook: "INSERT INTO rulebook (no, digest) VALUES (1, ?1) ON CONFLICT (no) DO UPDATE SET digest = excluded.digest",
    insert_audit: "INSERT INTO audit (seq, entry, hash) VALUES (?1, ?2, ?3)",
}

impl Statements<'_> {
    /// Begins a transaction: every identity is looked at anew in it.
    pub(crate) fn begin(&mut self) {
        self.authority = Authority::default();
    }

    /// Forgets what is known without a look: what was written may have been rolled back.
    pub(crate) fn forget(&mut self) {
        self.names.forget();
        self.recent.forget();
        self.authority = Authority::default();
    }

    /// Whether the change may happen, and where its execution is, if it exists already. Writes nothing.
    pub(crate) fn check(&mut self, staged: &Staged) -> Result<Option<ExistingExecution>, Fault> {
        self.check_authority(staged)?;
        let existing =
            staged.journal.as_ref().map(|journal| self.check_journal(journal)).transpose()?.flatten();
        self.check_room(staged)?;
        for grant in &staged.grants {
            // The effect of an earlier part of the same change on the grant shows when it is written.
            if let (StagedGrant::Use { .. }, 1) = (grant, staged.grants.len()) {
                self.check_grant(grant)?;
            }
        }
        Ok(existing)
    }

    /// Whether every bound that the change names still has room.
    fn check_room(&mut self, staged: &Staged) -> Result<(), Fault> {
        for (session, bound) in &staged.pending_below {
            if self.names.open(session.as_str())?.in_session >= integer(*bound) {
                return refuse(StoreError::TooManyPending { bound: *bound });
            }
        }
        for (requester, open_bound, bytes_bound) in &staged.requester_below {
            let open = self.names.open(requester.as_str())?;
            if open.of_requester >= integer(*open_bound) || open.bytes_of_requester >= integer(*bytes_bound) {
                return refuse(StoreError::RequesterFull { open: *open_bound, bytes: *bytes_bound });
            }
        }
        for (principal, bound) in &staged.sessions_below {
            let sessions: Option<i64> =
                self.find_sessions_of.query_row([principal.as_str()], first).optional()?;
            if sessions.unwrap_or(0) >= integer(*bound) {
                return refuse(StoreError::TooManySessions { bound: *bound });
            }
        }
        Ok(())
    }

    /// Makes the change that [`Self::check`] let through.
    pub(crate) fn write(
        &mut self,
        staged: &Staged,
        existing: Option<&ExistingExecution>,
        head: &mut Head,
    ) -> Result<(), Fault> {
        if let Some(journal) = &staged.journal {
            self.write_journal(journal, existing)?;
        }
        for grant in &staged.grants {
            self.write_grant(grant)?;
        }
        if let Some(session) = &staged.session {
            let SessionRow { id, principal, client, opened_at } = session;
            let (opened_at, sum) = (millis(*opened_at), session_sum(session));
            let row = params![id.as_str(), principal.as_str(), client, opened_at, sum];
            if self.open_session.execute(row)? == 1 {
                self.count_session_of.execute([principal.as_str()])?;
            }
        }
        if !staged.users.is_empty() || !staged.tokens.is_empty() {
            // Whoever relies on them next, in this transaction too, must see the change.
            self.authority = Authority::default();
        }
        for user in &staged.users {
            self.write_user(user)?;
        }
        for token in &staged.tokens {
            self.write_token(token)?;
        }
        for login in &staged.logins {
            self.write_login(login)?;
        }
        for source in &staged.sources {
            self.write_source(source)?;
        }
        if let Some(rulebook) = &staged.rulebook {
            self.set_rulebook.execute([rulebook])?;
        }
        if let Some(entry) = &staged.audit {
            let (seq, hash) = link(head.seq, head.hash, entry);
            self.insert_audit.execute(params![integer(seq), entry, hash.as_bytes()])?;
            *head = Head { seq, hash };
        }
        Ok(())
    }

    /// Whether every token, user and login that the change relies on still counts.
    fn check_authority(&mut self, staged: &Staged) -> Result<(), Fault> {
        for (token, now) in &staged.live_tokens {
            if self.token_ends(token)?.is_none_or(|end| end <= *now) {
                return refuse(StoreError::TokenRevoked(TokenId::of_blob(*token)));
            }
        }
        for (user, may) in &staged.users_who_may {
            if self.user_may(user)?.is_none_or(|most| *may == UserMay::Decide && most == UserMay::Act) {
                return refuse(StoreError::UserInactive(UserId::of_blob(*user)));
            }
        }
        for (login, now) in &staged.live_logins {
            if !self.find_live_login.exists(params![login, now])? {
                return refuse(StoreError::LoginEnded(LoginId::of_blob(*login)));
            }
        }
        Ok(())
    }

    /// When a token ends; nothing where it counts for nothing already.
    fn token_ends(&mut self, token: &Blob) -> Result<Option<i64>, Fault> {
        if let Some(known) = self.authority.token_ends.get(token) {
            return Ok(*known);
        }
        let mut found = self.find_live_token.query([token])?;
        let ends = match found.next()? {
            Some(row) if is_undamaged(row, 0)? && (is_null(row, 2)? || is_undamaged(row, 2)?) => {
                Some(row.get::<_, Option<i64>>(4)?.unwrap_or(i64::MAX))
            }
            _ => None,
        };
        self.authority.token_ends.insert(*token, ends);
        Ok(ends)
    }

    /// The most that a user may do; nothing where they are disabled or unknown.
    fn user_may(&mut self, user: &Blob) -> Result<Option<UserMay>, Fault> {
        if let Some(known) = self.authority.users.get(user) {
            return Ok(*known);
        }
        let mut found = self.find_active_user.query([user])?;
        let may = match found.next()? {
            Some(row) if is_undamaged(row, 0)? => {
                Some(if row.get(2)? { UserMay::Decide } else { UserMay::Act })
            }
            _ => None,
        };
        self.authority.users.insert(*user, may);
        Ok(may)
    }

    fn check_grant(&mut self, grant: &StagedGrant) -> Result<(), Fault> {
        match grant {
            StagedGrant::Use { id, blob, now } if !self.find_usable_grant.exists(params![blob, now])? => {
                refuse(StoreError::GrantGone(*id))
            }
            _ => Ok(()),
        }
    }
}

/// The identities that were looked at in the open transaction. Many changes in it rely on the same few.
#[derive(Default)]
struct Authority {
    token_ends: HashMap<Blob, Option<i64>>,
    users: HashMap<Blob, Option<UserMay>>,
}

/// Prepares a statement for the life of the connection. SQLite is told so, else it spends the memory it keeps ready for running
/// statements on keeping this one.
pub(crate) fn prepare_persistent<'c>(
    connection: &'c Connection,
    sql: &str,
) -> rusqlite::Result<Statement<'c>> {
    connection.prepare_with_flags(sql, PrepFlags::SQLITE_PREPARE_PERSISTENT)
}

fn refuse<T>(error: StoreError) -> Result<T, Fault> {
    Err(Fault::Refused(error))
}

/// Whether a record and its checksum in the next column agree: authority never comes from a damaged one.
fn is_undamaged(row: &Row<'_>, column: usize) -> Result<bool, Fault> {
    match rows::body_text(row, column, 0, "an identity") {
        Ok(_) => Ok(true),
        Err(Fault::Refused(error)) => {
            tracing::error!(%error, "an identity counts for nothing: its record is damaged");
            Ok(false)
        }
        Err(fault) => Err(fault),
    }
}

fn is_null(row: &Row<'_>, column: usize) -> Result<bool, Fault> {
    Ok(row.get_ref(column)? == rusqlite::types::ValueRef::Null)
}

fn first<T: rusqlite::types::FromSql>(row: &Row<'_>) -> rusqlite::Result<T> {
    row.get(0)
}

/// Counts stay far below the edge of SQLite's integers; the journal's own bound sees to it.
fn integer(count: impl TryInto<i64>) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}
