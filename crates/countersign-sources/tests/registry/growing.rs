//! A server that changes its tools while it runs: what it adds, and what it says more harmlessly than before, waits for a person.

use countersign_core::execution::Status;
use countersign_kernel::ports::{Acceptance, SourceDetail, Sources as _, ToolStanding};
use countersign_sdk::EffectClass;
use countersign_testkit::world::{InTests as _, admin, yes};
use serde_json::json;

use crate::changing::{Changing, Era, Transport, tool};
use crate::shop::Shop;

/// The source once it is as a test waits for.
async fn shown(shop: &Shop, is_so: impl Fn(&SourceDetail) -> bool) -> SourceDetail {
    let look = async {
        loop {
            let detail = shop.registry.show("upstream").await.unwrap();
            if is_so(&detail) {
                return detail;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    let bound = std::time::Duration::from_secs(60);
    match tokio::time::timeout(bound, look).await {
        Ok(detail) => detail,
        Err(_) => panic!("the change is never seen: {:?}", shop.registry.show("upstream").await),
    }
}

fn standing(detail: &SourceDetail, path: &str) -> ToolStanding {
    detail.tools.iter().find(|tool| tool.path == path).unwrap().standing
}

/// From the server's word that its tools changed to the call of the new one.
async fn an_added_tool_waits_and_is_callable_once_accepted(era: Era, transport: Transport) {
    let first = tool("first", &json!({}));
    let server = Changing::start(era, transport, &json!([first])).await;
    let shop = Shop::open().await;
    shop.registry.put(&admin(), server.config()).await.unwrap();
    shop.registry.accept(&admin(), "upstream", Acceptance::default()).await.unwrap();
    server.is_heard().await;
    server.offers(&json!([first, tool("second", &json!({}))]));

    let detail = shown(&shop, |detail| detail.summary.new == 1).await;
    assert_eq!(standing(&detail, "upstream.second"), ToolStanding::New);
    assert_eq!(detail.summary.callable, 1, "what was accepted stays callable");
    let early = shop.gateway.ask("upstream.second", json!({})).await.unwrap_err();
    assert_eq!(early.code(), "tool_not_found");

    let one = Acceptance { paths: vec!["upstream.second".to_owned()], digest: Some(detail.digest) };
    shop.registry.accept(&admin(), "upstream", one).await.unwrap();
    let waiting = shop.gateway.ask("upstream.second", json!({})).await.unwrap();
    assert!(waiting.paused().is_some() && server.ledger().is_empty(), "it is gated like every other");
    shop.gateway.ann_says(&waiting, yes()).await.unwrap();
    let end = shop.gateway.end_of(&waiting).await;
    assert_eq!((end.status, server.ledger()), (Status::Succeeded, vec!["second".to_owned()]), "{end:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_a_server_of_2025_adds_over_stdio_is_callable_once_accepted() {
    an_added_tool_waits_and_is_callable_once_accepted(Era::Legacy, Transport::Stdio).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_a_server_of_2025_adds_over_http_is_callable_once_accepted() {
    an_added_tool_waits_and_is_callable_once_accepted(Era::Legacy, Transport::Http).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_a_server_of_2026_adds_over_stdio_is_callable_once_accepted() {
    an_added_tool_waits_and_is_callable_once_accepted(Era::Modern, Transport::Stdio).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_a_server_of_2026_adds_over_http_is_callable_once_accepted() {
    an_added_tool_waits_and_is_callable_once_accepted(Era::Modern, Transport::Http).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_a_server_takes_away_is_gone_at_once_and_its_question_is_withdrawn() {
    let (first, second) = (tool("first", &json!({})), tool("second", &json!({})));
    let server = Changing::start(Era::Legacy, Transport::Stdio, &json!([first, second])).await;
    let shop = Shop::open().await;
    shop.registry.put(&admin(), server.config()).await.unwrap();
    shop.registry.accept(&admin(), "upstream", Acceptance::default()).await.unwrap();
    let waiting = shop.gateway.ask("upstream.second", json!({})).await.unwrap();
    server.is_heard().await;
    server.offers(&json!([first]));
    let detail = shown(&shop, |detail| detail.summary.missing == 1).await;
    assert_eq!(standing(&detail, "upstream.second"), ToolStanding::Missing);
    let end = shop.gateway.end_of(&waiting).await;
    assert_eq!(end.status, Status::Failed, "{end:?}");
    assert_eq!(shop.gateway.ask("upstream.second", json!({})).await.unwrap_err().code(), "tool_not_found");
}

/// The operator trusts what the server says of its tools, and it says less than it did.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_lowers_its_annotations_is_not_believed_before_a_person_accepts_it() {
    let says = |hints: &serde_json::Value| json!([tool("drop", hints)]);
    let server =
        Changing::start(Era::Legacy, Transport::Stdio, &says(&json!({ "destructiveHint": true }))).await;
    let shop = Shop::open().await;
    let trusting = server.config_with(&json!({ "trustAnnotations": true }));
    shop.registry.put(&admin(), trusting).await.unwrap();
    shop.registry.accept(&admin(), "upstream", Acceptance::default()).await.unwrap();
    let waiting = shop.gateway.ask("upstream.drop", json!({})).await.unwrap();
    assert!(waiting.paused().is_some(), "it destroys");
    server.is_heard().await;
    server.offers(&says(&json!({ "readOnlyHint": true })));

    let detail = shown(&shop, |detail| detail.summary.changed == 1).await;
    let dropped = detail.tools.iter().find(|tool| tool.path == "upstream.drop").unwrap();
    assert_eq!(dropped.offered_effect, EffectClass::Reads);
    let fields: Vec<&str> = dropped.changes.iter().map(|change| change.field).collect();
    assert_eq!(fields, ["effects"], "a person sees what changed: {dropped:?}");
    assert_eq!(shop.gateway.end_of(&waiting).await.status, Status::Failed, "its question is withdrawn");
    assert_eq!(shop.gateway.ask("upstream.drop", json!({})).await.unwrap_err().code(), "tool_not_found");
    assert!(server.ledger().is_empty(), "nothing reached the server: {:?}", server.ledger());

    shop.registry.accept(&admin(), "upstream", Acceptance::default()).await.unwrap();
    assert!(shop.gateway.ask("upstream.drop", json!({})).await.unwrap().success(), "a person believed it");
}

/// It says nothing of the change: the definition is read again right before the approved call is sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn annotations_lowered_between_the_question_and_the_call_stop_the_call() {
    let says = |hints: &serde_json::Value| json!([tool("drop", hints)]);
    let server =
        Changing::start(Era::Modern, Transport::Http, &says(&json!({ "destructiveHint": true }))).await;
    let shop = Shop::open().await;
    let trusting = server.config_with(&json!({ "trustAnnotations": true }));
    shop.registry.put(&admin(), trusting).await.unwrap();
    shop.registry.accept(&admin(), "upstream", Acceptance::default()).await.unwrap();
    let waiting = shop.gateway.ask("upstream.drop", json!({})).await.unwrap();
    server.offers_quietly(&says(&json!({ "destructiveHint": false })));
    shop.gateway.ann_says(&waiting, yes()).await.unwrap();
    let end = shop.gateway.end_of(&waiting).await;
    assert_eq!(end.error.as_ref().unwrap().code, "tool_changed", "{end:?}");
    assert!(server.ledger().is_empty(), "it was not called: {:?}", server.ledger());
    shown(&shop, |detail| detail.summary.changed == 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn annotations_of_a_server_that_is_not_trusted_change_nothing() {
    let says = |hints: &serde_json::Value| json!([tool("drop", hints)]);
    let server =
        Changing::start(Era::Legacy, Transport::Http, &says(&json!({ "destructiveHint": true }))).await;
    let shop = Shop::open().await;
    shop.registry.put(&admin(), server.config()).await.unwrap();
    shop.registry.accept(&admin(), "upstream", Acceptance::default()).await.unwrap();
    server.offers_quietly(&says(&json!({ "readOnlyHint": true })));
    let detail = shop.registry.refresh("upstream").await.unwrap();
    assert_eq!((detail.summary.changed, detail.summary.callable), (0, 1));
    assert!(shop.gateway.ask("upstream.drop", json!({})).await.unwrap().paused().is_some());
    assert!(server.ledger().is_empty());
}
