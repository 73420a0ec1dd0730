//! Remembered approvals: what they cover, for how long, how often, and who has the last word.

use std::time::Duration;

use countersign_core::event::{EventBody, StartedBy};
use countersign_core::grant::Grant;
use countersign_core::policy::PathPattern;
use countersign_kernel::{Caller, DecideError, ExecutionResult, Gateway, NewGrant, NewToken, Settings};
use countersign_sdk::{ExposeSecret, Role};
use countersign_testkit::world::{InTests, World, ann, bob, session, yes};
use serde_json::{Value, json};

fn note() -> Value {
    json!({ "what": "note 7" })
}

/// A grant by Ann, for as long as approvals are remembered unless said otherwise.
async fn give(gateway: &Gateway, pattern: &str, lasts: Option<Duration>, uses: Option<u32>) -> Grant {
    let pattern = PathPattern::parse(pattern).unwrap();
    let expires_at = lasts.map(|lasts| gateway.now().after(lasts));
    let new = NewGrant { expires_at, uses, ..NewGrant::new(session(), pattern) };
    gateway.give_grant(&ann(), new).await.unwrap()
}

async fn call(gateway: &Gateway, path: &str) -> ExecutionResult {
    gateway.ask(path, note()).await.unwrap()
}

/// A person with a token.
async fn with_token(gateway: &Gateway, name: &str) -> Caller {
    let minted = gateway.create_token(NewToken::new(name, Role::Approver), None).await.unwrap();
    gateway.authenticate(minted.secret.expose_secret()).await.unwrap().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_grant_turns_ask_into_allow_and_its_use_is_on_record() {
    let gateway = World::new(1).start().await;
    let grant = give(&gateway, "lab.destroy", None, None).await;
    let end = call(&gateway, "lab.destroy").await;
    assert!(end.success());
    let journal = gateway.journal(end.execution).await.unwrap();
    let by = journal.iter().find_map(|event| match &event.body {
        EventBody::CallStarted { by, .. } => Some(by.clone()),
        _ => None,
    });
    assert_eq!(by, Some(StartedBy::Grant { id: grant.id }));
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_nobody_gave_an_end_ends_with_all_remembered_approvals() {
    let world = World::new(1);
    let gateway = world.start().await;
    give(&gateway, "lab.destroy", None, None).await;
    let remembered = Settings::default().remember_for;
    world.clock.pass(u64::try_from(remembered.as_millis()).unwrap() - 1);
    assert!(call(&gateway, "lab.destroy").await.success());
    world.clock.pass(1);
    assert!(call(&gateway, "lab.destroy").await.paused().is_some(), "a person is asked again");
}

#[tokio::test(start_paused = true)]
async fn a_grant_never_turns_deny_into_allow() {
    let world = World::new(1).under("[[rule]]\nmatch = \"lab.destroy\"\neffect = \"deny\"\n");
    let gateway = world.start().await;
    give(&gateway, "lab.destroy", None, None).await;
    give(&gateway, "**", None, None).await;
    assert_eq!(call(&gateway, "lab.destroy").await.error.unwrap().code, "denied");
    assert_eq!(world.ledger.effects(), []);
}

#[tokio::test(start_paused = true)]
async fn a_grant_does_not_reach_a_rule_or_tool_that_asks_about_each_call() {
    let world = World::new(1).under("[[rule]]\nmatch = \"lab.put\"\neffect = \"ask\"\nremember = \"call\"\n");
    let gateway = world.start().await;
    give(&gateway, "**", None, None).await;
    for path in ["lab.destroy_each", "lab.put"] {
        assert!(call(&gateway, path).await.paused().is_some(), "{path}");
    }
    assert!(call(&gateway, "lab.destroy").await.success());
}

#[tokio::test(start_paused = true)]
async fn a_grant_is_used_as_often_as_it_says() {
    let world = World::new(1);
    let gateway = world.start().await;
    give(&gateway, "lab.destroy", None, Some(2)).await;
    assert!(call(&gateway, "lab.destroy").await.success());
    assert!(call(&gateway, "lab.destroy").await.success());
    assert!(call(&gateway, "lab.destroy").await.paused().is_some());
    assert_eq!(world.ledger.effects().len(), 2);
    assert_eq!(gateway.grants(&session()).await.unwrap()[0].uses_left, Some(0));
}

#[tokio::test(start_paused = true)]
async fn a_grant_of_one_use_lets_one_of_many_concurrent_calls_through() {
    let world = World::new(1);
    let gateway = world.start().await;
    give(&gateway, "lab.destroy", None, Some(1)).await;
    let ended = futures_util::future::join_all((0..8).map(|_| call(&gateway, "lab.destroy"))).await;
    assert_eq!(ended.iter().filter(|end| end.success()).count(), 1);
    assert_eq!(ended.iter().filter(|end| end.paused().is_some()).count(), 7);
    assert_eq!(world.ledger.effects().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_grant_ends_when_it_says() {
    let gateway = World::new(1).start().await;
    give(&gateway, "lab.destroy", Some(Duration::from_secs(60)), None).await;
    tokio::time::sleep(Duration::from_secs(59)).await;
    assert!(call(&gateway, "lab.destroy").await.success());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(call(&gateway, "lab.destroy").await.paused().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_pattern_covers_what_it_found_and_nothing_beside_it() {
    let gateway = World::new(1).start().await;
    let grant = give(&gateway, "lab.*", None, None).await;
    assert!(grant.tools.iter().any(|t| t.path.as_str() == "lab.destroy"));
    assert_eq!(grant.pattern.as_deref(), Some("lab.*"));
    assert!(call(&gateway, "lab.destroy").await.success());
    assert!(call(&gateway, "lab.put").await.success());
    let nothing = PathPattern::parse("nowhere.**").unwrap();
    let refused = gateway.give_grant(&ann(), NewGrant::new(session(), nothing.clone())).await.unwrap_err();
    assert!(matches!(refused, DecideError::NotFound), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_revoked_grant_covers_nothing_and_clearing_revokes_all() {
    let gateway = World::new(1).start().await;
    let grant = give(&gateway, "lab.destroy", None, None).await;
    assert!(call(&gateway, "lab.destroy").await.success());
    gateway.revoke_grant(&bob(), grant.id).await.unwrap();
    assert!(call(&gateway, "lab.destroy").await.paused().is_some());
    give(&gateway, "lab.put", None, None).await;
    gateway.clear_grants(&bob(), &session()).await.unwrap();
    assert!(call(&gateway, "lab.put").await.paused().is_some());
    assert_eq!(gateway.grants(&session()).await.unwrap(), []);
}

#[test]
fn a_grant_survives_a_restart() {
    let world = World::new(1);
    world.life(async |gateway| assert!(gateway.approved("lab.destroy", note()).await.success()));
    world.life(async |gateway| assert!(call(&gateway, "lab.destroy").await.success()));
    assert_eq!(world.ledger.effects().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_spent_grant_does_not_hide_a_live_one() {
    let world = World::new(1);
    let gateway = world.start().await;
    give(&gateway, "lab.destroy", None, Some(1)).await;
    give(&gateway, "lab.destroy", None, None).await;
    for n in 1..=3 {
        assert!(call(&gateway, "lab.destroy").await.success(), "call {n}");
    }
    give(&gateway, "lab.elicit", None, Some(1)).await;
    give(&gateway, "lab.elicit", None, None).await;
    for n in 1..=3 {
        let args = json!({ "style": "method", "remember": "session" });
        let end = gateway.ask("lab.elicit", args).await.unwrap();
        assert!(end.success(), "call {n} that asks from inside its handler");
    }
}

#[tokio::test(start_paused = true)]
async fn a_grant_given_with_a_revoked_token_is_dead_and_does_not_hide_the_next() {
    let world = World::new(1);
    let gateway = world.start().await;
    let carol = with_token(&gateway, "carol").await;
    let pattern = PathPattern::parse("lab.destroy").unwrap();
    gateway.give_grant(&carol, NewGrant::new(session(), pattern.clone())).await.unwrap();
    assert!(call(&gateway, "lab.destroy").await.success());
    gateway.revoke_token(carol.token.unwrap(), None).await.unwrap();

    let waiting = call(&gateway, "lab.destroy").await;
    assert!(waiting.paused().is_some(), "dead");
    gateway.ann_says(&waiting, yes()).await.unwrap();
    assert!(gateway.end_of(&waiting).await.success());
    assert!(call(&gateway, "lab.destroy").await.success(), "Ann's approval is remembered");
    assert_eq!(world.ledger.effects().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_tool_cannot_collect_a_lasting_yes_for_another_under_its_own_words() {
    let gateway = World::new(1).start().await;
    let asks = json!({ "style": "method", "tool_path": "lab.destroy" });
    let waiting = gateway.ask("lab.elicit", asks).await.unwrap();
    gateway.ann_says(&waiting, yes()).await.unwrap();
    assert!(gateway.end_of(&waiting).await.success());
    assert_eq!(gateway.grants(&session()).await.unwrap(), []);
    assert!(call(&gateway, "lab.destroy").await.paused().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_yes_for_the_session_counts_half_a_day_and_no_longer() {
    let gateway = World::new(1).start().await;
    gateway.approved("lab.destroy", note()).await;
    tokio::time::sleep(Duration::from_secs(12 * 60 * 60 - 1)).await;
    assert!(call(&gateway, "lab.destroy").await.success());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(call(&gateway, "lab.destroy").await.paused().is_some());
}

/// Whoever notices it: a call that would have used it, or the timer.
#[test]
fn a_grant_that_was_seen_expired_stays_so_when_the_clock_goes_back() {
    const MINUTE_MS: i64 = 60_000;
    for seen_by_a_call in [true, false] {
        let world = World::new(1);
        let grant = world
            .life(async |gateway| give(&gateway, "lab.destroy", Some(Duration::from_secs(30)), None).await);
        world.clock.jump(MINUTE_MS);
        world.life(async |gateway| {
            if seen_by_a_call {
                assert!(call(&gateway, "lab.destroy").await.paused().is_some());
            } else {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            world.clock.jump(-MINUTE_MS);
            assert!(gateway.now() < grant.expires_at.unwrap());
            assert!(call(&gateway, "lab.destroy").await.paused().is_some(), "in this process");
        });
        world.life(async |gateway| {
            assert!(gateway.now() < grant.expires_at.unwrap());
            assert!(call(&gateway, "lab.destroy").await.paused().is_some(), "and in the next");
            let listed = gateway.grants(&session()).await.unwrap();
            assert_eq!(listed.iter().map(|grant| grant.uses_left).collect::<Vec<_>>(), [Some(0)]);
            // Those that nobody saw expire, and those given since, count as ever.
            give(&gateway, "lab.destroy", Some(Duration::from_secs(30)), None).await;
            assert!(call(&gateway, "lab.destroy").await.success());
        });
    }
}

/// R15: whoever reads them changes nothing, also where one has just expired.
#[tokio::test(start_paused = true)]
async fn reading_remembered_approvals_records_nothing() {
    let world = World::new(1);
    let gateway = world.start().await;
    let given = give(&gateway, "lab.destroy", Some(Duration::from_secs(30)), None).await;
    let recorded = async || gateway.standing().await.unwrap().recorded;
    let before = recorded().await;
    world.clock.jump(60_000);
    let listed = gateway.grants(&session()).await.unwrap();
    assert_eq!(listed, [given], "still as it was given; its end says that it is over");
    assert_eq!(recorded().await, before);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(recorded().await, before + 1, "the timer records it");
}
