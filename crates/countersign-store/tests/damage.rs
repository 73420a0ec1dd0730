//! Damaged files: always noticed, never overwritten, never read as something else than was written.

#![expect(clippy::unwrap_used, clippy::panic, reason = "what a test cannot make or read fails it")]

use std::fs;
use std::path::{Path, PathBuf};

use countersign_core::audit::{AuditRecord, verify};
use countersign_core::canonical::Verbatim;
use countersign_core::digest::Digest;
use countersign_core::event::{Event, EventBody};
use countersign_core::execution::Status;
use countersign_core::grant::Grant;
use countersign_core::ids::CallNo;
use countersign_kernel::ports::{
    ElicitationFilter, ElicitationRow, ExecutionFilter, ExecutionRow, GrantWrite, Listing, Page, SessionRow,
    Store, StoreError, TokenRow, Write,
};
use countersign_sdk::Outcome;
use countersign_store::{OpenError, SqliteStore};
use countersign_testkit::conformance::subject::{Subject, at, create, decision, grants, step, token};

const FILE: &str = "countersign.db";

/// A database with a little of everything in it.
struct Filled {
    folder: tempfile::TempDir,
    truth: Truth,
}

#[derive(Debug, Clone, PartialEq)]
struct Truth {
    subjects: Vec<(ExecutionRow, Vec<Event>)>,
    elicitations: Vec<ElicitationRow>,
    grants: Vec<Grant>,
    session: SessionRow,
    token: TokenRow,
    audit: Vec<AuditRecord>,
}

async fn fill() -> Filled {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path()).unwrap();
    let first = Subject::new();
    let (grant, token) = (first.grant(), token(0));
    let (id, principal) = (first.session.clone(), first.requester.clone());
    let session = SessionRow { id, principal, client: "a client".into(), opened_at: at(0) };
    store.commit(Write { session: Some(session.clone()), ..create(&token) }).await.unwrap();
    store.commit(grants(vec![GrantWrite::Give(grant.clone())])).await.unwrap();
    let (mut subjects, mut elicitations) = (Vec::new(), Vec::new());
    for n in 0..30 {
        let subject = first.sibling().created(n).keyed(&format!("key {n}"));
        let asked = subject.elicitation(n, 1_000 + n);
        let id = asked.elicitation.id;
        store.commit(subject.ask(vec![asked])).await.unwrap();
        store.commit(subject.append(2, Status::Waiting, (0..n % 5).map(step).collect())).await.unwrap();
        if n % 2 == 0 {
            store.commit(subject.decide(2 + n % 5, id, &decision(Outcome::Denied))).await.unwrap();
        }
        elicitations.push(store.elicitation(id).await.unwrap().unwrap());
        let row = store.execution(subject.id).await.unwrap().unwrap();
        subjects.push((row, store.journal(subject.id).await.unwrap()));
    }
    let audit = store.audit(0, usize::MAX).await.unwrap();
    Filled { folder, truth: Truth { subjects, elicitations, grants: vec![grant], session, token, audit } }
}

fn file(folder: &Path) -> PathBuf {
    folder.join(FILE)
}

fn is_corrupt(folder: &Path) {
    let before = fs::read(file(folder)).unwrap();
    let refused = SqliteStore::open(folder).unwrap_err();
    let message = refused.to_string();
    assert!(matches!(refused, OpenError::Corrupt { .. }), "{refused:?}");
    assert!(message.contains(FILE) && message.contains("backup"), "{message}");
    assert_eq!(fs::read(file(folder)).unwrap(), before, "left as it is");
}

#[tokio::test]
async fn a_file_that_begins_with_garbage_is_refused() {
    let filled = fill().await;
    let folder = filled.folder.path();
    let mut bytes = fs::read(file(folder)).unwrap();
    bytes[..100].fill(b'?');
    fs::write(file(folder), bytes).unwrap();
    is_corrupt(folder);
}

#[tokio::test]
async fn a_file_that_was_cut_is_refused() {
    let filled = fill().await;
    let folder = filled.folder.path();
    let whole = fs::read(file(folder)).unwrap();
    for length in [0, 1, 100, 4_096, 5_000, whole.len() / 2, whole.len() - 4_096, whole.len() - 1] {
        fs::write(file(folder), &whole[..length]).unwrap();
        is_corrupt(folder);
    }
    fs::write(file(folder), &whole).unwrap();
    SqliteStore::open(folder).unwrap();
}

#[tokio::test]
async fn a_file_that_is_gone_while_its_log_is_there_is_refused() {
    let filled = fill().await;
    let folder = filled.folder.path();
    fs::remove_file(file(folder)).unwrap();
    fs::write(folder.join("countersign.db-wal"), "what was not yet in the file").unwrap();
    let refused = SqliteStore::open(folder).unwrap_err();
    assert!(matches!(refused, OpenError::Corrupt { .. }), "{refused:?}");
    assert!(!file(folder).exists());
}

#[tokio::test]
async fn an_audit_chain_that_ends_wrong_is_refused() {
    let filled = fill().await;
    let folder = filled.folder.path();
    let changed = "UPDATE audit SET entry = replace(entry, 'detail', 'DETAIL') WHERE seq = (SELECT max(seq) FROM audit)";
    rusqlite::Connection::open(file(folder)).unwrap().execute_batch(changed).unwrap();
    is_corrupt(folder);
}

/// Too large to be checked whole when it is opened, so the damage is met by whoever reads or writes there.
#[tokio::test]
async fn damage_met_later_stops_every_write() {
    let filled = fill().await;
    let folder = filled.folder.path();
    let store = SqliteStore::open(folder).unwrap();
    let value = Verbatim::of(&serde_json::json!("x".repeat(1_000_000))).unwrap();
    for _ in 0..20 {
        let subject = Subject::new();
        let body = EventBody::StepRecorded { call: CallNo(0), name: "large".into(), value: value.clone() };
        let events = vec![subject.started(), Event { at: at(1), body }];
        store.commit(subject.append(0, Status::Running, events)).await.unwrap();
    }
    drop(store);
    let database = rusqlite::Connection::open(file(folder)).unwrap();
    let index = "SELECT rootpage FROM sqlite_schema WHERE name = 'executions_by_id'";
    let page: u32 = database.query_row(index, [], |row| row.get(0)).unwrap();
    let page = page as usize;
    drop(database);
    let mut bytes = fs::read(file(folder)).unwrap();
    bytes[(page - 1) * 4_096..page * 4_096].fill(0xff);
    fs::write(file(folder), &bytes).unwrap();

    let store = SqliteStore::open(folder).unwrap();
    let known = filled.truth.subjects[0].0.id;
    assert!(matches!(store.journal(known).await, Err(StoreError::Corrupt(_))));
    for _ in 0..2 {
        let refused = store.commit(Subject::new().start()).await;
        assert!(matches!(&refused, Err(StoreError::Corrupt(what)) if what.contains("backup")), "{refused:?}");
    }
    let elsewhere = store.commit(create(&token(1))).await;
    assert!(matches!(elsewhere, Err(StoreError::Corrupt(_))), "nothing more is written into a damaged file");
    assert!(store.commit_soon(Subject::new().start()).is_err());
    drop(store);
    assert_eq!(fs::read(file(folder)).unwrap(), bytes, "left as it is");
}

#[tokio::test]
async fn a_changed_byte_anywhere_is_noticed_or_harmless() {
    let filled = fill().await;
    let whole = fs::read(file(filled.folder.path())).unwrap();
    let (mut refused, mut noticed, mut harmless) = (0, 0, 0);
    for n in 0..240 {
        let place = whole.len() * n / 240 + n % 97;
        let mut bytes = whole.clone();
        bytes[place] ^= [0x01, 0x80, 0xff][n % 3];
        let folder = tempfile::tempdir().unwrap();
        fs::write(file(folder.path()), bytes).unwrap();
        match SqliteStore::open(folder.path()) {
            Err(OpenError::Corrupt { .. } | OpenError::Newer { .. } | OpenError::Older { .. }) => {
                refused += 1;
            }
            Err(other) => panic!("byte {place}: {other:?}"),
            Ok(store) if agrees(&store, &filled.truth, place).await => harmless += 1,
            Ok(_) => noticed += 1,
        }
    }
    assert!(
        refused > 0 && noticed > 0 && harmless > 0,
        "{refused} refused, {noticed} noticed, {harmless} harmless"
    );
}

/// Whether everything reads as it was written. What reads as something else fails the test; what does not read, and says
/// so, is noticed damage.
async fn agrees(store: &SqliteStore, truth: &Truth, place: usize) -> bool {
    let mut agrees = true;
    for (row, journal) in &truth.subjects {
        let found = store.execution(row.id).await.map(|found| found.map(|found| facts(&found)));
        agrees &= holds(found, &Some(facts(row)), place);
        agrees &= holds(store.journal(row.id).await, journal, place);
    }
    for row in &truth.elicitations {
        agrees &= holds(store.elicitation(row.elicitation.id).await, &Some(row.clone()), place);
    }
    let executions = store.executions(ExecutionFilter::default(), Page::first(1_000)).await;
    let mut rows: Vec<_> = truth.subjects.iter().map(|(row, _)| facts(row)).collect();
    rows.reverse();
    let executions = executions.map(|found| Listing {
        items: found.items.iter().map(facts).collect(),
        next: found.next,
        damaged: found.damaged,
    });
    agrees &= lists(executions, &rows, place);
    let open = ElicitationFilter { open_only: true, ..Default::default() };
    let expected: Vec<_> = truth.elicitations.iter().filter(|row| row.decision.is_none()).cloned().collect();
    agrees &= lists(store.elicitations(open, Page::first(1_000)).await, &expected, place);
    agrees &= holds(store.grants(&truth.session.id).await, &truth.grants, place);
    agrees &= holds(store.session(&truth.session.id).await, &Some(truth.session.clone()), place);
    agrees &= holds(store.token_by_hash(truth.token.hash).await, &Some(truth.token.clone()), place);
    match store.audit(0, usize::MAX).await {
        // The store gives the chain as it is; whoever follows it notices.
        Ok(audit) => agrees &= audit == truth.audit || verify((0, Digest::ZERO), &audit).is_ok(),
        Err(error) => agrees &= holds(Err(error), &truth.audit, place),
    }
    agrees
}

/// Whether a list is the truth. What is missing must be named as damaged, and what is there must be true.
fn lists<T: PartialEq + std::fmt::Debug>(
    found: Result<Listing<T>, StoreError>,
    truth: &Vec<T>,
    place: usize,
) -> bool {
    match found {
        Ok(found) if !found.damaged.is_empty() => {
            assert!(found.items.iter().all(|item| truth.contains(item)), "byte {place}: {found:?}");
            assert_eq!(found.items.len() + found.damaged.len(), truth.len(), "byte {place}");
            false
        }
        found => holds(found.map(|found| found.items), truth, place),
    }
}

#[tokio::test]
async fn a_damaged_row_is_named_in_its_place_and_the_others_are_listed() {
    let filled = fill().await;
    let folder = filled.folder.path();
    let database = rusqlite::Connection::open(file(folder)).unwrap();
    let changed = database
        .execute(
            "UPDATE journal SET body = replace(body, '\"message\"', '\"massage\"')
             WHERE no = (SELECT asked FROM elicitations WHERE no = 2)",
            [],
        )
        .unwrap();
    assert_eq!(changed, 1);
    database.execute("UPDATE elicitations SET expires_at = expires_at + 1 WHERE no = 14", []).unwrap();
    database.execute("UPDATE executions SET session = requester WHERE no = 4", []).unwrap();
    drop(database);
    let store = SqliteStore::open(folder).unwrap();
    let all = &filled.truth.elicitations;
    let (mut items, mut damaged, mut page) = (Vec::new(), Vec::new(), Page::first(7));
    loop {
        let found = store.elicitations(ElicitationFilter::default(), page).await.unwrap();
        assert!(found.items.len() + found.damaged.len() <= 7);
        items.extend(found.items);
        damaged.extend(found.damaged);
        let Some(cursor) = found.next else { break };
        page = Page { cursor: Some(cursor), limit: 7 };
    }
    let ids: Vec<String> = damaged.iter().map(|row| row.id.clone()).collect();
    let expected: Vec<String> = [1, 3, 13].map(|n: usize| all[n].elicitation.id.to_string()).into();
    assert_eq!(ids, expected, "also the one whose execution was changed");
    assert_eq!(damaged[0].execution, Some(all[1].execution));
    assert_eq!(damaged[0].at, all[1].asked_at, "when its execution began");
    assert!(damaged[0].problem.contains("changed since it was written"), "{:?}", damaged[0]);
    let whole: Vec<_> =
        all.iter().filter(|row| !ids.contains(&row.elicitation.id.to_string())).cloned().collect();
    assert_eq!(items, whole);

    let executions = store.executions(ExecutionFilter::default(), Page::first(1_000)).await.unwrap();
    assert_eq!((executions.items.len(), executions.damaged.len()), (29, 1));
    assert_eq!(executions.damaged[0].id, all[3].execution.to_string());
    let one = store.elicitation(all[1].elicitation.id).await;
    assert!(matches!(one, Err(StoreError::Corrupt(_))), "alone it is an error: {one:?}");
}

/// What follows from the journal alone, and can be made again from it, is not guarded by a checksum.
fn facts(row: &ExecutionRow) -> ExecutionRow {
    ExecutionRow { tool: None, updated_at: at(0), ..row.clone() }
}

fn holds<T: PartialEq + std::fmt::Debug>(found: Result<T, StoreError>, truth: &T, place: usize) -> bool {
    match found {
        Ok(found) => {
            assert_eq!(found, *truth, "byte {place}");
            true
        }
        Err(StoreError::Corrupt(_)) => false,
        Err(other) => panic!("byte {place}: {other:?}"),
    }
}
