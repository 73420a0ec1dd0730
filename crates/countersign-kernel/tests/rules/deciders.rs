//! R6 and R7: of many deciders one wins, and time takes no side.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use countersign_core::elicitation::{Decider, Decision};
use countersign_core::execution::Status;
use countersign_kernel::{Answer, Caller, DecideError, Gateway, Receipt, Target};
use countersign_sdk::{Outcome, Principal};
use countersign_testkit::history::History;
use countersign_testkit::invariants::{Moment, violations};
use countersign_testkit::world::{InTests, World, ann, bob, says, yes};
use futures_util::FutureExt;
use serde_json::json;

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;
const DECIDERS: usize = 64;

fn person(n: usize) -> Caller {
    Principal::approver(&format!("person-{n}")).unwrap().into()
}

fn answer(n: usize) -> Answer {
    match n % 3 {
        0 => yes(),
        1 => Answer::Deny,
        _ => Answer::Cancel,
    }
}

async fn all_at_once(gateway: &Gateway, target: Target) -> Vec<(usize, Result<Receipt, DecideError>)> {
    let start = Arc::new(tokio::sync::Barrier::new(DECIDERS));
    let deciders = (0..DECIDERS).map(|n| {
        let (gateway, start) = (gateway.clone(), Arc::clone(&start));
        tokio::spawn(async move {
            start.wait().await;
            (n, gateway.decide(says(person(n), target, answer(n))).await)
        })
    });
    let mut results = Vec::new();
    for decider in deciders.collect::<Vec<_>>() {
        results.push(decider.await.unwrap());
    }
    results
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_64_concurrent_deciders_one_wins_and_the_others_are_shown_the_winner() {
    for round in 0..20 {
        let world = World::new(round);
        let gateway = world.start().await;
        let waiting = gateway.ask("lab.destroy", json!({ "what": "x" })).await.unwrap();
        let target = Target::Elicitation(waiting.paused().unwrap().elicitation.id);
        let results = all_at_once(&gateway, target).await;

        let won: Vec<_> = results.iter().filter_map(|(n, r)| Some((*n, r.as_ref().ok()?))).collect();
        assert_eq!(won.len(), 1, "round {round}");
        let (winner, receipt) = (won[0].0, won[0].1.clone());
        for (n, result) in results.iter().filter(|(n, _)| *n != winner) {
            let Err(DecideError::Decided(shown)) = result else { panic!("round {round}, {n}: {result:?}") };
            assert_eq!(**shown, receipt.decision);
        }
        let again = gateway.decide(says(person(winner), target, answer(winner))).await.unwrap();
        assert_eq!(again, receipt, "the same decider repeating itself gets the same success");

        let end = gateway.end_of(&waiting).await;
        assert_eq!(end.success(), receipt.decision.outcome == Outcome::Approved);
        assert_eq!(world.ledger.effects().len(), usize::from(end.success()));
        let found = violations(&world.disk, &world.ledger, &History::default(), Moment::AtRest).await;
        assert_eq!(found, Vec::<String>::new());
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_person_with_another_word_is_shown_what_stands() {
    let gateway = World::new(1).start().await;
    let waiting = gateway.ask("lab.destroy", json!({ "what": "x" })).await.unwrap();
    gateway.ann_says(&waiting, yes()).await.unwrap();
    for (by, answer) in [(ann(), Answer::Deny), (ann(), Answer::Cancel), (bob(), yes())] {
        let refused =
            gateway.decide(says(by, Target::Execution(waiting.execution), answer)).await.unwrap_err();
        assert_eq!(refused.code(), "already_decided");
        let DecideError::Decided(standing) = refused else { panic!("{refused}") };
        let Decision { outcome, by, .. } = *standing;
        assert_eq!(
            (outcome, by),
            (Outcome::Approved, Decider::Person { principal: ann().principal.id, token: None })
        );
    }
}

#[test]
fn a_repetition_is_a_success_after_a_restart_too() {
    let world = World::new(1);
    let (waiting, receipt) = world.life(async |gateway| {
        let waiting = gateway.ask("lab.destroy", json!({ "what": "x" })).await.unwrap();
        let receipt = gateway.ann_says(&waiting, yes()).await.unwrap();
        gateway.end_of(&waiting).await;
        (waiting, receipt)
    });
    world.life(async |gateway| {
        assert_eq!(gateway.ann_says(&waiting, yes()).await.unwrap(), receipt);
        assert!(gateway.end_of(&waiting).await.success());
    });
    assert_eq!(world.ledger.effects().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_last_millisecond_counts_and_the_next_does_not() {
    for (jump, in_time) in [(DAY_MS - 1, true), (DAY_MS, false), (DAY_MS + 1, false)] {
        let world = World::new(1);
        let gateway = world.start().await;
        let waiting = gateway.ask("lab.destroy", json!({ "what": "x" })).await.unwrap();
        world.clock.jump(jump);
        let decided = gateway.ann_says(&waiting, yes()).await;
        assert_eq!(decided.is_ok(), in_time, "{jump}");
        let end = gateway.end_of(&waiting).await;
        assert_eq!(end.error.map(|e| e.code), (!in_time).then(|| "expired".to_owned()));
        assert_eq!(world.ledger.effects().len(), usize::from(in_time));
    }
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_jumps_back_revives_nothing() {
    let world = World::new(1);
    let gateway = world.start().await;
    let waiting = gateway.ask("lab.destroy", json!({ "what": "x" })).await.unwrap();
    world.clock.jump(DAY_MS);
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(gateway.result(waiting.execution).await.unwrap().unwrap().status, Status::Failed);
    world.clock.jump(-2 * DAY_MS);
    assert!(matches!(gateway.ann_says(&waiting, yes()).await, Err(DecideError::Expired)));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(world.ledger.effects(), []);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_jumps_back_before_the_expiry_only_makes_it_later() {
    let world = World::new(1);
    let gateway = world.start().await;
    let waiting = gateway.ask("lab.destroy", json!({ "what": "x" })).await.unwrap();
    world.clock.jump(-DAY_MS);
    tokio::time::sleep(Duration::from_secs(36 * 60 * 60)).await;
    gateway.ann_says(&waiting, yes()).await.unwrap();
    assert!(gateway.end_of(&waiting).await.success());
}

#[tokio::test(start_paused = true)]
async fn a_decision_is_taken_also_while_the_clock_is_behind_its_question() {
    for answer in [yes(), Answer::Deny] {
        let world = World::new(1);
        let gateway = world.start().await;
        let waiting = gateway.ask("lab.destroy", json!({ "what": "x" })).await.unwrap();
        world.clock.jump(-DAY_MS);
        gateway.ann_says(&waiting, answer.clone()).await.unwrap();
        let end = gateway.end_of(&waiting).await;
        assert_eq!(end.success(), answer == yes(), "{end:?}");
        assert_eq!(world.ledger.effects().len(), usize::from(end.success()));
    }
}

/// A program that decides from the very callback that tells it of the question, or right after if it may not.
#[tokio::test(start_paused = true)]
async fn a_decision_made_the_moment_the_question_is_told_starts_the_call_once() {
    let world = World::new(1);
    let itself: Arc<OnceLock<Gateway>> = Arc::default();
    let known = Arc::clone(&itself);
    let builder = world.builder(Arc::new(world.disk.clone())).on_pause(move |pending| {
        let (gateway, target) = (known.get().unwrap().clone(), Target::Elicitation(pending.elicitation.id));
        let mut deciding = Box::pin(async move { gateway.decide(says(ann(), target, yes())).await });
        if deciding.as_mut().now_or_never().is_none() {
            tokio::spawn(deciding);
        }
    });
    let gateway = world.start_with(builder).await;
    assert!(itself.set(gateway.clone()).is_ok());
    let told = gateway.ask("lab.slow", json!({ "ms": 500 })).await.unwrap();
    let end = tokio::time::timeout(Duration::from_secs(10), gateway.end_of(&told))
        .await
        .expect("it ends in good time");
    assert_eq!(end.status, Status::Succeeded, "{end:?}");
    assert_eq!(world.ledger.effects().len(), 1);
}
