//! Seed 001: the `ElicitationEngine`, each of its methods and each step of the lifecycle it serves.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that meets the unexpected stops there")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use countersign_core::execution::Status;
use countersign_core::ids::{ElicitationId, ExecutionId};
use countersign_kernel::{
    Answer, CatalogTool, Coverage, DecideError, ElicitationEngine, GateError, Gateway, NewToken, Passage,
    Pending, People, Target,
};
use countersign_sdk::{Ctx, Principal, Role, SessionId, Tool, ToolError};
use countersign_testkit::lab::What;
use countersign_testkit::world::{InTests, World, agent, ann, bob, says, session};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

fn engine(gateway: &Gateway) -> ElicitationEngine {
    gateway.engine(session(), agent(), ann())
}

fn tool(gateway: &Gateway, path: &str) -> Arc<CatalogTool> {
    Arc::clone(gateway.catalog().get(path).unwrap())
}

fn note() -> Value {
    json!({ "what": "note 7" })
}

/// A program that comes to the gate.
fn come(
    gateway: &Gateway,
    engine: &ElicitationEngine,
    path: &str,
    args: Value,
) -> JoinHandle<Result<Passage, GateError>> {
    let (engine, tool) = (engine.clone(), tool(gateway, path));
    tokio::spawn(async move { engine.gate(&tool, &args).await })
}

/// The one thing that is pending, as soon as it is.
async fn the_pending(engine: &ElicitationEngine) -> Pending {
    loop {
        if let [only] = &engine.all_pending().await[..] {
            return only.clone();
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn refusal(passed: Result<Passage, GateError>) -> String {
    match passed.unwrap_err() {
        GateError::Refused(failure) => failure.code,
        other => panic!("{other}"),
    }
}

#[tokio::test(start_paused = true)]
async fn gate_returns_immediately_for_safe_tools() {
    let gateway = World::new(1).start().await;
    let engine = engine(&gateway);
    assert_eq!(engine.gate(&tool(&gateway, "lab.read"), &note()).await.unwrap(), Passage::Safe);
    assert!(!engine.has_pending().await);
}

#[tokio::test(start_paused = true)]
async fn a_destructive_tool_that_is_not_approved_creates_a_pending_elicitation_and_waits() {
    let gateway = World::new(1).start().await;
    let engine = engine(&gateway);
    assert!(!engine.has_pending().await);
    let at_gate = come(&gateway, &engine, "lab.destroy", note());
    let pending = the_pending(&engine).await;
    assert!(engine.has_pending().await);
    assert_eq!(pending.elicitation.tool.as_str(), "lab.destroy");
    assert_eq!(pending.elicitation.message, "Permanently destroy \"note 7\"? This cannot be undone.");
    assert_eq!(pending.elicitation.args.to_value(), note());
    tokio::time::sleep(Duration::from_secs(60 * 60)).await;
    assert!(!at_gate.is_finished());
}

#[tokio::test(start_paused = true)]
async fn the_pause_calls_back_with_what_is_to_be_shown() {
    let world = World::new(1);
    let seen: Arc<Mutex<Vec<Pending>>> = Arc::default();
    let (at_start, later) = (Arc::clone(&seen), Arc::clone(&seen));
    let builder = world
        .builder(Arc::new(world.disk.clone()))
        .on_pause(move |p| at_start.lock().unwrap().push(p.clone()));
    let gateway = world.start_with(builder).await;
    let engine = engine(&gateway);
    engine.on_pause(move |p| later.lock().unwrap().push(p.clone()));
    let at_gate = come(&gateway, &engine, "lab.destroy", note());
    let pending = the_pending(&engine).await;
    assert_eq!(*seen.lock().unwrap(), [pending.clone(), pending.clone()], "once per callback");
    assert!(engine.resolve(&pending.execution.to_string(), true, None).await);
    assert!(at_gate.await.unwrap().is_ok());
    assert_eq!(seen.lock().unwrap().len(), 2, "deciding is no pause");
}

#[tokio::test(start_paused = true)]
async fn a_callback_that_panics_does_not_stop_the_gate() {
    let gateway = World::new(1).start().await;
    let engine = engine(&gateway);
    engine.on_pause(|_| std::panic::resume_unwind(Box::new("a callback's bug")));
    let at_gate = come(&gateway, &engine, "lab.destroy", note());
    let pending = the_pending(&engine).await;
    assert!(engine.resolve(&pending.elicitation.id.to_string(), true, None).await);
    assert!(at_gate.await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn the_runtime_returns_a_result_that_says_what_it_is_paused_for() {
    let gateway = World::new(1).start().await;
    let waiting = gateway.ask("lab.destroy", note()).await.unwrap();
    let paused = waiting.paused().unwrap();
    assert_eq!(paused.execution, waiting.execution);
    assert_eq!(paused.elicitation.tool.as_str(), "lab.destroy");
    assert!(!paused.elicitation.message.is_empty());
    assert_eq!(paused.elicitation.args.to_value(), note());
    assert_eq!(engine(&gateway).get_pending(&waiting.execution.to_string()).await.as_ref(), Some(paused));
}

#[tokio::test(start_paused = true)]
async fn resolving_with_yes_lets_it_through_and_with_no_refuses_it() {
    let gateway = World::new(1).start().await;
    let engine = engine(&gateway);
    let at_gate = come(&gateway, &engine, "lab.destroy", note());
    let pending = the_pending(&engine).await;
    assert!(engine.resolve(&pending.execution.to_string(), true, None).await);
    assert_eq!(at_gate.await.unwrap().unwrap(), Passage::Approved { execution: pending.execution });
    assert!(!engine.has_pending().await);

    let at_gate = come(&gateway, &engine, "lab.destroy", note());
    let pending = the_pending(&engine).await;
    assert!(engine.resolve(&pending.elicitation.id.to_string(), false, None).await);
    assert_eq!(refusal(at_gate.await.unwrap()), "denied");
}

#[tokio::test(start_paused = true)]
async fn resolve_says_false_where_there_is_nothing_of_that_id() {
    let gateway = World::new(1).start().await;
    let engine = engine(&gateway);
    let unknown =
        [ExecutionId::from_random([9; 16]).to_string(), ElicitationId::from_random([9; 16]).to_string()];
    for id in unknown.iter().map(String::as_str).chain([
        "",
        "exec_",
        "exec_abc123",
        "nonsense",
        "\0",
        "eli_\u{202e}",
    ]) {
        assert!(!engine.resolve(id, true, None).await, "{id:?}");
        assert_eq!(engine.get_pending(id).await, None, "{id:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn resolve_says_false_to_a_second_opinion_and_true_to_a_repetition() {
    let gateway = World::new(1).start().await;
    let engine = engine(&gateway);
    let at_gate = come(&gateway, &engine, "lab.destroy", note());
    let id = the_pending(&engine).await.elicitation.id.to_string();
    assert!(engine.resolve(&id, true, None).await);
    assert!(engine.resolve(&id, true, None).await, "the same again is the same success");
    assert!(!engine.resolve(&id, false, None).await);
    let bobs = gateway.engine(session(), agent(), bob());
    assert!(!bobs.resolve(&id, true, None).await, "somebody else comes too late, even with a yes");
    assert!(at_gate.await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn data_given_with_the_answer_reaches_the_form_that_asked_for_it() {
    let gateway = World::new(1).start().await;
    let engine = engine(&gateway);
    let waiting = gateway.ask("lab.form", json!({})).await.unwrap();
    let id = waiting.execution.to_string();
    assert!(!engine.resolve(&id, true, None).await, "a form wants its fields");
    assert!(!engine.resolve(&id, true, Some(json!({ "warehouse_id": 7 }))).await);
    assert!(engine.resolve(&id, true, Some(json!({ "warehouse_id": "WH-7" }))).await);
    assert_eq!(gateway.end_of(&waiting).await.value.unwrap()["warehouseId"], "WH-7");
}

#[tokio::test(start_paused = true)]
async fn pending_elicitations_are_found_by_either_id_and_all_together() {
    let gateway = World::new(1).start().await;
    let engine = engine(&gateway);
    let _first = come(&gateway, &engine, "lab.destroy", json!({ "what": "a" }));
    tokio::time::sleep(Duration::from_millis(5)).await;
    let _second = come(&gateway, &engine, "lab.put", json!({ "what": "b" }));
    tokio::time::sleep(Duration::from_millis(5)).await;
    let all = engine.all_pending().await;
    let tools: Vec<_> = all.iter().map(|p| p.elicitation.tool.as_str()).collect();
    assert_eq!(tools, ["lab.destroy", "lab.put"], "oldest first");
    for pending in &all {
        assert_eq!(engine.get_pending(&pending.execution.to_string()).await.as_ref(), Some(pending));
        assert_eq!(engine.get_pending(&pending.elicitation.id.to_string()).await.as_ref(), Some(pending));
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_approval_lets_future_calls_of_the_path_through_without_a_pause() {
    let gateway = World::new(1).start().await;
    let engine = engine(&gateway);
    assert!(!engine.is_session_approved("lab.destroy").await);
    engine.add_session_approval("lab.destroy").await.unwrap();
    assert!(engine.is_session_approved("lab.destroy").await);
    assert_eq!(engine.gate(&tool(&gateway, "lab.destroy"), &note()).await.unwrap(), Passage::Remembered);
    assert!(gateway.ask("lab.destroy", note()).await.unwrap().success(), "the gateway's own calls pass too");
    assert!(!engine.has_pending().await);

    assert!(!engine.is_session_approved("lab.put").await, "another path is not approved");
    let other = gateway.engine(SessionId::parse("ses_other").unwrap(), agent(), ann());
    assert!(!other.is_session_approved("lab.destroy").await, "another session is not approved");
}

#[tokio::test(start_paused = true)]
async fn clearing_resets_all_session_approvals() {
    let gateway = World::new(1).start().await;
    let engine = engine(&gateway);
    engine.add_session_approval("lab.destroy").await.unwrap();
    engine.add_session_approval("lab.put").await.unwrap();
    engine.clear_session_approvals().await.unwrap();
    assert!(!engine.is_session_approved("lab.destroy").await && !engine.is_session_approved("lab.put").await);
    let at_gate = come(&gateway, &engine, "lab.destroy", note());
    the_pending(&engine).await;
    assert!(!at_gate.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_path_that_is_not_there_cannot_be_approved() {
    let gateway = World::new(1).start().await;
    let engine = engine(&gateway);
    for path in ["lab.nothing", "", "Lab.Destroy", "lab", "\0"] {
        let refused = engine.add_session_approval(path).await.unwrap_err();
        assert!(matches!(refused, DecideError::NotFound), "{path:?}: {refused}");
        assert!(!engine.is_session_approved(path).await);
    }
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_speaks_for_an_agent_can_neither_resolve_nor_remember() {
    let gateway = World::new(1).start().await;
    let engine = gateway.engine(session(), agent(), agent());
    let at_gate = come(&gateway, &engine, "lab.destroy", note());
    let pending = the_pending(&engine).await;
    assert!(!engine.resolve(&pending.execution.to_string(), true, None).await);
    assert!(matches!(engine.add_session_approval("lab.destroy").await, Err(DecideError::NotAllowed)));
    assert!(!at_gate.is_finished() && engine.has_pending().await);
}

#[tokio::test(start_paused = true)]
async fn a_session_approval_dies_with_the_token_it_was_given_with() {
    let gateway = World::new(1).start().await;
    let minted = gateway.create_token(NewToken::new("ann", Role::Approver), None).await.unwrap();
    let token = minted.row.id;
    let ann = gateway
        .authenticate(countersign_sdk::ExposeSecret::expose_secret(&minted.secret))
        .await
        .unwrap()
        .unwrap();
    let engine = gateway.engine(session(), agent(), ann);
    engine.add_session_approval("lab.destroy").await.unwrap();
    gateway.revoke_token(token, None).await.unwrap();
    assert!(!engine.is_session_approved("lab.destroy").await);
    let at_gate = come(&gateway, &engine, "lab.destroy", note());
    the_pending(&engine).await;
    assert!(!at_gate.is_finished());
}

#[tokio::test(start_paused = true)]
async fn where_nobody_can_be_reached_the_gate_refuses_at_once() {
    let world = World::new(1).set(|s| s.people = People::Nobody);
    let gateway = world.start().await;
    let engine = engine(&gateway);
    assert_eq!(refusal(engine.gate(&tool(&gateway, "lab.destroy"), &note()).await), "denied");
    assert!(!engine.has_pending().await);
}

#[tokio::test(start_paused = true)]
async fn a_question_at_the_gate_expires_and_the_gate_refuses() {
    let gateway = World::new(1).start().await;
    let engine = engine(&gateway);
    let at_gate = come(&gateway, &engine, "lab.destroy", note());
    let id = the_pending(&engine).await.execution.to_string();
    tokio::time::sleep(Duration::from_secs(24 * 60 * 60 + 1)).await;
    assert_eq!(refusal(at_gate.await.unwrap()), "expired");
    assert!(!engine.resolve(&id, true, None).await);
}

#[tokio::test(start_paused = true)]
async fn cancelling_the_execution_refuses_whoever_waits_at_the_gate() {
    let gateway = World::new(1).start().await;
    let engine = engine(&gateway);
    let at_gate = come(&gateway, &engine, "lab.destroy", note());
    let pending = the_pending(&engine).await;
    let cancelled = gateway.cancel(pending.execution, &agent(), "no longer wanted").await.unwrap();
    assert_eq!(cancelled.status, Status::Cancelled);
    assert_eq!(refusal(at_gate.await.unwrap()), "cancelled");
    assert!(!engine.has_pending().await);
}

#[tokio::test(start_paused = true)]
async fn of_two_that_wait_for_one_answer_exactly_one_passes() {
    let gateway = World::new(1).start().await;
    let engine = engine(&gateway);
    let first = come(&gateway, &engine, "lab.destroy", note());
    let second = come(&gateway, &engine, "lab.destroy", note());
    let pending = the_pending(&engine).await;
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert!(engine.resolve(&pending.execution.to_string(), true, None).await);
    let passed = [first.await.unwrap().is_ok(), second.await.unwrap().is_ok()];
    assert_eq!(passed.iter().filter(|p| **p).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_tool_of_another_catalog_or_with_unusable_arguments_does_not_pass() {
    let gateway = World::new(1).start().await;
    let engine = engine(&gateway);
    let foreign = Tool::new("lab.foreign")
        .name("Foreign")
        .describe("Not of this gateway.")
        .destructive(|i: &What| i.what.clone())
        .handler(async |_: Ctx, i: countersign_sdk::Approved<What>| -> Result<What, ToolError> {
            Ok(i.into_inner())
        });
    let foreign = CatalogTool::new(foreign, "elsewhere", "1", Vec::new()).unwrap();
    assert!(matches!(engine.gate(&foreign, &note()).await, Err(GateError::UnknownTool)));
    let destroy = tool(&gateway, "lab.destroy");
    for bad in
        [json!({}), json!({ "what": 1 }), json!({ "what": "a\0b" }), json!({ "what": "x".repeat(2 << 20) })]
    {
        assert!(matches!(engine.gate(&destroy, &bad).await, Err(GateError::InvalidInput(_))));
    }
    assert!(!engine.has_pending().await);
}

#[test]
fn a_question_survives_the_process_that_asked_it_and_its_answer_is_used_once() {
    let world = World::new(1);
    let asked = world.life(async |gateway| {
        let engine = engine(&gateway);
        let _at_gate = come(&gateway, &engine, "lab.destroy", note());
        the_pending(&engine).await
    });
    world.life(async |gateway| {
        let engine = engine(&gateway);
        assert_eq!(the_pending(&engine).await, asked, "it is still there");
        let at_gate = come(&gateway, &engine, "lab.destroy", note());
        tokio::time::sleep(Duration::from_millis(5)).await;
        assert_eq!(
            engine.all_pending().await,
            std::slice::from_ref(&asked),
            "the same call does not ask anew"
        );
        assert!(engine.resolve(&asked.execution.to_string(), true, None).await);
        assert_eq!(at_gate.await.unwrap().unwrap(), Passage::Approved { execution: asked.execution });
        let again = come(&gateway, &engine, "lab.destroy", note());
        assert_ne!(
            the_pending(&engine).await.elicitation.id,
            asked.elicitation.id,
            "the approval is used up"
        );
        assert!(!again.is_finished());
    });
}

#[test]
fn an_answer_given_while_nobody_waits_is_kept_for_whoever_comes_back() {
    let world = World::new(1);
    let asked = world.life(async |gateway| {
        let engine = engine(&gateway);
        let _at_gate = come(&gateway, &engine, "lab.destroy", note());
        the_pending(&engine).await
    });
    world.life(async |gateway| {
        let this_once = Answer::Approve { covers: Some(Coverage::Call), data: None };
        gateway.decide(says(ann(), Target::Elicitation(asked.elicitation.id), this_once)).await.unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
    });
    world.life(async |gateway| {
        let engine = engine(&gateway);
        let passed = engine.gate(&tool(&gateway, "lab.destroy"), &note()).await.unwrap();
        assert_eq!(passed, Passage::Approved { execution: asked.execution });
        let other_args = come(&gateway, &engine, "lab.destroy", json!({ "what": "note 8" }));
        the_pending(&engine).await;
        assert!(!other_args.is_finished(), "other arguments are another question");
    });
}

#[tokio::test(start_paused = true)]
async fn a_rule_that_denies_is_not_passed_even_with_a_session_approval() {
    let rules = "[[rule]]\nmatch = \"lab.**\"\nwhen = 'args.what == \"note 7\"'\neffect = \"deny\"\n";
    let gateway = World::new(1).under(rules).start().await;
    let engine = engine(&gateway);
    engine.add_session_approval("lab.destroy").await.unwrap();
    for path in ["lab.destroy", "lab.read"] {
        assert_eq!(refusal(engine.gate(&tool(&gateway, path), &note()).await), "denied", "{path}");
    }
    let other = json!({ "what": "note 8" });
    let passed = engine.gate(&tool(&gateway, "lab.destroy"), &other).await.unwrap();
    assert_eq!(passed, Passage::Remembered);
}

/// A question of another session, and the engine of that session.
async fn a_strangers_question(
    gateway: &Gateway,
) -> (ElicitationEngine, JoinHandle<Result<Passage, GateError>>) {
    let other = SessionId::parse("ses_other").unwrap();
    gateway.open_session(&agent(), "test", Some(other.clone())).await.unwrap();
    let stranger = gateway.engine(other, agent(), ann());
    let at_gate = come(gateway, &stranger, "lab.destroy", note());
    the_pending(&stranger).await;
    (stranger, at_gate)
}

#[tokio::test(start_paused = true)]
async fn an_engine_sees_the_questions_of_its_own_session_only() {
    let gateway = World::new(1).start().await;
    let (stranger, _waits) = a_strangers_question(&gateway).await;
    let theirs = the_pending(&stranger).await;
    let engine = engine(&gateway);
    assert!(!engine.has_pending().await);
    assert_eq!(engine.all_pending().await, []);
    for id in [theirs.elicitation.id.to_string(), theirs.execution.to_string()] {
        assert_eq!(engine.get_pending(&id).await, None, "{id}");
    }
    let _at_gate = come(&gateway, &engine, "lab.put", note());
    let own = the_pending(&engine).await;
    assert_eq!(own.elicitation.tool.as_str(), "lab.put");
    assert_eq!(stranger.all_pending().await, [theirs], "nor the other way round");
}

#[tokio::test(start_paused = true)]
async fn an_engine_lets_nothing_through_in_a_session_of_somebody_else() {
    let gateway = World::new(1).start().await;
    engine(&gateway).add_session_approval("lab.destroy").await.unwrap();
    let stranger = Principal::agent("agent-2").unwrap().into();
    let theirs = gateway.engine(session(), stranger, ann());
    for path in ["lab.destroy", "lab.read"] {
        let passed = theirs.gate(&tool(&gateway, path), &note()).await;
        assert_eq!(refusal(passed), "session_not_found", "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_engine_resolves_the_questions_of_its_own_session_only() {
    let gateway = World::new(1).start().await;
    let (stranger, at_gate) = a_strangers_question(&gateway).await;
    let theirs = the_pending(&stranger).await;
    let engine = engine(&gateway);
    for id in [theirs.elicitation.id.to_string(), theirs.execution.to_string()] {
        assert!(!engine.resolve(&id, true, None).await, "{id} is unknown to it");
        assert!(!engine.resolve(&id, false, None).await, "{id} is unknown to it");
    }
    assert_eq!(stranger.all_pending().await, std::slice::from_ref(&theirs), "it still waits");
    assert!(!at_gate.is_finished());
    assert!(stranger.resolve(&theirs.elicitation.id.to_string(), true, None).await);
    assert!(matches!(at_gate.await.unwrap().unwrap(), Passage::Approved { .. }));
}

#[tokio::test(start_paused = true)]
async fn what_an_engine_remembers_and_forgets_and_is_told_is_of_its_own_session() {
    let gateway = World::new(1).start().await;
    let engine = engine(&gateway);
    let paused = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&paused);
    engine.on_pause(move |pending| told.lock().unwrap().push(pending.elicitation.tool.to_string()));
    let (stranger, _waits) = a_strangers_question(&gateway).await;
    assert_eq!(*paused.lock().unwrap(), Vec::<String>::new(), "others' questions are not told");
    let _at_gate = come(&gateway, &engine, "lab.put", note());
    the_pending(&engine).await;
    assert_eq!(*paused.lock().unwrap(), ["lab.put"]);
    engine.add_session_approval("lab.destroy").await.unwrap();
    assert!(engine.is_session_approved("lab.destroy").await);
    assert!(!stranger.is_session_approved("lab.destroy").await);
    stranger.clear_session_approvals().await.unwrap();
    assert!(engine.is_session_approved("lab.destroy").await);
}
