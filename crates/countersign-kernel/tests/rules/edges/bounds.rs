//! Calls in flight are bounded, in number and bytes, for one principal and for all; what was accepted goes on.

use std::sync::Arc;
use std::time::Duration;

use countersign_core::execution::Status;
use countersign_kernel::{CallError, CallRequest, Caller, ExecutionResult, Gateway, Patience, Settings};
use countersign_sdk::{Ctx, Plugin, Principal, SessionId, Tool, ToolError};
use countersign_testkit::lab::What;
use countersign_testkit::world::{InTests, World, request, yes};
use serde_json::json;

use super::A_WHILE;

/// A gateway with a safe tool that takes a minute, unless its input is short.
pub(super) async fn start(world: &World) -> Gateway {
    let tool = Tool::new("own.long").name("Long").describe("Takes long.").handler(
        async |_: Ctx, input: What| -> Result<What, ToolError> {
            tokio::time::sleep(Duration::from_secs(50)).await;
            Ok(input)
        },
    );
    let plugin = Plugin::new("own", "Own", "Tools of this test.").tool(tool);
    world.start_with(world.builder(Arc::new(world.disk.clone())).plugin(plugin)).await
}

async fn other(gateway: &Gateway, n: usize) -> (Caller, SessionId) {
    let caller: Caller = Principal::agent(&format!("other-{n}")).unwrap().into();
    let id = SessionId::parse(&format!("ses_other_{n}")).unwrap();
    let session = gateway.open_session(&caller, "test", Some(id)).await.unwrap();
    (caller, session)
}

fn long(what: &str) -> CallRequest {
    let patience = Patience::AtMost(Duration::from_millis(10));
    CallRequest { patience, ..request("own.long", json!({ "what": what })) }
}

fn is_refused(called: Result<ExecutionResult, CallError>, what: &str) {
    assert_eq!(called.unwrap_err().code(), "too_many_calls", "{what}");
}

fn bounded(change: impl FnOnce(&mut Settings)) -> World {
    World::new(1).set(change)
}

#[tokio::test(start_paused = true)]
async fn one_principal_has_a_quarter_of_the_calls_in_flight_and_not_one_more() {
    let gateway = start(&bounded(|s| s.max_calls_in_flight = 8)).await;
    let waiting = gateway.asks("lab.destroy_each", json!({ "what": "x" })).await;
    let mut running = Vec::new();
    for _ in 0..2 {
        running.push(gateway.call(long("a")).await.unwrap());
    }
    for path in ["own.long", "lab.read", "lab.destroy_each"] {
        is_refused(gateway.ask(path, json!({ "what": "another" })).await, path);
    }
    assert_eq!(gateway.open().await.len(), 1, "nothing of a refused call is asked");
    gateway.ann_says(&waiting, yes()).await.unwrap();
    assert!(gateway.end_of(&waiting).await.success(), "deciding is never refused, and what it allows runs");
    for one in &running {
        assert_eq!(one.status, Status::Running);
        assert!(gateway.end_of(one).await.success(), "what was accepted goes on");
    }
    assert!(gateway.call(long("b")).await.is_ok(), "and then there is room again");
}

#[tokio::test(start_paused = true)]
async fn all_principals_together_have_so_many_calls_in_flight_and_not_one_more() {
    let gateway = start(&bounded(|s| s.max_calls_in_flight = 8)).await;
    for n in 0..5 {
        let (caller, session) = other(&gateway, n).await;
        for _ in 0..2 {
            let call = CallRequest { caller: caller.clone(), session: session.clone(), ..long("a") };
            match gateway.call(call).await {
                Ok(running) => assert!(n < 4, "{running:?}"),
                refused => {
                    assert_eq!(n, 4);
                    is_refused(refused, "the ninth and the tenth");
                }
            }
        }
    }
    tokio::time::sleep(A_WHILE).await;
    assert!(gateway.call(long("a")).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn one_principal_has_a_quarter_of_the_bytes_in_flight_and_not_one_more() {
    // Ten bytes are the JSON around the text.
    let bytes = |n: usize| "x".repeat(n - json!({ "what": "" }).to_string().len());
    let gateway = start(&bounded(|s| s.max_bytes_in_flight = 4_000)).await;
    gateway.call(long(&bytes(600))).await.unwrap();
    is_refused(gateway.call(long(&bytes(401))).await, "1,001 bytes");
    gateway.call(long(&bytes(400))).await.unwrap();
    is_refused(gateway.ask("lab.read", json!({ "what": "" })).await, "not even a small one");
    let (caller, session) = other(&gateway, 1).await;
    let theirs = CallRequest { caller, session, ..long(&bytes(1_000)) };
    assert!(gateway.call(theirs).await.is_ok(), "others have a share of their own");
    tokio::time::sleep(A_WHILE).await;
    assert!(gateway.call(long(&bytes(1_001))).await.is_ok(), "a large one is let in where there is no other");
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_a_person_is_not_in_flight() {
    let gateway = start(&bounded(|s| s.max_calls_in_flight = 4)).await;
    let mut waiting = Vec::new();
    for n in 0..20 {
        waiting.push(gateway.asks("lab.destroy_each", json!({ "what": n.to_string() })).await);
    }
    for one in &waiting {
        gateway.ann_says(one, yes()).await.unwrap();
    }
    for one in &waiting {
        assert!(gateway.end_of(one).await.success());
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_refused_for_another_reason_takes_no_place() {
    let gateway = start(&bounded(|s| s.max_calls_in_flight = 4)).await;
    for _ in 0..20 {
        assert_eq!(gateway.ask("lab.read", json!({ "what": 1 })).await.unwrap_err().code(), "invalid_input");
        assert_eq!(gateway.ask("lab.nothing", json!({})).await.unwrap_err().code(), "tool_not_found");
        assert!(gateway.ask("lab.read", json!({ "what": "x" })).await.unwrap().success());
    }
}
