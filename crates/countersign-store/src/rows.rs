//! Values as columns, and back.
//!
//! Ids are the bytes behind the prefix; those of executions and elicitations begin with their moment, so that new rows
//! lie together in the index. Every row that matters has a checksum, because SQLite does not notice a byte that changed inside a
//! value.

use std::fmt;

use countersign_core::audit::AuditRecord;
use countersign_core::digest::Digest;
use countersign_core::event::Kind;
use countersign_core::execution::Status;
use countersign_core::grant::Grant;
use countersign_core::ids::{ElicitationId, ExecutionId, GrantId, LoginId, TokenId, UserId};
use countersign_core::time::Timestamp;
use countersign_kernel::ports::{ExecutionRow, LoginRow, SessionRow, StoreError, TokenRow, UserRow};
use countersign_sdk::{PrincipalId, SessionId, ToolPath};
use rusqlite::Row;
use rusqlite::types::{FromSql, ValueRef};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::fault::Fault;
use crate::staged::{may_decide, owner};

/// An id of 128 random bits, as it is stored.
pub(crate) type Blob = [u8; 16];
/// An id with its moment, as it is stored.
pub(crate) type TimedBlob = [u8; 22];

/// Ids as columns.
pub(crate) trait Stored: Sized {
    /// The column's bytes.
    type Bytes: FromSql;

    fn blob(self) -> Self::Bytes;

    /// The id of these bytes.
    fn of_blob(bytes: Self::Bytes) -> Self;
}

macro_rules! stored {
    ($bytes:ty, $make:ident: $($id:ident),*) => {
        $(impl Stored for $id {
            type Bytes = $bytes;

            fn blob(self) -> $bytes {
                self.to_bytes()
            }

            fn of_blob(bytes: $bytes) -> Self {
                Self::$make(bytes)
            }
        })*
    };
}
stored!(Blob, from_random: GrantId, TokenId, UserId, LoginId);
stored!(TimedBlob, from_bytes: ExecutionId, ElicitationId);

/// A value as JSON text, with its checksum.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) text: String,
    pub(crate) sum: i64,
}

impl Body {
    /// A text with its checksum under this [`checksum_seed`].
    pub(crate) fn new(text: String, seed: i64) -> Self {
        Self { sum: checksum(text.as_bytes(), seed), text }
    }

    /// The value's stored form with its checksum under this [`checksum_seed`].
    pub(crate) fn of(value: &impl Serialize, seed: i64) -> Result<Self, StoreError> {
        let text = serde_json::to_string(value).map_err(|error| cannot_be_stored(&error))?;
        Ok(Self::new(text, seed))
    }
}

pub(crate) fn cannot_be_stored(error: &serde_json::Error) -> StoreError {
    StoreError::Corrupt(format!("cannot be stored: {error}"))
}

/// The owner of a value and its number or time there, as the start of its checksum, so that a row which was moved
/// to another owner is detected.
pub(crate) fn checksum_seed(owner: ExecutionId, number: i64) -> i64 {
    // The random end of the id: what executions of one moment differ in.
    let [.., a, b, c, d, e, f, g, h] = owner.to_bytes();
    i64::from_le_bytes([a, b, c, d, e, f, g, h]) ^ number
}

/// The checksum of the columns of an execution that never change.
pub(crate) fn execution_sum(row: &ExecutionRow) -> i64 {
    let ExecutionRow { id, kind, session, requester, owner, key, created_at, .. } = row;
    let mut sum = checksum(&id.to_bytes(), millis(*created_at));
    let owner = owner.as_ref().map_or("", PrincipalId::as_str);
    let key_bytes = key.as_deref().map_or(-1, |key| i64::try_from(key.len()).unwrap_or(i64::MAX));
    let parts =
        [kind_letter(*kind), session.as_str(), requester.as_str(), owner, key.as_deref().unwrap_or("")];
    for part in parts {
        sum = checksum(part.as_bytes(), sum);
    }
    checksum(&key_bytes.to_le_bytes(), sum)
}

/// A row of `elicitations`: where its question and decision are, and what it is found by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ElicitationFacts {
    pub(crate) id: TimedBlob,
    pub(crate) execution: i64,
    /// The journal's row with the question.
    pub(crate) asked: i64,
    /// The journal's row with the decision.
    pub(crate) decided: Option<i64>,
    pub(crate) expires_at: i64,
    pub(crate) subject: i64,
    pub(crate) bytes: i64,
}

/// Columns of `elicitations e`, in the order that [`ElicitationFacts::read`] reads.
pub(crate) const ELICITATION_FACTS: &str =
    "e.id, e.execution, e.asked, e.decided, e.expires_at, e.subject, e.bytes, e.sum";

impl ElicitationFacts {
    /// Reads [`ELICITATION_FACTS`], beginning with a column.
    pub(crate) fn read(row: &Row<'_>, column: usize) -> Result<Self, Fault> {
        let facts = Self {
            id: row.get(column)?,
            execution: row.get(column + 1)?,
            asked: row.get(column + 2)?,
            decided: row.get(column + 3)?,
            expires_at: row.get(column + 4)?,
            subject: row.get(column + 5)?,
            bytes: row.get(column + 6)?,
        };
        check_unchanged(row.get::<_, i64>(column + 7)? == facts.checksum(), "an elicitation")?;
        Ok(facts)
    }

    pub(crate) fn checksum(&self) -> i64 {
        let Self { id, execution, asked, decided, expires_at, subject, bytes } = self;
        // No row of the journal has the number 0.
        let numbers = [*asked, decided.unwrap_or(0), *expires_at, *subject, *bytes];
        numbers.iter().fold(checksum(id, *execution), |sum, number| checksum(&number.to_le_bytes(), sum))
    }
}

/// The part of a digest that is indexed.
pub(crate) fn short_digest(digest: Digest) -> i64 {
    let [a, b, c, d, e, f, g, h, ..] = *digest.as_bytes();
    i64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// The checksum of a session.
pub(crate) fn session_sum(row: &SessionRow) -> i64 {
    let facts = format!("{} {} {}", row.id, row.principal, row.client);
    checksum(facts.as_bytes(), millis(row.opened_at))
}

/// A checksum against accidents. Every step is a bijection, so that a change within one word never goes unnoticed.
fn checksum(bytes: &[u8], seed: i64) -> i64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let step = |sum: u64, word: [u8; 8]| {
        let mixed = (sum ^ u64::from_le_bytes(word)).wrapping_mul(ODD);
        mixed ^ (mixed >> 29)
    };
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let first = step(bytes.len() as u64, seed.to_le_bytes());
    let sum = words.iter().fold(first, |sum, word| step(sum, *word));
    step(sum, last).cast_signed()
}

/// A point in time as a column. SQLite's integers end where no clock gets to; what lies beyond counts as never.
pub(crate) fn millis(at: Timestamp) -> i64 {
    i64::try_from(at.as_millis()).unwrap_or(i64::MAX)
}

/// The point in time in a column.
pub(crate) fn timestamp(ms: i64) -> Result<Timestamp, Fault> {
    if ms == i64::MAX {
        return Ok(Timestamp::from_millis(u64::MAX));
    }
    u64::try_from(ms)
        .map(Timestamp::from_millis)
        .map_err(|_| Fault::unreadable(format!("{ms} is no point in time")))
}

/// The stored letter for a kind.
pub(crate) fn kind_letter(kind: Kind) -> &'static str {
    match kind {
        Kind::Call => "c",
        Kind::Gate => "g",
        Kind::Script => "s",
    }
}

/// The stored letter for a status: all of one length, so that a row keeps its size.
pub(crate) fn status_letter(status: Status) -> &'static str {
    match status {
        Status::Running => "r",
        Status::Waiting => "w",
        Status::InDoubt => "d",
        Status::Succeeded => "s",
        Status::Failed => "f",
        Status::Cancelled => "c",
    }
}

/// A value from its text and checksum in two neighbouring columns.
pub(crate) fn body<T: DeserializeOwned>(
    row: &Row<'_>,
    column: usize,
    seed: i64,
    what: &str,
) -> Result<T, Fault> {
    serde_json::from_str(body_text(row, column, seed, what)?)
        .map_err(|e| Fault::unreadable(format!("{what}: {e}")))
}

/// A text that its checksum in the next column agrees with.
pub(crate) fn body_text<'r>(
    row: &'r Row<'_>,
    column: usize,
    seed: i64,
    what: &str,
) -> Result<&'r str, Fault> {
    let text = text(row, column)?;
    check_unchanged(row.get::<_, i64>(column + 1)? == checksum(text.as_bytes(), seed), what)?;
    Ok(text)
}

pub(crate) fn check_unchanged(unchanged: bool, what: &str) -> Result<(), Fault> {
    if unchanged {
        Ok(())
    } else {
        Err(Fault::unreadable(format!("{what} was changed since it was written")))
    }
}

/// The time in a column; the earliest one where the column is invalid.
pub(crate) fn row_time(row: &Row<'_>, column: usize) -> Result<Timestamp, Fault> {
    let ms: i64 = row.get(column)?;
    Ok(timestamp(ms).unwrap_or_default())
}

/// An id from its column.
pub(crate) fn id<T: Stored>(row: &Row<'_>, column: usize) -> Result<T, Fault> {
    Ok(T::of_blob(row.get(column)?))
}

pub(crate) fn session_id(row: &Row<'_>, column: usize) -> Result<SessionId, Fault> {
    parsed(text(row, column)?, SessionId::parse)
}

/// Columns that never change about an execution, in the order that [`execution_facts`] reads.
macro_rules! execution_facts_sql {
    () => {
        "x.id, x.kind, session.name, requester.name, x.key, x.created_at, x.sum, owner.name"
    };
}
macro_rules! execution_names_sql {
    () => {
        " LEFT JOIN names session ON session.no = x.session LEFT JOIN names requester ON requester.no = x.requester \
         LEFT JOIN names owner ON owner.no = x.owner"
    };
}
pub(crate) use {execution_facts_sql, execution_names_sql};

/// Columns of [`EXECUTION_TABLES`], in the order that [`execution_row`] reads.
pub(crate) const EXECUTION_COLUMNS: &str =
    concat!(execution_facts_sql!(), ", x.status, tool.name, x.updated_at");

/// Executions with their names. A name that is missing shows as a damaged row.
pub(crate) const EXECUTION_TABLES: &str =
    concat!("executions x", execution_names_sql!(), " LEFT JOIN names tool ON tool.no = x.tool");

/// An execution, from [`EXECUTION_COLUMNS`].
pub(crate) fn execution_row(row: &Row<'_>) -> Result<ExecutionRow, Fault> {
    Ok(ExecutionRow {
        status: status(text(row, 8)?)?,
        tool: optional_text(row, 9)?.map(|path| parsed(path, ToolPath::parse)).transpose()?,
        updated_at: timestamp(row.get(10)?)?,
        ..execution_facts(row, 0)?
    })
}

/// The part of an execution that never changes, from eight columns; the rest is left at its beginning.
pub(crate) fn execution_facts(row: &Row<'_>, column: usize) -> Result<ExecutionRow, Fault> {
    let created_at = timestamp(row.get(column + 5)?)?;
    let facts = ExecutionRow {
        id: id(row, column)?,
        kind: kind(text(row, column + 1)?)?,
        session: session_id(row, column + 2)?,
        requester: parsed(text(row, column + 3)?, PrincipalId::parse)?,
        owner: optional_text(row, column + 7)?.map(|owner| parsed(owner, PrincipalId::parse)).transpose()?,
        key: row.get(column + 4)?,
        created_at,
        status: Status::Running,
        tool: None,
        updated_at: created_at,
    };
    check_unchanged(row.get::<_, i64>(column + 6)? == execution_sum(&facts), "an execution")?;
    Ok(facts)
}

/// How long the text in a column is; 0 where there is none.
pub(crate) fn text_bytes(row: &Row<'_>, column: usize) -> Result<usize, Fault> {
    match row.get_ref(column)? {
        ValueRef::Text(bytes) => Ok(bytes.len()),
        _ => Ok(0),
    }
}

/// A grant, from `body, sum, uses_left, expires_at, session`.
pub(crate) fn grant(row: &Row<'_>) -> Result<Grant, Fault> {
    let given: Grant = body(row, 0, 0, "a grant")?;
    check_unchanged(row.get::<_, Option<i64>>(3)? == given.expires_at.map(millis), "a grant")?;
    check_unchanged(text(row, 4)? == given.session.as_str(), "a grant")?;
    Ok(Grant { uses_left: row.get(2)?, ..given })
}

/// Columns of `tokens`, in the order that [`token`] reads.
pub(crate) const TOKEN_COLUMNS: &str = "body, sum, revoked_at, hash, owner, expires_at, last_used_at";

/// A token, from [`TOKEN_COLUMNS`].
pub(crate) fn token(row: &Row<'_>) -> Result<TokenRow, Fault> {
    let created: TokenRow = body(row, 0, 0, "a token")?;
    check_unchanged(row.get::<_, [u8; 32]>(3)? == *created.hash.as_bytes(), "a token")?;
    check_unchanged(row.get::<_, Option<Blob>>(4)? == owner(&created.principal), "a token")?;
    check_unchanged(row.get::<_, Option<i64>>(5)? == created.expires_at.map(millis), "a token")?;
    let revoked_at = row.get::<_, Option<i64>>(2)?.map(timestamp).transpose()?;
    let last_used_at = row.get::<_, Option<i64>>(6)?.map(timestamp).transpose()?;
    Ok(TokenRow { revoked_at, last_used_at, ..created })
}

/// A user, from `body, sum, disabled_at, may_decide`.
pub(crate) fn user(row: &Row<'_>) -> Result<UserRow, Fault> {
    let stored: UserRow = body(row, 0, 0, "a user")?;
    check_unchanged(row.get::<_, bool>(3)? == may_decide(&stored.roles), "a user")?;
    let disabled_at = row.get::<_, Option<i64>>(2)?.map(timestamp).transpose()?;
    Ok(UserRow { disabled_at, ..stored })
}

/// A login, from `id, user, token, began_at, expires_at, ended_at`.
pub(crate) fn login(row: &Row<'_>) -> Result<LoginRow, Fault> {
    Ok(LoginRow {
        id: id(row, 0)?,
        user: id(row, 1)?,
        token: row.get::<_, Option<Blob>>(2)?.map(TokenId::of_blob),
        began_at: timestamp(row.get(3)?)?,
        expires_at: timestamp(row.get(4)?)?,
        ended_at: row.get::<_, Option<i64>>(5)?.map(timestamp).transpose()?,
    })
}

/// A session, from `id, principal, client, opened_at, sum`.
pub(crate) fn session(row: &Row<'_>) -> Result<SessionRow, Fault> {
    let session = SessionRow {
        id: session_id(row, 0)?,
        principal: parsed(text(row, 1)?, PrincipalId::parse)?,
        client: row.get(2)?,
        opened_at: timestamp(row.get(3)?)?,
    };
    check_unchanged(row.get::<_, i64>(4)? == session_sum(&session), "a session")?;
    Ok(session)
}

/// An audit record, from `seq, entry, hash`, given the hash of the record before.
pub(crate) fn audit_record(row: &Row<'_>, prev: Digest) -> Result<AuditRecord, Fault> {
    let (seq, entry, hash) = (audit_number(row, 0)?, row.get(1)?, digest(row.get(2)?)?);
    Ok(AuditRecord { seq, entry, prev, hash })
}

/// The number of an audit record.
pub(crate) fn audit_number(row: &Row<'_>, column: usize) -> Result<u64, Fault> {
    let seq = row.get::<_, i64>(column)?;
    u64::try_from(seq).map_err(|_| Fault::unreadable(format!("{seq} is no audit number")))
}

/// A text column, borrowed.
fn text<'r>(row: &'r Row<'_>, column: usize) -> Result<&'r str, Fault> {
    optional_text(row, column)?.ok_or_else(|| Fault::unreadable("a text is missing"))
}

fn optional_text<'r>(row: &'r Row<'_>, column: usize) -> Result<Option<&'r str>, Fault> {
    match row.get_ref(column)? {
        ValueRef::Null => Ok(None),
        ValueRef::Text(bytes) => {
            std::str::from_utf8(bytes).map(Some).map_err(|_| Fault::unreadable("a text is not UTF-8"))
        }
        other => Err(Fault::unreadable(format!("a text is stored as {}", other.data_type()))),
    }
}

fn parsed<T, E: fmt::Display>(text: &str, parse: impl Fn(&str) -> Result<T, E>) -> Result<T, Fault> {
    parse(text).map_err(|e| Fault::unreadable(e.to_string()))
}

pub(crate) fn digest(bytes: [u8; 32]) -> Result<Digest, Fault> {
    let digits = bytes.iter().flat_map(|b| [b >> 4, b & 15]).filter_map(|n| char::from_digit(n.into(), 16));
    digits.collect::<String>().parse().map_err(|_| Fault::unreadable("a digest"))
}

fn kind(text: &str) -> Result<Kind, Fault> {
    let all = [Kind::Call, Kind::Gate, Kind::Script];
    all.into_iter()
        .find(|k| kind_letter(*k) == text)
        .ok_or_else(|| Fault::unreadable(format!("the kind {text:?}")))
}

pub(crate) fn status(text: &str) -> Result<Status, Fault> {
    use Status::{Cancelled, Failed, InDoubt, Running, Succeeded, Waiting};
    let all = [Running, Waiting, InDoubt, Succeeded, Failed, Cancelled];
    all.into_iter()
        .find(|s| status_letter(*s) == text)
        .ok_or_else(|| Fault::unreadable(format!("the status {text:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_survives_its_stored_form() {
        let bits = [0x00, 0x01, 0xfe, 0x10, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0xff];
        assert_eq!(TokenId::of_blob(bits).blob(), bits);
        assert_eq!(TokenId::of_blob([0; 16]).blob(), [0; 16]);
        let id = ExecutionId::new(Timestamp::from_millis(1_700_000_000_000), bits);
        assert_eq!(ExecutionId::of_blob(id.blob()), id);
    }

    #[test]
    fn a_digest_survives_its_stored_form() {
        let hash = Digest::of(b"x");
        assert_eq!(digest(*hash.as_bytes()).unwrap(), hash);
    }

    #[test]
    fn times_beyond_sqlite_are_never() {
        for ms in [0, 1, 1_700_000_000_000, u64::MAX] {
            assert_eq!(timestamp(millis(Timestamp::from_millis(ms))).unwrap(), Timestamp::from_millis(ms));
        }
        assert!(timestamp(-1).is_err());
    }

    #[test]
    fn the_checksum_is_what_earlier_builds_wrote_and_notices_every_single_byte() {
        let text = br#"{"v":1,"at":1700000000000,"event":{"finished":{}}}"#;
        let sum = checksum(text, 7);
        assert_eq!(sum, 8_481_799_627_360_204_425, "stored data would become unreadable");
        for at in 0..text.len() {
            for flip in 1..=255 {
                let mut changed = *text;
                changed[at] ^= flip;
                assert_ne!(checksum(&changed, 7), sum);
            }
        }
        assert_ne!(checksum(&text[..text.len() - 1], 7), sum);
        assert_ne!(checksum(&[text.as_slice(), b"\0"].concat(), 7), sum);
        assert_ne!(checksum(text, 8), sum);
    }
}
