//! A store in memory, with the same promises as the one on disk but for surviving the process.
//!
//! A clone is a handle to the same "disk": a test drops its gateway, makes another one with a clone, and has restarted it.

mod identities;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use countersign_core::audit::{AuditRecord, record_text};
use countersign_core::commit::{Commit, CommitError};
use countersign_core::digest::Digest;
use countersign_core::event::{Event, EventBody};
use countersign_core::execution::Status;
use countersign_core::grant::Grant;
use countersign_core::ids::{ElicitationId, ExecutionId, GrantId, LoginId};
use countersign_core::retention::question_bytes;
use countersign_core::time::Timestamp;
use countersign_kernel::ports::{
    ByteBudget, Committed, ElicitationFilter, ElicitationRow, ExecutionFilter, ExecutionRow, GrantWrite,
    JournalPart, JournalWrite, Listing, LoginRow, Page, Requirement, SessionRow, SessionSummary, SourceRow,
    SourceToolRow, SourceWrite, Standing, Store, StoreError, TokenRow, UserMay, UserRow, UserWrite, Write,
};
use countersign_sdk::{PrincipalId, SessionId};

use identities::end;

/// The grants that still count and end some time, with their end.
fn ending(grants: &[Grant]) -> impl Iterator<Item = (Timestamp, &Grant)> {
    grants
        .iter()
        .filter(|grant| grant.uses_left != Some(0))
        .filter_map(|grant| Some((grant.expires_at?, grant)))
}

/// The most one page holds.
const MOST: usize = 1_000;

/// A store in memory. A clone is another handle to the same data.
#[derive(Debug, Clone, Default)]
pub struct MemoryStore(Arc<Mutex<State>>);

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Changes an audit record, as an attacker could who can write the disk.
    pub fn tamper_with_audit(&self, seq: u64, change: impl FnOnce(&mut AuditRecord)) {
        if let Some(record) = self.state().audit.iter_mut().find(|record| record.seq == seq) {
            change(record);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is checked before its first write, so that a panic leaves no half of one behind.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Default)]
struct State {
    executions: HashMap<ExecutionId, Journalled>,
    /// In order of arrival.
    arrived: Vec<ExecutionId>,
    by_key: HashMap<(PrincipalId, String), ExecutionId>,
    elicitations: HashMap<ElicitationId, ElicitationRow>,
    /// In order of arrival.
    asked: Vec<ElicitationId>,
    /// The open ones.
    expiring: BTreeSet<(Timestamp, ElicitationId)>,
    pending: HashMap<SessionId, usize>,
    /// How many are open, and their bytes.
    pending_of: HashMap<PrincipalId, (usize, usize)>,
    grants: Vec<Grant>,
    sessions: HashMap<SessionId, SessionRow>,
    /// In order of arrival.
    opened: Vec<SessionId>,
    users: Vec<UserRow>,
    tokens: Vec<TokenRow>,
    logins: Vec<LoginRow>,
    sources: BTreeMap<String, SourceRow>,
    source_tools: BTreeMap<(String, String), SourceToolRow>,
    audit: Vec<AuditRecord>,
    rulebook: Option<Digest>,
}

#[derive(Debug)]
struct Journalled {
    row: ExecutionRow,
    events: Vec<Event>,
}

#[async_trait]
impl Store for MemoryStore {
    async fn commit(&self, write: Write) -> Result<Committed, StoreError> {
        self.state().commit(write)
    }

    fn commit_soon(&self, write: Write) -> Result<(), StoreError> {
        // A refusal is not reported, as with any store.
        let _ = self.state().commit(write);
        Ok(())
    }

    async fn journal(&self, id: ExecutionId) -> Result<Vec<Event>, StoreError> {
        Ok(self.state().executions.get(&id).map(|found| found.events.clone()).unwrap_or_default())
    }

    async fn journal_part(
        &self,
        id: ExecutionId,
        from: u64,
        limit: usize,
    ) -> Result<JournalPart, StoreError> {
        let state = self.state();
        let events = state.executions.get(&id).map_or(&[][..], |found| &found.events);
        let (start, mut budget) = (usize::try_from(from).unwrap_or(usize::MAX), ByteBudget::of_a_part());
        let part = events.iter().skip(start).take(limit).take_while(|event| budget.takes(bytes_of(event)));
        let part: Vec<Event> = part.cloned().collect();
        let next = from.saturating_add(part.len() as u64);
        Ok(JournalPart { next: (next < events.len() as u64).then_some(next), events: part })
    }

    async fn execution(&self, id: ExecutionId) -> Result<Option<ExecutionRow>, StoreError> {
        Ok(self.state().executions.get(&id).map(|found| found.row.clone()))
    }

    async fn executions(
        &self,
        filter: ExecutionFilter,
        page: Page,
    ) -> Result<Listing<ExecutionRow>, StoreError> {
        let state = self.state();
        let before = page.cursor.as_deref().map(|text| parse_cursor('x', text)).transpose()?;
        let wanted = |row: &ExecutionRow| {
            (filter.status.is_empty() || filter.status.contains(&row.status))
                && filter.session.as_ref().is_none_or(|session| *session == row.session)
                && filter.requester.as_ref().is_none_or(|requester| *requester == row.requester)
        };
        let known = state.arrived.iter().enumerate().take(before.unwrap_or(usize::MAX)).rev();
        let rows = known.filter_map(|(n, id)| Some((n, &state.executions.get(id)?.row)));
        Ok(listing(rows.filter(|(_, row)| wanted(row)), &page, 'x'))
    }

    async fn by_key(&self, requester: &PrincipalId, key: &str) -> Result<Option<ExecutionId>, StoreError> {
        Ok(self.state().by_key.get(&(requester.clone(), key.to_owned())).copied())
    }

    async fn elicitation(&self, id: ElicitationId) -> Result<Option<ElicitationRow>, StoreError> {
        Ok(self.state().elicitations.get(&id).cloned())
    }

    async fn elicitations(
        &self,
        filter: ElicitationFilter,
        page: Page,
    ) -> Result<Listing<ElicitationRow>, StoreError> {
        let state = self.state();
        let after = page.cursor.as_deref().map(|text| parse_cursor('e', text)).transpose()?;
        let wanted = |row: &ElicitationRow| {
            filter.execution.is_none_or(|execution| execution == row.execution)
                && (!filter.open_only || row.decision.is_none())
                && filter.subject.is_none_or(|subject| subject == row.elicitation.subject())
                && filter.owner.as_ref().is_none_or(|owner| row.owner.as_ref() == Some(owner))
                && filter.requester.as_ref().is_none_or(|requester| *requester == row.requester)
        };
        let known = state.asked.iter().enumerate().skip(after.map_or(0, |after| after + 1));
        let rows = known.filter_map(|(n, id)| Some((n, state.elicitations.get(id)?)));
        let rows: Vec<(usize, &ElicitationRow)> = rows.filter(|(_, row)| wanted(row)).collect();
        let (all, mut budget) = (listing(rows.iter().copied(), &page, 'e'), ByteBudget::of_a_part());
        let bytes = |row: &ElicitationRow| {
            question_bytes(&row.elicitation) + row.decision.as_ref().map_or(0, bytes_of)
        };
        match all.items.iter().position(|row| !budget.takes(bytes(row))) {
            Some(end) => {
                let next = end.checked_sub(1).and_then(|last| rows.get(last)).map(|(n, _)| cursor('e', *n));
                Ok(Listing { next, items: all.items[..end].to_vec(), damaged: Vec::new() })
            }
            None => Ok(all),
        }
    }

    async fn due(
        &self,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<(ElicitationId, ExecutionId)>, StoreError> {
        let state = self.state();
        let due = state.expiring.iter().take_while(|(expires_at, _)| *expires_at <= now).take(limit);
        Ok(due.filter_map(|(_, id)| Some((*id, state.elicitations.get(id)?.execution))).collect())
    }

    async fn due_grants(
        &self,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<(GrantId, SessionId)>, StoreError> {
        let state = self.state();
        let mut due: Vec<_> = ending(&state.grants).filter(|(expires_at, _)| *expires_at <= now).collect();
        due.sort_by_key(|(expires_at, _)| *expires_at);
        Ok(due.into_iter().take(limit).map(|(_, grant)| (grant.id, grant.session.clone())).collect())
    }

    async fn next_expiry(&self) -> Result<Option<Timestamp>, StoreError> {
        let state = self.state();
        let elicitation = state.expiring.first().map(|(expires_at, _)| *expires_at);
        let grant = ending(&state.grants).map(|(expires_at, _)| expires_at);
        Ok(elicitation.into_iter().chain(grant).min())
    }

    async fn standing(&self) -> Result<Standing, StoreError> {
        let state = self.state();
        let of = |status: Status| {
            state.executions.values().filter(|found| found.row.status == status).count() as u64
        };
        Ok(Standing {
            recorded: state.audit.len() as u64,
            open: state.expiring.len() as u64,
            waiting: of(Status::Waiting),
            running: of(Status::Running),
            in_doubt: of(Status::InDoubt),
        })
    }

    async fn rulebook(&self) -> Result<Option<Digest>, StoreError> {
        Ok(self.state().rulebook)
    }

    async fn grants(&self, session: &SessionId) -> Result<Vec<Grant>, StoreError> {
        Ok(self.state().grants.iter().filter(|grant| grant.session == *session).cloned().collect())
    }

    async fn session(&self, id: &SessionId) -> Result<Option<SessionRow>, StoreError> {
        Ok(self.state().sessions.get(id).cloned())
    }

    async fn sessions(&self, now: Timestamp, page: Page) -> Result<Listing<SessionSummary>, StoreError> {
        let state = self.state();
        let before = page.cursor.as_deref().map(|text| parse_cursor('s', text)).transpose()?;
        let known = state.opened.iter().enumerate().take(before.unwrap_or(usize::MAX)).rev();
        let summaries: Vec<(usize, SessionSummary)> = known
            .filter_map(|(n, id)| Some((n, state.sessions.get(id)?)))
            .map(|(n, row)| {
                (n, SessionSummary { row: row.clone(), live_grants: state.live_grants(&row.id, now) })
            })
            .collect();
        Ok(listing(summaries.iter().map(|(n, of)| (*n, of)), &page, 's'))
    }

    async fn token_by_hash(&self, hash: Digest) -> Result<Option<TokenRow>, StoreError> {
        Ok(self.state().tokens.iter().find(|token| token.hash == hash).cloned())
    }

    async fn tokens(&self) -> Result<Listing<TokenRow>, StoreError> {
        let mut tokens = self.state().tokens.clone();
        tokens.sort_by_key(|token| token.created_at);
        Ok(Listing::whole(tokens))
    }

    async fn users(&self) -> Result<Listing<UserRow>, StoreError> {
        let mut users = self.state().users.clone();
        users.sort_by_key(|user| user.created_at);
        Ok(Listing::whole(users))
    }

    async fn sources(&self) -> Result<Vec<SourceRow>, StoreError> {
        Ok(self.state().sources.values().cloned().collect())
    }

    async fn source_tools(&self, source: &str) -> Result<Vec<SourceToolRow>, StoreError> {
        let state = self.state();
        Ok(state.source_tools.values().filter(|tool| tool.source == source).cloned().collect())
    }

    async fn login(&self, id: LoginId) -> Result<Option<LoginRow>, StoreError> {
        Ok(self.state().logins.iter().find(|login| login.id == id).cloned())
    }

    async fn audit(&self, after: u64, limit: usize) -> Result<Vec<AuditRecord>, StoreError> {
        let skipped = usize::try_from(after).unwrap_or(usize::MAX);
        let (state, mut budget) = (self.state(), ByteBudget::of_a_part());
        let records = state.audit.iter().skip(skipped).take(limit);
        Ok(records.take_while(|record| budget.takes(record.entry.len())).cloned().collect())
    }

    fn check_writable(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

impl State {
    /// Checks everything, then changes everything: between the two nothing can fail.
    fn commit(&mut self, write: Write) -> Result<Committed, StoreError> {
        self.check_authority(&write.require)?;
        if let Some(journal) = &write.journal {
            self.check_journal(journal)?;
        }
        self.check_pending(&write.require)?;
        let grants = if write.grants.is_empty() { None } else { Some(self.grants_after(&write.grants)?) };
        let users = if write.users.is_empty() { None } else { Some(self.users_after(&write.users)?) };
        let tokens = if write.tokens.is_empty() { None } else { Some(self.tokens_after(&write.tokens)?) };
        let record = self.record_of(&write)?;
        let events = write.journal.as_ref().map(|journal| self.events_of(journal)).transpose()?;

        if let (Some(journal), Some(events)) = (write.journal, events) {
            self.append(journal, events);
        }
        self.grants = grants.unwrap_or_else(|| std::mem::take(&mut self.grants));
        for write in &write.users {
            if let UserWrite::Change { id, disabled_at: Some(at), .. } = write {
                self.logins.iter_mut().filter(|login| login.user == *id).for_each(|login| end(login, *at));
            }
        }
        self.users = users.unwrap_or_else(|| std::mem::take(&mut self.users));
        self.tokens = tokens.unwrap_or_else(|| std::mem::take(&mut self.tokens));
        for login in write.logins {
            self.write_login(login);
        }
        for source in write.sources {
            self.write_source(source);
        }
        if let Some(session) = write.session
            && !self.sessions.contains_key(&session.id)
        {
            self.opened.push(session.id.clone());
            self.sessions.insert(session.id.clone(), session);
        }
        self.rulebook = write.rulebook.or(self.rulebook);
        self.audit.extend(record);
        Ok(Committed { audit_seq: self.audit.last().map_or(0, |record| record.seq) })
    }

    fn is_usable(&self, grant: &Grant, now: Timestamp) -> bool {
        grant.is_live(now)
            && grant.token.is_none_or(|token| self.is_live(token, now))
            && grant.user().is_none_or(|user| self.user_may(user, UserMay::Decide))
    }

    fn write_source(&mut self, write: SourceWrite) {
        match write {
            SourceWrite::Put(row) => drop(self.sources.insert(row.name.clone(), row)),
            SourceWrite::Remove { name } => {
                self.sources.remove(&name);
                self.source_tools.retain(|(source, _), _| *source != name);
            }
            SourceWrite::Accept(row) => {
                drop(self.source_tools.insert((row.source.clone(), row.origin.clone()), row));
            }
            SourceWrite::Forget { source, origin } => drop(self.source_tools.remove(&(source, origin))),
        }
    }

    fn check_pending(&self, require: &[Requirement]) -> Result<(), StoreError> {
        let full = require.iter().find_map(|requirement| match requirement {
            Requirement::PendingBelow { session, bound } if self.pending(session) >= *bound => Some(*bound),
            _ => None,
        });
        full.map_or(Ok(()), |bound| Err(StoreError::TooManyPending { bound }))?;
        for requirement in require {
            if let Requirement::RequesterPendingBelow { requester, open, bytes } = requirement {
                let (open_now, bytes_now) = self.pending_of.get(requester).copied().unwrap_or((0, 0));
                if open_now >= *open || bytes_now >= *bytes {
                    return Err(StoreError::RequesterFull { open: *open, bytes: *bytes });
                }
            }
            if let Requirement::SessionsBelow { principal, bound } = requirement
                && self.sessions.values().filter(|row| row.principal == *principal).count() >= *bound
            {
                return Err(StoreError::TooManySessions { bound: *bound });
            }
        }
        Ok(())
    }

    fn pending(&self, session: &SessionId) -> usize {
        self.pending.get(session).copied().unwrap_or(0)
    }

    fn live_grants(&self, session: &SessionId, now: Timestamp) -> u64 {
        let usable = |grant: &&Grant| grant.session == *session && self.is_usable(grant, now);
        self.grants.iter().filter(usable).count() as u64
    }

    fn check_journal(&self, write: &JournalWrite) -> Result<(), StoreError> {
        let found = self.executions.get(&write.row.id);
        let actual = found.map_or(0, |found| found.events.len() as u64);
        if actual != write.expected {
            return Err(StoreError::Conflict { expected: write.expected, actual });
        }
        if let (None, Some(key)) = (found, &write.row.key)
            && let Some(holder) = self.by_key.get(&(write.row.requester.clone(), key.clone()))
        {
            return Err(StoreError::KeyTaken(*holder));
        }
        let mut new = BTreeSet::new();
        for asked in &write.opened {
            let (id, row) = (asked.elicitation.id, &write.row);
            if (asked.execution, &asked.session, &asked.requester, &asked.owner)
                != (row.id, &row.session, &row.requester, &row.owner)
            {
                return contradiction(&format!("{id} names another execution, session or requester"));
            }
            if self.elicitations.contains_key(&id) || !new.insert(id) {
                return contradiction(&format!("{id} exists already"));
            }
        }
        let mut decided = BTreeSet::new();
        for id in &write.decided {
            let mut opened = write.opened.iter().filter(|asked| asked.decision.is_none());
            let open = self
                .elicitations
                .get(id)
                .is_some_and(|row| row.decision.is_none() && row.execution == write.row.id)
                || opened.any(|asked| asked.elicitation.id == *id);
            if !open || !decided.insert(*id) {
                return contradiction(&format!("{id} is not open in {}", write.row.id));
            }
        }
        Ok(())
    }

    fn grants_after(&self, writes: &[GrantWrite]) -> Result<Vec<Grant>, StoreError> {
        let mut grants = self.grants.clone();
        for write in writes {
            match write {
                GrantWrite::Give(grant) if grants.iter().any(|g| g.id == grant.id) => {
                    return contradiction(&format!("{} exists already", grant.id));
                }
                GrantWrite::Give(grant) => grants.push(grant.clone()),
                GrantWrite::Use { id, now } => {
                    let gone = || StoreError::GrantGone(*id);
                    let grant = grants.iter_mut().find(|grant| grant.id == *id).ok_or_else(gone)?;
                    let used = self.is_usable(grant, *now).then(|| grant.clone().used()).flatten();
                    *grant = used.ok_or_else(gone)?;
                }
                GrantWrite::Expire(id) => {
                    if let Some(grant) = grants.iter_mut().find(|grant| grant.id == *id) {
                        grant.uses_left = Some(0);
                    }
                }
                GrantWrite::Revoke(id) => grants.retain(|grant| grant.id != *id),
                GrantWrite::Clear(session) => grants.retain(|grant| grant.session != *session),
            }
        }
        Ok(grants)
    }

    fn record_of(&self, write: &Write) -> Result<Option<AuditRecord>, StoreError> {
        if write.audit.is_empty() {
            return Ok(None);
        }
        let (seq, prev) = self.audit.last().map_or((0, Digest::ZERO), |last| (last.seq, last.hash));
        let text = record_text(&write.audit).map_err(|e| StoreError::Corrupt(e.to_string()))?;
        Ok(Some(AuditRecord::chained(seq, prev, text)))
    }

    /// The new events, read back from their stored form as a store on disk would.
    fn events_of(&self, write: &JournalWrite) -> Result<Vec<Event>, StoreError> {
        let unreadable = |error: CommitError| StoreError::Corrupt(error.to_string());
        let commit = Commit::parse(write.commit.text()).map_err(unreadable)?;
        let mut journal = self.executions.get(&write.row.id).map_or(Vec::new(), |found| found.events.clone());
        let before = journal.len();
        commit.append_to(&mut journal).map_err(unreadable)?;
        Ok(journal.split_off(before))
    }

    fn append(&mut self, write: JournalWrite, events: Vec<Event>) {
        let JournalWrite { row, opened, decided, .. } = write;
        for asked in opened {
            let id = asked.elicitation.id;
            self.asked.push(id);
            if asked.decision.is_none() {
                self.expiring.insert((asked.elicitation.expires_at, id));
                *self.pending.entry(asked.session.clone()).or_default() += 1;
                let (open, bytes) = self.pending_of.entry(asked.requester.clone()).or_default();
                (*open, *bytes) = (*open + 1, *bytes + question_bytes(&asked.elicitation));
            }
            self.elicitations.insert(id, asked);
        }
        for id in decided {
            let decision = events.iter().find_map(|event| match &event.body {
                EventBody::Decided { elicitation, decision } if *elicitation == id => Some(decision.clone()),
                _ => None,
            });
            if let Some(asked) = self.elicitations.get_mut(&id) {
                self.expiring.remove(&(asked.elicitation.expires_at, id));
                if let Some(pending) = self.pending.get_mut(&asked.session) {
                    *pending = pending.saturating_sub(1);
                }
                if let Some((open, bytes)) = self.pending_of.get_mut(&asked.requester) {
                    let freed = question_bytes(&asked.elicitation);
                    (*open, *bytes) = (open.saturating_sub(1), bytes.saturating_sub(freed));
                }
                asked.decision = decision;
            }
        }
        if let Some(found) = self.executions.get_mut(&row.id) {
            // Kind, session, requester, key and age never change; how far it got does.
            found.row = ExecutionRow {
                status: row.status,
                tool: row.tool,
                updated_at: row.updated_at,
                ..found.row.clone()
            };
            found.events.extend(events);
            return;
        }
        self.arrived.push(row.id);
        if let Some(key) = &row.key {
            self.by_key.insert((row.requester.clone(), key.clone()), row.id);
        }
        self.executions.insert(row.id, Journalled { row, events });
    }
}

/// How long a value's stored form is.
fn bytes_of(value: &impl serde::Serialize) -> usize {
    serde_json::to_string(value).map_or(0, |text| text.len())
}

fn contradiction<T>(what: &str) -> Result<T, StoreError> {
    Err(StoreError::Corrupt(format!("the change contradicts what is stored: {what}")))
}

/// A page of rows that are numbered in order of arrival.
fn listing<'r, T: Clone + 'r>(
    rows: impl Iterator<Item = (usize, &'r T)>,
    page: &Page,
    list: char,
) -> Listing<T> {
    let limit = page.limit.min(MOST);
    let mut found: Vec<(usize, &T)> = rows.take(limit + 1).collect();
    let more = found.len() > limit;
    found.truncate(limit);
    let next = found.last().filter(|_| more).map(|(n, _)| cursor(list, *n));
    Listing { items: found.into_iter().map(|(_, row)| row.clone()).collect(), next, damaged: Vec::new() }
}

fn cursor(list: char, number: usize) -> String {
    format!("{list}{number:016x}")
}

fn parse_cursor(list: char, text: &str) -> Result<usize, StoreError> {
    let digits = text.strip_prefix(list).filter(|digits| digits.len() == 16);
    let number = digits.and_then(|digits| usize::from_str_radix(digits, 16).ok());
    number.filter(|number| cursor(list, *number) == text).ok_or(StoreError::BadCursor)
}
