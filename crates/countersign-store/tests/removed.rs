//! Files that are removed, replaced or moved under an open store: noticed before anything is answered with success.

#![expect(clippy::unwrap_used, reason = "what a test cannot make or read fails it")]

use std::fs;
use std::path::Path;

use countersign_kernel::ports::{Page, Store, StoreError};
use countersign_store::SqliteStore;
use countersign_testkit::conformance::subject::Subject;

/// The ways in which a folder can lose a file, each with what puts it back.
type Way = (&'static str, fn(&Path), fn(&Path));

const DATABASE: &str = "countersign.db";
const LOG: &str = "countersign.db-wal";
const LOCK: &str = "countersign.lock";

fn ways() -> Vec<Way> {
    fn hide(folder: &Path, name: &str) {
        fs::rename(folder.join(name), folder.join("hidden")).unwrap();
    }
    fn bring_back(folder: &Path, name: &str) {
        fs::rename(folder.join("hidden"), folder.join(name)).unwrap();
    }
    fn replace(folder: &Path, name: &str) {
        hide(folder, name);
        fs::copy(folder.join("hidden"), folder.join(name)).unwrap();
    }
    fn elsewhere(folder: &Path) -> std::path::PathBuf {
        folder.with_extension("elsewhere")
    }
    vec![
        ("the database is removed", |f| hide(f, DATABASE), |f| bring_back(f, DATABASE)),
        ("the log is removed", |f| hide(f, LOG), |f| bring_back(f, LOG)),
        ("the lock is removed", |f| hide(f, LOCK), |f| bring_back(f, LOCK)),
        ("the database is another file", |f| replace(f, DATABASE), |f| bring_back(f, DATABASE)),
        ("the lock is another file", |f| replace(f, LOCK), |f| bring_back(f, LOCK)),
        (
            "the folder is moved",
            |f| fs::rename(f, elsewhere(f)).unwrap(),
            |f| fs::rename(elsewhere(f), f).unwrap(),
        ),
    ]
}

fn is_unavailable<T: std::fmt::Debug>(way: &str, result: &Result<T, StoreError>) {
    assert!(matches!(result, Err(StoreError::Unavailable(_))), "{way}: {result:?}");
}

#[tokio::test]
async fn nothing_is_answered_with_success_once_a_file_is_gone_also_when_it_comes_back() {
    for (way, remove, put_back) in ways() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("data");
        let store = SqliteStore::open(&folder).unwrap();
        let before = Subject::new();
        store.commit(before.start()).await.unwrap();

        remove(&folder);
        let after = Subject::new();
        is_unavailable(way, &store.commit(after.start()).await);
        is_unavailable(way, &store.execution(before.id).await);
        is_unavailable(way, &store.elicitations(Default::default(), Page::first(10)).await);
        is_unavailable(way, &store.standing().await);
        is_unavailable(way, &store.commit_soon(Subject::new().start()));

        put_back(&folder);
        is_unavailable(way, &store.commit(Subject::new().start()).await);
        is_unavailable(way, &store.execution(before.id).await);
        drop(store);

        let again = SqliteStore::open(&folder).unwrap();
        assert!(again.execution(before.id).await.unwrap().is_some(), "{way}: what was acknowledged is there");
        assert!(again.execution(after.id).await.unwrap().is_none(), "{way}: what was not is not");
        again.commit(Subject::new().start()).await.unwrap();
    }
}

#[tokio::test]
async fn a_read_alone_notices_it() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("data");
    let store = SqliteStore::open(&folder).unwrap();
    store.standing().await.unwrap();
    fs::remove_file(folder.join(LOCK)).unwrap();
    let refused = store.standing().await.unwrap_err();
    let cause = std::error::Error::source(&refused).unwrap().to_string();
    assert!(cause.contains(LOCK) && cause.contains("start it again"), "{cause}");
}
