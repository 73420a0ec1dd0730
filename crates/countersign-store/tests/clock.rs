//! What a clock that goes back cannot undo, with a real file and a restart in between.

#![expect(clippy::unwrap_used, reason = "what a test cannot make or read fails it")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use countersign_core::policy::PathPattern;
use countersign_kernel::{Gateway, NewGrant};
use countersign_store::SqliteStore;
use countersign_testkit::world::{InTests as _, World, ann, session};
use serde_json::json;

async fn started(world: &World, folder: &Path) -> Gateway {
    world.start_with(world.builder(Arc::new(SqliteStore::open(folder).unwrap()))).await
}

#[tokio::test]
async fn a_remembered_approval_that_was_seen_expired_stays_so_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(1);
    let gateway = started(&world, folder.path()).await;
    let (pattern, end) =
        (PathPattern::parse("lab.destroy").unwrap(), gateway.now().after(Duration::from_secs(3_600)));
    let grant = NewGrant { expires_at: Some(end), ..NewGrant::new(session(), pattern) };
    gateway.give_grant(&ann(), grant).await.unwrap();
    let what = json!({ "what": "x" });
    assert!(gateway.ask("lab.destroy", what.clone()).await.unwrap().success());
    world.clock.jump(7_200_000);
    assert!(gateway.ask("lab.destroy", what.clone()).await.unwrap().paused().is_some());
    gateway.close(Duration::from_secs(5)).await;
    drop(gateway);
    world.clock.jump(-7_200_000);

    let gateway = loop {
        // The last driver may hold the store for a moment longer than its gateway.
        match SqliteStore::open(folder.path()) {
            Ok(store) => break world.start_with(world.builder(Arc::new(store))).await,
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    assert!(gateway.now() < end, "the clock went back");
    assert!(gateway.ask("lab.destroy", what).await.unwrap().paused().is_some());
}
