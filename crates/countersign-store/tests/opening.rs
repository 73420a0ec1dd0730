//! Opening: who may, what is made, and what is refused with a message that says what to do.

#![expect(clippy::unwrap_used, reason = "what a test cannot make or read fails it")]

use std::fs;
use std::path::Path;

use countersign_core::execution::Status;
use countersign_kernel::ports::Store as _;
use countersign_store::{OpenError, SqliteOptions, SqliteStore, Synchronous};
use countersign_testkit::conformance::subject::Subject;
use rusqlite::Connection;

fn refusal(folder: &Path) -> OpenError {
    SqliteStore::open(folder).unwrap_err()
}

#[test]
fn a_folder_has_one_owner_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let owner = SqliteStore::open(folder.path()).unwrap();
    let refused = refusal(folder.path());
    assert!(
        matches!(refused, OpenError::InUse { pid: Some(pid), .. } if pid == std::process::id()),
        "{refused:?}"
    );
    let message = refused.to_string();
    assert!(message.contains(&folder.path().display().to_string()), "{message}");
    assert!(message.contains(&format!("process {}", std::process::id())), "{message}");
    drop(owner);
    SqliteStore::open(folder.path()).unwrap();
}

#[test]
fn the_folder_is_made_and_only_its_owner_may_look_inside() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("a").join("b");
    let store = SqliteStore::open(&folder).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&folder), 0o700);
        let files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(files.len() >= 2);
        for file in files {
            assert_eq!(mode(&file), 0o600, "{}", file.display());
        }
    }
    drop(store);
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let parent = tempfile::tempdir().unwrap();
    let file = parent.path().join("file");
    fs::write(&file, "not a folder").unwrap();
    let refused = refusal(&file.join("data"));
    assert!(matches!(refused, OpenError::Folder { .. }), "{refused:?}");
    assert!(refused.to_string().contains("file"), "{refused}");
}

#[tokio::test]
async fn what_was_acknowledged_is_there_when_the_store_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let (subject, soon) = (Subject::new(), Subject::new());
    for round in 0..3 {
        let store = SqliteStore::open(folder.path()).unwrap();
        if round == 0 {
            store.commit(subject.start()).await.unwrap();
            store.commit_soon(soon.start()).unwrap();
        }
        drop(store);
    }
    let store = SqliteStore::open(folder.path()).unwrap();
    assert_eq!(store.journal(subject.id).await.unwrap(), [subject.started()]);
    assert_eq!(
        store.journal(soon.id).await.unwrap(),
        [soon.started()],
        "dropping the store writes what is queued"
    );
    let before = store.audit(0, 9).await.unwrap().last().unwrap().seq;
    let after = store.commit(subject.append(1, Status::Failed, vec![subject.started()])).await.unwrap();
    assert_eq!(after.audit_seq, before + 1, "numbers go on");
}

#[tokio::test]
async fn the_bench_option_stores_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let options = SqliteOptions { synchronous: Synchronous::Off, ..SqliteOptions::default() };
    let store = SqliteStore::open_with(folder.path(), &options).unwrap();
    let subject = Subject::new();
    store.commit(subject.start()).await.unwrap();
    assert_eq!(store.journal(subject.id).await.unwrap(), [subject.started()]);
    assert_eq!((store.stats().commits, store.stats().commands), (1, 1));
}

#[test]
fn a_newer_database_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    drop(SqliteStore::open(folder.path()).unwrap());
    let file = folder.path().join("countersign.db");
    Connection::open(&file).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let before = fs::read(&file).unwrap();
    let refused = refusal(folder.path());
    assert!(matches!(refused, OpenError::Newer { found: 99, .. }), "{refused:?}");
    assert!(refused.to_string().contains("newer version"), "{refused}");
    assert_eq!(fs::read(&file).unwrap(), before);
}

#[test]
fn a_database_of_the_first_shape_is_refused_with_what_to_do_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    drop(SqliteStore::open(folder.path()).unwrap());
    let file = folder.path().join("countersign.db");
    Connection::open(&file).unwrap().pragma_update(None, "user_version", 9).unwrap();
    let before = fs::read(&file).unwrap();
    let refused = refusal(folder.path());
    assert!(matches!(refused, OpenError::Older { found: 9, .. }), "{refused:?}");
    let message = refused.to_string();
    assert!(message.contains("early version") && message.contains("move the data folder away"), "{message}");
    assert_eq!(fs::read(&file).unwrap(), before);
}

#[test]
fn a_database_without_tables_gets_them_and_one_that_lacks_a_table_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    drop(SqliteStore::open(folder.path()).unwrap());
    let file = folder.path().join("countersign.db");
    let database = Connection::open(&file).unwrap();
    database.execute_batch("DROP TABLE elicitations").unwrap();
    drop(database);
    assert!(matches!(refusal(folder.path()), OpenError::Corrupt { .. }));

    fs::remove_file(&file).unwrap();
    let database = Connection::open(&file).unwrap();
    database.pragma_update(None, "application_id", 0x4353_474e).unwrap();
    drop(database);
    drop(SqliteStore::open(folder.path()).unwrap());
}

#[test]
fn a_database_of_another_program_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("countersign.db");
    Connection::open(&file).unwrap().execute_batch("CREATE TABLE theirs (x)").unwrap();
    let before = fs::read(&file).unwrap();
    let refused = refusal(folder.path());
    assert!(matches!(refused, OpenError::Corrupt { .. }), "{refused:?}");
    assert_eq!(fs::read(&file).unwrap(), before);
}

#[test]
fn a_crash_while_the_database_was_made_is_no_obstacle() {
    let folder = tempfile::tempdir().unwrap();
    for leftover in ["countersign.db.new", "countersign.db.new-journal", "countersign.lock"] {
        fs::write(folder.path().join(leftover), "half of something").unwrap();
    }
    drop(SqliteStore::open(folder.path()).unwrap());
    assert!(!folder.path().join("countersign.db.new").exists());
    SqliteStore::open(folder.path()).unwrap();
}

#[tokio::test]
async fn a_queue_that_is_full_says_so_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let options = SqliteOptions { queue_bound: 4, ..SqliteOptions::default() };
    let store = std::sync::Arc::new(SqliteStore::open_with(folder.path(), &options).unwrap());
    let subjects: Vec<Subject> = (0..300).map(|_| Subject::new()).collect();
    let commits = subjects.iter().map(|subject| store.commit(subject.start()));
    let mut tasks = Vec::new();
    for (commit, subject) in commits.zip(&subjects) {
        tasks.push(async move { (subject, commit.await) });
    }
    let mut refused = 0;
    for (subject, result) in join_all(tasks).await {
        let stored = store.journal(subject.id).await.unwrap().len();
        match result {
            Ok(_) => assert_eq!(stored, 1),
            Err(countersign_kernel::ports::StoreError::Overloaded) => {
                assert_eq!(stored, 0);
                refused += 1;
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert!(refused > 0 && refused < 300, "{refused}");
}

/// Polls all of them before any is awaited for longer, so that they meet in the queue.
async fn join_all<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut waiting: Vec<_> = futures.into_iter().map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|context| {
        let mut pending = false;
        for (future, output) in waiting.iter_mut().filter(|(_, output)| output.is_none()) {
            match future.as_mut().poll(context) {
                std::task::Poll::Ready(value) => *output = Some(value),
                std::task::Poll::Pending => pending = true,
            }
        }
        if pending { std::task::Poll::Pending } else { std::task::Poll::Ready(()) }
    })
    .await;
    waiting.into_iter().filter_map(|(_, output)| output).collect()
}
