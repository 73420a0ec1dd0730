//! Every start is checked against this moment and recorded: a retry, and the second entry of an idempotent destructive call.

use std::sync::Arc;
use std::time::Duration;

use countersign_core::event::Settlement;
use countersign_core::execution::Status;
use countersign_core::ids::{TokenId, UserId};
use countersign_kernel::{
    CallRequest, Caller, ExecutionResult, Gateway, NewToken, Target, UserChange, UserStatus,
};
use countersign_sdk::{ExposeSecret, Role, SessionId};
use countersign_testkit::ledger::CrashAt;
use countersign_testkit::world::{InTests, World, ann, request, says, yes};

use super::{A_WHILE, CALL, doubt, note, status};

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;
const DENY: &str = "[[rule]]\nmatch = \"lab.*\"\neffect = \"deny\"\nreason = \"It is Friday.\"\n";

/// An agent with a token of its own.
async fn robot(gateway: &Gateway) -> (Caller, TokenId) {
    let minted = gateway.create_token(NewToken::new("robot", Role::Agent), None).await.unwrap();
    let caller = gateway.authenticate(minted.secret.expose_secret()).await.unwrap().unwrap();
    (caller, minted.row.id)
}

/// A user who may decide, logged in.
async fn carol(gateway: &Gateway) -> (Caller, UserId) {
    gateway.ensure_operator("operator").await.unwrap();
    let user = gateway.create_user("carol", vec![Role::Approver], None).await.unwrap().id;
    let login = gateway.begin_login(user, None, Duration::from_secs(3_600)).await.unwrap().unwrap();
    (gateway.login_caller(login.id).await.unwrap().unwrap(), user)
}

async fn disable(gateway: &Gateway, user: UserId) {
    let disabled = UserChange { status: Some(UserStatus::Disabled), ..UserChange::default() };
    gateway.change_user(user, disabled, None).await.unwrap();
}

/// Something that is done while no process runs, through a gateway that only looks.
fn between_lives(world: &World, done: impl AsyncFnOnce(Gateway)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        done(world.builder(Arc::new(world.disk.clone())).look().await.unwrap()).await;
        world.clock.end_life();
    });
}

/// Calls, has somebody say yes, and dies in the handler after its effect; `before_death` is the last thing that happens.
fn dies(
    world: &World,
    path: &str,
    requester: impl AsyncFnOnce(&Gateway) -> Option<Caller>,
    approver: impl AsyncFnOnce(&Gateway) -> Caller,
    before_death: impl AsyncFnOnce(Gateway),
) -> ExecutionResult {
    world.ledger.crash_at(CrashAt::AfterEffect(0));
    world.life(async |gateway| {
        let mut call = request(path, note());
        if let Some(caller) = requester(&gateway).await {
            let id = SessionId::parse("ses_of_token").unwrap();
            call.session = gateway.open_session(&caller, "test", Some(id)).await.unwrap();
            call = CallRequest { caller, ..call };
        }
        let waiting = gateway.call(call).await.unwrap();
        let by = approver(&gateway).await;
        gateway.decide(says(by, Target::Execution(waiting.execution), yes())).await.unwrap();
        world.ledger.crashed().await;
        before_death(gateway).await;
        waiting
    })
}

async fn nobody(_: &Gateway) -> Option<Caller> {
    None
}

async fn anns(_: &Gateway) -> Caller {
    ann()
}

/// The effect happened once and not again; the call is in doubt, and says why.
fn is_in_doubt_because(world: &World, waiting: &ExecutionResult, why: &str, story_ends: &[&str]) {
    world.life(async |gateway| {
        tokio::time::sleep(A_WHILE).await;
        assert_eq!(status(&gateway, waiting).await, Status::InDoubt);
        let reason = doubt(&gateway, waiting).await;
        assert!(reason.starts_with("It was not run again: ") && reason.contains(why), "{reason}");
        let story = gateway.story(waiting).await;
        assert!(story.ends_with(story_ends), "{story:?}");
    });
    assert_eq!(world.ledger.effects().len(), 1);
}

#[test]
fn a_second_entry_that_policy_denies_now_does_not_happen() {
    let world = World::new(1);
    let waiting = dies(&world, "lab.put", nobody, anns, async |_| {});
    let world = world.under(DENY);
    is_in_doubt_because(&world, &waiting, "It is Friday.", &["CallStarted", "FoundInDoubt"]);
}

#[test]
fn a_second_entry_whose_requesters_token_was_revoked_does_not_happen() {
    let (world, mut token) = (World::new(1), None);
    let requester = async |gateway: &Gateway| {
        let (caller, id) = robot(gateway).await;
        token = Some(id);
        Some(caller)
    };
    let waiting = dies(&world, "lab.put", requester, anns, async |_| {});
    let token = token.unwrap();
    between_lives(&world, async |gateway| gateway.revoke_token(token, None).await.unwrap());
    is_in_doubt_because(&world, &waiting, "was revoked", &["CallStarted", "FoundInDoubt"]);
}

#[test]
fn a_second_entry_whose_approver_was_disabled_does_not_happen() {
    let (world, mut user) = (World::new(1), None);
    let approver = async |gateway: &Gateway| {
        let (caller, id) = carol(gateway).await;
        user = Some(id);
        caller
    };
    let waiting = dies(&world, "lab.put", nobody, approver, async |_| {});
    let user = user.unwrap();
    between_lives(&world, async |gateway| disable(&gateway, user).await);
    is_in_doubt_because(&world, &waiting, "was disabled", &["CallStarted", "FoundInDoubt"]);
}

#[test]
fn a_second_entry_on_an_approval_that_expired_meanwhile_does_not_happen() {
    let world = World::new(1);
    let waiting = dies(&world, "lab.put", nobody, anns, async |_| {});
    world.clock.pass(DAY_MS);
    is_in_doubt_because(&world, &waiting, "expired", &["CallStarted", "FoundInDoubt"]);
}

/// A destructive call in doubt that a person has run again in a process which is about to end and starts nothing.
fn settled_as_retry(world: &World, by: impl AsyncFnOnce(&Gateway) -> Caller) -> ExecutionResult {
    let waiting = dies(world, "lab.destroy", nobody, anns, async |_| {});
    world.life(async |gateway| {
        let by = by(&gateway).await;
        gateway.close(Duration::from_secs(1)).await;
        gateway.settle(waiting.execution, CALL, Settlement::Retry, &by).await.unwrap();
    });
    waiting
}

const RETRIED: [&str; 3] = ["FoundInDoubt", "DoubtSettled", "FoundInDoubt"];

#[test]
fn a_retry_that_policy_denies_now_does_not_run() {
    let world = World::new(1);
    let waiting = settled_as_retry(&world, anns);
    is_in_doubt_because(&world.clone().under(DENY), &waiting, "It is Friday.", &RETRIED);
}

#[test]
fn a_retry_whose_settling_user_was_disabled_does_not_run() {
    let (world, mut user) = (World::new(1), None);
    let by = async |gateway: &Gateway| {
        let (caller, id) = carol(gateway).await;
        user = Some(id);
        caller
    };
    let waiting = settled_as_retry(&world, by);
    let user = user.unwrap();
    between_lives(&world, async |gateway| disable(&gateway, user).await);
    is_in_doubt_because(&world, &waiting, "was disabled", &RETRIED);
}

#[test]
fn a_retry_that_nothing_took_up_for_a_day_does_not_run() {
    let world = World::new(1);
    let waiting = settled_as_retry(&world, anns);
    world.clock.pass(DAY_MS);
    is_in_doubt_because(&world, &waiting, "expired", &RETRIED);
}

#[test]
fn a_retry_whose_requesters_token_was_revoked_does_not_run() {
    let (world, mut token) = (World::new(1), None);
    let requester = async |gateway: &Gateway| {
        let (caller, id) = robot(gateway).await;
        token = Some(id);
        Some(caller)
    };
    let waiting = dies(&world, "lab.destroy", requester, anns, async |_| {});
    world.life(async |gateway| {
        gateway.revoke_token(token.unwrap(), None).await.unwrap();
        gateway.settle(waiting.execution, CALL, Settlement::Retry, &ann()).await.unwrap();
        assert_eq!(gateway.end_of(&waiting).await.status, Status::InDoubt);
    });
    is_in_doubt_because(&world, &waiting, "was revoked", &RETRIED);
}

#[test]
fn a_retry_that_may_run_is_recorded_as_a_start_of_its_own() {
    let world = World::new(1);
    let waiting = settled_as_retry(&world, anns);
    world.life(async |gateway| {
        assert!(gateway.end_of(&waiting).await.success());
        let story = gateway.story(&waiting).await;
        let ends = ["FoundInDoubt", "DoubtSettled", "CallStarted", "CallSettled", "Finished"];
        assert!(story.ends_with(&ends), "{story:?}");
    });
    assert_eq!(world.ledger.effects().len(), 2);
}

/// An idempotent call whose approval expired while no process ran, which a user has run again, and which dies once more.
fn retried_and_dead(world: &World) -> (ExecutionResult, UserId) {
    let waiting = dies(world, "lab.put", nobody, anns, async |_| {});
    world.clock.pass(DAY_MS);
    world.ledger.crash_at(CrashAt::BeforeEffect(1));
    let user = world.life(async |gateway| {
        let (caller, user) = carol(&gateway).await;
        gateway.settle(waiting.execution, CALL, Settlement::Retry, &caller).await.unwrap();
        world.ledger.crashed().await;
        user
    });
    (waiting, user)
}

const ENTERED: [&str; 3] = ["DoubtSettled", "CallStarted", "FoundInDoubt"];

#[test]
fn a_second_entry_of_a_retry_relies_on_the_user_who_wanted_it() {
    let world = World::new(1);
    let (waiting, user) = retried_and_dead(&world);
    between_lives(&world, async |gateway| disable(&gateway, user).await);
    is_in_doubt_because(&world, &waiting, "was disabled", &ENTERED);
}

#[test]
fn a_second_entry_of_a_retry_a_day_later_does_not_happen() {
    let world = World::new(1);
    let (waiting, _) = retried_and_dead(&world);
    world.clock.pass(DAY_MS);
    is_in_doubt_because(&world, &waiting, "expired", &ENTERED);
}

#[test]
fn a_second_entry_of_a_retry_that_still_counts_happens_and_is_recorded() {
    let world = World::new(1);
    let (waiting, _) = retried_and_dead(&world);
    world.life(async |gateway| {
        assert!(gateway.end_of(&waiting).await.success());
        let story = gateway.story(&waiting).await;
        assert!(story.ends_with(&["CallStarted", "CallReentered", "CallSettled", "Finished"]), "{story:?}");
    });
    assert_eq!(world.ledger.effects().len(), 2);
}
