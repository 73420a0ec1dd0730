//! R5 and A23: a storage failure never answers success, loses nothing that was acknowledged, and repeats nothing.

use std::sync::Arc;
use std::time::Duration;

use countersign_core::execution::Status;
use countersign_kernel::{CallRequest, DecideError, Follow, Gateway, NewToken, Patience};
use countersign_testkit::faulty_store::{Fault, Faults, FaultyStore};
use countersign_testkit::history::History;
use countersign_testkit::invariants::{Moment, violations};
use countersign_testkit::world::{InTests, World, request, yes};
use serde_json::{Value, json};

async fn on_a_faulty_store(world: &World) -> (Gateway, Faults) {
    let faults = Faults::none();
    let store = FaultyStore::new(Arc::new(world.disk.clone()), faults.clone());
    (world.start_with(world.builder(Arc::new(store))).await, faults)
}

/// Plans a fault for the n-th commit from here.
fn next(faults: &Faults, n: u64, fault: Fault) {
    drop(faults.clone().and_at(faults.commits() + n, fault));
}

fn note() -> Value {
    json!({ "what": "note 7" })
}

async fn nothing_is_broken(world: &World) {
    tokio::time::sleep(Duration::from_secs(60)).await;
    let found = violations(&world.disk, &world.ledger, &History::default(), Moment::AtRest).await;
    assert_eq!(found, Vec::<String>::new());
}

/// A caller that began the call and then waits, as MCP's front does. Without this, calls would pile up where reads end faster
/// than the store takes their records.
#[tokio::test(start_paused = true)]
async fn a_safe_call_is_answered_once_the_store_has_taken_its_record() {
    let world = World::new(1);
    let (gateway, faults) = on_a_faulty_store(&world).await;
    let before = faults.commits();
    next(&faults, 1, Fault::Refuse);
    next(&faults, 2, Fault::Refuse);
    let called = tokio::time::Instant::now();
    let begun = gateway.begin_call(request("lab.read", note()), Follow::No).await.unwrap();
    let result = gateway.wait_for(&begun, Patience::UntilPaused).await.unwrap();
    assert!(result.success());
    assert_eq!(faults.commits(), before + 3);
    assert!(called.elapsed() >= Duration::from_millis(20), "a pause before each further try");
    nothing_is_broken(&world).await;
}

/// The first answer was left for the caller before it began to wait; it is how things stood then, and counts once.
#[tokio::test(start_paused = true)]
async fn a_caller_that_waits_again_after_a_pause_is_told_how_it_stands_then() {
    let world = World::new(1);
    let (gateway, _) = on_a_faulty_store(&world).await;
    let begun = gateway.begin_call(request("lab.destroy", note()), Follow::No).await.unwrap();
    let paused = gateway.wait_for(&begun, Patience::UntilPaused).await.unwrap();
    assert_eq!(paused.status, Status::Waiting);
    gateway.ann_says(&paused, yes()).await.unwrap();
    let ended = gateway.wait_for(&begun, Patience::UntilPaused).await.unwrap();
    assert!(ended.success(), "{ended:?}");
    nothing_is_broken(&world).await;
}

#[tokio::test(start_paused = true)]
async fn a_question_that_could_not_be_written_is_an_error_and_asks_nobody() {
    let world = World::new(1);
    let (gateway, faults) = on_a_faulty_store(&world).await;
    next(&faults, 1, Fault::Refuse);
    let error = gateway.ask("lab.destroy", note()).await.unwrap_err();
    assert_eq!(error.code(), "unavailable");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!((gateway.open().await, gateway.live()), (vec![], 0));
    assert!(
        gateway.ask("lab.destroy", note()).await.unwrap().paused().is_some(),
        "and works when the store does"
    );
    nothing_is_broken(&world).await;
}

#[tokio::test(start_paused = true)]
async fn a_question_whose_answer_was_lost_is_found_again_under_its_key() {
    let world = World::new(1);
    let (gateway, faults) = on_a_faulty_store(&world).await;
    let keyed = || CallRequest { key: Some("key-1".into()), ..request("lab.destroy", note()) };
    next(&faults, 1, Fault::LoseAnswer);
    assert_eq!(gateway.call(keyed()).await.unwrap_err().code(), "unavailable");
    let waiting = gateway.call(keyed()).await.unwrap();
    assert_eq!(gateway.open().await.len(), 1, "asked once");
    gateway.ann_says(&waiting, yes()).await.unwrap();
    assert!(gateway.end_of(&waiting).await.success());
    assert_eq!(world.ledger.effects().len(), 1);
    nothing_is_broken(&world).await;
}

/// Seed 43 of the simulation with all features: the question was open, and nothing looked at its end.
#[tokio::test(start_paused = true)]
async fn a_question_whose_answer_was_lost_expires_in_its_time() {
    let world = World::new(1).set(|s| s.expires = Duration::from_secs(600));
    let (gateway, faults) = on_a_faulty_store(&world).await;
    next(&faults, 1, Fault::LoseAnswer);
    assert_eq!(gateway.ask("lab.destroy", note()).await.unwrap_err().code(), "unavailable");
    tokio::time::sleep(Duration::from_secs(590)).await;
    assert_eq!(gateway.open().await.len(), 1, "it was written");
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!((gateway.open().await, world.ledger.effects()), (vec![], vec![]));
    nothing_is_broken(&world).await;
}

#[tokio::test(start_paused = true)]
async fn a_decision_that_could_not_be_written_is_no_success_and_can_be_made_again() {
    for (path, args) in [("lab.destroy", note()), ("lab.transfer", json!({ "amount": 20_000 }))] {
        let world = World::new(1);
        let (gateway, faults) = on_a_faulty_store(&world).await;
        let waiting = gateway.ask(path, args).await.unwrap();
        next(&faults, 1, Fault::Refuse);
        let error = gateway.ann_says(&waiting, yes()).await.unwrap_err();
        assert_eq!(error.code(), "unavailable");
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!((gateway.open().await.len(), world.ledger.effects().len()), (1, 0));
        gateway.ann_says(&waiting, yes()).await.unwrap();
        assert!(gateway.end_of(&waiting).await.success());
        assert_eq!(world.ledger.effects().len(), 1);
        nothing_is_broken(&world).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_decision_whose_answer_was_lost_is_the_same_success_when_it_is_made_again() {
    for (path, args) in [("lab.destroy", note()), ("lab.transfer", json!({ "amount": 20_000 }))] {
        let world = World::new(1);
        let (gateway, faults) = on_a_faulty_store(&world).await;
        let waiting = gateway.ask(path, args).await.unwrap();
        next(&faults, 1, Fault::LoseAnswer);
        let error = gateway.ann_says(&waiting, yes()).await.unwrap_err();
        assert!(matches!(error, DecideError::Gateway(_)), "{error}");
        gateway.ann_says(&waiting, yes()).await.unwrap();
        let end = tokio::time::timeout(Duration::from_secs(120), gateway.end_of(&waiting))
            .await
            .expect("it goes on");
        assert!(end.success(), "{path}");
        assert_eq!(world.ledger.effects().len(), 1, "{path}");
        nothing_is_broken(&world).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_decision_whose_answer_was_lost_is_acted_on_though_nobody_asks_again() {
    for (path, args) in [("lab.destroy", note()), ("lab.transfer", json!({ "amount": 20_000 }))] {
        let world = World::new(1);
        let (gateway, faults) = on_a_faulty_store(&world).await;
        let waiting = gateway.ask(path, args).await.unwrap();
        next(&faults, 1, Fault::LoseAnswer);
        gateway.ann_says(&waiting, yes()).await.unwrap_err();
        let end = tokio::time::timeout(Duration::from_secs(120), gateway.end_of(&waiting))
            .await
            .expect("it goes on");
        assert!(end.success(), "{path}");
        nothing_is_broken(&world).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_start_whose_answer_was_lost_is_confirmed_by_another_commit_before_the_handler_is_entered() {
    let world = World::new(1);
    let (gateway, faults) = on_a_faulty_store(&world).await;
    let waiting = gateway.ask("lab.destroy", note()).await.unwrap();
    next(&faults, 1, Fault::LoseAnswer);
    next(&faults, 2, Fault::Refuse);
    gateway.ann_says(&waiting, yes()).await.unwrap_err();
    assert_eq!(world.ledger.effects(), [], "it is not known whether the start is on the medium");
    assert!(gateway.end_of(&waiting).await.success());
    assert_eq!(world.ledger.effects().len(), 1);
    let story = gateway.story(&waiting).await;
    assert_eq!(story[3..6], ["Decided", "CallStarted", "CallReentered"], "{story:?}");
    nothing_is_broken(&world).await;
}

#[tokio::test(start_paused = true)]
async fn an_outcome_that_could_not_be_written_is_written_when_the_store_is_back() {
    for fault in [Fault::Refuse, Fault::LoseAnswer] {
        let world = World::new(1);
        let (gateway, faults) = on_a_faulty_store(&world).await;
        let waiting = gateway.ask("lab.destroy", note()).await.unwrap();
        next(&faults, 2, fault);
        gateway.ann_says(&waiting, yes()).await.unwrap();
        let end = gateway.end_of(&waiting).await;
        assert!(end.success(), "{fault:?}: {end:?}");
        assert_eq!(world.ledger.effects().len(), 1, "{fault:?}");
        nothing_is_broken(&world).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_record_of_a_read_that_the_store_refused_is_written_later_and_not_dropped() {
    let world = World::new(1);
    let (gateway, faults) = on_a_faulty_store(&world).await;
    next(&faults, 1, Fault::Refuse);
    let read = gateway.ask("lab.read", note()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(read.success());
    let story = ["Started", "CallIssued", "CallStarted", "CallSettled", "Finished"];
    assert_eq!(gateway.story(&read).await, story);
    nothing_is_broken(&world).await;
}

#[tokio::test(start_paused = true)]
async fn two_questions_asked_at_once_survive_a_store_that_refuses_the_first() {
    let world = World::new(1);
    let (gateway, faults) = on_a_faulty_store(&world).await;
    next(&faults, 1, Fault::Refuse);
    let waiting = gateway.ask("lab.two", json!({})).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(waiting.error, None);
    let open = gateway.open().await;
    assert_eq!(open.len(), 2);
    for row in open {
        let target = countersign_kernel::Target::Elicitation(row.elicitation.id);
        gateway
            .decide(countersign_testkit::world::says(countersign_testkit::world::ann(), target, yes()))
            .await
            .unwrap();
    }
    assert_eq!(gateway.end_of(&waiting).await.value, Some(json!({ "done": true })));
    assert_eq!(world.ledger.effects().len(), 1);
    nothing_is_broken(&world).await;
}

#[tokio::test(start_paused = true)]
async fn where_the_store_is_dead_nothing_succeeds() {
    let world = World::new(1);
    let (gateway, faults) = on_a_faulty_store(&world).await;
    let waiting = gateway.ask("lab.destroy", note()).await.unwrap();
    faults.crash();
    assert_eq!(gateway.ann_says(&waiting, yes()).await.unwrap_err().code(), "unavailable");
    assert_eq!(gateway.ask("lab.put", note()).await.unwrap_err().code(), "unavailable");
    let robot = countersign_testkit::world::agent();
    assert!(gateway.cancel(waiting.execution, &robot, "x").await.is_err());
    assert!(gateway.create_token(NewToken::new("x", countersign_sdk::Role::Agent), None).await.is_err());
    assert!(gateway.open_session(&robot, "x", None).await.is_err());
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(world.ledger.effects(), []);
}
