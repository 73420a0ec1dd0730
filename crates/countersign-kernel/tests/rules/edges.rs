//! Faults of the first kernel that were mended, one file each: every test reads as one sentence of the promise.

mod bounds;
mod callbacks;
mod commits;
mod deaths;
mod deploys;
mod engine;
mod expiry;
mod owners;
mod panics;
mod questions;
mod recovery;
mod starts;
mod tokens;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use countersign_core::event::EventBody;
use countersign_core::execution::Status;
use countersign_core::ids::CallNo;
use countersign_kernel::{ExecutionResult, Gateway};
use countersign_testkit::world::World;
use serde_json::{Value, json};

use crate::held_store::HeldStore;

const CALL: CallNo = CallNo(0);
/// Longer than any pause between two tries.
const A_WHILE: Duration = Duration::from_secs(60);

fn note() -> Value {
    json!({ "what": "note 7" })
}

async fn on_a_held_store(world: &World) -> (Gateway, HeldStore) {
    let store = HeldStore::new(world.disk.clone());
    (world.start_with(world.builder(Arc::new(store.clone()))).await, store)
}

async fn status(gateway: &Gateway, of: &ExecutionResult) -> Status {
    gateway.result(of.execution).await.unwrap().unwrap().status
}

/// Why a call was last found in doubt.
async fn doubt(gateway: &Gateway, of: &ExecutionResult) -> String {
    let journal = gateway.journal(of.execution).await.unwrap();
    let reasons = journal.iter().rev().find_map(|event| match &event.body {
        EventBody::FoundInDoubt { reason, .. } => Some(reason.clone()),
        _ => None,
    });
    reasons.unwrap().unwrap_or_default()
}
