//! The moves of a schedule: calls, decisions, cancels, settlements, and time.

use std::time::Duration;

use countersign_core::event::{Kind, Settlement};
use countersign_core::execution::Status;
use countersign_core::ids::{CallNo, ElicitationId, ExecutionId};
use countersign_kernel::ports::{ElicitationFilter, ExecutionFilter, Page};
use countersign_kernel::{
    Answer, Caller, CancelError, Coverage, Decide, Gateway, Patience, RunRequest, Target,
};
use countersign_sdk::{AskKind, Remember};
use serde_json::{Value, json};

use super::Feature;
use crate::chance::Chance;
use crate::crash::calls_in_doubt;
use crate::history::History;
use crate::world::{World, agent, ann, bob, request, script};

/// A caller does not wait for long where the process may be brought down.
const SHORT: Duration = Duration::from_millis(20);

/// One move of the kind that only schedules with this feature have.
pub(super) async fn make_a_featured_move(
    feature: Feature,
    gateway: &Gateway,
    history: &History,
    chance: &mut Chance,
) {
    let thing = json!({ "what": format!("thing-{}", chance.below(3)) });
    match feature {
        Feature::Scripts if chance.one_in(3) => cancel_a_script(gateway, history, chance).await,
        Feature::Scripts => run_a_script(gateway, history, chance).await,
        Feature::Keys => call_with_a_key(gateway, history, chance).await,
        Feature::AskingAfterActing => {
            call_featured(gateway, history, "awkward.act_then_ask", thing, chance).await;
        }
        Feature::FatalHandlers => {
            let path = if chance.one_in(2) { "awkward.fatal" } else { "awkward.fatal_put" };
            call_featured(gateway, history, path, thing, chance).await;
        }
        // These change how a schedule runs, not what is called in it.
        Feature::FailingReads | Feature::FaultyLastLife | Feature::Expiry | Feature::Retries => {}
    }
}

async fn call_featured(gateway: &Gateway, history: &History, path: &str, args: Value, chance: &mut Chance) {
    let mut call = request(path, args);
    call.patience = if chance.one_in(2) { Patience::AtMost(SHORT) } else { Patience::UntilPaused };
    if let Ok(result) = gateway.call(call).await {
        history.told(&result);
    }
}

/// The same key with the same arguments, again and again: it is one call.
async fn call_with_a_key(gateway: &Gateway, history: &History, chance: &mut Chance) {
    let n = chance.below(6);
    let path = ["lab.destroy_each", "lab.put", "lab.read"][usize::try_from(n % 3).unwrap_or(0)];
    let mut call = request(path, json!({ "what": format!("keyed-{n}") }));
    let key = format!("fixed-{n}");
    call.key = Some(key.clone());
    if let Ok(result) = gateway.call(call).await {
        history.told(&result);
        history.keyed(&key, &result);
    }
}

async fn run_a_script(gateway: &Gateway, history: &History, chance: &mut Chance) {
    let lines = ["lab.destroy_each", "&lab.destroy_each", "lab.put", "&lab.put", "lab.read", "&lab.read"];
    let mut source = format!("lab.slow {{\"ms\":{}}}", chance.below(3_000));
    for _ in 0..chance.below(4) {
        let path = chance.pick(&lines).copied().unwrap_or("lab.read");
        source.push_str(&format!("\n{path} {{\"what\":\"thing-{}\"}}", chance.below(3)));
    }
    let key = chance.one_in(3).then(|| format!("script-{}", chance.draw()));
    let run = RunRequest { key: key.clone(), ..script(&source) };
    if let Ok(result) = gateway.run(run).await {
        history.told(&result);
        key.iter().for_each(|key| history.keyed(key, &result));
    }
}

async fn cancel_a_script(gateway: &Gateway, history: &History, chance: &mut Chance) {
    let running =
        ExecutionFilter { status: vec![Status::Running, Status::Waiting], ..ExecutionFilter::default() };
    let Ok(rows) = gateway.executions(running, Page::first(50)).await else { return };
    let scripts: Vec<_> = rows.items.iter().filter(|row| row.kind == Kind::Script).collect();
    if let Some(row) = chance.pick(&scripts) {
        cancel(gateway, history, row.id).await;
    }
}

/// One move of the kind that every schedule has.
pub(super) async fn make_a_move(gateway: &Gateway, world: &World, history: &History, chance: &mut Chance) {
    match chance.below(16) {
        0..=5 => call_something(gateway, history, chance).await,
        6..=9 => decide_something(gateway, history, chance).await,
        10 => cancel_something(gateway, history, chance).await,
        11 => settle_something(gateway, chance).await,
        12 => world.clock.jump(i64::try_from(chance.below(40_000)).unwrap_or(0) - 20_000),
        13 => tokio::time::sleep(Duration::from_millis(chance.below(5_000))).await,
        _ => tokio::time::sleep(Duration::from_millis(chance.below(100))).await,
    }
}

async fn call_something(gateway: &Gateway, history: &History, chance: &mut Chance) {
    let thing = json!({ "what": format!("thing-{}", chance.below(3)) });
    let calls: [(&str, Value); 9] = [
        ("lab.destroy", thing.clone()),
        ("lab.destroy_each", thing.clone()),
        ("lab.put", thing.clone()),
        ("lab.transfer", json!({ "amount": 9_000 + chance.below(3_000) })),
        ("lab.form", json!({})),
        ("lab.confirm", json!({})),
        ("lab.steps", thing.clone()),
        ("lab.two", json!({})),
        ("lab.slow", json!({ "ms": chance.below(300) })),
    ];
    let Some((path, args)) = chance.pick(&calls) else { return };
    let mut call = request(path, args.clone());
    if chance.one_in(4) {
        call.key = Some(format!("{path}-{}", chance.below(4)));
    }
    call.patience = if chance.one_in(3) {
        Patience::AtMost(Duration::from_millis(chance.below(50)))
    } else {
        Patience::UntilPaused
    };
    let key = call.key.clone();
    if let Ok(result) = gateway.call(call).await {
        history.told(&result);
        key.iter().for_each(|key| history.keyed(key, &result));
    }
}

async fn decide_something(gateway: &Gateway, history: &History, chance: &mut Chance) {
    let waiting = ElicitationFilter { open_only: chance.below(4) > 0, ..ElicitationFilter::default() };
    let Ok(rows) = gateway.elicitations(waiting, Page::first(50)).await else { return };
    let Some(row) = chance.pick(&rows.items) else { return };
    let answer = any_answer(&row.elicitation.kind, row.elicitation.remember, chance);
    let by = if chance.one_in(2) { ann() } else { bob() };
    decide(gateway, history, row.elicitation.id, by, answer).await;
}

async fn decide(gateway: &Gateway, history: &History, id: ElicitationId, by: Caller, answer: Answer) {
    let target = Target::Elicitation(id);
    // Refusals are answers like any other here; what counts is what was acknowledged.
    if let Ok(receipt) =
        gateway.decide(Decide { target, by, channel: "sim".into(), answer, comment: None }).await
    {
        history.decided(&receipt);
    }
}

fn any_answer(kind: &AskKind, remember: Remember, chance: &mut Chance) -> Answer {
    let data = match kind {
        AskKind::Form { schema } if schema.as_value()["properties"]["warehouse_id"].is_object() => {
            Some(json!({ "warehouse_id": "WH-7" }))
        }
        _ => None,
    };
    match chance.below(8) {
        0 => Answer::Deny,
        1 => Answer::Cancel,
        2 if *kind == AskKind::Approval => Answer::Approve { covers: Some(Coverage::Call), data },
        3 if remember == Remember::Session => Answer::Approve { covers: Some(Coverage::SESSION), data },
        _ => Answer::Approve { covers: None, data },
    }
}

async fn cancel_something(gateway: &Gateway, history: &History, chance: &mut Chance) {
    let Ok(rows) = gateway.executions(ExecutionFilter::default(), Page::first(20)).await else { return };
    if let Some(row) = chance.pick(&rows.items) {
        cancel(gateway, history, row.id).await;
    }
}

async fn cancel(gateway: &Gateway, history: &History, id: ExecutionId) {
    // A refusal (ended, in doubt, too late) is an answer like any other here; that it will be cancelled is a promise.
    if let Ok(_) | Err(CancelError::Stopping) = gateway.cancel(id, &agent(), "changed my mind").await {
        history.cancelled(id);
    }
}

async fn settle_something(gateway: &Gateway, chance: &mut Chance) {
    let filter = ExecutionFilter { status: vec![Status::InDoubt], ..ExecutionFilter::default() };
    let Ok(rows) = gateway.executions(filter, Page::first(20)).await else { return };
    let Some(row) = chance.pick(&rows.items) else { return };
    let settlement = match chance.below(2) {
        0 => Settlement::Failed { message: "looked: it did not happen".into() },
        _ => Settlement::Retry,
    };
    let _ = gateway.settle(row.id, CallNo(0), settlement, &ann()).await;
}

/// Says yes to all that is open; whether there was anything.
pub(super) async fn answer_everything(gateway: &Gateway, history: &History, chance: &mut Chance) -> bool {
    let waiting = ElicitationFilter { open_only: true, ..ElicitationFilter::default() };
    let Ok(rows) = gateway.elicitations(waiting, Page::first(1_000)).await else { return false };
    for row in &rows.items {
        let answer = any_answer(&row.elicitation.kind, row.elicitation.remember, chance);
        decide(gateway, history, row.elicitation.id, ann(), answer).await;
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    !rows.items.is_empty()
}

/// Settles all that is in doubt.
pub(super) async fn settle_everything(gateway: &Gateway, as_what: &Settlement) {
    let filter = ExecutionFilter { status: vec![Status::InDoubt], ..ExecutionFilter::default() };
    let Ok(rows) = gateway.executions(filter, Page::first(1_000)).await else { return };
    for row in rows.items {
        for call in calls_in_doubt(gateway, row.id).await {
            // A call that cannot be settled shows as a violation of R9 in the end.
            let _ = gateway.settle(row.id, call, as_what.clone(), &ann()).await;
        }
    }
}
