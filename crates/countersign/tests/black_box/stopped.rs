//! SIGTERM: everybody is answered, handlers come to their end, and nothing is lost.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;

use crate::server::{Client, Home};

/// What one client was told before the server went away.
#[derive(Default)]
struct Told {
    accepted: BTreeSet<String>,
    approved: BTreeSet<String>,
}

/// Calls and approves, one payment after another, until the server is gone.
async fn load(client: usize, agent: Client, admin: Client, stopped: Arc<AtomicBool>) -> Told {
    let mut told = Told::default();
    for n in 0.. {
        if stopped.load(Ordering::SeqCst) {
            break;
        }
        let args = json!({ "to": "ann", "amount": 1, "delayMs": 30 });
        let body = json!({ "tool": "bank.pay", "args": args, "sessionId": format!("ses_{client}"), "idempotencyKey": format!("{client}-{n}") });
        let Some((200, result)) = agent.try_post("/api/executions", &body).await else { break };
        let execution = result["executionId"].as_str().unwrap().to_owned();
        told.accepted.insert(execution.clone());
        let Some((status, _)) = admin.decide(&execution, true).await else { break };
        if status == 200 {
            told.approved.insert(execution);
        }
    }
    told
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_told_to_stop_under_load_loses_nothing_and_leaves_no_doubt() {
    let mut home = Home::served();
    let stopped = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..8)
        .map(|n| tokio::spawn(load(n, home.client("agent"), home.client("admin"), Arc::clone(&stopped))))
        .collect();
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let status = home.terminate();
    stopped.store(true, Ordering::SeqCst);
    assert_eq!(status.code(), Some(0), "{status}");
    let mut told = Told::default();
    for client in clients {
        let part = client.await.unwrap();
        told.accepted.extend(part.accepted);
        told.approved.extend(part.approved);
    }
    assert!(told.approved.len() > 20, "the load was too light to mean anything: {}", told.approved.len());

    home.start();
    let (admin, agent) = (home.client("admin"), home.client("agent"));
    let known: BTreeSet<String> = admin
        .list("/api/executions?")
        .await
        .iter()
        .map(|row| row["executionId"].as_str().unwrap().to_owned())
        .collect();
    assert!(told.accepted.is_subset(&known), "an accepted call is gone");
    for question in admin.list("/api/elicitation?status=pending&").await {
        let execution = question["executionId"].as_str().unwrap();
        assert!(!told.approved.contains(execution), "{execution} was approved, and waits again");
        assert_eq!(admin.decide(execution, true).await.unwrap().0, 200);
    }
    admin.until_at_rest().await;
    assert_eq!(admin.list("/api/executions?status=in_doubt&").await, Vec::<serde_json::Value>::new());
    let ledger = agent.ledger().await;
    let once: BTreeSet<String> = ledger.iter().cloned().collect();
    assert_eq!(once.len(), ledger.len(), "a payment was made twice");
    assert!(told.approved.is_subset(&once), "an approved payment was never made");
    println!(
        "{} accepted, {} approved before SIGTERM, {} payments in the end",
        told.accepted.len(),
        told.approved.len(),
        ledger.len()
    );
}
