//! Seed 001, "The elicitation lifecycle": its eight steps, each by itself, and the pause outliving the process at each.

use std::sync::{Arc, Mutex};

use countersign_core::execution::Status;
use countersign_kernel::{Patience, Target};
use countersign_testkit::world::{InTests as _, World, ann, says, session, yes};
use serde_json::json;

use crate::fixture::world;

const CREATE: &str = r#"
    const before = await tools.lab.read({ what: "list" });
    const made = await tools.lab.destroy({ what: "issue 7" });
    return { before: before.what, made: made.done };
"#;

fn paused_world() -> World {
    world(1)
}

#[test]
fn step_1_a_script_calls_a_tool_by_its_path() {
    world(1).life(async |gateway| {
        let result = gateway.runs(r#"return await tools.lab.read({ what: "x" });"#).await;
        assert_eq!((result.status, result.value), (Status::Succeeded, Some(json!({ "what": "x" }))));
        assert_eq!(result.calls[0].path.as_str(), "lab.read");
    });
}

#[test]
fn step_2_the_call_comes_to_the_gate_with_its_arguments() {
    paused_world().life(async |gateway| {
        let result = gateway.runs(CREATE).await;
        let asked = &result.paused().unwrap().elicitation;
        assert_eq!(
            (asked.tool.as_str(), asked.args.to_value()),
            ("lab.destroy", json!({ "what": "issue 7" }))
        );
    });
}

#[test]
fn step_3_a_destructive_call_that_is_not_session_approved_is_pending_and_on_pause_fires_once() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let ear = Arc::clone(&heard);
    let world = paused_world();
    world.life_with(
        move |builder| builder.on_pause(move |p| ear.lock().unwrap().push(p.elicitation.message.clone())),
        async |gateway| {
            let result = gateway.runs(CREATE).await;
            assert_eq!(gateway.open().await.len(), 1);
            assert_eq!(*heard.lock().unwrap(), ["Permanently destroy \"issue 7\"? This cannot be undone."]);
            assert!(world.ledger.effects().is_empty());
            assert_eq!(result.status, Status::Waiting);
        },
    );
}

#[test]
fn step_3_a_session_approved_call_does_not_pause() {
    let world = world(1);
    world.life(async |gateway| {
        let first = gateway.runs(CREATE).await;
        gateway.ann_says(&first, yes()).await.unwrap();
        assert!(gateway.end_of(&first).await.success());
        let second = gateway.runs(CREATE).await;
        assert!(second.success(), "{second:?}");
        assert_eq!(world.ledger.effects().len(), 2);
    });
}

#[test]
fn step_4_the_result_says_what_is_paused() {
    paused_world().life(async |gateway| {
        let result = gateway.runs(CREATE).await;
        let paused = result.paused().unwrap();
        assert_eq!(paused.execution, result.execution);
        assert_eq!(paused.elicitation.tool.as_str(), "lab.destroy");
        assert_eq!(paused.elicitation.message, "Permanently destroy \"issue 7\"? This cannot be undone.");
        assert_eq!(paused.elicitation.args.to_value(), json!({ "what": "issue 7" }));
        assert_eq!(result.calls.iter().map(|c| c.status).collect::<Vec<_>>(), ["succeeded", "asked"]);
        assert!(!result.success() && result.value.is_none() && result.error.is_none());
    });
}

#[test]
fn step_5_whoever_asks_is_shown_the_pending_action() {
    paused_world().life(async |gateway| {
        let result = gateway.runs(CREATE).await;
        let open = gateway.open().await;
        assert_eq!(open.len(), 1);
        assert_eq!((open[0].execution, open[0].session.clone()), (result.execution, session()));
        assert_eq!(open[0].elicitation.args.to_value(), json!({ "what": "issue 7" }));
    });
}

#[test]
fn steps_6_and_7_a_person_approves_by_the_execution_id_and_the_question_is_settled_once() {
    paused_world().life(async |gateway| {
        let result = gateway.runs(CREATE).await;
        let target = Target::Execution(result.execution);
        let receipt = gateway.decide(says(ann(), target, yes())).await.unwrap();
        assert_eq!(receipt.elicitation, result.paused().unwrap().elicitation.id);
        assert!(gateway.open().await.is_empty());
        let again = gateway.decide(says(ann(), target, yes())).await.unwrap();
        assert_eq!(again.elicitation, receipt.elicitation, "saying it again changes nothing");
    });
}

#[test]
fn step_8_the_script_goes_on_and_the_call_runs_once() {
    let world = paused_world();
    world.life(async |gateway| {
        let paused = gateway.runs(CREATE).await;
        gateway.ann_says(&paused, yes()).await.unwrap();
        let result = gateway.end_of(&paused).await;
        assert_eq!(result.value, Some(json!({ "before": "list", "made": true })), "{:?}", result.error);
        assert_eq!(world.ledger.effects().len(), 1);
        let story = gateway.story(&result).await;
        insta::assert_snapshot!(story.join("\n"));
    });
}

#[test]
fn the_pause_survives_the_death_of_the_process_and_is_approved_in_the_next() {
    let world = paused_world();
    let paused = world.life(async |gateway| gateway.runs(CREATE).await);
    world.life(async |gateway| {
        assert_eq!(gateway.live(), 0, "a parked script holds no memory");
        let still = gateway.result(paused.execution).await.unwrap().unwrap();
        assert_eq!(still.paused().map(|p| p.elicitation.id), paused.paused().map(|p| p.elicitation.id));
        gateway.ann_says(&paused, yes()).await.unwrap();
        let result = gateway.end_of(&paused).await;
        assert_eq!(result.value, Some(json!({ "before": "list", "made": true })), "{:?}", result.error);
        assert_eq!(world.ledger.effects().len(), 1);
    });
}

#[test]
fn a_decision_taken_just_before_the_process_died_is_acted_on_by_the_next() {
    let world = paused_world();
    let paused = world.life(async |gateway| {
        let paused = gateway.runs(CREATE).await;
        gateway.ann_says(&paused, yes()).await.unwrap();
        paused
    });
    world.life(async |gateway| {
        let waited = gateway.wait(paused.execution, Patience::Unlimited).await.unwrap().unwrap();
        assert!(waited.success(), "{waited:?}");
        assert_eq!(world.ledger.effects().len(), 1);
    });
}
