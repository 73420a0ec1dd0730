//! What a record costs on disk.

#![expect(clippy::unwrap_used, reason = "what a test cannot make or read fails it")]

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use countersign_kernel::ExecutionResult;
use countersign_sdk::{Ctx, Plugin, Tool, ToolError};
use countersign_store::SqliteStore;
use countersign_testkit::lab::What;
use countersign_testkit::world::{InTests as _, World};
use serde_json::json;

const CALLS: u64 = 20;
const VALUE_BYTES: u64 = 1_000_000;

/// Calls a tool that gives back its arguments, and says how many bytes each call left in the folder.
async fn bytes_for_each_call_of(tool: &str) -> (u64, ExecutionResult) {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(1);
    let store = SqliteStore::open(folder.path()).unwrap();
    let gateway = world.start_with(world.builder(Arc::new(store)).plugin(reader())).await;
    let what = "x".repeat(usize::try_from(VALUE_BYTES).unwrap());
    let mut last = None;
    for _ in 0..CALLS {
        let answer = gateway.ask(tool, json!({ "what": what })).await.unwrap();
        assert_eq!(answer.value.as_ref().unwrap()["what"], what, "whoever waits for it gets it whole");
        last = Some(answer.execution);
    }
    // Whoever reads finds what was queued.
    let read_later = gateway.result(last.unwrap()).await.unwrap().unwrap();
    gateway.close(Duration::from_secs(5)).await;
    drop(gateway);
    while SqliteStore::open(folder.path()).is_err() {
        // The last driver may hold the store for a moment longer than its gateway.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let each = bytes_in(folder.path()) / CALLS;
    println!("{each} bytes for each call of {tool} with {VALUE_BYTES}");
    (each, read_later)
}

/// A tool that says that it only looks; `lab.read` says nothing, and so counts as one that writes.
fn reader() -> Plugin {
    let look = Tool::new("reader.look")
        .name("Look")
        .describe("Gives back what it gets.")
        .read_only()
        .handler(async |_: Ctx, input: What| -> Result<What, ToolError> { Ok(input) });
    Plugin::new("reader", "Reader", "Looks.").tool(look)
}

fn bytes_in(folder: &Path) -> u64 {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}

#[tokio::test]
async fn a_large_read_is_stored_as_its_size_and_digest() {
    let (each, read_later) = bytes_for_each_call_of("reader.look").await;
    assert!(each < 20_000, "{each} bytes each");
    let value = read_later.value.unwrap();
    assert_eq!(value["countersign/notKept"]["bytes"], json!(VALUE_BYTES + r#"{"what":""}"#.len() as u64));
}

#[tokio::test]
async fn a_large_write_stores_its_arguments_once_and_its_result_once() {
    let (each, read_later) = bytes_for_each_call_of("lab.read").await;
    assert!(each < 2 * VALUE_BYTES + VALUE_BYTES / 10, "{each} bytes each");
    assert_eq!(read_later.value.unwrap()["what"].as_str().unwrap().len() as u64, VALUE_BYTES);
}
