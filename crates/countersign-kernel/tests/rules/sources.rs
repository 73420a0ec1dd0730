//! A catalog that changes while it runs: tools of a source come, change and go, and R14 holds for each of them.

use std::sync::Arc;
use std::time::Duration;

use countersign_core::elicitation::Decider;
use countersign_core::event::Settlement;
use countersign_core::execution::Status;
use countersign_core::ids::CallNo;
use countersign_core::policy::PathPattern;
use countersign_kernel::ports::{Page, Store as _};
use countersign_kernel::{DecideError, Gateway, GatewayEventKind, MAX_TOOLS, NewGrant, SourceError, Target};
use countersign_sdk::{Ctx, Effects, ForeignInput, Outcome, Resumable, Tool, ToolError};
use countersign_testkit::faulty_store::{Fault, Faults};
use countersign_testkit::lab::happen;
use countersign_testkit::world::{InTests, World, ann, says, session, yes};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::held_store::HeldStore;

pub(crate) const DELETE: &str = "files.delete";
pub(crate) const DESTRUCTIVE: Effects = Effects {
    destructive: true,
    idempotent: false,
    open_world: true,
    read_only: false,
    resumable: Resumable::Unsaid,
};
const READS: Effects = Effects {
    destructive: false,
    idempotent: false,
    open_world: true,
    read_only: true,
    resumable: Resumable::Unsaid,
};

/// A destructive tool of the source, in words of the source's.
pub(crate) fn deletes(world: &World, description: &str) -> Tool {
    at(world, DELETE, description)
}

fn at(world: &World, path: &str, description: &str) -> Tool {
    let ledger = world.ledger.clone();
    let schema =
        json!({ "type": "object", "properties": { "id": { "type": "integer" } }, "required": ["id"] });
    Tool::foreign(path, schema, None, DESTRUCTIVE)
        .unwrap()
        .name("Delete it all!")
        .describe(description)
        .handler(move |ctx: Ctx, input: ForeignInput| {
            let ledger = ledger.clone();
            async move {
                assert!(input.authority().is_some());
                happen(&ctx, &ledger, &input.to_string()).await;
                Ok(json!({ "deleted": input["id"] }))
            }
        })
}

fn ends_with(effects: Effects, error: fn() -> ToolError) -> Tool {
    let tool = Tool::foreign("files.lose", json!({}), None, effects).unwrap();
    tool.handler(move |_: Ctx, _: ForeignInput| async move { Err(error()) })
}

pub(crate) fn file() -> Value {
    json!({ "id": 7 })
}

/// How an open question ended, in the gateway's own words.
pub(crate) async fn withdrawn_because(
    gateway: &Gateway,
    waiting: &countersign_kernel::ExecutionResult,
) -> String {
    let id = waiting.pending[0].elicitation.id;
    let decision = gateway.elicitation(id).await.unwrap().unwrap().decision.unwrap();
    assert_eq!(decision.outcome, Outcome::Cancelled);
    match decision.by {
        Decider::Gateway { reason } => reason,
        other => format!("{other:?}"),
    }
}

async fn audit_has(world: &World, what: &str, text: &str) -> bool {
    let records = world.disk.audit(0, 1_000).await.unwrap();
    let mut entries = records.iter().flat_map(|record| record.parse().unwrap());
    entries.any(|entry| entry.what == what && entry.detail.contains(text))
}

#[tokio::test(start_paused = true)]
async fn a_foreign_tool_is_found_and_gated_and_runs_once_with_what_was_shown() {
    let world = World::new(1);
    let gateway = world.start().await;
    assert_eq!(gateway.ask(DELETE, file()).await.unwrap_err().code(), "tool_not_found");
    let change = gateway.replace_source("files", vec![deletes(&world, "Deletes.")]).await.unwrap();
    assert_eq!((change.added.len(), change.changed.len(), change.removed.len()), (1, 0, 0));
    assert_eq!(gateway.catalog().search("delete", 10).len(), 1);

    let waiting = gateway.asks(DELETE, file()).await;
    let question = &waiting.pending[0].elicitation;
    assert_eq!(question.message, "Run files.delete of the source \"files\"?", "not in the source's words");
    gateway.ann_says(&waiting, yes()).await.unwrap();
    assert_eq!(gateway.end_of(&waiting).await.value, Some(json!({ "deleted": 7 })));
    assert_eq!(world.ledger.effects().len(), 1);
    assert_eq!(world.ledger.effects()[0].what, file().to_string());

    let invalid = gateway.ask(DELETE, json!({ "id": "seven" })).await.unwrap_err();
    assert_eq!(invalid.code(), "invalid_input");
}

#[tokio::test(start_paused = true)]
async fn unchanged_tools_keep_what_was_asked_and_remembered_about_them() {
    let world = World::new(1);
    let gateway = world.start().await;
    let offer = |world: &World| vec![deletes(world, "Deletes."), at(world, "files.wipe", "Wipes.")];
    gateway.replace_source("files", offer(&world)).await.unwrap();
    assert!(gateway.approved("files.wipe", file()).await.success());
    let waiting = gateway.asks(DELETE, file()).await;
    let mut events = gateway.events();

    let change = gateway.replace_source("files", offer(&world)).await.unwrap();
    assert_eq!(change.unchanged, 2);
    assert!(events.try_recv().is_err(), "nothing changed, and nobody is told");
    let more = [offer(&world), vec![at(&world, "files.more", "More.")]].concat_tools();
    let change = gateway.replace_source("files", more).await.unwrap();
    assert_eq!((change.unchanged, change.added.len(), change.withdrawn_questions), (2, 1, 0));

    assert!(gateway.ask("files.wipe", file()).await.unwrap().success(), "still remembered");
    gateway.ann_says(&waiting, yes()).await.unwrap();
    assert!(gateway.end_of(&waiting).await.success());
}

trait ConcatTools {
    fn concat_tools(self) -> Vec<Tool>;
}

impl<const N: usize> ConcatTools for [Vec<Tool>; N] {
    fn concat_tools(self) -> Vec<Tool> {
        self.into_iter().flatten().collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_changed_or_missing_tool_withdraws_its_open_questions_with_a_reason() {
    for (description, reason) in
        [(Some("Deletes, and sends a copy."), "the tool changed"), (None, "the tool was removed")]
    {
        let world = World::new(1);
        let gateway = world.start().await;
        gateway.replace_source("files", vec![deletes(&world, "Deletes.")]).await.unwrap();
        let waiting = gateway.asks(DELETE, file()).await;
        let other = gateway.asks("lab.destroy", json!({ "what": "note 7" })).await;
        let mut events = gateway.events();

        let tools = description.map(|description| deletes(&world, description)).into_iter().collect();
        let change = gateway.replace_source("files", tools).await.unwrap();
        assert_eq!(change.withdrawn_questions, 1);
        assert_eq!(withdrawn_because(&gateway, &waiting).await, reason);
        let end = gateway.end_of(&waiting).await.error.unwrap();
        assert_eq!(end.message, format!("Withdrawn: {reason}. The call did not run."));
        assert!(matches!(gateway.ann_says(&waiting, yes()).await, Err(DecideError::Decided(_))));
        assert!(audit_has(&world, "CatalogChanged", DELETE).await);
        assert!(audit_has(&world, "Decided", reason).await);
        assert_eq!(gateway.open().await.len(), 1, "the other tool's question stays");
        gateway.ann_says(&other, yes()).await.unwrap();
        assert!(gateway.end_of(&other).await.success());
        assert!(world.ledger.effects().iter().all(|effect| effect.tool != DELETE));

        let mut told = Vec::new();
        while let Ok(event) = events.try_recv() {
            told.push(event.kind);
        }
        assert!(
            told.iter()
                .any(|kind| matches!(kind, GatewayEventKind::CatalogChanged(told) if **told == change))
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_removed_source_takes_its_tools_and_its_open_questions_with_it() {
    let world = World::new(1);
    let gateway = world.start().await;
    gateway.replace_source("files", vec![deletes(&world, "Deletes.")]).await.unwrap();
    let waiting = gateway.asks(DELETE, file()).await;
    let change = gateway.remove_source("files").await.unwrap();
    assert_eq!((change.removed.len(), change.withdrawn_questions), (1, 1));
    assert_eq!(withdrawn_because(&gateway, &waiting).await, "the tool was removed");
    assert_eq!(gateway.ask(DELETE, file()).await.unwrap_err().code(), "tool_not_found");
    assert_eq!(gateway.remove_source("files").await.unwrap_err().code(), "source_not_found");
    gateway.replace_source("files", vec![deletes(&world, "Deletes.")]).await.unwrap();
    assert!(gateway.approved(DELETE, file()).await.success(), "it can come back");
}

#[tokio::test(start_paused = true)]
async fn a_changed_or_missing_tool_voids_what_was_remembered_about_it_and_nothing_else() {
    for description in [Some("Deletes, and sends a copy."), None] {
        let world = World::new(1);
        let gateway = world.start().await;
        let offer = |description| vec![deletes(&world, description), at(&world, "files.wipe", "Wipes.")];
        gateway.replace_source("files", offer("Deletes.")).await.unwrap();
        assert!(gateway.approved(DELETE, file()).await.success());
        let both = NewGrant::new(session(), PathPattern::parse("files.*").unwrap());
        gateway.give_grant(&ann(), both).await.unwrap();
        assert_eq!(gateway.grants(&session()).await.unwrap().len(), 2);

        let mut tools = offer(description.unwrap_or("Deletes."));
        if description.is_none() {
            tools.remove(0);
        }
        let change = gateway.replace_source("files", tools).await.unwrap();
        assert_eq!(change.revoked_grants, 1);
        assert!(audit_has(&world, "GrantRevoked", "its tool changed or was removed").await);
        let left = gateway.grants(&session()).await.unwrap();
        assert_eq!(left.len(), 1, "the one that covers another tool too");
        assert!(gateway.ask("files.wipe", file()).await.unwrap().success(), "it still covers that tool");
        if description.is_some() {
            gateway.asks(DELETE, file()).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_in_flight_keeps_its_tool() {
    let world = World::new(1);
    let gateway = world.start().await;
    let (entered, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (is_in, may_leave) = (Arc::clone(&entered), Arc::clone(&go_on));
    let slow = Tool::foreign("files.read", json!({}), None, READS).unwrap().handler(move |_, _| {
        let (is_in, may_leave) = (Arc::clone(&is_in), Arc::clone(&may_leave));
        async move {
            is_in.notify_one();
            may_leave.notified().await;
            Ok(json!("as it was"))
        }
    });
    gateway.replace_source("files", vec![slow]).await.unwrap();
    let caller = gateway.clone();
    let call = tokio::spawn(async move { caller.ask("files.read", json!({})).await });
    entered.notified().await;
    gateway.remove_source("files").await.unwrap();
    go_on.notify_one();
    assert_eq!(call.await.unwrap().unwrap().value, Some(json!("as it was")));
}

#[tokio::test(start_paused = true)]
async fn what_was_approved_and_has_not_started_does_not_start_once_its_tool_changed() {
    let world = World::new(1);
    let store = HeldStore::new(world.disk.clone());
    let gateway = world.start_with(world.builder(Arc::new(store.clone()))).await;
    gateway.replace_source("files", vec![deletes(&world, "Deletes.")]).await.unwrap();
    let waiting = gateway.asks(DELETE, file()).await;
    // The decision is on its way to the store while the tool changes.
    store.hold_journals();
    let (decider, target) = (gateway.clone(), Target::Execution(waiting.execution));
    let deciding = tokio::spawn(async move { decider.decide(says(ann(), target, yes())).await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let changer = gateway.clone();
    let changed = deletes(&world, "Deletes, and sends a copy.");
    let changing = tokio::spawn(async move { changer.replace_source("files", vec![changed]).await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    store.go_on();
    deciding.await.unwrap().unwrap();
    changing.await.unwrap().unwrap();
    assert_eq!(gateway.end_of(&waiting).await.error.unwrap().code, "approval_void");
    assert_eq!(world.ledger.effects(), []);
}

#[tokio::test(start_paused = true)]
async fn a_start_that_was_recorded_while_the_tool_changed_enters_no_other_tool() {
    let world = World::new(1).under("[[rule]]\nmatch = \"files.*\"\neffect = \"allow\"\n");
    let store = HeldStore::new(world.disk.clone());
    let gateway = world.start_with(world.builder(Arc::new(store.clone()))).await;
    gateway.replace_source("files", vec![deletes(&world, "Deletes.")]).await.unwrap();
    store.hold_journals();
    let caller = gateway.clone();
    let call = tokio::spawn(async move { caller.ask(DELETE, file()).await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let changed = deletes(&world, "Deletes, and sends a copy.");
    gateway.replace_source("files", vec![changed]).await.unwrap();
    store.go_on();
    let end = call.await.unwrap().unwrap();
    assert!(gateway.story(&end).await.contains(&"CallStarted"), "the start was on its way");
    assert_eq!(end.error.unwrap().code, "approval_void");
    assert_eq!(world.ledger.effects(), []);
}

#[tokio::test(start_paused = true)]
async fn a_question_that_was_on_its_way_while_the_tool_changed_is_withdrawn_too() {
    let world = World::new(1);
    let store = HeldStore::new(world.disk.clone());
    let gateway = world.start_with(world.builder(Arc::new(store.clone()))).await;
    gateway.replace_source("files", vec![deletes(&world, "Deletes.")]).await.unwrap();
    store.hold_journals();
    let caller = gateway.clone();
    let call = tokio::spawn(async move { caller.ask(DELETE, file()).await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let change = gateway.replace_source("files", vec![deletes(&world, "Another.")]).await.unwrap();
    assert_eq!(change.withdrawn_questions, 0, "it is not there yet");
    store.go_on();
    let end = gateway.end_of(&call.await.unwrap().unwrap()).await;
    assert_eq!(end.error.unwrap().message, "Withdrawn: the tool changed. The call did not run.");
    assert_eq!(gateway.open().await, []);
}

#[tokio::test(start_paused = true)]
async fn a_path_belongs_to_one_source_and_a_change_that_cannot_be_changes_nothing() {
    let world = World::new(1);
    let gateway = world.start().await;
    gateway.replace_source("files", vec![deletes(&world, "Deletes.")]).await.unwrap();
    let before = gateway.catalog();
    let fresh = |path: &str| at(&world, path, "Fresh.");
    let many = (0..=MAX_TOOLS).map(|n| fresh(&format!("more.t{n}"))).collect();
    for (source, tools, code) in [
        ("other", vec![fresh("other.a"), fresh(DELETE)], "path_taken"),
        ("other", vec![fresh("other.a"), fresh("lab.destroy")], "path_taken"),
        ("other", vec![fresh("other.a"), fresh("other.a")], "duplicate_path"),
        ("lab", vec![fresh("lab.more")], "source_is_plugin"),
        ("no name", vec![fresh("other.a")], "invalid_source_name"),
        ("more", many, "too_many_tools"),
    ] {
        let error: SourceError = gateway.replace_source(source, tools).await.unwrap_err();
        assert_eq!(error.code(), code, "{error}");
        assert!(Arc::ptr_eq(&before, &gateway.catalog()), "{code}");
    }
    assert_eq!(gateway.remove_source("lab").await.unwrap_err().code(), "source_is_plugin");
    let room = MAX_TOOLS - before.len();
    let fits = (0..room).map(|n| fresh(&format!("more.t{n}"))).collect();
    assert_eq!(gateway.replace_source("more", fits).await.unwrap().added.len(), room);
}

#[test]
fn a_change_that_cannot_be_recorded_is_not_made_and_a_crash_in_it_leaves_nothing_approvable() {
    for fault in [Fault::Refuse, Fault::CrashBefore, Fault::CrashAfter] {
        // The record of the change, and the withdrawal.
        for nth in 1..=2 {
            let world = World::new(1);
            let faults = Faults::none();
            let waiting = world.life_on(
                &faults,
                |builder| builder.source("files", vec![deletes(&world, "Deletes.")]),
                async |gateway| {
                    let waiting = gateway.asks(DELETE, file()).await;
                    drop(faults.clone().and_at(faults.commits() + nth, fault));
                    let changed = deletes(&world, "Another.");
                    let change = gateway.replace_source("files", vec![changed]).await;
                    if nth == 1 {
                        assert!(change.is_err());
                        let kept = gateway.catalog();
                        let kept = kept.get(DELETE).unwrap().tool().definition().description.clone();
                        assert_eq!(kept, "Deletes.");
                    } else {
                        assert!(gateway.ann_says(&waiting, yes()).await.is_err());
                    }
                    waiting
                },
            );
            let changed = vec![deletes(&world, "Another.")];
            world.life_with(
                |builder| builder.source("files", changed),
                async |gateway| {
                    assert_eq!(gateway.open().await, [], "{fault:?} at {nth}");
                    assert!(!gateway.end_of(&waiting).await.success());
                },
            );
            assert_eq!(world.ledger.effects(), [], "{fault:?} at {nth}");
        }
    }
}

#[test]
fn a_process_that_begins_with_the_tools_of_before_looks_at_what_the_last_one_left_open() {
    let world = World::new(1);
    let first = |builder: countersign_kernel::GatewayBuilder| {
        builder.source("files", vec![deletes(&world, "Deletes.")])
    };
    let waiting = world.life_with(first, async |gateway| {
        gateway.replace_source("files", vec![deletes(&world, "Another.")]).await.unwrap();
        gateway.asks(DELETE, file()).await
    });
    world.life_with(first, async |gateway| {
        assert_eq!(gateway.open().await, []);
        assert_eq!(withdrawn_because(&gateway, &waiting).await, "the tool changed");
    });
}

#[tokio::test(start_paused = true)]
async fn a_destructive_call_that_lost_its_answer_is_in_doubt_and_says_why() {
    let lost = || ToolError::outcome_unknown("The connection broke after the request was sent.");
    let world = World::new(1);
    let gateway = world.start().await;
    gateway.replace_source("files", vec![ends_with(DESTRUCTIVE, lost)]).await.unwrap();
    let told = gateway.approved("files.lose", json!({})).await;
    assert_eq!(told.status, Status::InDoubt);
    assert_eq!(gateway.story(&told).await.last(), Some(&"FoundInDoubt"));
    assert!(audit_has(&world, "FoundInDoubt", "The connection broke").await);
    gateway.settle(told.execution, CallNo(0), Settlement::Retry, &ann()).await.unwrap();
    let again = gateway.end_of(&told).await;
    assert_eq!(again.status, Status::InDoubt, "it ran again and lost its answer again");
    let never = Settlement::Failed { message: "It never arrived.".into() };
    gateway.settle(told.execution, CallNo(0), never, &ann()).await.unwrap();
    assert_eq!(gateway.end_of(&told).await.status, Status::Failed);
    let rows = gateway.executions(Default::default(), Page::first(10)).await.unwrap();
    assert_eq!(rows.items.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_can_be_made_again_and_lost_its_answer_has_failed() {
    let lost = || ToolError::outcome_unknown("The connection broke.");
    for effects in [READS, Effects { read_only: false, ..READS }, Effects { idempotent: true, ..DESTRUCTIVE }]
    {
        let gateway = World::new(1).start().await;
        gateway.replace_source("files", vec![ends_with(effects, lost)]).await.unwrap();
        let end = gateway.approved("files.lose", json!({})).await;
        assert_eq!((end.status, end.error.unwrap().code.as_str()), (Status::Failed, "outcome_unknown"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_destructive_call_that_says_how_it_failed_leaves_no_doubt() {
    let gateway = World::new(1).start().await;
    let refused = || ToolError::with_code("not_sent", "The address is refused.");
    gateway.replace_source("files", vec![ends_with(DESTRUCTIVE, refused)]).await.unwrap();
    let end = gateway.approved("files.lose", json!({})).await;
    assert_eq!((end.status, end.error.unwrap().code.as_str()), (Status::Failed, "not_sent"));
}
