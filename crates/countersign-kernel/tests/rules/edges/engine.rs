//! The engine's gate keeps the rules, and leaves a record of whatever it lets through or refuses.

use std::sync::Arc;
use std::time::Duration;

use countersign_core::event::{EventBody, Kind, StartedBy};
use countersign_kernel::ports::{ExecutionFilter, ExecutionRow, Page};
use countersign_kernel::{CatalogTool, ElicitationEngine, GateError, Gateway, Passage, Pending};
use countersign_sdk::Remember;
use countersign_testkit::world::{World, agent, ann, session};
use tokio::task::JoinHandle;

use super::{A_WHILE, note, on_a_held_store};

const FRIDAY: &str = r#"
[[rule]]
match = "lab.destroy"
effect = "ask"
remember = "call"
expires = "1h"
reason = "It is Friday."

[[rule]]
match = "lab.put"
effect = "deny"
reason = "Nothing is put on Fridays."
"#;

fn engine(gateway: &Gateway) -> ElicitationEngine {
    gateway.engine(session(), agent(), ann())
}

fn tool(gateway: &Gateway, path: &str) -> Arc<CatalogTool> {
    Arc::clone(gateway.catalog().get(path).unwrap())
}

fn come(gateway: &Gateway, path: &str) -> JoinHandle<Result<Passage, GateError>> {
    let (engine, tool) = (engine(gateway), tool(gateway, path));
    tokio::spawn(async move { engine.gate(&tool, &note()).await })
}

async fn the_pending(gateway: &Gateway) -> Pending {
    tokio::time::sleep(Duration::from_millis(50)).await;
    let pending = engine(gateway).all_pending().await;
    assert_eq!(pending.len(), 1, "one question");
    pending[0].clone()
}

/// The only execution, what its journal says, and what the audit says of it.
async fn record(gateway: &Gateway) -> (ExecutionRow, Vec<EventBody>, Vec<String>) {
    let rows = gateway.executions(ExecutionFilter::default(), Page::first(10)).await.unwrap().items;
    assert_eq!(rows.len(), 1, "one execution");
    let only = &rows[0];
    let journal = gateway.journal(only.id).await.unwrap().into_iter().map(|event| event.body).collect();
    let audit = gateway.audit(0, 100).await.unwrap();
    let of_it = audit.iter().flat_map(|record| record.parse().unwrap());
    let of_it = of_it.filter(|entry| entry.execution == Some(only.id)).map(|entry| entry.what.to_string());
    (only.clone(), journal, of_it.collect())
}

#[tokio::test(start_paused = true)]
async fn a_question_at_the_gate_says_the_rules_reason_and_expires_when_the_rule_says() {
    let gateway = World::new(1).under(FRIDAY).start().await;
    let at_gate = come(&gateway, "lab.destroy");
    let pending = the_pending(&gateway).await;
    assert!(pending.elicitation.because.contains("It is Friday."), "{}", pending.elicitation.because);
    assert_eq!(pending.elicitation.remember, Remember::Call);
    assert_eq!(pending.asked_at.until(pending.elicitation.expires_at), Duration::from_secs(3_600));
    tokio::time::sleep(Duration::from_secs(3_599)).await;
    assert!(!at_gate.is_finished());
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(at_gate.await.unwrap().unwrap_err().code(), "expired");
}

#[tokio::test(start_paused = true)]
async fn a_rule_that_remembers_nothing_asks_although_the_session_has_an_approval() {
    let gateway = World::new(1).under(FRIDAY).start().await;
    engine(&gateway).add_session_approval("lab.destroy").await.unwrap();
    let at_gate = come(&gateway, "lab.destroy");
    let pending = the_pending(&gateway).await;
    assert!(!at_gate.is_finished());
    assert!(engine(&gateway).resolve(&pending.execution.to_string(), true, None).await);
    assert_eq!(at_gate.await.unwrap().unwrap(), Passage::Approved { execution: pending.execution });
}

#[tokio::test(start_paused = true)]
async fn what_a_rule_denies_is_refused_with_its_reason_and_recorded() {
    let gateway = World::new(1).under(FRIDAY).start().await;
    let refused = come(&gateway, "lab.put").await.unwrap().unwrap_err();
    assert_eq!(refused.code(), "denied");
    assert!(refused.to_string().contains("Nothing is put on Fridays."), "{refused}");
    let (row, _, audit) = record(&gateway).await;
    assert_eq!((row.kind, row.status.as_str()), (Kind::Gate, "failed"));
    assert_eq!(audit.last().map(String::as_str), Some("Finished"), "{audit:?}");
}

#[tokio::test(start_paused = true)]
async fn a_safe_call_that_the_gate_lets_through_has_a_record() {
    let gateway = World::new(1).start().await;
    assert_eq!(come(&gateway, "lab.read").await.unwrap().unwrap(), Passage::Safe);
    let (row, journal, audit) = record(&gateway).await;
    assert_eq!((row.kind, row.status.as_str()), (Kind::Gate, "succeeded"));
    assert!(
        matches!(&journal[2], EventBody::CallStarted { by: StartedBy::Policy { .. }, .. }),
        "{journal:?}"
    );
    assert!(audit.iter().any(|what| what == "CallStarted"), "{audit:?}");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_a_remembered_approval_lets_through_has_a_record_that_names_it() {
    let gateway = World::new(1).start().await;
    engine(&gateway).add_session_approval("lab.destroy").await.unwrap();
    assert_eq!(come(&gateway, "lab.destroy").await.unwrap().unwrap(), Passage::Remembered);
    let (row, journal, audit) = record(&gateway).await;
    assert_eq!((row.kind, row.status.as_str()), (Kind::Gate, "succeeded"));
    let grant = gateway.grants(&session()).await.unwrap()[0].id;
    let EventBody::CallStarted { by: StartedBy::Grant { id }, .. } = &journal[2] else {
        panic!("{journal:?}")
    };
    assert_eq!(*id, grant);
    assert!(audit.iter().any(|what| what == "CallStarted"), "{audit:?}");
}

#[tokio::test(start_paused = true)]
async fn a_resolver_that_hangs_up_leaves_nothing_undone() {
    for after in [Duration::from_millis(1), A_WHILE] {
        let world = World::new(1);
        let (gateway, store) = on_a_held_store(&world).await;
        let at_gate = come(&gateway, "lab.destroy");
        let id = the_pending(&gateway).await.elicitation.id.to_string();
        tokio::time::sleep(after).await;
        store.hold_answers();
        let engine = engine(&gateway);
        let resolving = engine.resolve(&id, true, None);
        assert!(tokio::time::timeout(Duration::from_millis(10), resolving).await.is_err(), "it hangs up");
        store.go_on();
        let passed = tokio::time::timeout(A_WHILE, at_gate).await.expect("the program is let through");
        assert!(matches!(passed.unwrap().unwrap(), Passage::Approved { .. }));
        assert!(!engine.has_pending().await);
    }
}

/// A process that is about to end asks nobody anything, and leaves no question for the next one to ask on behalf of a program
/// that is gone.
#[tokio::test(start_paused = true)]
async fn a_gate_that_is_closed_refuses_at_once_and_records_nothing() {
    let gateway = World::new(1).start().await;
    gateway.close(Duration::from_secs(1)).await;
    for path in ["lab.read", "lab.destroy"] {
        let refused = tokio::time::timeout(A_WHILE, come(&gateway, path)).await.expect("it is told");
        assert_eq!(refused.unwrap().unwrap_err().code(), "unavailable", "{path}");
    }
    let rows = gateway.executions(ExecutionFilter::default(), Page::first(10)).await.unwrap().items;
    assert_eq!(rows, []);
}
