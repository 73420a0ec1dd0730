//! R10: authority is checked when a decision is made and again when the call starts.

use std::sync::Arc;
use std::time::Duration;

use countersign_core::event::Settlement;
use countersign_core::execution::Status;
use countersign_core::ids::{CallNo, TokenId};
use countersign_core::policy::PathPattern;
use countersign_kernel::{
    CallRequest, Caller, DecideError, ExecutionResult, Gateway, NewGrant, NewToken, Target,
};
use countersign_sdk::{ExposeSecret, Role, SessionId};
use countersign_testkit::faulty_store::{Fault, Faults, FaultyStore};
use countersign_testkit::world::{InTests, World, ann, request, says, session, yes};
use serde_json::{Value, json};

async fn with_token(gateway: &Gateway, name: &str, role: Role) -> (Caller, TokenId) {
    let minted = gateway.create_token(NewToken::new(name, role), None).await.unwrap();
    let caller = gateway.authenticate(minted.secret.expose_secret()).await.unwrap().unwrap();
    (caller, minted.row.id)
}

/// A call by a token's own agent, in a session of its own.
async fn call_as(gateway: &Gateway, caller: &Caller, path: &str, args: Value) -> ExecutionResult {
    let id = SessionId::parse("ses_of_token").unwrap();
    let session = gateway.open_session(caller, "test", Some(id)).await.unwrap();
    gateway.call(CallRequest { caller: caller.clone(), session, ..request(path, args) }).await.unwrap()
}

/// Decides with yes in a process that is about to end, which starts nothing; the next one takes it up.
async fn decided_but_not_started(gateway: &Gateway, by: Caller, waiting: &ExecutionResult) {
    gateway.close(Duration::from_secs(1)).await;
    gateway.decide(says(by, Target::Execution(waiting.execution), yes())).await.unwrap();
}

/// One call that asks at the gate, one that asks from inside its handler.
fn calls() -> [(&'static str, Value); 2] {
    [("lab.destroy", json!({ "what": "x" })), ("lab.transfer", json!({ "amount": 20_000 }))]
}

#[tokio::test(start_paused = true)]
async fn a_start_that_the_store_refused_once_is_made_where_nothing_changed_meanwhile() {
    for (path, args) in calls() {
        let world = World::new(1);
        let gateway = world.start().await;
        let waiting = gateway.ask(path, args).await.unwrap();
        decided_but_not_started(&gateway, ann(), &waiting).await;
        let faults = Faults::none().and_at(1, Fault::Refuse);
        let store = FaultyStore::new(Arc::new(world.disk.clone()), faults);
        let gateway = world.start_with(world.builder(Arc::new(store))).await;
        assert_eq!(world.ledger.effects(), []);
        assert!(gateway.end_of(&waiting).await.success(), "{path}");
        assert_eq!(world.ledger.effects().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn an_approvers_token_revoked_between_decision_and_start_means_no_start() {
    for (path, args) in calls() {
        let world = World::new(1);
        let gateway = world.start().await;
        let (carol, token) = with_token(&gateway, "carol", Role::Approver).await;
        let waiting = gateway.ask(path, args).await.unwrap();
        decided_but_not_started(&gateway, carol, &waiting).await;
        gateway.revoke_token(token, None).await.unwrap();
        let end = world.start().await.end_of(&waiting).await;
        assert_eq!(end.status, Status::Failed, "{path}");
        assert_eq!(end.error.unwrap().code, "token_revoked", "{path}");
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(world.ledger.effects(), [], "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_requesters_token_revoked_between_decision_and_start_means_no_start() {
    for (path, args) in calls() {
        let world = World::new(1);
        let gateway = world.start().await;
        let (robot, token) = with_token(&gateway, "robot", Role::Agent).await;
        let waiting = call_as(&gateway, &robot, path, args).await;
        decided_but_not_started(&gateway, ann(), &waiting).await;
        gateway.revoke_token(token, None).await.unwrap();
        let end = world.start().await.end_of(&waiting).await;
        assert_eq!(end.error.unwrap().code, "token_revoked", "{path}");
        assert_eq!(world.ledger.effects(), [], "{path}");
    }
}

/// The decision and its start are one commit: where the requester no longer counts, the decision is recorded alone.
#[tokio::test(start_paused = true)]
async fn a_decision_stands_although_the_start_that_it_allows_is_refused() {
    let world = World::new(1);
    let gateway = world.start().await;
    let (robot, token) = with_token(&gateway, "robot", Role::Agent).await;
    let waiting = call_as(&gateway, &robot, "lab.destroy", json!({ "what": "x" })).await;
    gateway.revoke_token(token, None).await.unwrap();
    gateway.ann_says(&waiting, yes()).await.unwrap();
    let end = gateway.end_of(&waiting).await;
    assert_eq!(end.error.unwrap().code, "token_revoked");
    let story = gateway.story(&waiting).await;
    assert_eq!(story[2..], ["Asked", "Decided", "CallSettled", "Finished"], "{story:?}");
    assert_eq!(world.ledger.effects(), []);
}

#[tokio::test(start_paused = true)]
async fn a_requesters_token_revoked_while_the_person_thinks_means_no_start() {
    for (path, args) in calls() {
        let world = World::new(1);
        let gateway = world.start().await;
        let (robot, token) = with_token(&gateway, "robot", Role::Agent).await;
        let waiting = call_as(&gateway, &robot, path, args).await;
        gateway.revoke_token(token, None).await.unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        gateway.ann_says(&waiting, yes()).await.unwrap();
        assert_eq!(gateway.end_of(&waiting).await.error.unwrap().code, "token_revoked", "{path}");
        assert_eq!(world.ledger.effects(), [], "{path}");
    }
}

#[test]
fn a_token_revoked_before_the_process_dies_means_no_start_in_the_next() {
    let world = World::new(1);
    let waiting = world.life(async |gateway| {
        let (robot, token) = with_token(&gateway, "robot", Role::Agent).await;
        let waiting = call_as(&gateway, &robot, "lab.destroy", json!({ "what": "x" })).await;
        decided_but_not_started(&gateway, ann(), &waiting).await;
        gateway.revoke_token(token, None).await.unwrap();
        waiting
    });
    assert_eq!(world.ledger.effects(), []);
    world.life(async |gateway| {
        assert_eq!(gateway.end_of(&waiting).await.error.unwrap().code, "token_revoked");
    });
    assert_eq!(world.ledger.effects(), []);
}

#[tokio::test(start_paused = true)]
async fn a_revoked_token_decides_settles_and_remembers_nothing() {
    let world = World::new(1);
    let gateway = world.start().await;
    let (carol, token) = with_token(&gateway, "carol", Role::Approver).await;
    let waiting = gateway.ask("lab.destroy", json!({ "what": "x" })).await.unwrap();
    gateway.revoke_token(token, None).await.unwrap();
    let target = Target::Execution(waiting.execution);
    let refused = gateway.decide(says(carol.clone(), target, yes())).await.unwrap_err();
    assert!(matches!(refused, DecideError::NotAllowed), "{refused}");
    let pattern = PathPattern::parse("lab.destroy").unwrap();
    let refused = gateway.give_grant(&carol, NewGrant::new(session(), pattern.clone())).await.unwrap_err();
    assert!(matches!(refused, DecideError::NotAllowed), "{refused}");
    assert!(matches!(gateway.clear_grants(&carol, &session()).await, Err(DecideError::NotAllowed)));
    assert_eq!(gateway.open().await.len(), 1, "the question is still there");
    assert_eq!(gateway.grants(&session()).await.unwrap(), []);
    gateway.ann_says(&waiting, yes()).await.unwrap();
    assert!(gateway.end_of(&waiting).await.success(), "and can be answered by somebody who may");
}

#[test]
fn a_revoked_token_settles_no_doubt() {
    let world = World::new(1);
    let waiting = world.life(async |gateway| {
        let waiting = gateway.ask("lab.slow", json!({ "ms": 60_000 })).await.unwrap();
        gateway.ann_says(&waiting, yes()).await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        waiting
    });
    world.life(async |gateway| {
        let (carol, token) = with_token(&gateway, "carol", Role::Admin).await;
        gateway.revoke_token(token, None).await.unwrap();
        let failed = Settlement::Failed { message: "no".into() };
        for settlement in [failed.clone(), Settlement::Retry] {
            assert!(gateway.settle(waiting.execution, CallNo(0), settlement, &carol).await.is_err());
        }
        assert_eq!(gateway.end_of(&waiting).await.status, Status::InDoubt);
        assert!(gateway.settle(waiting.execution, CallNo(0), failed, &ann()).await.is_ok());
    });
    assert_eq!(world.ledger.effects(), []);
}

#[tokio::test(start_paused = true)]
async fn a_destructive_call_that_policy_allows_needs_a_live_token_too() {
    let world = World::new(1).under("[[rule]]\nmatch = \"lab.destroy\"\neffect = \"allow\"\n");
    let gateway = world.start().await;
    let (robot, token) = with_token(&gateway, "robot", Role::Agent).await;
    let session = gateway.open_session(&robot, "test", None).await.unwrap();
    gateway.revoke_token(token, None).await.unwrap();
    let call = CallRequest { caller: robot, session, ..request("lab.destroy", json!({ "what": "x" })) };
    let error = gateway.call(call).await.unwrap_err();
    assert_eq!(error.code(), "token_revoked");
    assert_eq!(world.ledger.effects(), []);
}

#[tokio::test(start_paused = true)]
async fn a_secret_is_worth_nothing_once_its_token_is_revoked_and_is_stored_nowhere() {
    let gateway = World::new(1).start().await;
    let minted = gateway.create_token(NewToken::new("laptop", Role::Approver), None).await.unwrap();
    let secret = minted.secret.expose_secret();
    assert!(gateway.authenticate(secret).await.unwrap().is_some());
    assert!(gateway.authenticate("cs_0000").await.unwrap().is_none());
    assert!(gateway.authenticate("").await.unwrap().is_none());
    gateway.revoke_token(minted.row.id, None).await.unwrap();
    assert!(gateway.authenticate(secret).await.unwrap().is_none());
    let kept = format!("{:?} {:?}", gateway.tokens().await.unwrap(), gateway.audit(0, 100).await.unwrap());
    assert!(!kept.contains(secret));
    assert!(gateway.tokens().await.unwrap()[0].revoked_at.is_some());
}

#[tokio::test(start_paused = true)]
async fn whoever_holds_a_revoked_token_makes_and_revokes_no_tokens_with_it() {
    let gateway = World::new(1).start().await;
    let (thief, stolen) = with_token(&gateway, "stolen", Role::Admin).await;
    let (_, other) = with_token(&gateway, "other", Role::Agent).await;
    gateway.revoke_token(stolen, None).await.unwrap();
    // The thief was let in before, and asks only now.
    let made = gateway.create_token(NewToken::new("back door", Role::Admin), Some(&thief)).await;
    assert_eq!(made.err().unwrap().code(), "token_revoked");
    assert_eq!(gateway.revoke_token(other, Some(&thief)).await.unwrap_err().code(), "token_revoked");
    assert_eq!(gateway.tokens().await.unwrap().iter().filter(|token| token.revoked_at.is_none()).count(), 1);
}
