//! Many scripts and few children: one agent's scripts take its share and leave the others theirs.

use std::sync::Arc;
use std::time::Duration;

use countersign_core::execution::Status;
use countersign_kernel::{Caller, Gateway, Patience, RunRequest, Settings};
use countersign_sandbox::{ChildHost, ChildOptions, Limits};
use countersign_sdk::{Principal, SessionId};
use countersign_testkit::lab;
use countersign_testkit::ledger::Ledger;
use countersign_testkit::memory_store::MemoryStore;
use countersign_testkit::world::{InTests as _, yes};
use serde_json::json;

use super::scene::worker;

/// Longer than any of these tests: whoever waits for such a script's end waits in vain.
const COMPUTES: &str = "for (;;) {}";
const FOR_EVER: Duration = Duration::from_secs(3_600);
const SLEEPS: &str = "await sleep(3_600_000);";

/// A gateway with so many children, where scripts that only wait keep theirs so long if nobody else needs it.
async fn gateway(most: usize, park_after: Duration, agents: &[&str]) -> Gateway {
    let limits = Limits { cpu: Duration::from_secs(3_600), ..Limits::default() };
    let host = ChildHost::new(ChildOptions { limits, warm: 0, most, ..worker() }).unwrap();
    let settings = Settings { park_after, ..Settings::default() };
    let gateway = Gateway::on(Arc::new(MemoryStore::default()))
        .plugin(lab::plugin(&Ledger::default()))
        .settings(settings)
        .scripts(host);
    let gateway = gateway.start().await.unwrap();
    for name in agents {
        gateway.open_session(&caller(name), "test", Some(session(name))).await.unwrap();
    }
    gateway
}

fn caller(name: &str) -> Caller {
    Principal::agent(name).unwrap().into()
}

fn session(name: &str) -> SessionId {
    SessionId::parse(&format!("ses_{name}")).unwrap()
}

fn of(name: &str, source: &str) -> RunRequest {
    RunRequest {
        source: source.to_owned(),
        caller: caller(name),
        session: session(name),
        key: None,
        patience: Patience::UntilPaused,
    }
}

/// Starts a script and does not wait for its end.
async fn begun(gateway: &Gateway, name: &str, source: &str) -> Status {
    let begun = RunRequest { patience: Patience::AtMost(Duration::ZERO), ..of(name, source) };
    gateway.run(begun).await.unwrap().status
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sleeping_scripts_give_their_children_to_whoever_needs_them() {
    // Four children: one is kept for what was approved, three are open, one of them is a share.
    let gateway = gateway(4, FOR_EVER, &["a", "b"]).await;
    for _ in 0..6 {
        assert_eq!(begun(&gateway, "a", SLEEPS).await, Status::Running, "each has a child of the one before");
    }
    let other = gateway.run(of("b", "return 1;")).await.unwrap();
    assert_eq!(other.value, Some(json!(1)), "{other:?}");
    assert!(gateway.live() >= 6, "all of them sleep on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_that_was_put_away_in_its_sleep_wakes_up_and_goes_on() {
    let gateway = gateway(2, FOR_EVER, &["a"]).await;
    let source = "const before = Math.random(); await sleep(1_500); return (await tools.lab.read({ what: 'x' })).what;";
    let mut scripts = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let gateway = gateway.clone();
        scripts.spawn(async move { gateway.run(of("a", source)).await });
    }
    for result in scripts.join_all().await {
        let result = result.unwrap();
        assert_eq!(result.value, Some(json!("x")), "{result:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn computing_scripts_keep_neither_other_agents_nor_approved_scripts_from_running() {
    // What waits for people is put away at once, so that it needs a child to go on.
    let gateway = gateway(4, Duration::ZERO, &["a", "b", "c", "d"]).await;
    let waits = gateway.run(of("c", "await tools.lab.destroy({ what: 'x' }); return 'gone';")).await.unwrap();
    assert_eq!(waits.pending.len(), 1, "{waits:?}");
    // Two open children compute for ever; each agent has its share.
    for name in ["a", "d"] {
        assert_eq!(begun(&gateway, name, COMPUTES).await, Status::Running);
    }
    let surplus = tokio::spawn({
        let gateway = gateway.clone();
        async move { gateway.run(of("a", "return 1;")).await }
    });
    let other = gateway.run(of("b", "return 1;")).await.unwrap();
    assert_eq!(other.value, Some(json!(1)), "{other:?}");
    // The last open one as well: what was approved still goes on.
    assert_eq!(begun(&gateway, "b", COMPUTES).await, Status::Running);
    gateway.ann_says(&waits, yes()).await.unwrap();
    let end = gateway.end_of(&waits).await;
    assert_eq!(end.value, Some(json!("gone")), "{end:?}");
    let refused = surplus.await.unwrap().unwrap_err();
    assert_eq!(refused.code(), "busy", "its own computing script has its share: {refused}");
}
