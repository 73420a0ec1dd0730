//! Idempotency keys: the same key is the same execution, for as long as there is a journal.

use countersign_kernel::{CallError, CallRequest, ExecutionResult, Gateway};
use countersign_sdk::{Ctx, Plugin, Principal, SessionId, Tool, ToolError};
use countersign_testkit::lab::{Done, Nothing};
use countersign_testkit::world::{InTests, World, request, yes};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn note() -> Value {
    json!({ "what": "note 7" })
}

fn keyed(path: &str, args: Value) -> CallRequest {
    CallRequest { key: Some("key-1".into()), ..request(path, args) }
}

async fn call(gateway: &Gateway, path: &str, args: Value) -> ExecutionResult {
    gateway.call(keyed(path, args)).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_same_key_is_the_same_execution_while_it_waits_and_when_it_has_ended() {
    let world = World::new(1);
    let gateway = world.start().await;
    let waiting = call(&gateway, "lab.destroy_each", note()).await;
    assert_eq!(call(&gateway, "lab.destroy_each", note()).await, waiting);
    gateway.ann_says(&waiting, yes()).await.unwrap();
    let end = gateway.end_of(&waiting).await;
    let again = call(&gateway, "lab.destroy_each", note()).await;
    assert_eq!((again.execution, again.value), (end.execution, end.value));
    assert_eq!(world.ledger.effects().len(), 1);
    assert_eq!(gateway.open().await, []);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_under_a_key_stays_the_answer_to_it() {
    let gateway = World::new(1).start().await;
    let waiting = call(&gateway, "lab.destroy_each", note()).await;
    gateway.ann_says(&waiting, countersign_kernel::Answer::Deny).await.unwrap();
    gateway.end_of(&waiting).await;
    assert_eq!(call(&gateway, "lab.destroy_each", note()).await.error.unwrap().code, "denied");
    assert_eq!(gateway.open().await, [], "nobody is asked again under the same key");
}

#[tokio::test(start_paused = true)]
async fn the_same_key_for_something_else_is_refused_and_names_the_first() {
    let gateway = World::new(1).start().await;
    let first = call(&gateway, "lab.destroy", note()).await;
    for (path, args) in
        [("lab.destroy", json!({ "what": "note 8" })), ("lab.destroy_each", note()), ("lab.read", note())]
    {
        let error = gateway.call(keyed(path, args)).await.unwrap_err();
        assert!(matches!(error, CallError::KeyMismatch(id) if id == first.execution), "{error}");
        assert_eq!(error.code(), "idempotency_mismatch");
    }
    assert_eq!(gateway.open().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_key_belongs_to_its_requester() {
    let gateway = World::new(1).start().await;
    let mine = call(&gateway, "lab.destroy", note()).await;
    let other: countersign_kernel::Caller = Principal::agent("agent-2").unwrap().into();
    let session =
        gateway.open_session(&other, "test", Some(SessionId::parse("ses_2").unwrap())).await.unwrap();
    let theirs = CallRequest { caller: other, session, ..keyed("lab.destroy", json!({ "what": "theirs" })) };
    assert_ne!(gateway.call(theirs).await.unwrap().execution, mine.execution);
}

#[tokio::test(start_paused = true)]
async fn what_was_filled_in_counts_as_if_it_had_been_sent() {
    let world = World::new(1);
    let builder =
        world.builder(Arc::new(world.disk.clone())).plugin(countersign_testkit::lab::github(&world.ledger));
    let gateway = world.start_with(builder).await;
    let brief = call(&gateway, "github.issues.list", json!({ "owner": "o", "repo": "r" })).await;
    let full = json!({ "limit": 30, "repo": "r", "owner": "o", "state": "open" });
    assert_eq!(call(&gateway, "github.issues.list", full).await.execution, brief.execution);
}

/// A safe tool that counts how often it ran, and takes a moment.
fn counting(ran: &Arc<AtomicUsize>) -> Plugin {
    let ran = Arc::clone(ran);
    let tool = Tool::new("own.count").name("Count").describe("Counts.").handler(move |_: Ctx, _: Nothing| {
        ran.fetch_add(1, Ordering::SeqCst);
        async {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            Ok::<_, ToolError>(Done { done: true })
        }
    });
    Plugin::new("own", "Own", "Tools of this test.").tool(tool)
}

#[tokio::test(start_paused = true)]
async fn concurrent_calls_under_one_key_are_one_and_run_once() {
    let ran: Arc<AtomicUsize> = Arc::default();
    let world = World::new(1).under("[[rule]]\nmatch = \"lab.destroy\"\neffect = \"allow\"\n");
    let gateway = world.start_with(world.builder(Arc::new(world.disk.clone())).plugin(counting(&ran))).await;
    for (n, (path, args)) in
        [("own.count", json!({})), ("lab.destroy", note()), ("lab.put", note())].into_iter().enumerate()
    {
        let key = Some(format!("key-{n}"));
        let calls =
            (0..16).map(|_| gateway.call(CallRequest { key: key.clone(), ..request(path, args.clone()) }));
        let results = futures_util::future::join_all(calls).await;
        let ids: Vec<_> = results.iter().map(|r| r.as_ref().unwrap().execution).collect();
        assert!(ids.iter().all(|id| *id == ids[0]), "{path}: {ids:?}");
    }
    assert_eq!(ran.load(Ordering::SeqCst), 1, "safe");
    assert_eq!(world.ledger.effects().len(), 1, "destructive, allowed by policy");
    assert_eq!(gateway.open().await.len(), 1, "asked once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_calls_under_one_key_run_once_on_many_threads() {
    for seed in 0..10 {
        let world = World::new(seed).under("[[rule]]\nmatch = \"lab.destroy\"\neffect = \"allow\"\n");
        let gateway = world.start().await;
        let calls: Vec<_> = (0..16)
            .map(|_| {
                let gateway = gateway.clone();
                tokio::spawn(async move { gateway.call(keyed("lab.destroy", note())).await.unwrap() })
            })
            .collect();
        for call in calls {
            let result = call.await.unwrap();
            assert!(gateway.end_of(&result).await.success());
        }
        assert_eq!(world.ledger.effects().len(), 1, "seed {seed}");
    }
}

#[test]
fn a_key_survives_a_restart() {
    let world = World::new(1);
    let first = world.life(async |gateway| call(&gateway, "lab.destroy", note()).await);
    world.life(async |gateway| {
        let again = call(&gateway, "lab.destroy", note()).await;
        assert_eq!(again.execution, first.execution);
        gateway.ann_says(&again, yes()).await.unwrap();
        assert!(gateway.end_of(&again).await.success());
    });
    assert_eq!(world.ledger.effects().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_none_is_refused_before_anything_happens() {
    let gateway = World::new(1).start().await;
    for key in ["", " ", "a b", "ä", "\0", &"k".repeat(201)] {
        let call = CallRequest { key: Some(key.to_owned()), ..request("lab.destroy", note()) };
        assert!(gateway.call(call).await.is_err(), "{key:?}");
    }
    let longest = CallRequest { key: Some("k".repeat(200)), ..request("lab.destroy", note()) };
    assert!(gateway.call(longest).await.is_ok());
    assert_eq!(gateway.open().await.len(), 1);
}
