//! A callback that is told of a question holds nobody up, whatever it waits for.

use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::time::Duration;

use countersign_core::execution::Status;
use countersign_kernel::Gateway;
use countersign_testkit::world::{InTests, World, yes};
use serde_json::{Value, json};

use super::note;

/// Real time: the threads are real.
const LONG: Duration = Duration::from_secs(30);

/// Calls something that asks, while the callback does not return before the gateway has told it how that very execution stands.
async fn asks_while_the_callback_waits(path: &str, args: Value) {
    let world = World::new(1);
    let itself: Arc<OnceLock<Gateway>> = Arc::default();
    let (tell, told) = mpsc::channel();
    let (known, tell) = (Arc::clone(&itself), Mutex::new(tell));
    let builder = world.builder(Arc::new(world.disk.clone())).on_pause(move |pending| {
        let (gateway, id) = (known.get().unwrap().clone(), pending.execution);
        let (answer, answered) = mpsc::channel();
        tokio::spawn(async move { answer.send(gateway.result(id).await.unwrap().unwrap().status) });
        let status = answered.recv_timeout(LONG);
        tell.lock().unwrap().send(status).unwrap();
    });
    let gateway = world.start_with(builder).await;
    assert!(itself.set(gateway.clone()).is_ok());
    let waiting = tokio::time::timeout(LONG, gateway.asks(path, args)).await;
    let waiting = waiting.unwrap();
    let status = tokio::task::spawn_blocking(move || told.recv_timeout(2 * LONG)).await.unwrap().unwrap();
    assert_eq!(status, Ok(Status::Waiting), "{path}: it is answered while the callback waits");
    gateway.ann_says(&waiting, yes()).await.unwrap();
    assert!(gateway.end_of(&waiting).await.success());
    assert_eq!(world.ledger.effects().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_callback_may_wait_for_the_very_execution_it_is_told_of() {
    for _ in 0..5 {
        asks_while_the_callback_waits("lab.destroy", note()).await;
        asks_while_the_callback_waits("lab.transfer", json!({ "amount": 20_000 })).await;
    }
}
