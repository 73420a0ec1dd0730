//! Seeded simulation: gateways, people, a faulty disk and a jumping clock, in virtual time.
//!
//! One seed is one schedule. A schedule is a few processes in a row on one disk; in each, an agent calls, people decide,
//! cancel and settle at random, the store fails or the process dies at random, and the clock jumps. At the end the
//! faults stop, everybody decides what is left, and the rules are checked. A failure names its seed.

use std::sync::Arc;
use std::time::Duration;

use countersign_core::event::Settlement;
use countersign_core::execution::Status;
use countersign_core::ids::CallNo;
use countersign_kernel::ports::{ElicitationFilter, ExecutionFilter, Page};
use countersign_kernel::{Answer, Caller, Coverage, Decide, Gateway, Patience, Target};
use countersign_sdk::{AskKind, Remember};
use serde_json::{Value, json};

use crate::chance::Chance;
use crate::crash::in_a_process;
use crate::faulty_store::{Fault, Faults, FaultyStore};
use crate::history::History;
use crate::invariants::{Moment, violations};
use crate::world::{InTests, World, agent, ann, bob, request};

/// How much happens in one process.
const MOVES_PER_LIFE: u64 = 24;
/// No schedule takes this long unless something waits for what never comes.
const LONGEST_LIFE: Duration = Duration::from_secs(24 * 60 * 60);
/// How many processes a schedule has before the last, quiet one.
const MAX_LIVES: u64 = 3;

/// Runs one schedule; the violations it found, empty where all is well.
pub fn run(seed: u64) -> Vec<String> {
    schedule(seed).0
}

/// What a schedule left on its disk, as text: the same for the same seed.
pub fn trace(seed: u64) -> String {
    let (_, world) = schedule(seed);
    in_a_process(async { crate::invariants::dump(&world.disk).await })
}

fn schedule(seed: u64) -> (Vec<String>, World) {
    let mut chance = Chance::new(seed);
    let mut world = World::new(seed);
    world.settings.park_after = Duration::from_millis(50 + chance.below(2_000));
    world.settings.expires = Duration::from_millis(500 + chance.below(20_000));
    let history = History::default();
    let mut hung = Vec::new();
    let lives = 1 + chance.below(MAX_LIVES);
    for _ in 0..lives {
        let faults = any_faults(&mut chance);
        hung.extend(life(&world, &history, &mut chance, &faults));
        world.clock.pass(chance.below(3_000));
    }
    hung.extend(last_life(&world, &history, &mut chance));
    (hung, world)
}

fn any_faults(chance: &mut Chance) -> Faults {
    let mut faults = Faults::none().shaken(3, chance.draw());
    if chance.one_in(2) {
        let fault = if chance.one_in(2) { Fault::CrashBefore } else { Fault::CrashAfter };
        faults = faults.and_at(1 + chance.below(40), fault);
    }
    if chance.one_in(2) {
        faults = faults.failing_one_in(4 + chance.below(20), chance.draw());
    }
    faults
}

/// One process, until it is done or dies.
fn life(world: &World, history: &History, chance: &mut Chance, faults: &Faults) -> Option<String> {
    in_a_process(async {
        let store = Arc::new(FaultyStore::new(Arc::new(world.disk.clone()), faults.clone()));
        let moves = async {
            let Ok(gateway) = world.builder(store).start().await else { return };
            let session = crate::world::session();
            if gateway.open_session(&agent(), "sim", Some(session)).await.is_err() {
                return;
            }
            for _ in 0..MOVES_PER_LIFE {
                make_a_move(&gateway, world, history, chance).await;
            }
        };
        let hung = tokio::select! {
            biased;
            () = moves => None,
            () = faults.until_crashed() => None,
            () = tokio::time::sleep(LONGEST_LIFE) => Some("liveness: a process hung".to_owned()),
        };
        world.clock.end_life();
        hung
    })
}

/// The last process has no faults: everybody decides what is left, and then the rules must hold.
fn last_life(world: &World, history: &History, chance: &mut Chance) -> Vec<String> {
    let quiet = async {
        let gateway = world.start().await;
        let mut found = Vec::new();
        for _ in 0..20 {
            if !answer_everything(&gateway, history, chance).await {
                break;
            }
        }
        tokio::time::sleep(Duration::from_secs(60)).await;
        settle_everything(&gateway).await;
        for _ in 0..20 {
            if !answer_everything(&gateway, history, chance).await {
                break;
            }
        }
        tokio::time::sleep(Duration::from_secs(60)).await;
        settle_everything(&gateway).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        let waiting = ElicitationFilter { open_only: true, ..ElicitationFilter::default() };
        if let Ok(rows) = gateway.elicitations(waiting, Page::first(10)).await {
            found.extend(
                rows.items.iter().map(|row| format!("liveness: {} is still open", row.elicitation.id)),
            );
        }
        found.extend(violations(&world.disk, &world.ledger, history, Moment::AtRest).await);
        found
    };
    in_a_process(async {
        let hung = |_| vec!["liveness: the last process hung".to_owned()];
        tokio::time::timeout(LONGEST_LIFE, quiet).await.unwrap_or_else(hung)
    })
}

async fn make_a_move(gateway: &Gateway, world: &World, history: &History, chance: &mut Chance) {
    match chance.below(16) {
        0..=5 => call_something(gateway, history, chance).await,
        6..=9 => decide_something(gateway, history, chance).await,
        10 => cancel_something(gateway, chance).await,
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
    if let Ok(result) = gateway.call(call).await {
        history.told(&result);
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

async fn decide(
    gateway: &Gateway,
    history: &History,
    id: countersign_core::ids::ElicitationId,
    by: Caller,
    answer: Answer,
) {
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

async fn cancel_something(gateway: &Gateway, chance: &mut Chance) {
    let Ok(rows) = gateway.executions(ExecutionFilter::default(), Page::first(20)).await else { return };
    if let Some(row) = chance.pick(&rows.items) {
        // A refusal (ended, in doubt, too late) is an answer like any other here.
        let _ = gateway.cancel(row.id, &agent(), "changed my mind").await;
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
async fn answer_everything(gateway: &Gateway, history: &History, chance: &mut Chance) -> bool {
    let waiting = ElicitationFilter { open_only: true, ..ElicitationFilter::default() };
    let Ok(rows) = gateway.elicitations(waiting, Page::first(1_000)).await else { return false };
    for row in &rows.items {
        let answer = any_answer(&row.elicitation.kind, row.elicitation.remember, chance);
        decide(gateway, history, row.elicitation.id, ann(), answer).await;
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    !rows.items.is_empty()
}

async fn settle_everything(gateway: &Gateway) {
    let filter = ExecutionFilter { status: vec![Status::InDoubt], ..ExecutionFilter::default() };
    let Ok(rows) = gateway.executions(filter, Page::first(1_000)).await else { return };
    for row in rows.items {
        let failed = Settlement::Failed { message: "looked: it did not happen".into() };
        if let Ok(result) = gateway.settle(row.id, CallNo(0), failed, &ann()).await {
            gateway.end_of(&result).await;
        }
    }
}
