//! Seed 000: a destructive tool waits for a person, whether or not its handler asks; only an explicit yes lets it run; and
//! what was approved in a session is not asked again there.

#![expect(clippy::unwrap_used, reason = "a test that meets the unexpected stops there")]

use std::sync::Arc;
use std::time::Duration;

use countersign_core::elicitation::Origin;
use countersign_core::execution::Status;
use countersign_core::policy::PathPattern;
use countersign_kernel::{
    Answer, CallRequest, Coverage, DecideError, ExecutionResult, Gateway, NewGrant, Patience, Target,
};
use countersign_sdk::{AskKind, Outcome, Remember, SessionId};
use countersign_testkit::lab::{self, Keyring};
use countersign_testkit::world::{InTests, World, agent, ann, bob, request, says, yes};
use serde_json::{Value, json};

fn note() -> Value {
    json!({ "what": "note 7" })
}

/// The same request in another session of the same agent.
async fn elsewhere(gateway: &Gateway, path: &str, args: Value) -> ExecutionResult {
    let other = SessionId::parse("ses_other").unwrap();
    gateway.open_session(&agent(), "test", Some(other.clone())).await.unwrap();
    gateway.call(CallRequest { session: other, ..request(path, args) }).await.unwrap()
}

/// A gateway with the seeds' own plugin beside the lab's.
async fn with_github(world: &World) -> Gateway {
    let builder = world.builder(Arc::new(world.disk.clone()));
    let keys = Keyring(vec![("github", "gho_of_the_caller")]);
    world.start_with(builder.plugin(lab::github(&world.ledger)).credentials(keys)).await
}

#[tokio::test(start_paused = true)]
async fn a_destructive_tool_waits_although_its_handler_never_asks() {
    let world = World::new(1);
    let gateway = world.start().await;
    let waiting = gateway.ask("lab.destroy", note()).await.unwrap();
    assert_eq!(waiting.status, Status::Waiting);
    assert!(!waiting.success() && waiting.value.is_none());
    tokio::time::sleep(Duration::from_secs(60 * 60)).await;
    assert_eq!(world.ledger.effects(), []);
}

#[tokio::test(start_paused = true)]
async fn the_person_is_shown_the_tool_its_message_and_all_its_arguments() {
    let world = World::new(1);
    let gateway = with_github(&world).await;
    let body = "x".repeat(100_000);
    let args = json!({ "owner": "o", "repo": "r", "title": "Bug", "body": body, "labels": ["a", "b"] });
    let waiting = gateway.ask("github.issues.create", args.clone()).await.unwrap();
    let shown = &waiting.paused().unwrap().elicitation;
    assert_eq!(shown.tool.as_str(), "github.issues.create");
    assert_eq!(shown.message, "Create issue \"Bug\" in o/r?");
    assert_eq!(shown.args.to_value(), args, "nothing is cut");
    assert_eq!((&shown.kind, shown.origin), (&AskKind::Approval, Origin::Gate));
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_is_not_destructive_runs_at_once() {
    let world = World::new(1);
    let gateway = world.start().await;
    let read = gateway.ask("lab.read", note()).await.unwrap();
    assert!(read.success());
    assert_eq!(read.value, Some(note()));
    assert_eq!(gateway.open().await, []);
}

#[tokio::test(start_paused = true)]
async fn approved_it_runs_once_with_what_the_person_saw() {
    let world = World::new(1);
    let gateway = world.start().await;
    let waiting = gateway.ask("lab.destroy", note()).await.unwrap();
    let receipt = gateway.ann_says(&waiting, yes()).await.unwrap();
    assert_eq!(receipt.decision.outcome, Outcome::Approved);
    let end = gateway.end_of(&waiting).await;
    assert!(end.success());
    assert_eq!(end.value, Some(json!({ "done": true })));
    let effects = world.ledger.of(&waiting.execution.to_string());
    assert_eq!(effects.iter().map(|e| e.what.as_str()).collect::<Vec<_>>(), ["note 7"]);
}

#[tokio::test(start_paused = true)]
async fn denied_and_cancelled_both_change_nothing_and_say_which_it_was() {
    for (answer, code) in [(Answer::Deny, "denied"), (Answer::Cancel, "cancelled")] {
        let world = World::new(1);
        let gateway = world.start().await;
        let waiting = gateway.ask("lab.destroy", note()).await.unwrap();
        gateway.ann_says(&waiting, answer).await.unwrap();
        let end = gateway.end_of(&waiting).await;
        assert_eq!(end.status, Status::Failed);
        assert_eq!(end.error.unwrap().code, code);
        assert_eq!(world.ledger.effects(), [], "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_person_wrote_beside_a_no_reaches_the_caller() {
    let gateway = World::new(1).start().await;
    let waiting = gateway.ask("lab.destroy", note()).await.unwrap();
    let mut no = says(ann(), Target::Execution(waiting.execution), Answer::Deny);
    no.comment = Some("Wrong note.".into());
    gateway.decide(no).await.unwrap();
    let message = gateway.end_of(&waiting).await.error.unwrap().message;
    assert!(message.contains("Wrong note."), "{message}");
}

#[tokio::test(start_paused = true)]
async fn a_handlers_own_question_is_denied_and_cancelled_alike() {
    for answer in [Answer::Deny, Answer::Cancel] {
        let world = World::new(1);
        let gateway = world.start().await;
        let waiting = gateway.ask("lab.transfer", json!({ "amount": 10_001 })).await.unwrap();
        assert_eq!(waiting.paused().unwrap().elicitation.message, "Large transfer exceeding $10,000");
        gateway.ann_says(&waiting, answer).await.unwrap();
        let error = gateway.end_of(&waiting).await.error.unwrap();
        assert_eq!((error.code.as_str(), error.message.as_str()), ("denied", "Transfer denied by user"));
        assert_eq!(world.ledger.effects(), []);
    }
}

#[tokio::test(start_paused = true)]
async fn the_response_has_the_seeds_shape() {
    let gateway = World::new(1).start().await;
    let data = json!({ "note": "fine" });
    for (answer, approved, data) in [
        (yes(), true, None),
        (Answer::Approve { covers: Some(Coverage::Call), data: Some(data.clone()) }, true, Some(data)),
        (Answer::Deny, false, None),
        (Answer::Cancel, false, None),
    ] {
        gateway.clear_grants(&ann(), &countersign_testkit::world::session()).await.unwrap();
        let waiting = gateway.ask("lab.elicit", json!({ "style": "method" })).await.unwrap();
        gateway.ann_says(&waiting, answer).await.unwrap();
        let mut expected = json!({ "executionId": waiting.execution.to_string(), "approved": approved });
        if let Some(data) = data {
            expected["data"] = data;
        }
        assert_eq!(gateway.end_of(&waiting).await.value, Some(expected));
    }
}

#[tokio::test(start_paused = true)]
async fn asking_through_the_context_and_through_the_free_function_are_the_same() {
    let gateway = World::new(1).start().await;
    let mut seen = Vec::new();
    for style in ["method", "function"] {
        let args = json!({ "style": style, "tool_path": "lab.destroy_each", "args": { "id": 7 } });
        let waiting = gateway.ask("lab.elicit", args).await.unwrap();
        let asked = waiting.paused().unwrap().elicitation.clone();
        gateway.ann_says(&waiting, yes()).await.unwrap();
        let answer = gateway.end_of(&waiting).await.value.unwrap();
        seen.push((
            asked.tool.clone(),
            asked.message.clone(),
            asked.args.clone(),
            asked.kind.clone(),
            asked.because.clone(),
            answer["approved"].clone(),
        ));
    }
    assert_eq!(seen[0], seen[1]);
    assert_eq!(seen[0].0.as_str(), "lab.destroy_each");
    assert_eq!(seen[0].2.to_value(), json!({ "id": 7 }));
}

#[tokio::test(start_paused = true)]
async fn a_question_without_arguments_shows_those_of_the_call() {
    let gateway = World::new(1).start().await;
    let waiting = gateway.ask("lab.transfer", json!({ "amount": 20_000 })).await.unwrap();
    let asked = &waiting.paused().unwrap().elicitation;
    assert_eq!(asked.tool.as_str(), "lab.transfer");
    assert_eq!(asked.args.to_value(), json!({ "amount": 20_000 }));
}

#[tokio::test(start_paused = true)]
async fn nobody_is_asked_twice_where_the_handler_asks_about_its_own_path_too() {
    let world = World::new(1);
    let gateway = with_github(&world).await;
    let args = json!({ "owner": "o", "repo": "r", "title": "Bug" });
    let end = gateway.approved("github.issues.create", args).await;
    assert!(end.success(), "{:?}", end.error);
    assert_eq!(end.value.as_ref().unwrap()["number"], 1);
    let story = gateway.story(&end).await;
    assert_eq!(story.iter().filter(|name| **name == "Asked").count(), 1, "{story:?}");
    assert_eq!(world.ledger.effects().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn where_policy_let_it_start_the_handlers_own_question_is_asked() {
    let world = World::new(1).under("[[rule]]\nmatch = \"github.issues.create\"\neffect = \"allow\"\n");
    let gateway = with_github(&world).await;
    let waiting = gateway
        .ask("github.issues.create", json!({ "owner": "o", "repo": "r", "title": "Bug" }))
        .await
        .unwrap();
    assert_eq!(waiting.paused().unwrap().elicitation.message, "Create issue \"Bug\"?");
    gateway.ann_says(&waiting, Answer::Deny).await.unwrap();
    assert_eq!(gateway.end_of(&waiting).await.error.unwrap().message, "Issue creation denied by user");
    assert_eq!(world.ledger.effects(), []);
}

#[tokio::test(start_paused = true)]
async fn once_approved_in_a_session_the_same_tool_does_not_ask_again() {
    let world = World::new(1);
    let gateway = world.start().await;
    assert!(gateway.approved("lab.destroy", note()).await.success());
    let second = gateway.ask("lab.destroy", json!({ "what": "note 8" })).await.unwrap();
    assert!(second.success(), "another call of the same tool passes");
    let another_tool = gateway.ask("lab.put", note()).await.unwrap();
    assert!(another_tool.paused().is_some(), "another tool asks");
    let another_session = elsewhere(&gateway, "lab.destroy", note()).await;
    assert!(another_session.paused().is_some(), "another session asks");
    assert_eq!(world.ledger.effects().len(), 2);
}

/// Whether a destructive tool asks once more from inside, after the gate's question was answered with yes.
async fn asks_again(gateway: &Gateway, about: &str) -> bool {
    let waiting = gateway.ask("lab.sure", json!({ "what": "x", "about": about })).await.unwrap();
    assert_eq!(waiting.paused().unwrap().elicitation.origin, Origin::Gate);
    let this_once = Answer::Approve { covers: Some(Coverage::Call), data: None };
    gateway.ann_says(&waiting, this_once).await.unwrap();
    let then = gateway.wait(waiting.execution, Patience::UntilPaused).await.unwrap().unwrap();
    assert_eq!(then.success(), then.paused().is_none(), "{then:?}");
    then.paused().is_some()
}

#[tokio::test(start_paused = true)]
async fn a_question_about_the_arguments_that_the_gate_asked_about_is_answered_by_that_decision() {
    let world = World::new(1);
    let gateway = world.start().await;
    for (about, again) in
        [("nothing", false), ("call", false), ("same", false), ("other", true), ("elsewhere", true)]
    {
        assert_eq!(asks_again(&gateway, about).await, again, "{about}");
    }
    assert_eq!(world.ledger.effects().len(), 3, "nothing happened where a question is open");
}

#[tokio::test(start_paused = true)]
async fn a_no_at_the_gate_is_the_end_and_a_no_to_another_question_too() {
    let world = World::new(1);
    let gateway = world.start().await;
    let waiting = gateway.ask("lab.sure", json!({ "what": "x", "about": "nothing" })).await.unwrap();
    gateway.ann_says(&waiting, Answer::Deny).await.unwrap();
    assert_eq!(gateway.end_of(&waiting).await.error.unwrap().code, "denied");
    assert!(asks_again(&gateway, "other").await);
    let open = gateway.open().await;
    gateway.decide(says(ann(), Target::Elicitation(open[0].elicitation.id), Answer::Deny)).await.unwrap();
    let end = gateway.wait(open[0].execution, Patience::Unlimited).await.unwrap().unwrap();
    assert_eq!(end.value, Some(json!({ "done": false })));
    assert_eq!(world.ledger.effects(), []);
}

#[tokio::test(start_paused = true)]
async fn where_policy_let_a_destructive_tool_start_its_handlers_confirmation_is_asked() {
    let world = World::new(1).under("[[rule]]\nmatch = \"lab.sure\"\neffect = \"allow\"\n");
    let gateway = world.start().await;
    let waiting = gateway.ask("lab.sure", json!({ "what": "x", "about": "nothing" })).await.unwrap();
    assert!(matches!(waiting.paused().unwrap().elicitation.origin, Origin::Handler { .. }));
    assert_eq!(world.ledger.effects(), []);
}

#[tokio::test(start_paused = true)]
async fn a_remembered_yes_to_a_destructive_tool_answers_its_handler_as_the_gates_decision_would() {
    let world = World::new(1);
    let gateway = with_github(&world).await;
    let issue = |title: &str| json!({ "owner": "o", "repo": "r", "title": title });
    let for_the_session = Answer::Approve { covers: Some(Coverage::SESSION), data: None };
    let waiting = gateway.ask("github.issues.create", issue("first")).await.unwrap();
    gateway.ann_says(&waiting, for_the_session).await.unwrap();
    assert!(gateway.end_of(&waiting).await.success());
    let second = gateway.ask("github.issues.create", issue("second")).await.unwrap();
    assert!(second.success(), "the user only confirms once per session per tool: {second:?}");
    assert_eq!(world.ledger.effects().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_remembered_yes_to_a_rule_does_not_answer_what_a_tool_asks_that_is_not_destructive() {
    let world =
        World::new(1).under("[[rule]]\nmatch = \"lab.transfer\"\neffect = \"ask\"\nremember = \"session\"\n");
    let gateway = world.start().await;
    let waiting = gateway.ask("lab.transfer", json!({ "amount": 20_000 })).await.unwrap();
    gateway.ann_says(&waiting, yes()).await.unwrap();
    assert!(gateway.end_of(&waiting).await.success(), "a person saw these arguments");
    let second = gateway.ask("lab.transfer", json!({ "amount": 30_000 })).await.unwrap();
    let asked = &second.paused().expect("nobody saw these").elicitation;
    assert!(matches!(asked.origin, Origin::Handler { .. }), "{asked:?}");
    assert_eq!(world.ledger.effects().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_handlers_own_question_is_not_remembered_whatever_tool_and_configuration_say() {
    let world = World::new(1).set(|settings| settings.remember = Remember::Session);
    let gateway = world.start().await;
    let waiting = gateway.ask("lab.transfer", json!({ "amount": 20_000 })).await.unwrap();
    assert_eq!(waiting.paused().unwrap().elicitation.remember, Remember::Call);
    let for_the_session = Answer::Approve { covers: Some(Coverage::SESSION), data: None };
    let refused = gateway.ann_says(&waiting, for_the_session).await.unwrap_err();
    assert!(matches!(refused, DecideError::RememberNotAllowed), "{refused}");
    gateway.ann_says(&waiting, yes()).await.unwrap();
    assert!(gateway.end_of(&waiting).await.success());
    let second = gateway.ask("lab.transfer", json!({ "amount": 30_000 })).await.unwrap();
    assert!(second.paused().is_some(), "a yes to 20,000 is none to 30,000: {second:?}");
    let path = PathPattern::parse("lab.transfer").unwrap();
    let grant = NewGrant::new(countersign_testkit::world::session(), path);
    gateway.give_grant(&ann(), grant).await.unwrap();
    let third = gateway.ask("lab.transfer", json!({ "amount": 40_000 })).await.unwrap();
    assert!(third.paused().is_some(), "nor does a remembered approval answer it: {third:?}");
    assert_eq!(world.ledger.effects().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_handlers_own_question_is_remembered_where_the_handler_says_so() {
    let world = World::new(1).set(|settings| settings.remember = Remember::Call);
    let gateway = world.start().await;
    let args = json!({ "style": "method", "remember": "session" });
    let first = gateway.approved("lab.elicit", args.clone()).await;
    assert!(first.success(), "{first:?}");
    let second = gateway.ask("lab.elicit", args).await.unwrap();
    assert!(second.success(), "{second:?}");
    assert_eq!(world.ledger.effects().len(), 2);
    let elsewhere = json!({ "style": "method", "remember": "session", "tool_path": "lab.put" });
    let asked = gateway.ask("lab.elicit", elsewhere).await.unwrap();
    assert_eq!(asked.paused().unwrap().elicitation.remember, Remember::Call, "only for its own tool");
}

#[tokio::test(start_paused = true)]
async fn a_no_is_not_remembered() {
    let gateway = World::new(1).start().await;
    for answer in [Answer::Deny, Answer::Cancel] {
        let waiting = gateway.ask("lab.destroy", note()).await.unwrap();
        gateway.ann_says(&waiting, answer).await.unwrap();
        gateway.end_of(&waiting).await;
    }
    assert!(gateway.ask("lab.destroy", note()).await.unwrap().paused().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_says_call_is_asked_about_each_time_and_cannot_be_remembered() {
    let world = World::new(1);
    let gateway = world.start().await;
    assert!(gateway.approved("lab.destroy_each", note()).await.success());
    let second = gateway.ask("lab.destroy_each", note()).await.unwrap();
    assert!(second.paused().is_some());
    let for_the_session = Answer::Approve { covers: Some(Coverage::SESSION), data: None };
    let refused = gateway.ann_says(&second, for_the_session).await.unwrap_err();
    assert!(matches!(refused, DecideError::RememberNotAllowed), "{refused}");
    assert_eq!(gateway.open().await.len(), 1, "the question stays open");
    assert_eq!(world.ledger.effects().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_person_may_approve_the_one_call_of_a_tool_that_could_be_remembered() {
    let gateway = World::new(1).start().await;
    let waiting = gateway.ask("lab.destroy", note()).await.unwrap();
    let only_this = Answer::Approve { covers: Some(Coverage::Call), data: None };
    gateway.ann_says(&waiting, only_this).await.unwrap();
    assert!(gateway.end_of(&waiting).await.success());
    assert!(gateway.ask("lab.destroy", note()).await.unwrap().paused().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_pending_elicitation_is_resolved_by_its_own_id_or_by_its_executions() {
    for by_execution in [true, false] {
        let world = World::new(1);
        let gateway = world.start().await;
        let waiting = gateway.ask("lab.destroy", note()).await.unwrap();
        let elicitation = waiting.paused().unwrap().elicitation.id;
        let target = if by_execution {
            Target::Execution(waiting.execution)
        } else {
            Target::Elicitation(elicitation)
        };
        let receipt = gateway.decide(says(bob(), target, yes())).await.unwrap();
        assert_eq!((receipt.execution, receipt.elicitation), (waiting.execution, elicitation));
        assert!(gateway.end_of(&waiting).await.success());
        assert_eq!(world.ledger.effects().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn where_several_are_pending_the_executions_id_is_ambiguous_and_lists_them() {
    let world = World::new(1);
    let gateway = world.start().await;
    let waiting = gateway.ask("lab.two", json!({})).await.unwrap();
    let open = gateway.open().await;
    assert_eq!(open.len(), 2);
    let ids: Vec<_> = open.iter().map(|row| row.elicitation.id).collect();
    match gateway.ann_says(&waiting, yes()).await.unwrap_err() {
        DecideError::Ambiguous(listed) => assert_eq!(listed, ids),
        other => panic!("{other}"),
    }
    for id in ids {
        gateway.decide(says(ann(), Target::Elicitation(id), yes())).await.unwrap();
    }
    assert!(gateway.end_of(&waiting).await.success());
    assert_eq!(world.ledger.effects().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn pending_elicitations_can_be_polled_and_go_when_they_are_decided() {
    let gateway = World::new(1).start().await;
    let first = gateway.ask("lab.destroy", json!({ "what": "a" })).await.unwrap();
    tokio::time::sleep(Duration::from_millis(5)).await;
    let second = gateway.ask("lab.put", json!({ "what": "b" })).await.unwrap();
    let open: Vec<_> = gateway.open().await.iter().map(|row| row.execution).collect();
    assert_eq!(open, [first.execution, second.execution], "oldest first");
    gateway.ann_says(&first, Answer::Deny).await.unwrap();
    let open: Vec<_> = gateway.open().await.iter().map(|row| row.execution).collect();
    assert_eq!(open, [second.execution]);
}
