//! The one owner of an execution, in the moments between a failed write, the next message and the look at the journal.

use std::sync::Arc;
use std::time::Duration;

use countersign_core::digest::Digest;
use countersign_core::execution::Status;
use countersign_kernel::{Answer, CallRequest, DecideError, Gateway, Patience, Target};
use countersign_sdk::{Ctx, Plugin, Tool, ToolError};
use countersign_testkit::faulty_store::{Fault, Faults, FaultyStore};
use countersign_testkit::history::History;
use countersign_testkit::invariants::{Moment, violations};
use countersign_testkit::lab::{Done, Nothing};
use countersign_testkit::world::{InTests, World, ann, bob, request, says, yes};
use serde_json::json;

use super::{A_WHILE, note, on_a_held_store, status};
use crate::held_store::Read;

async fn on_a_faulty_store(world: &World, plugin: Option<Plugin>) -> (Gateway, Faults) {
    let faults = Faults::none();
    let store = FaultyStore::new(Arc::new(world.disk.clone()), faults.clone());
    let mut builder = world.builder(Arc::new(store));
    if let Some(plugin) = plugin {
        builder = builder.plugin(plugin);
    }
    (world.start_with(builder).await, faults)
}

async fn nothing_is_broken(world: &World) {
    let found = violations(&world.disk, &world.ledger, &History::default(), Moment::AtRest).await;
    assert_eq!(found, Vec::<String>::new());
}

/// Two messages are in the mailbox; the write of the second fails.
#[tokio::test(start_paused = true)]
async fn a_start_that_was_not_written_enters_no_handler_although_its_message_came_behind_another() {
    for fault in [Fault::Refuse, Fault::LoseAnswer] {
        let world = World::new(1);
        let (gateway, faults) = on_a_faulty_store(&world, None).await;
        let waiting = gateway.asks("lab.destroy", note()).await;
        drop(faults.clone().and_at(faults.commits() + 1, fault));
        drop(faults.clone().and_at(faults.commits() + 2, Fault::Refuse));
        let unseen = Target::ShownBy(waiting.execution, Digest::ZERO);
        let (bobs, anns) = tokio::join!(
            gateway.decide(says(bob(), unseen, Answer::Deny)),
            gateway.ann_says(&waiting, yes()),
        );
        assert!(matches!(bobs, Err(DecideError::NotWhatWasShown(_))), "{bobs:?}");
        assert!(anns.is_err(), "the store did not take it");
        assert_eq!(world.ledger.effects(), [], "{fault:?}: no start is on the medium");
        tokio::time::sleep(A_WHILE).await;
        let ran = usize::from(fault == Fault::LoseAnswer);
        assert_eq!(world.ledger.effects().len(), ran, "{fault:?}: only what is in the journal runs");
        nothing_is_broken(&world).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_decision_made_again_after_a_failed_write_is_one_start_and_no_second_entry() {
    let world = World::new(1);
    let (gateway, faults) = on_a_faulty_store(&world, None).await;
    let waiting = gateway.asks("lab.put", note()).await;
    drop(faults.clone().and_at(faults.commits() + 1, Fault::Refuse));
    gateway.ann_says(&waiting, yes()).await.unwrap_err();
    gateway.ann_says(&waiting, yes()).await.unwrap();
    assert!(gateway.end_of(&waiting).await.success());
    let story = gateway.story(&waiting).await;
    assert_eq!(story[2..], ["Asked", "Decided", "CallStarted", "CallSettled", "Finished"], "{story:?}");
}

/// A safe tool that asks and says what it was told.
fn asking() -> Plugin {
    let tool = Tool::new("own.asking").name("Asking").describe("Asks.").handler(
        async |ctx: Ctx, _: Nothing| -> Result<serde_json::Value, ToolError> {
            match ctx.confirm("Sure?").await {
                Ok(yes) => Ok(json!(yes)),
                Err(refused) => Ok(json!(refused.code().as_str())),
            }
        },
    );
    Plugin::new("own", "Own", "Tools of this test.").tool(tool)
}

#[tokio::test(start_paused = true)]
async fn a_question_that_the_store_refuses_for_good_leaves_no_trace_in_the_record() {
    let world = World::new(1).set(|s| s.max_pending_per_session = 1);
    let (gateway, _) = on_a_faulty_store(&world, Some(asking())).await;
    gateway.asks("lab.destroy_each", note()).await;
    let end = gateway.ask("own.asking", json!({})).await.unwrap();
    assert_eq!(end.value, Some(json!("too_many_pending")), "the handler is told and goes on: {end:?}");
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(
        gateway.story(&end).await,
        ["Started", "CallIssued", "CallStarted", "CallSettled", "Finished"]
    );
    assert_eq!(gateway.open().await.len(), 1);
}

/// Records a step, and a moment later another one.
fn stepping() -> Plugin {
    let tool = Tool::new("own.steps").name("Steps").describe("Records two steps.").handler(
        async |ctx: Ctx, _: Nothing| -> Result<Done, ToolError> {
            let later = async {
                tokio::task::yield_now().await;
                ctx.step("later", async || Ok(2)).await
            };
            let (now, later) = tokio::join!(ctx.step("now", async || Ok(1)), later);
            Ok(Done { done: now? + later? == 3 })
        },
    );
    Plugin::new("own", "Own", "Tools of this test.").tool(tool)
}

/// The first step cannot be written, and while its owner waits to try again the second one comes, and the journal cannot be read.
#[tokio::test(start_paused = true)]
async fn what_a_handler_says_while_the_store_fails_is_recorded_once_it_is_back() {
    let world = World::new(1);
    let store = crate::held_store::HeldStore::new(world.disk.clone());
    let gateway = world.start_with(world.builder(Arc::new(store.clone())).plugin(stepping())).await;
    let call = CallRequest { key: Some("key-1".into()), ..request("own.steps", json!({})) };
    store.hold();
    let caller = tokio::spawn({
        let gateway = gateway.clone();
        async move { gateway.call(call).await.unwrap() }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    // The start is written, the step is refused.
    store.refuse_second_and_go_on();
    store.fail_reads(Read::Journal, 3);
    let end = caller.await.unwrap();
    assert_eq!(
        (end.value, store.reads_to_fail(Read::Journal)),
        (Some(json!({ "done": true })), 0),
        "{:?}",
        end.error
    );
    let steps = gateway.story(&gateway.result(end.execution).await.unwrap().unwrap()).await;
    assert_eq!(steps.iter().filter(|event| **event == "StepRecorded").count(), 2, "{steps:?}");
}

/// The requester's token is revoked when an idempotent handler is to be entered again, and the journal cannot be read then.
#[test]
fn an_entry_that_was_refused_stays_refused_although_the_journal_cannot_be_read_at_once() {
    use countersign_kernel::NewToken;
    use countersign_sdk::{ExposeSecret, Role, SessionId};
    for times in [0, 2] {
        let world = World::new(1);
        world.ledger.crash_at(countersign_testkit::ledger::CrashAt::AfterEffect(0));
        let waiting = world.life(async |gateway| {
            let minted = gateway.create_token(NewToken::new("robot", Role::Agent), None).await.unwrap();
            let caller = gateway.authenticate(minted.secret.expose_secret()).await.unwrap().unwrap();
            let id = SessionId::parse("ses_of_token").unwrap();
            let session = gateway.open_session(&caller, "test", Some(id)).await.unwrap();
            let call = CallRequest { caller, session, ..request("lab.put", note()) };
            let waiting = gateway.call(call).await.unwrap();
            gateway.ann_says(&waiting, yes()).await.unwrap();
            world.ledger.crashed().await;
            gateway.revoke_token(minted.row.id, None).await.unwrap();
            waiting
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(async {
            let store = crate::held_store::HeldStore::new(world.disk.clone());
            // The first read is recovery's.
            store.fail_reads_after(Read::Journal, 1, times);
            let gateway = world.builder(Arc::new(store.clone())).start().await.unwrap();
            tokio::time::sleep(A_WHILE).await;
            assert_eq!(store.reads_to_fail(Read::Journal), 0);
            assert_eq!(status(&gateway, &waiting).await, Status::InDoubt, "{times} reads failed");
            world.clock.end_life();
        });
        assert_eq!(world.ledger.effects().len(), 1, "{times} reads failed");
    }
}

/// Its outcome cannot be written any more, because the store fails and the gateway closes.
#[tokio::test(start_paused = true)]
async fn an_owner_that_gives_up_is_gone_and_the_next_message_finds_the_journal() {
    let world = World::new(1);
    let (gateway, faults) = on_a_faulty_store(&world, None).await;
    let waiting = gateway.asks("lab.slow", json!({ "ms": 1_000 })).await;
    gateway.ann_says(&waiting, yes()).await.unwrap();
    faults.fill_disk();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let begun = tokio::time::Instant::now();
    gateway.close(A_WHILE).await;
    assert!(begun.elapsed() < Duration::from_secs(10), "nothing is left to wait for");
    faults.free_disk();
    let shown = tokio::time::timeout(A_WHILE, gateway.result(waiting.execution)).await.expect("it answers");
    assert!(!shown.unwrap().unwrap().status.is_final());
    let (world, gateway) = (world.clone(), world.start().await);
    assert_eq!(gateway.end_of(&waiting).await.status, Status::InDoubt, "nobody heard of the outcome");
    assert_eq!(world.ledger.effects().len(), 1);
}

/// Accepted by a process that was about to end, which judged it no more; the next one finds the session full.
#[test]
fn a_call_that_the_next_process_has_no_room_to_ask_about_fails_and_is_not_stranded() {
    use async_trait::async_trait;
    use countersign_kernel::{HookCall, HookError, HookVerdict, PreHook};
    use std::sync::OnceLock;

    /// Closes the gateway between the acceptance of a call and its judgement.
    struct Closes(Arc<OnceLock<Gateway>>);

    #[async_trait]
    impl PreHook for Closes {
        async fn before(&self, call: HookCall<'_>) -> Result<HookVerdict, HookError> {
            if call.args["what"] == "late" {
                self.0.get().unwrap().close(Duration::from_secs(1)).await;
            }
            Ok(HookVerdict::Continue)
        }
    }

    let world = World::new(1).set(|s| s.max_pending_per_session = 1);
    let itself: Arc<OnceLock<Gateway>> = Arc::default();
    let hook = Closes(Arc::clone(&itself));
    world.life_with(
        |b| b.pre_hook(hook),
        async |gateway| {
            assert!(itself.set(gateway.clone()).is_ok());
            gateway.asks("lab.destroy_each", note()).await;
            let late = request("lab.destroy_each", json!({ "what": "late" }));
            let late = CallRequest { key: Some("late".into()), patience: Patience::AtMost(A_WHILE), ..late };
            assert_eq!(gateway.call(late).await.unwrap().status, Status::Running);
        },
    );
    world.life(async |gateway| {
        let late = request("lab.destroy_each", json!({ "what": "late" }));
        let late = CallRequest { key: Some("late".into()), ..late };
        let told = tokio::time::timeout(A_WHILE, gateway.call(late)).await.expect("it is told").unwrap();
        assert_eq!(told.error.unwrap().code, "too_many_pending");
    });
    assert_eq!(world.ledger.effects(), []);
}

/// A waiter that hangs up again and again while a handler runs for hours.
#[tokio::test(start_paused = true)]
async fn deciders_callers_and_the_clock_at_one_moment_leave_one_outcome() {
    for seed in 0..20 {
        let world = World::new(seed).set(|s| s.park_after = Duration::from_millis(seed % 5));
        let (gateway, store) = on_a_held_store(&world).await;
        let waiting = gateway.asks("lab.destroy", note()).await;
        tokio::time::sleep(Duration::from_millis(seed % 4)).await;
        if seed % 2 == 0 {
            store.hold();
        }
        let target = Target::Execution(waiting.execution);
        let patience = Patience::AtMost(Duration::from_millis(seed));
        let anns_own = ann();
        let all = async {
            tokio::join!(
                gateway.decide(says(ann(), target, yes())),
                gateway.decide(says(bob(), target, Answer::Deny)),
                gateway.wait(waiting.execution, patience),
                gateway.cancel(waiting.execution, &anns_own, "no longer wanted"),
                gateway.end_of(&waiting),
            )
        };
        let release = async {
            tokio::time::sleep(Duration::from_millis(7)).await;
            store.go_on();
        };
        let ((anns, bobs, _, cancelled, end), ()) = tokio::join!(all, release);
        let won = [anns.is_ok(), bobs.is_ok()].into_iter().filter(|won| *won).count();
        assert!(won <= 1 && won + usize::from(cancelled.is_ok()) >= 1, "{anns:?} {bobs:?} {cancelled:?}");
        assert_eq!(world.ledger.effects().len(), usize::from(end.success()));
        tokio::time::sleep(A_WHILE).await;
        assert_eq!(gateway.live(), 0);
        nothing_is_broken(&world).await;
    }
}
