//! One change, onto an open transaction.
//!
//! Two steps: [`Statements::check`] only reads and finds whatever refuses the change; [`Statements::write`] then writes.
//! So a change that is refused has written nothing, and its neighbours in the transaction need no savepoints. Where
//! writing itself refuses (an id that exists already, a grant used up by the same change), the writer starts the
//! transaction again, with savepoints.
//!
//! Where several things refuse a change, the first of these is answered: a token, user or login that no longer counts, a
//! conflict, a taken key, too many pending in the session, too many of the requester, too many sessions, a grant that is gone.

use countersign_core::audit::AuditRecord;
use countersign_core::digest::Digest;
use countersign_core::ids::{ElicitationId, ExecutionId, LoginId, TokenId, UserId};
use countersign_kernel::ports::{ExecutionRow, SessionRow, StoreError, TokenRow, UserMay, UserRow};
use rusqlite::{Connection, OptionalExtension as _, PrepFlags, Row, Statement, params};

use crate::fault::Fault;
use crate::rows::{self, Blob, Body, Stored as _, kind_text, millis, session_sum, status_letter};
use crate::staged::{
    Staged, StagedElicitation, StagedGrant, StagedJournal, StagedLogin, StagedSource, StagedToken, StagedUser,
};

/// The last audit record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    /// Its number; 0 where there is none.
    pub(crate) seq: u64,
    /// Its hash.
    pub(crate) hash: Digest,
}

impl Head {
    /// Before the first record.
    pub(crate) const START: Self = Self { seq: 0, hash: Digest::ZERO };

    /// The head as it is stored.
    pub(crate) fn read(connection: &Connection) -> Result<Self, Fault> {
        let mut newest = connection
            .prepare_cached("SELECT seq, entry, prev, hash FROM audit ORDER BY seq DESC LIMIT 1")?;
        let mut found = newest.query([])?;
        let record = found.next()?.map(rows::audit_record).transpose()?;
        Ok(record.map_or(Self::START, |record| Self { seq: record.seq, hash: record.hash }))
    }
}

/// An execution that exists, as the check found it.
#[derive(Debug)]
pub(crate) struct Place {
    no: i64,
    status: String,
    session: String,
    requester: String,
}

/// Whether a new elicitation waits for somebody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waits {
    Open,
    Decided,
}

/// When a token `t` is good at a moment: neither revoked nor expired, and its user is not disabled.
macro_rules! live_token {
    ($now:literal) => {
        concat!(
            "t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > ",
            $now,
            ") AND (t.owner IS NULL OR EXISTS (SELECT 1 FROM users u WHERE u.id = t.owner AND u.disabled_at IS NULL))"
        )
    };
}

/// When a grant `g` may be used at a moment: it has uses and time left, and whoever gave it may still decide.
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
            $($name: Statement<'c>,)*
        }

        impl<'c> Statements<'c> {
            /// Prepares them.
            pub(crate) fn prepare(connection: &'c Connection) -> rusqlite::Result<Self> {
                Ok(Self { $($name: lasting(connection, $sql)?,)* })
            }
        }
    };
}

statements! {
    find_execution: "SELECT version, no, status, session, requester FROM executions WHERE id = ?1",
    find_key: "SELECT id FROM executions WHERE requester = ?1 AND key = ?2",
    find_live_token: concat!("SELECT 1 FROM tokens t WHERE t.id = ?1 AND ", live_token!("?2")),
    find_active_user: "SELECT may_decide FROM users WHERE id = ?1 AND disabled_at IS NULL",
    find_live_login: concat!("SELECT 1 FROM logins l JOIN users u ON u.id = l.user
        WHERE l.id = ?1 AND l.ended_at IS NULL AND l.expires_at > ?2 AND u.disabled_at IS NULL
        AND (l.token IS NULL OR EXISTS (SELECT 1 FROM tokens t WHERE t.id = l.token AND ", live_token!("?2"), "))"),
    find_pending: "SELECT open FROM pending WHERE session = ?1",
    find_pending_of: "SELECT open, bytes FROM pending_of_requester WHERE requester = ?1",
    find_sessions_of: "SELECT sessions FROM sessions_of_principal WHERE principal = ?1",
    find_usable_grant: concat!("SELECT 1 FROM grants g WHERE g.id = ?1 AND ", usable_grant!("?2")),
    insert_execution: "INSERT INTO executions
        (id, version, kind, status, session, requester, tool, key, created_at, updated_at, sum, owner)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
    // Without a mention of the status, its index is not touched.
    advance_execution: "UPDATE executions SET version = ?2, tool = ?3, updated_at = ?4 WHERE no = ?1",
    move_execution: "UPDATE executions SET version = ?2, tool = ?3, updated_at = ?4, status = ?5 WHERE no = ?1",
    insert_event: "INSERT INTO journal (execution, seq, body, sum) VALUES (?1, ?2, ?3, ?4)",
    insert_elicitation: "INSERT INTO elicitations (id, execution, asked_at, expires_at, digest, body, sum, subject)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    find_elicitation: "SELECT no, asked_at, octet_length(body) FROM elicitations WHERE id = ?1 AND execution = ?2",
    open_elicitation: "INSERT INTO open_elicitations (asked_at, id, no, expires_at) VALUES (?1, ?2, ?3, ?4)",
    close_elicitation: "DELETE FROM open_elicitations WHERE asked_at = ?1 AND id = ?2",
    insert_decision: "INSERT INTO decisions (elicitation, body, sum) VALUES (?1, ?2, ?3)",
    count_pending: "INSERT INTO pending (session, open) VALUES (?1, ?2)
        ON CONFLICT (session) DO UPDATE SET open = open + excluded.open",
    count_pending_of: "INSERT INTO pending_of_requester (requester, open, bytes) VALUES (?1, ?2, ?3)
        ON CONFLICT (requester) DO UPDATE SET open = open + excluded.open, bytes = bytes + excluded.bytes",
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
    insert_audit: "INSERT INTO audit (seq, entry, prev, hash) VALUES (?1, ?2, ?3, ?4)",
}

impl Statements<'_> {
    /// Whether the change may happen, and where its execution is, if it exists already. Writes nothing.
    pub(crate) fn check(&mut self, staged: &Staged) -> Result<Option<Place>, Fault> {
        self.check_authority(staged)?;
        let place = staged.journal.as_ref().map(|journal| self.check_journal(journal)).transpose()?.flatten();
        self.check_room(staged)?;
        for grant in &staged.grants {
            // What an earlier part of the same change does to the grant is seen when it is written.
            if let (StagedGrant::Use { .. }, 1) = (grant, staged.grants.len()) {
                self.check_grant(grant)?;
            }
        }
        Ok(place)
    }

    /// Whether every bound that the change names still has room.
    fn check_room(&mut self, staged: &Staged) -> Result<(), Fault> {
        for (session, bound) in &staged.pending_below {
            let open: Option<i64> = self.find_pending.query_row([session.as_str()], first).optional()?;
            if open.unwrap_or(0) >= integer(*bound) {
                return refuse(StoreError::TooManyPending { bound: *bound });
            }
        }
        for (requester, open_bound, bytes_bound) in &staged.requester_below {
            let read = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?));
            let found = self.find_pending_of.query_row([requester.as_str()], read).optional()?;
            let (open, bytes) = found.unwrap_or((0, 0));
            if open >= integer(*open_bound) || bytes >= integer(*bytes_bound) {
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
        place: Option<&Place>,
        head: &mut Head,
    ) -> Result<(), Fault> {
        if let Some(journal) = &staged.journal {
            self.write_journal(journal, place)?;
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
        for entry in &staged.audit {
            let record = AuditRecord::chained(head.seq, head.hash, entry);
            let record =
                record.map_err(|e| Fault::unreadable(format!("an audit entry cannot be stored: {e}")))?;
            let AuditRecord { seq, entry, prev, hash } = &record;
            self.insert_audit.execute(params![integer(*seq), entry, prev.as_bytes(), hash.as_bytes()])?;
            *head = Head { seq: *seq, hash: *hash };
        }
        Ok(())
    }

    /// Whether everybody whom the change relies on still counts.
    fn check_authority(&mut self, staged: &Staged) -> Result<(), Fault> {
        for (token, now) in &staged.live_tokens {
            if !self.find_live_token.exists(params![token, now])? {
                return refuse(StoreError::TokenRevoked(TokenId::of_blob(*token)));
            }
        }
        for (user, may) in &staged.users_who_may {
            let decides: Option<bool> = self.find_active_user.query_row([user], first).optional()?;
            let fits = decides.is_some_and(|decides| decides || *may == UserMay::Act);
            if !fits {
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

    fn check_journal(&mut self, journal: &StagedJournal) -> Result<Option<Place>, Fault> {
        let read = |row: &Row<'_>| {
            let place =
                Place { no: row.get(1)?, status: row.get(2)?, session: row.get(3)?, requester: row.get(4)? };
            Ok((row.get::<_, i64>(0)?, place))
        };
        let found = self.find_execution.query_row([journal.execution], read).optional()?;
        let version = found.as_ref().map_or(0, |(version, _)| *version);
        if version != integer(journal.expected) {
            let actual = u64::try_from(version).map_err(|_| Fault::unreadable("a journal's length"))?;
            return refuse(StoreError::Conflict { expected: journal.expected, actual });
        }
        if let (None, ExecutionRow { key: Some(key), requester, .. }) = (&found, &journal.row) {
            let holder: Option<Blob> =
                self.find_key.query_row([requester.as_str(), key], first).optional()?;
            if let Some(holder) = holder {
                return refuse(StoreError::KeyTaken(ExecutionId::of_blob(holder)));
            }
        }
        Ok(found.map(|(_, place)| place))
    }

    fn check_grant(&mut self, grant: &StagedGrant) -> Result<(), Fault> {
        match grant {
            StagedGrant::Use { id, blob, now } if !self.find_usable_grant.exists(params![blob, now])? => {
                refuse(StoreError::GrantGone(*id))
            }
            _ => Ok(()),
        }
    }

    fn write_journal(&mut self, journal: &StagedJournal, place: Option<&Place>) -> Result<(), Fault> {
        let version = integer(journal.expected).saturating_add(integer(journal.events.len()));
        let no = match place {
            Some(place) => self.update_execution(place, version, &journal.row)?,
            None => self.insert_execution(journal, version)?,
        };
        for (seq, Body { text, sum }) in (integer(journal.expected)..).zip(&journal.events) {
            self.insert_event.execute(params![no, seq, text, sum])?;
        }
        let (mut open, mut bytes) = (0, 0);
        for elicitation in &journal.opened {
            if self.insert_elicitation(no, elicitation)? == Waits::Open {
                open += 1;
                bytes += integer(elicitation.body.text.len());
            }
        }
        for (id, decision) in &journal.decided {
            let Some(freed) = self.decide(no, id, decision)? else {
                let id = ElicitationId::of_blob(*id);
                return refuse(StoreError::Corrupt(format!("{id} is not open in {}", journal.row.id)));
            };
            open -= 1;
            bytes -= freed;
        }
        if open != 0 {
            let session = place.map_or(journal.row.session.as_str(), |place| &place.session);
            self.count_pending.execute(params![session, open])?;
        }
        if open != 0 || bytes != 0 {
            let requester = place.map_or(journal.row.requester.as_str(), |place| &place.requester);
            self.count_pending_of.execute(params![requester, open, bytes])?;
        }
        Ok(())
    }

    fn insert_execution(&mut self, journal: &StagedJournal, version: i64) -> Result<i64, Fault> {
        let row = &journal.row;
        Ok(self.insert_execution.insert(params![
            journal.execution,
            version,
            kind_text(row.kind),
            status_letter(row.status),
            row.session.as_str(),
            row.requester.as_str(),
            row.tool.as_ref().map(|tool| tool.as_str()),
            row.key,
            millis(row.created_at),
            millis(row.updated_at),
            journal.sum,
            row.owner.as_ref().map(|owner| owner.as_str()),
        ])?)
    }

    /// What an execution is (kind, session, requester, key, age) never changes; how far it got does.
    fn update_execution(&mut self, place: &Place, version: i64, row: &ExecutionRow) -> Result<i64, Fault> {
        let (no, updated_at) = (place.no, millis(row.updated_at));
        let (tool, status) = (row.tool.as_ref().map(|tool| tool.as_str()), status_letter(row.status));
        if status == place.status {
            self.advance_execution.execute(params![no, version, tool, updated_at])?;
        } else {
            self.move_execution.execute(params![no, version, tool, updated_at, status])?;
        }
        Ok(no)
    }

    fn insert_elicitation(&mut self, execution: i64, staged: &StagedElicitation) -> Result<Waits, Fault> {
        let StagedElicitation { id, asked_at, expires_at, digest, subject, body, decision } = staged;
        let row = params![id, execution, asked_at, expires_at, digest, body.text, body.sum, subject];
        let no = self.insert_elicitation.insert(row)?;
        if let Some(decision) = decision {
            self.insert_decision.execute(params![no, decision.text, decision.sum])?;
            return Ok(Waits::Decided);
        }
        self.open_elicitation.execute(params![asked_at, id, no, expires_at])?;
        Ok(Waits::Open)
    }

    /// How many bytes it has; nothing where it was not open.
    fn decide(&mut self, execution: i64, id: &Blob, decision: &Body) -> Result<Option<i64>, Fault> {
        let read = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?));
        let Some((no, asked_at, bytes)) =
            self.find_elicitation.query_row(params![id, execution], read).optional()?
        else {
            return Ok(None);
        };
        if self.close_elicitation.execute(params![asked_at, id])? == 0 {
            return Ok(None);
        }
        self.insert_decision.execute(params![no, decision.text, decision.sum])?;
        Ok(Some(bytes))
    }

    fn write_grant(&mut self, grant: &StagedGrant) -> Result<(), Fault> {
        match grant {
            StagedGrant::Give { id, session, token, user, expires_at, uses_left, body } => {
                let (session, Body { text, sum }) = (session.as_str(), body);
                let row = params![id, session, token, expires_at, uses_left, text, sum, user];
                self.give_grant.execute(row)?;
            }
            StagedGrant::Use { blob, .. } => {
                self.check_grant(grant)?;
                self.use_grant.execute([blob])?;
            }
            StagedGrant::Expire(id) => {
                self.expire_grant.execute([id])?;
            }
            StagedGrant::Revoke(id) => {
                self.revoke_grant.execute([id])?;
            }
            StagedGrant::Clear(session) => {
                self.clear_grants.execute([session.as_str()])?;
            }
        }
        Ok(())
    }

    fn write_token(&mut self, token: &StagedToken) -> Result<(), Fault> {
        match token {
            StagedToken::Create { id, hash, created_at, revoked_at, owner, expires_at, body } => {
                let Body { text, sum } = body;
                let row = params![id, hash, created_at, revoked_at, text, sum, owner, expires_at];
                self.create_token.execute(row)?;
            }
            StagedToken::Revoke { id, at } => {
                self.revoke_token.execute(params![id, at])?;
            }
            StagedToken::Adopt { id, principal, owner } => {
                let mut found = self.find_token.query([id])?;
                let Some(row) = found.next()? else { return Ok(()) };
                let adopted = TokenRow { principal: principal.clone(), ..rows::token(row)? };
                let body = Body::of(&adopted, 0).map_err(Fault::Refused)?;
                self.adopt_token.execute(params![id, body.text, body.sum, owner])?;
            }
            StagedToken::Used { id, at } => {
                self.use_token.execute(params![id, at])?;
            }
        }
        Ok(())
    }

    fn write_user(&mut self, user: &StagedUser) -> Result<(), Fault> {
        match user {
            StagedUser::Create { id, name, created_at, may_decide, disabled_at, body } => {
                if self.find_user_by_name.exists([name])? {
                    return refuse(StoreError::NameTaken);
                }
                let row = params![id, name, created_at, may_decide, disabled_at, body.text, body.sum];
                self.create_user.execute(row)?;
            }
            StagedUser::Change { id, roles, may_decide, disabled_at } => {
                let mut found = self.find_user.query([id])?;
                let Some(row) = found.next()? else {
                    return refuse(StoreError::UserInactive(UserId::of_blob(*id)));
                };
                let changed = UserRow { roles: roles.clone(), ..rows::user(row)? };
                let body = Body::of(&changed, 0).map_err(Fault::Refused)?;
                self.change_user.execute(params![id, may_decide, disabled_at, body.text, body.sum])?;
                if let Some(at) = disabled_at {
                    self.end_logins_of.execute(params![id, at])?;
                }
            }
        }
        Ok(())
    }

    fn write_source(&mut self, source: &StagedSource) -> Result<(), Fault> {
        match source {
            StagedSource::Put { name, body } => {
                self.put_source.execute(params![name, body.text, body.sum])?;
            }
            StagedSource::Remove { name } => {
                self.remove_source.execute([name])?;
                self.forget_source_tools.execute([name])?;
            }
            StagedSource::Accept { source, origin, body } => {
                self.accept_source_tool.execute(params![source, origin, body.text, body.sum])?;
            }
            StagedSource::Forget { source, origin } => {
                self.forget_source_tool.execute([source, origin])?;
            }
        }
        Ok(())
    }

    fn write_login(&mut self, login: &StagedLogin) -> Result<(), Fault> {
        match login {
            StagedLogin::Begin { id, user, token, began_at, expires_at } => {
                self.forget_logins.execute([began_at])?;
                self.begin_login.execute(params![id, user, token, began_at, expires_at])?;
            }
            StagedLogin::End { id, at } => {
                self.end_login.execute(params![id, at])?;
            }
        }
        Ok(())
    }
}

/// A statement for the life of the connection. SQLite is told so, else it spends the memory it keeps ready for running
/// statements on keeping this one.
pub(crate) fn lasting<'c>(connection: &'c Connection, sql: &str) -> rusqlite::Result<Statement<'c>> {
    connection.prepare_with_flags(sql, PrepFlags::SQLITE_PREPARE_PERSISTENT)
}

fn refuse<T>(error: StoreError) -> Result<T, Fault> {
    Err(Fault::Refused(error))
}

fn first<T: rusqlite::types::FromSql>(row: &Row<'_>) -> rusqlite::Result<T> {
    row.get(0)
}

/// Counts stay far below the edge of SQLite's integers; the journal's own bound sees to it.
fn integer(count: impl TryInto<i64>) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}
