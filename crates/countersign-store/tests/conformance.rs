//! The store on SQLite keeps every promise of a store.

#![expect(clippy::unwrap_used, reason = "what a test cannot make or read fails it")]

use std::sync::Arc;

use countersign_kernel::ports::Store;
use countersign_store::SqliteStore;

countersign_testkit::store_conformance!(
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    make
);

async fn make() -> (Arc<dyn Store>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    (Arc::new(SqliteStore::open(folder.path()).unwrap()), folder)
}
