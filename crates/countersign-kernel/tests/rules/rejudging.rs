//! What waits when the rules change: what still asks stays, the rest is withdrawn, and nothing that looks approvable is void.

use std::time::Duration;

use countersign_core::elicitation::Decider;
use countersign_core::event::EventBody;
use countersign_core::execution::Status;
use countersign_kernel::ports::{ElicitationRow, Page, Store as _};
use countersign_kernel::{DecideError, Gateway, Target};
use countersign_sdk::{Outcome, Remember};
use countersign_testkit::faulty_store::{Fault, Faults};
use countersign_testkit::world::{InTests, World, ann, says, yes};
use serde_json::{Value, json};

const DESTROY: &str = "lab.destroy";

fn note() -> Value {
    json!({ "what": "note 7" })
}

fn rule(pattern: &str, rest: &str) -> String {
    format!("[[rule]]\nmatch = \"{pattern}\"\n{rest}\n")
}

/// One question, asked in a life without rules.
fn waiting(world: &World) -> (countersign_kernel::ExecutionResult, ElicitationRow) {
    world.life(async |gateway| {
        let waiting = gateway.asks(DESTROY, note()).await;
        (waiting, gateway.open().await.remove(0))
    })
}

async fn the_withdrawal(gateway: &Gateway, asked: &ElicitationRow) -> String {
    let row = gateway.elicitation(asked.elicitation.id).await.unwrap().unwrap();
    let decision = row.decision.unwrap();
    assert_eq!(decision.outcome, Outcome::Cancelled);
    let reason = match decision.by {
        Decider::Gateway { reason } => Some(reason),
        _ => None,
    };
    reason.unwrap()
}

#[test]
fn what_still_asks_on_the_same_terms_stays_as_it_was_shown_and_can_be_approved() {
    let world = World::new(1);
    let (waiting, asked) = waiting(&world);
    let world = world.under(&rule("other.*", "effect = \"deny\""));
    world.life(async |gateway| {
        assert_eq!(
            gateway.open().await,
            std::slice::from_ref(&asked),
            "neither its id nor its digest changed"
        );
        gateway.decide(says(ann(), Target::Elicitation(asked.elicitation.id), yes())).await.unwrap();
        assert!(gateway.end_of(&waiting).await.success());
        let story = gateway.story(&waiting).await;
        assert_eq!(story[2..5], ["Asked", "Rejudged", "Decided"], "{story:?}");
    });
    assert_eq!(world.ledger.effects().len(), 1);
}

#[test]
fn a_rule_that_merely_moved_in_the_file_changes_nothing() {
    let money = rule(DESTROY, "effect = \"ask\"\nreason = \"Gone is gone.\"\nexpires = \"1h\"");
    let world = World::new(1).under(&money);
    let (waiting, asked) = waiting(&world);
    let world = world.under(&format!("{}{money}", rule("other.*", "effect = \"deny\"")));
    world.life(async |gateway| {
        assert_eq!(gateway.open().await, std::slice::from_ref(&asked));
        gateway.ann_says(&waiting, yes()).await.unwrap();
        assert!(gateway.end_of(&waiting).await.success());
    });
}

#[test]
fn what_asks_on_other_terms_is_asked_again_under_another_id() {
    for (terms, remember) in [
        ("reason = \"Gone is gone.\"", Remember::Session),
        ("remember = \"call\"", Remember::Call),
        ("expires = \"1h\"", Remember::Session),
    ] {
        let world = World::new(1);
        let (waiting, asked) = waiting(&world);
        let world = world.under(&rule(DESTROY, &format!("effect = \"ask\"\n{terms}")));
        world.life(async |gateway| {
            let open = gateway.open().await;
            assert_eq!(open.len(), 1, "{terms}");
            let again = &open[0].elicitation;
            assert_ne!(again.id, asked.elicitation.id, "{terms}");
            assert_ne!(again.digest, asked.elicitation.digest, "{terms}");
            assert_eq!((&again.args, again.remember), (&asked.elicitation.args, remember), "{terms}");
            let reason = the_withdrawal(&gateway, &asked).await;
            assert_eq!(reason, "the policy changed, and the question was asked again on its new terms");

            // Whoever still has the old page open is told, and decides nothing.
            let old = says(ann(), Target::Elicitation(asked.elicitation.id), yes());
            assert!(matches!(gateway.decide(old).await, Err(DecideError::Decided(_))));
            assert_eq!(world.ledger.effects(), []);

            gateway.ann_says(&waiting, yes()).await.unwrap();
            assert!(gateway.end_of(&waiting).await.success(), "{terms}");
        });
        assert_eq!(world.ledger.effects().len(), 1);
    }
}

#[test]
fn what_the_policy_now_denies_or_allows_is_withdrawn_with_a_reason() {
    for (effect, reason) in [
        ("deny", "the policy changed and now denies this call"),
        ("allow", "the policy changed and now allows this call; call again"),
    ] {
        let world = World::new(1);
        let (waiting, asked) = waiting(&world);
        let world = world.under(&rule(DESTROY, &format!("effect = \"{effect}\"")));
        world.life(async |gateway| {
            assert_eq!(gateway.open().await, [], "nothing that looks approvable is void");
            assert_eq!(the_withdrawal(&gateway, &asked).await, reason);
            let end = gateway.end_of(&waiting).await;
            assert_eq!(end.status, Status::Failed);
            let error = end.error.unwrap();
            assert_eq!(error.code, "cancelled");
            assert_eq!(error.message, format!("Withdrawn: {reason}. The call did not run."));
            let audit = world.disk.audit(0, 1_000).await.unwrap();
            assert!(audit.iter().any(|record| record.entry.contains(reason)), "an auditor reads why");
        });
        assert_eq!(world.ledger.effects(), [], "{effect}");
    }
}

#[test]
fn what_was_approved_just_before_the_rules_changed_starts_where_they_ask_for_the_same() {
    let world = World::new(1);
    let waiting = world.life_up_to_the_start(|builder| builder, DESTROY, note());
    let world = world.under(&rule("other.*", "effect = \"deny\""));
    world.life(async |gateway| {
        assert!(gateway.end_of(&waiting).await.success());
        let story = gateway.story(&waiting).await;
        assert_eq!(story[3..6], ["Decided", "Rejudged", "CallStarted"], "{story:?}");
    });
    assert_eq!(world.ledger.effects().len(), 1);
}

#[test]
fn a_question_of_a_running_handler_stays_where_the_policy_still_lets_it_run() {
    let world = World::new(1);
    let waiting = world.life(async |gateway| gateway.asks("lab.transfer", json!({ "amount": 20_000 })).await);
    let world = world.under(&rule("other.*", "effect = \"deny\""));
    world.life(async |gateway| {
        assert_eq!(gateway.open().await.len(), 1);
        gateway.ann_says(&waiting, yes()).await.unwrap();
        assert!(gateway.end_of(&waiting).await.success());
    });
    assert_eq!(world.ledger.effects().len(), 1);
}

#[test]
fn a_question_of_a_running_handler_is_withdrawn_where_the_policy_no_longer_lets_it_run() {
    for effect in ["deny", "ask"] {
        let world = World::new(1);
        let waiting =
            world.life(async |gateway| gateway.asks("lab.transfer", json!({ "amount": 20_000 })).await);
        let world = world.under(&rule("lab.transfer", &format!("effect = \"{effect}\"")));
        world.life(async |gateway| {
            assert_eq!(gateway.open().await, [], "{effect}");
            assert!(!gateway.end_of(&waiting).await.success(), "{effect}");
        });
        assert_eq!(world.ledger.effects(), [], "{effect}");
    }
}

#[test]
fn a_start_under_the_same_rules_looks_at_nothing_that_waits() {
    let world = World::new(1);
    let (waiting, _) = waiting(&world);
    let faults = Faults::none();
    world.life_on(
        &faults,
        |builder| builder,
        async |gateway| {
            assert_eq!(faults.commits(), 0);
            assert!(!gateway.story(&waiting).await.contains(&"Rejudged"));
        },
    );
}

#[test]
fn a_store_that_fails_while_it_is_judged_again_leaves_it_to_the_next_start() {
    let world = World::new(1);
    let (waiting, asked) = waiting(&world);
    let world = world.under(&rule(DESTROY, "effect = \"deny\""));
    world.life_on(
        &Faults::at(1, Fault::Refuse),
        |builder| builder,
        async |gateway| {
            // It looks approvable and is not: it is checked once more, and withdrawn then.
            assert_eq!(gateway.open().await, std::slice::from_ref(&asked));
            assert!(matches!(gateway.ann_says(&waiting, yes()).await, Err(DecideError::Void(_))));
        },
    );
    let world = World::new(2);
    let (waiting, _) = self::waiting(&world);
    let world = world.under(&rule(DESTROY, "effect = \"deny\""));
    world.life_on(&Faults::at(1, Fault::Refuse), |builder| builder, async |_| ());
    world.life(async |gateway| {
        assert_eq!(gateway.open().await, []);
        assert!(!gateway.end_of(&waiting).await.success());
    });
}

#[test]
fn a_question_that_expired_while_nobody_ran_is_closed_by_the_clock_and_not_asked_again() {
    let world = World::new(1);
    let (waiting, asked) = waiting(&world);
    world.clock.pass(25 * 60 * 60 * 1_000);
    let world = world.under(&rule(DESTROY, "effect = \"ask\"\nreason = \"New.\""));
    world.life(async |gateway| {
        assert_eq!(gateway.end_of(&waiting).await.error.unwrap().code, "expired");
        let row = gateway.elicitation(asked.elicitation.id).await.unwrap().unwrap();
        assert_eq!(row.decision.unwrap().outcome, Outcome::Expired);
    });
}

#[test]
fn many_questions_are_all_judged_again() {
    let world = World::new(1).set(|settings| settings.max_pending_per_session = 2_000);
    world.life(async |gateway| {
        for n in 0..1_100 {
            gateway.asks(DESTROY, json!({ "what": n.to_string() })).await;
        }
    });
    let world = world.under(&rule(DESTROY, "effect = \"ask\"\nreason = \"New.\""));
    world.life(async |gateway| {
        let all = countersign_kernel::ports::ElicitationFilter { open_only: true, ..Default::default() };
        let first = gateway.elicitations(all.clone(), Page::first(1_000)).await.unwrap();
        let rest =
            gateway.elicitations(all, Page { cursor: first.next.clone(), limit: 1_000 }).await.unwrap();
        assert_eq!(first.items.len() + rest.items.len(), 1_100);
        assert!(first.items.iter().chain(&rest.items).all(|row| row.elicitation.because.ends_with(": New.")));
        tokio::time::sleep(Duration::from_secs(1)).await;
        let journal = gateway.journal(first.items[0].execution).await.unwrap();
        let asked = journal.iter().filter(|event| matches!(event.body, EventBody::Asked(_))).count();
        assert_eq!(asked, 2, "once by the first process, once by this one");
    });
}
