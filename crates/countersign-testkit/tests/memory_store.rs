//! The store in memory keeps every promise of a store.

use std::sync::Arc;

use countersign_kernel::ports::Store;
use countersign_testkit::memory_store::MemoryStore;

countersign_testkit::store_conformance!(
    #[tokio::test]
    make
);

async fn make() -> (Arc<dyn Store>, ()) {
    (Arc::new(MemoryStore::new()), ())
}

#[tokio::test]
async fn the_promises_can_be_checked_in_one_go() {
    countersign_testkit::conformance::all(make).await;
}
