//! A process that is killed: nothing acknowledged is lost, and the folder has no owner any more.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;

use countersign_core::audit::verify;
use countersign_core::digest::Digest;
use countersign_core::ids::ExecutionId;
use countersign_kernel::ports::Store as _;
use countersign_store::{OpenError, SqliteStore};
use countersign_testkit::conformance::subject::Subject;

const FOLDER: &str = "COUNTERSIGN_TEST_FOLDER";
const WORD: &str = "acknowledged ";

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "a kill needs a process")]
async fn what_was_acknowledged_survives_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_child_commits_until_it_is_killed", "--nocapture"])
        .env(FOLDER, folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut acknowledged =
        lines.filter_map(|line| Some(line.split_once(WORD)?.1.parse::<ExecutionId>().unwrap()));
    let mut ids: Vec<ExecutionId> = acknowledged.by_ref().take(300).collect();
    let refused = SqliteStore::open(folder.path()).err();
    assert!(
        matches!(refused, Some(OpenError::InUse { pid: Some(pid), .. }) if pid == child.id()),
        "{refused:?}"
    );
    child.kill().unwrap();
    child.wait().unwrap();
    ids.extend(acknowledged);

    let store = SqliteStore::open(folder.path()).unwrap();
    assert!(ids.len() >= 300);
    for id in ids {
        assert_eq!(store.journal(id).await.unwrap().len(), 1, "{id} was acknowledged");
    }
    verify((0, Digest::ZERO), &store.audit(0, usize::MAX).await.unwrap()).unwrap();
}

/// Does nothing where it is not the child of the test above.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::disallowed_methods, reason = "how the child hears of its folder")]
async fn a_child_commits_until_it_is_killed() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let store = Arc::new(SqliteStore::open(folder.as_ref()).unwrap());
    for _ in 0..8 {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            loop {
                let subject = Subject::new();
                store.commit(subject.start()).await.unwrap();
                println!("{WORD}{}", subject.id);
            }
        });
    }
    std::future::pending::<()>().await;
}
