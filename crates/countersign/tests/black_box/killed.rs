//! SIGKILL: what was acknowledged is there afterwards, and nothing runs twice.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use serde_json::json;

use crate::server::{Client, Home, at_once};

const PENDING: usize = 1_000;
const SESSIONS: usize = 10;
/// How many clients call or decide at the same time.
const CLIENTS: usize = 16;
/// Every so many-th is denied.
const DENIED: usize = 5;

/// Has so many payments asked about; gives their executions.
async fn ask(agent: &Client, count: usize) -> Vec<String> {
    let agent = agent.clone();
    at_once((0..count).collect(), CLIENTS, move |n| {
        let agent = agent.clone();
        async move {
            let args = json!({ "to": format!("payee {n}"), "amount": n + 1 });
            let body = json!({ "tool": "bank.pay", "args": args, "sessionId": format!("ses_{}", n % SESSIONS), "idempotencyKey": format!("pay-{n}") });
            let result = agent.post("/api/executions", &body).await;
            assert_eq!(result["status"], "paused", "{result}");
            result["executionId"].as_str().unwrap().to_owned()
        }
    })
    .await
}

/// How often each execution took effect.
fn counted(ledger: Vec<String>) -> BTreeMap<String, usize> {
    let mut times = BTreeMap::new();
    for execution in ledger {
        *times.entry(execution).or_default() += 1;
    }
    times
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_pending_approvals_survive_a_kill_and_each_approved_one_runs_exactly_once() {
    let mut home = Home::served();
    let begun = Instant::now();
    let asked = ask(&home.client("agent"), PENDING).await;
    let asking = begun.elapsed();
    assert_eq!(asked.iter().collect::<BTreeSet<_>>().len(), PENDING);
    home.kill();
    let starting = home.start();

    let (admin, agent) = (home.client("admin"), home.client("agent"));
    let waiting: BTreeSet<String> = admin
        .list("/api/elicitation?status=pending&")
        .await
        .iter()
        .map(|question| question["executionId"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        waiting,
        asked.iter().cloned().collect(),
        "every acknowledged question is there, and no other"
    );

    let begun = Instant::now();
    let work: Vec<(usize, String)> = waiting.into_iter().enumerate().collect();
    let denied: BTreeSet<String> =
        work.iter().filter(|(n, _)| n.is_multiple_of(DENIED)).map(|(_, id)| id.clone()).collect();
    let by = admin.clone();
    let answers = at_once(work, CLIENTS, move |(n, execution)| {
        let by = by.clone();
        async move { by.decide(&execution, !n.is_multiple_of(DENIED)).await.expect("it is answered") }
    })
    .await;
    assert!(answers.iter().all(|(status, _)| *status == 200));
    let deciding = begun.elapsed();
    admin.until_at_rest().await;
    let resting = begun.elapsed();

    let effects = counted(agent.ledger().await);
    let approved: BTreeSet<String> = asked.iter().filter(|id| !denied.contains(*id)).cloned().collect();
    assert_eq!(
        effects.keys().cloned().collect::<BTreeSet<_>>(),
        approved,
        "the approved ones, and no denied one"
    );
    assert!(effects.values().all(|times| *times == 1), "once each");
    assert_eq!(admin.list("/api/executions?status=in_doubt&").await.len(), 0);
    println!(
        "{PENDING} asked in {asking:.2?}, restarted in {starting:.2?}, decided in {deciding:.2?}, all ran after {resting:.2?}; {} approved, {} denied",
        approved.len(),
        denied.len()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_in_the_midst_of_deciding_forgets_no_acknowledged_decision_and_repeats_no_payment() {
    const COUNT: usize = 200;
    let mut home = Home::served();
    let asked = ask(&home.client("agent"), COUNT).await;
    let admin = home.client("admin");
    let deciding = tokio::spawn(at_once(asked.clone(), CLIENTS, move |execution| {
        let admin = admin.clone();
        async move {
            let answer = admin.decide(&execution, true).await;
            (execution, answer.is_some_and(|(status, _)| status == 200))
        }
    }));
    let agent = home.client("agent");
    while agent.ledger().await.len() < COUNT / 4 {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    home.kill();
    let acknowledged: BTreeSet<String> = deciding
        .await
        .unwrap()
        .into_iter()
        .filter(|(_, acknowledged)| *acknowledged)
        .map(|(id, _)| id)
        .collect();
    home.start();
    let (admin, agent) = (home.client("admin"), home.client("agent"));
    let open: BTreeSet<String> = admin
        .list("/api/elicitation?status=pending&")
        .await
        .iter()
        .map(|question| question["executionId"].as_str().unwrap().to_owned())
        .collect();
    assert!(open.is_disjoint(&acknowledged), "a decision that was answered with 200 is gone");
    assert!(
        !open.is_empty() && !acknowledged.is_empty(),
        "the kill came too late or too early to mean anything"
    );
    for execution in &open {
        assert_eq!(admin.decide(execution, true).await.unwrap().0, 200);
    }
    admin.until_at_rest().await;
    let doubtful: BTreeSet<String> = admin
        .list("/api/executions?status=in_doubt&")
        .await
        .iter()
        .map(|row| row["executionId"].as_str().unwrap().to_owned())
        .collect();
    let effects = counted(agent.ledger().await);
    for execution in &asked {
        let times = effects.get(execution).copied().unwrap_or(0);
        match doubtful.contains(execution) {
            true => assert!(times <= 1, "{execution} ran {times} times"),
            false => assert_eq!(times, 1, "{execution}"),
        }
    }
    println!(
        "{COUNT} asked, {} acknowledged before the kill, {} open after it, {} in doubt",
        acknowledged.len(),
        open.len(),
        doubtful.len()
    );
}
