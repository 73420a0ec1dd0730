//! What a record costs on disk.

#![expect(clippy::unwrap_used, reason = "what a test cannot make or read fails it")]

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use countersign_store::SqliteStore;
use countersign_testkit::world::{InTests as _, World};
use serde_json::json;

const READS: u64 = 20;
const VALUE_BYTES: u64 = 1_000_000;

fn bytes_in(folder: &Path) -> u64 {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}

/// `lab.read` gives back its arguments, so that they and the result are there to be stored: each once.
#[tokio::test]
async fn a_large_read_stores_its_arguments_once_and_its_result_once() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(1);
    let store = SqliteStore::open(folder.path()).unwrap();
    let gateway = world.start_with(world.builder(Arc::new(store))).await;
    let what = "x".repeat(usize::try_from(VALUE_BYTES).unwrap());
    let mut last = None;
    for _ in 0..READS {
        last = Some(gateway.ask("lab.read", json!({ "what": what })).await.unwrap());
    }
    let last = last.unwrap();
    // Whoever reads finds what was queued, and finds it whole.
    let journal = gateway.journal(last.execution).await.unwrap();
    assert_eq!(journal.iter().filter(|e| serde_json::to_string(e).unwrap().contains(&what)).count(), 3);
    assert_eq!(gateway.result(last.execution).await.unwrap().unwrap().value, last.value);
    gateway.close(Duration::from_secs(5)).await;
    drop(gateway);
    while SqliteStore::open(folder.path()).is_err() {
        // The last driver may hold the store for a moment longer than its gateway.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let each = bytes_in(folder.path()) / READS;
    println!("{each} bytes for each read of {VALUE_BYTES}");
    assert!(each < 2 * VALUE_BYTES + VALUE_BYTES / 10, "{each} bytes each");
}
