//! Full disks and read-only ones. They need a small file system of their own, which takes root to mount. Root that cannot mount one
//! fails these tests, so that CI, which runs as root, never passes without having filled a disk. Anybody else is told why they
//! did not run; `writer.rs` has one that makes do without.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "what a test cannot make or read fails it")]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use countersign_core::audit::verify;
use countersign_core::canonical::Verbatim;
use countersign_core::digest::Digest;
use countersign_core::event::{Event, EventBody};
use countersign_core::execution::Status;
use countersign_core::ids::CallNo;
use countersign_kernel::ports::{Store, StoreError, Write};
use countersign_store::{OpenError, SqliteStore};
use countersign_testkit::conformance::subject::{Subject, at};

/// How a child hears of its folder.
const FOLDER: &str = "COUNTERSIGN_TEST_READ_ONLY";
/// What a child says whose store was refused.
const REFUSED: &str = "refused and named";

/// A small disk, unmounted when it is dropped.
struct Disk(tempfile::TempDir);

impl Disk {
    /// A new one; nothing where whoever runs the tests may not mount.
    fn mount(size: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        if !is_root(folder.path()) {
            println!("not run: a disk of its own takes root to mount. Run it as root, or see it run in CI.");
            return None;
        }
        let options = format!("size={size}");
        run("mount", &["-t", "tmpfs", "-o", &options, "tmpfs", path(folder.path())]);
        let disk = Self(folder);
        let types = fs::read_to_string("/proc/mounts").unwrap();
        assert!(types.contains(&format!("tmpfs {} tmpfs", path(disk.0.path()))), "it is mounted");
        Some(disk)
    }

    fn data(&self) -> std::path::PathBuf {
        self.0.path().join("data")
    }

    fn make_read_only(&self) {
        run("mount", &["-o", "remount,ro", path(self.0.path())]);
    }

    /// Fills it to the last byte.
    fn fill(&self) {
        let mut filler = fs::File::create(self.0.path().join("filler")).unwrap();
        for size in [65_536, 4_096, 1] {
            while std::io::Write::write_all(&mut filler, &vec![0; size]).is_ok() {}
        }
    }

    /// Cuts the file rather than removing it: a program that another test is just starting may still have it open.
    fn make_room(&self) {
        fs::File::create(self.0.path().join("filler")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        run("umount", &["--lazy", path(self.0.path())]);
    }
}

#[expect(clippy::disallowed_methods, reason = "mounting takes a program")]
fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Whether what this process makes is root's.
fn is_root(made: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    fs::metadata(made).unwrap().uid() == 0
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A change of 64 KiB.
fn large(subject: &Subject) -> Write {
    let value = Verbatim::of(&serde_json::json!("x".repeat(65_536))).unwrap();
    let body = EventBody::StepRecorded { call: CallNo(0), name: "large".into(), value };
    subject.append(0, Status::Running, vec![subject.started(), Event { at: at(1), body }])
}

fn is_unavailable(result: &Result<impl Sized, StoreError>) -> bool {
    matches!(result, Err(StoreError::Unavailable(_)))
}

/// Whether it comes to be so that the store can, or cannot, write.
async fn comes_to_write(store: &SqliteStore) -> bool {
    for _ in 0..200 {
        if store.check_writable().is_ok() {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    false
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_whose_disk_is_full_says_so_and_finds_out_by_itself_that_there_is_room_again() {
    let Some(disk) = Disk::mount("8m") else { return };
    let store = SqliteStore::open(&disk.data()).unwrap();
    store.commit(large(&Subject::new())).await.unwrap();
    store.check_writable().unwrap();
    disk.fill();
    while store.commit(large(&Subject::new())).await.is_ok() {}
    let refused = store.check_writable();
    assert!(is_unavailable(&refused), "{refused:?}");
    // A change that is refused for what it says writes nothing, and shows nothing.
    let gone = countersign_kernel::ports::GrantWrite::Use { id: Subject::new().grant().id, now: at(0) };
    let refused = store.commit(Write { grants: vec![gone], ..Write::default() }).await;
    assert!(
        matches!(refused, Err(StoreError::GrantGone(_)) | Err(StoreError::Unavailable(_))),
        "{refused:?}"
    );
    assert!(is_unavailable(&store.check_writable()));
    disk.make_room();
    assert!(comes_to_write(&store).await, "nobody wrote anything meanwhile");
    store.commit(large(&Subject::new())).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_acknowledges_nothing_keeps_everything_and_recovers() {
    let Some(disk) = Disk::mount("8m") else { return };
    let store = Arc::new(SqliteStore::open(&disk.data()).unwrap());
    let kept = Subject::new();
    store.commit(large(&kept)).await.unwrap();
    disk.fill();

    let subjects: Vec<Subject> = (0..50).map(|_| Subject::new()).collect();
    let commits = subjects.iter().map(|subject| {
        let (store, write) = (Arc::clone(&store), large(subject));
        tokio::spawn(async move { store.commit(write).await })
    });
    let (mut written, mut failed) = (vec![kept], Vec::new());
    for (commit, subject) in commits.collect::<Vec<_>>().into_iter().zip(&subjects) {
        match commit.await.unwrap() {
            Ok(_) => written.push(subject.clone()),
            Err(StoreError::Unavailable(cause)) => {
                let cause = std::error::Error::source(&*cause).unwrap().to_string();
                assert!(cause.contains("full"), "{cause}");
                failed.push(subject.clone());
            }
            Err(other) => panic!("{other:?}"),
        }
    }
    assert!(failed.len() > 1);
    agrees(&store, &written, &failed).await;
    assert!(is_unavailable(&store.commit_soon(Subject::new().start())), "refused, not dropped");

    disk.make_room();
    let after = Subject::new();
    store.commit(large(&after)).await.unwrap();
    store.commit_soon(Subject::new().start()).unwrap();
    written.push(after);
    agrees(&store, &written, &failed).await;
    drop(store);
    agrees(&SqliteStore::open(&disk.data()).unwrap(), &written, &failed).await;
}

async fn agrees(store: &SqliteStore, written: &[Subject], failed: &[Subject]) {
    for subject in written {
        assert_eq!(store.journal(subject.id).await.unwrap().len(), 2, "acknowledged");
    }
    for subject in failed {
        assert_eq!(store.journal(subject.id).await.unwrap(), [], "not acknowledged");
        assert_eq!(store.execution(subject.id).await.unwrap(), None);
    }
    let audit = store.audit(0, usize::MAX).await.unwrap();
    verify((0, Digest::ZERO), &audit).unwrap();
    let failed: Vec<String> = failed.iter().map(|subject| subject.id.to_string()).collect();
    assert!(!audit.iter().any(|record| failed.iter().any(|id| record.entry.contains(id))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_accepted_on_a_full_disk_is_written_when_there_is_room() {
    let Some(disk) = Disk::mount("8m") else { return };
    let store = SqliteStore::open(&disk.data()).unwrap();
    disk.fill();
    let accepted = Subject::new();
    store.commit_soon(large(&accepted)).unwrap();
    while !is_unavailable(&store.commit_soon(Subject::new().start())) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(store.journal(accepted.id).await.unwrap(), []);
    disk.make_room();
    for _ in 0..1_000 {
        if store.journal(accepted.id).await.unwrap().len() == 2 {
            return store.commit_soon(Subject::new().start()).unwrap();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never written");
}

#[tokio::test]
async fn a_medium_that_is_back_is_noticed_without_anybody_writing() {
    let Some(disk) = Disk::mount("8m") else { return };
    let store = SqliteStore::open(&disk.data()).unwrap();
    disk.fill();
    assert!(is_unavailable(&store.commit(large(&Subject::new())).await));
    assert!(is_unavailable(&store.commit_soon(Subject::new().start())));
    disk.make_room();
    for _ in 0..1_000 {
        if store.commit_soon(Subject::new().start()).is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never noticed");
}

#[test]
fn a_disk_that_is_full_from_the_start_is_an_error_that_leaves_no_database() {
    let Some(disk) = Disk::mount("8m") else { return };
    fs::create_dir(disk.data()).unwrap();
    disk.fill();
    let refused = SqliteStore::open(&disk.data()).unwrap_err();
    assert!(!disk.data().join("countersign.db").exists(), "{refused}");
    disk.make_room();
    SqliteStore::open(&disk.data()).unwrap();
}

#[test]
fn a_read_only_disk_is_refused_and_named() {
    let Some(disk) = Disk::mount("8m") else { return };
    drop(SqliteStore::open(&disk.data()).unwrap());
    disk.make_read_only();
    let refused = SqliteStore::open(&disk.data()).unwrap_err();
    let message = refused.to_string();
    assert!(matches!(refused, OpenError::Folder { .. }), "{refused:?}");
    assert!(message.contains("data") && message.to_lowercase().contains("read-only"), "{message}");
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "root may write everything, so that another user opens the store"
)]
fn a_read_only_file_is_refused_and_named() {
    use std::os::unix::fs::{PermissionsExt as _, chown};
    use std::os::unix::process::CommandExt as _;
    const NOBODY: u32 = 65_534;
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("data");
    drop(SqliteStore::open(&folder).unwrap());
    let file = folder.join("countersign.db");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o400)).unwrap();
    if !is_root(home.path()) {
        return refuses_a_read_only_file(&folder);
    }
    // The folder of the test program may be closed to others.
    let program = home.path().join("program");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
    for owned in fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).chain([folder.clone()]) {
        chown(owned, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let mut child = Command::new(program);
    child.args(["--exact", "a_child_opens_a_read_only_file", "--nocapture"]).env(FOLDER, &folder);
    let output = child.uid(NOBODY).gid(NOBODY).current_dir("/").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains(REFUSED), "{output:?}");
}

/// Does nothing where it is not the child of the test above.
#[test]
fn a_child_opens_a_read_only_file() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    refuses_a_read_only_file(folder.as_ref());
}

fn refuses_a_read_only_file(folder: &Path) {
    let refused = SqliteStore::open(folder).unwrap_err();
    assert!(matches!(refused, OpenError::ReadOnly { .. }), "{refused:?}");
    assert!(refused.to_string().contains("write access"), "{refused}");
    println!("{REFUSED}");
}
