//! A medium that takes writes and cannot make them last: nothing is acknowledged there (R5).
//!
//! A filter of system calls refuses `fsync`. It cannot be taken off again, so it is put on a process of its own.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "what a test cannot make or read fails it")]

use std::collections::BTreeMap;
use std::process::Command;

use countersign_kernel::ports::{Store as _, StoreError};
use countersign_store::SqliteStore;
use countersign_testkit::conformance::subject::Subject;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

const FOLDER: &str = "COUNTERSIGN_TEST_FOLDER";

#[test]
#[expect(clippy::disallowed_methods, reason = "what loses its fsync is a process of its own")]
fn what_the_medium_could_not_sync_is_not_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_child_commits_with_fsync_and_without", "--nocapture"])
        .env(FOLDER, folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success(), "{said}{}", String::from_utf8_lossy(&child.stderr));
    assert!(said.contains("with fsync: acknowledged"), "{said}");
    assert!(said.contains("without fsync: refused"), "{said}");
}

/// Does nothing where it is not the child of the test above.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "how the child hears of its folder")]
async fn a_child_commits_with_fsync_and_without() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let store = SqliteStore::open(folder.as_ref()).unwrap();
    let commit = async || match store.commit(Subject::new().start()).await {
        Ok(_) => "acknowledged",
        Err(StoreError::Unavailable(_)) => "refused",
        Err(other) => panic!("{other}"),
    };
    println!("with fsync: {}", commit().await);
    refuse_fsync();
    println!("without fsync: {}", commit().await);
}

/// From here on no thread of this process makes anything last.
fn refuse_fsync() {
    let rules = BTreeMap::from([(libc::SYS_fsync, vec![]), (libc::SYS_fdatasync, vec![])]);
    let refusal = SeccompAction::Errno(libc::EIO.unsigned_abs());
    let machine = TargetArch::try_from(std::env::consts::ARCH).unwrap();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refusal, machine).unwrap();
    seccompiler::apply_filter_all_threads(&BpfProgram::try_from(filter).unwrap()).unwrap();
}
