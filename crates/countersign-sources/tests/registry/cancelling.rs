//! A client that cancels: a read is cancelled at the server too, and a call that may write never is.

use std::time::Duration;

use countersign_core::execution::Status;
use countersign_kernel::ports::{Acceptance, Sources as _};
use countersign_kernel::{CallRequest, CancelError, Patience};
use countersign_testkit::world::{InTests as _, admin, agent, request, yes};
use serde_json::json;

use crate::changing::{Changing, Era, Transport, eventually, tool};
use crate::shop::Shop;

/// A server with the tool `wait`, which never answers; the operator says that it only reads, or nothing.
async fn behind_the_gate(era: Era, transport: Transport, read_only: &[&str]) -> (Shop, Changing) {
    let server = Changing::start(era, transport, &json!([tool("wait", &json!({}))])).await;
    let shop = Shop::open().await;
    let mut config = server.config();
    config.tools.read_only = read_only.iter().map(|name| (*name).to_owned()).collect();
    shop.registry.put(&admin(), config).await.unwrap();
    shop.registry.accept(&admin(), "upstream", Acceptance::default()).await.unwrap();
    (shop, server)
}

/// The server of 2025 is told so; of one of 2026 over HTTP the request is closed, as that era has it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_that_its_client_cancels_is_cancelled_at_the_server() {
    for (era, transport, told) in [
        (Era::Legacy, Transport::Stdio, "cancelled"),
        (Era::Legacy, Transport::Http, "cancelled"),
        (Era::Modern, Transport::Stdio, "cancelled"),
        (Era::Modern, Transport::Http, "closed"),
    ] {
        let (shop, server) = behind_the_gate(era, transport, &["wait"]).await;
        let patience = Patience::UntilPausedWithin(Duration::from_millis(1));
        let call = CallRequest { patience, ..request("upstream.wait", json!({})) };
        let begun = shop.gateway.call(call).await.unwrap();
        eventually(|| server.ledger() == ["wait"]).await;
        let end = shop.gateway.cancel(begun.execution, &agent(), "enough").await.unwrap();
        assert_eq!(end.status, Status::Cancelled, "{era:?} {transport:?}: {end:?}");
        eventually(|| server.ledger().contains(&told.to_owned())).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_may_write_is_never_cancelled_at_the_server_and_its_client_is_told_so() {
    let (shop, server) = behind_the_gate(Era::Legacy, Transport::Stdio, &[]).await;
    let waiting = shop.gateway.ask("upstream.wait", json!({})).await.unwrap();
    shop.gateway.ann_says(&waiting, yes()).await.unwrap();
    eventually(|| server.ledger() == ["wait"]).await;
    let refused = shop.gateway.cancel(waiting.execution, &agent(), "enough").await.unwrap_err();
    assert!(matches!(refused, CancelError::TooLate), "{refused:?}");
    // Whatever was sent to the server because of it comes before the answer to this.
    shop.registry.refresh("upstream").await.unwrap();
    assert_eq!(server.ledger(), ["wait"]);
}
