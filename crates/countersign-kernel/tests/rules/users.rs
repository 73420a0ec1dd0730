//! R10 for people: only users decide, whatever credential they use, and only for as long as they may.

use std::time::Duration;

use countersign_core::elicitation::{Decider, Proof};
use countersign_core::execution::Status;
use countersign_core::ids::UserId;
use countersign_kernel::{
    Caller, Coverage, CoveredArgs, DecideError, Gateway, NewToken, Target, UserChange, UserError, UserStatus,
};
use countersign_sdk::{ExposeSecret, PrincipalKind, Role};
use countersign_testkit::world::{InTests, World, says, yes};
use serde_json::{Value, json};

const LIFE: Duration = Duration::from_secs(3_600);

/// A user who may decide, logged in to the console.
async fn logged_in(gateway: &Gateway, name: &str) -> (UserId, Caller) {
    gateway.ensure_operator("operator").await.unwrap();
    let user = gateway.create_user(name, vec![Role::Approver], None).await.unwrap().id;
    let login = gateway.begin_login(user, None, LIFE).await.unwrap().unwrap();
    (user, gateway.login_caller(login.id).await.unwrap().unwrap())
}

async fn change(gateway: &Gateway, user: UserId, change: UserChange) {
    gateway.change_user(user, change, None).await.unwrap();
}

fn disabled() -> UserChange {
    UserChange { status: Some(UserStatus::Disabled), ..UserChange::default() }
}

fn without_roles() -> UserChange {
    UserChange { roles: Some(vec![]), ..UserChange::default() }
}

/// One call that asks at the gate, one that asks from inside its handler.
fn calls() -> [(&'static str, Value); 2] {
    [("lab.destroy", json!({ "what": "x" })), ("lab.transfer", json!({ "amount": 20_000 }))]
}

#[tokio::test(start_paused = true)]
async fn a_user_disabled_or_stripped_of_their_role_between_decision_and_start_means_no_start() {
    for lost in [disabled(), without_roles()] {
        for (path, args) in calls() {
            let world = World::new(1);
            let gateway = world.start().await;
            let (carol, caller) = logged_in(&gateway, "carol").await;
            let waiting = gateway.ask(path, args).await.unwrap();
            // A gateway that is about to end takes decisions and starts nothing; the next one takes them up.
            gateway.close(Duration::from_secs(1)).await;
            gateway.decide(says(caller, Target::Execution(waiting.execution), yes())).await.unwrap();
            change(&gateway, carol, lost.clone()).await;
            let end = world.start().await.end_of(&waiting).await;
            assert_eq!(end.status, Status::Failed, "{path}");
            assert_eq!(end.error.unwrap().code, "user_inactive", "{path}");
            tokio::time::sleep(Duration::from_secs(60)).await;
            assert_eq!(world.ledger.effects(), [], "{path}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_decision_is_the_users_with_its_proof_whichever_credential_they_use() {
    let world = World::new(1);
    let gateway = world.start().await;
    let (carol, by_login) = logged_in(&gateway, "carol").await;
    let minted = gateway.create_token(NewToken::new("laptop", Role::Approver).of(carol), None).await.unwrap();
    let by_token = gateway.authenticate(minted.secret.expose_secret()).await.unwrap().unwrap();
    assert_eq!(by_login.principal.id, by_token.principal.id);
    for (what, by) in [("a", by_login.clone()), ("b", by_token)] {
        let waiting = gateway.ask("lab.destroy_each", json!({ "what": what })).await.unwrap();
        let receipt =
            gateway.decide(says(by.clone(), Target::Execution(waiting.execution), yes())).await.unwrap();
        let Decider::Person { principal, .. } = &receipt.decision.by else { panic!("{receipt:?}") };
        assert_eq!(principal.as_str(), carol.to_string());
        assert_eq!(receipt.decision.proof, by.proof);
        assert!(matches!(receipt.decision.proof, Some(Proof::Login { .. } | Proof::Token)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_login_that_ended_decides_nothing_though_its_holder_kept_it() {
    let world = World::new(1);
    let gateway = world.start().await;
    let (_, caller) = logged_in(&gateway, "carol").await;
    let Some(Proof::Login { id }) = caller.proof else { panic!("{caller:?}") };
    let waiting = gateway.ask("lab.destroy", json!({ "what": "x" })).await.unwrap();
    gateway.end_login(id, &caller).await.unwrap();
    assert!(gateway.login_caller(id).await.unwrap().is_none());
    let refused = gateway.decide(says(caller, Target::Execution(waiting.execution), yes())).await;
    assert!(matches!(refused, Err(DecideError::NotAllowed)), "{refused:?}");
    assert_eq!(world.ledger.effects(), []);
}

#[tokio::test(start_paused = true)]
async fn a_user_disabled_or_stripped_of_their_role_since_they_came_in_decides_nothing() {
    for lost in [disabled(), without_roles()] {
        let world = World::new(1);
        let gateway = world.start().await;
        let (carol, caller) = logged_in(&gateway, "carol").await;
        let waiting = gateway.ask("lab.destroy", json!({ "what": "x" })).await.unwrap();
        change(&gateway, carol, lost.clone()).await;
        for answer in [yes(), countersign_kernel::Answer::Deny] {
            let refused = gateway.decide(says(caller.clone(), Target::Execution(waiting.execution), answer));
            let refused = refused.await;
            assert!(matches!(refused, Err(DecideError::NotAllowed)), "{lost:?}: {refused:?}");
        }
        assert_eq!(gateway.open().await.len(), 1, "{lost:?}: somebody who may still can");
        assert_eq!(world.ledger.effects(), []);
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_of_a_user_lets_its_bearer_do_no_more_than_the_user_may() {
    let world = World::new(1);
    let gateway = world.start().await;
    let operator = gateway.ensure_operator("operator").await.unwrap().id;
    let dave = gateway.create_user("dave", vec![Role::Admin], None).await.unwrap().id;
    let minted = gateway.create_token(NewToken::new("root", Role::Admin).of(dave), None).await.unwrap();
    let roles = async || {
        let caller = gateway.authenticate(minted.secret.expose_secret()).await.unwrap();
        caller.map(|caller| caller.principal.roles)
    };
    assert_eq!(roles().await, Some(vec![Role::Admin]));
    change(&gateway, dave, UserChange { roles: Some(vec![Role::Approver]), ..UserChange::default() }).await;
    assert_eq!(roles().await, Some(vec![Role::Approver]));
    change(&gateway, dave, disabled()).await;
    assert_eq!(roles().await, None);
    let refused = gateway.create_token(NewToken::new("again", Role::Admin).of(dave), None).await;
    assert_eq!(refused.err().unwrap().code(), "no_user");
    let last = gateway.change_user(operator, disabled(), None).await;
    assert!(matches!(last, Err(UserError::LastAdmin)), "{last:?}");
}

#[tokio::test(start_paused = true)]
async fn a_token_is_nobodys_from_its_end_on_also_where_it_was_known_before() {
    let world = World::new(1);
    let gateway = world.start().await;
    let end = gateway.now().after(Duration::from_secs(60));
    let minted = gateway.create_token(NewToken::new("short", Role::Agent).until(end), None).await.unwrap();
    let secret = minted.secret.expose_secret();
    assert!(gateway.authenticate(secret).await.unwrap().is_some());
    world.clock.jump(59_999);
    assert!(gateway.authenticate(secret).await.unwrap().is_some());
    world.clock.jump(1);
    assert!(gateway.authenticate(secret).await.unwrap().is_none(), "the end is exclusive");
    let late = gateway.create_token(NewToken::new("late", Role::Agent).until(end), None).await;
    assert_eq!(late.err().unwrap().code(), "already_expired");
}

#[tokio::test(start_paused = true)]
async fn whoever_is_streamed_to_counts_no_longer_than_their_token() {
    let world = World::new(1);
    let gateway = world.start().await;
    let end = gateway.now().after(Duration::from_secs(60));
    let minted = gateway.create_token(NewToken::new("short", Role::Agent).until(end), None).await.unwrap();
    let caller = gateway.authenticate(minted.secret.expose_secret()).await.unwrap().unwrap();
    world.clock.jump(59_999);
    assert!(gateway.still_counts(&caller).await.unwrap());
    world.clock.jump(1);
    assert!(!gateway.still_counts(&caller).await.unwrap(), "the end is exclusive");
}

#[tokio::test(start_paused = true)]
async fn tokens_of_an_earlier_version_become_the_operators() {
    let world = World::new(1);
    let gateway = world.start().await;
    let minted = async |name: &str, role| {
        let minted = gateway.create_token(NewToken::new(name, role), None).await.unwrap();
        minted.secret.expose_secret().to_owned()
    };
    let (admin, agent) = (minted("admin.token", Role::Admin).await, minted("agent.token", Role::Agent).await);
    let before = gateway.authenticate(&agent).await.unwrap().unwrap();
    let operator = gateway.ensure_operator("operator").await.unwrap();
    assert_eq!(gateway.ensure_operator("another name").await.unwrap(), operator, "there is one operator");
    let admin = gateway.authenticate(&admin).await.unwrap().unwrap();
    assert_eq!(
        (admin.principal.id.as_str(), admin.principal.kind),
        (&*operator.id.to_string(), PrincipalKind::User)
    );
    let agent = gateway.authenticate(&agent).await.unwrap().unwrap();
    assert_eq!(agent.principal.id, before.principal.id, "its executions and sessions stay its own");
    assert_eq!(agent.principal.owner.unwrap().as_str(), operator.id.to_string());
}

#[tokio::test(start_paused = true)]
async fn a_yes_for_the_session_covers_only_what_it_was_narrowed_to() {
    let world = World::new(1);
    let gateway = world.start().await;
    let (_, carol) = logged_in(&gateway, "carol").await;
    let waiting = gateway.ask("lab.destroy", json!({ "what": "x" })).await.unwrap();
    let covers = Some(Coverage::Session { args: CoveredArgs::Same, uses: Some(1) });
    let answer = countersign_kernel::Answer::Approve { covers, data: None };
    gateway.decide(says(carol, Target::Execution(waiting.execution), answer)).await.unwrap();
    assert!(gateway.end_of(&waiting).await.success());
    let other = gateway.ask("lab.destroy", json!({ "what": "y" })).await.unwrap();
    assert!(other.paused().is_some(), "other arguments ask");
    assert!(gateway.ask("lab.destroy", json!({ "what": "x" })).await.unwrap().success());
    let again = gateway.ask("lab.destroy", json!({ "what": "x" })).await.unwrap();
    assert!(again.paused().is_some(), "its one use is gone");
}
