//! Seed 003: `confirm` for yes or no, `elicit` for typed answers, and what each gives back when there is no answer.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that meets the unexpected stops there")]

use std::sync::Arc;
use std::time::Duration;

use countersign_core::execution::Status;
use countersign_kernel::{Answer, DecideError, ExecutionResult, Gateway, People};
use countersign_sdk::{AskKind, Ctx, Form, FreeText, Plugin, Tool, ToolError, ToolErrorCode};
use countersign_testkit::lab::{Done, Nothing, Warehouse};
use countersign_testkit::world::{InTests, World, fill, yes};
use serde_json::{Value, json};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const HOUR: Duration = Duration::from_secs(60 * 60);

fn nobody() -> World {
    World::new(1).set(|s| s.people = People::Nobody)
}

fn schema_of(waiting: &ExecutionResult) -> Value {
    match &waiting.paused().unwrap().elicitation.kind {
        AskKind::Form { schema } => schema.as_value().clone(),
        AskKind::Approval => panic!("an approval has no schema"),
    }
}

/// A gateway with one more tool, `own.ask`, that runs `Form::with_schema` on what it is told and reports what it got.
async fn asking(world: &World) -> Gateway {
    let with_schema = Tool::new("own.ask").name("Ask").describe("Asks with the schema it is given.").handler(
        async |ctx: Ctx, input: lab_schema::Given| -> Result<Value, ToolError> {
            match ctx.elicit(Form::<Value>::with_schema("Fill this in.", input.schema)).await {
                Ok(answer) => Ok(json!({ "answer": answer })),
                Err(error) => Ok(json!({ "code": error.code().as_str(), "number": error.code().json_rpc() })),
            }
        },
    );
    let text = Tool::new("own.text").name("Text").describe("Asks for a text.").handler(
        async |ctx: Ctx, _: Nothing| -> Result<Option<FreeText>, ToolError> {
            ctx.elicit(Form::text("Why?")).await
        },
    );
    let plugin = Plugin::new("own", "Own", "Tools of this test.").tool(with_schema).tool(text);
    world.start_with(world.builder(Arc::new(world.disk.clone())).plugin(plugin)).await
}

mod lab_schema {
    /// A schema to ask with.
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    pub(super) struct Given {
        pub(super) schema: serde_json::Value,
    }
}

#[tokio::test(start_paused = true)]
async fn confirm_is_true_only_on_explicit_accept() {
    for (answer, done) in [(yes(), true), (Answer::Deny, false), (Answer::Cancel, false)] {
        let world = World::new(1);
        let gateway = world.start().await;
        let waiting = gateway.ask("lab.confirm", json!({})).await.unwrap();
        gateway.ann_says(&waiting, answer).await.unwrap();
        let end = gateway.end_of(&waiting).await;
        assert_eq!(end.value, Some(json!({ "done": done })));
        assert_eq!(world.ledger.effects().len(), usize::from(done));
    }
}

#[tokio::test(start_paused = true)]
async fn confirm_is_false_when_its_time_runs_out() {
    let world = World::new(1);
    let gateway = world.start().await;
    let waiting = gateway.ask("lab.confirm", json!({})).await.unwrap();
    tokio::time::sleep(DAY).await;
    assert_eq!(gateway.end_of(&waiting).await.value, Some(json!({ "done": false })));
    assert_eq!(world.ledger.effects(), []);
    assert!(matches!(gateway.ann_says(&waiting, yes()).await, Err(DecideError::Expired)));
}

#[tokio::test(start_paused = true)]
async fn confirm_is_false_where_nobody_can_be_asked_and_the_handler_need_not_guard() {
    let world = nobody();
    let gateway = world.start().await;
    let end = gateway.ask("lab.confirm", json!({})).await.unwrap();
    assert_eq!(end.value, Some(json!({ "done": false })));
    assert_eq!(world.ledger.effects(), []);
}

#[tokio::test(start_paused = true)]
async fn confirm_asks_with_an_empty_properties_schema() {
    let gateway = World::new(1).start().await;
    let waiting = gateway.ask("lab.confirm", json!({})).await.unwrap();
    let asked = &waiting.paused().unwrap().elicitation;
    assert_eq!(asked.message, "Remove 5 completed todos? This cannot be undone.");
    assert_eq!(schema_of(&waiting), json!({ "type": "object", "properties": {}, "required": [] }));
}

#[tokio::test(start_paused = true)]
async fn a_confirmation_is_about_this_moment_and_never_remembered() {
    let gateway = World::new(1).start().await;
    assert!(gateway.approved("lab.confirm", json!({})).await.success());
    assert!(gateway.ask("lab.confirm", json!({})).await.unwrap().paused().is_some());
}

#[tokio::test(start_paused = true)]
async fn elicit_gives_the_validated_value_on_accept() {
    let gateway = World::new(1).start().await;
    let waiting = gateway.ask("lab.form", json!({})).await.unwrap();
    assert_eq!(waiting.paused().unwrap().elicitation.message, "Which warehouse should I check?");
    let schema = schema_of(&waiting);
    assert_eq!(schema["properties"]["warehouse_id"]["type"], "string");
    assert_eq!(schema["required"], json!(["warehouse_id"]));
    gateway.ann_says(&waiting, fill(json!({ "warehouse_id": "WH-7" }))).await.unwrap();
    assert_eq!(gateway.end_of(&waiting).await.value, Some(json!({ "warehouseId": "WH-7", "units": 7 })));
}

#[tokio::test(start_paused = true)]
async fn elicit_gives_nothing_on_decline_on_cancel_and_on_expiry() {
    for answer in [Some(Answer::Deny), Some(Answer::Cancel), None] {
        let gateway = World::new(1).start().await;
        let waiting = gateway.ask("lab.form", json!({})).await.unwrap();
        match answer {
            Some(answer) => drop(gateway.ann_says(&waiting, answer).await.unwrap()),
            None => tokio::time::sleep(DAY).await,
        }
        let end = gateway.end_of(&waiting).await;
        assert!(end.success());
        assert_eq!(end.value, Some(json!({ "cancelled": true })));
    }
}

#[tokio::test(start_paused = true)]
async fn elicit_is_not_available_where_nobody_can_be_asked() {
    let gateway = nobody().start().await;
    let end = gateway.ask("lab.form", json!({})).await.unwrap();
    assert_eq!(end.status, Status::Failed);
    assert_eq!(end.error.unwrap().code, "elicitation_not_available");
    assert_eq!(ToolErrorCode::ElicitationNotAvailable.json_rpc(), -32007);
    assert_eq!(gateway.open().await, []);
}

#[tokio::test(start_paused = true)]
async fn a_handler_can_tell_that_nobody_is_there_and_do_without() {
    let gateway = asking(&nobody()).await;
    let schema = json!({ "type": "object", "properties": { "a": { "type": "string" } } });
    let end = gateway.ask("own.ask", json!({ "schema": schema })).await.unwrap();
    assert_eq!(end.value, Some(json!({ "code": "elicitation_not_available", "number": -32007 })));
}

#[tokio::test(start_paused = true)]
async fn a_schema_that_no_client_can_show_is_invalid_params_before_anybody_is_asked() {
    let string = json!({ "type": "string" });
    let with = |property: Value| json!({ "type": "object", "properties": { "p": property } });
    let too_many: serde_json::Map<_, _> = (0..51).map(|n| (format!("p{n}"), string.clone())).collect();
    let gateway = asking(&World::new(1)).await;
    for schema in [
        json!({ "type": "string" }),
        json!({ "type": "array", "items": string }),
        json!({ "properties": {} }),
        json!([]),
        json!(true),
        with(json!({ "type": "object", "properties": {} })),
        with(json!({ "type": "array", "items": { "type": "string" } })),
        with(json!({ "type": "null" })),
        with(json!({})),
        json!({ "type": "object", "properties": {}, "oneOf": [] }),
        json!({ "type": "object", "properties": {}, "anyOf": [] }),
        json!({ "type": "object", "properties": {}, "allOf": [] }),
        json!({ "type": "object", "properties": {}, "not": {} }),
        json!({ "type": "object", "properties": too_many }),
    ] {
        let end = gateway.ask("own.ask", json!({ "schema": schema })).await.unwrap();
        assert_eq!(end.value, Some(json!({ "code": "invalid_params", "number": -32602 })), "{schema}");
        let asked = gateway
            .elicitations(Default::default(), countersign_kernel::ports::Page::first(1))
            .await
            .unwrap();
        assert_eq!(asked.items, [], "nobody was asked");
    }
}

#[tokio::test(start_paused = true)]
async fn every_primitive_property_can_be_asked_for_and_is_given_back() {
    let gateway = asking(&World::new(1)).await;
    let schema = json!({ "type": "object", "required": ["s"], "properties": {
        "s": { "type": "string", "format": "email", "title": "Mail" },
        "n": { "type": "number", "minimum": 0.5 },
        "i": { "type": "integer" },
        "b": { "type": "boolean", "default": true },
        "e": { "type": "string", "enum": ["red", "blue"] },
        "m": { "type": "array", "items": { "type": "string", "enum": ["x", "y"] } },
    } });
    let waiting = gateway.ask("own.ask", json!({ "schema": schema })).await.unwrap();
    assert_eq!(schema_of(&waiting)["properties"], schema["properties"], "shown as the tool wrote it");
    let data = json!({ "s": "a@b.c", "n": 0.5, "i": 3, "b": false, "e": "red", "m": ["x", "y"] });
    gateway.ann_says(&waiting, fill(data.clone())).await.unwrap();
    assert_eq!(gateway.end_of(&waiting).await.value, Some(json!({ "answer": data })));
}

#[tokio::test(start_paused = true)]
async fn without_a_schema_one_text_is_asked_for() {
    let gateway = asking(&World::new(1)).await;
    let waiting = gateway.ask("own.text", json!({})).await.unwrap();
    let expected = json!({ "type": "object", "properties": { "response": { "type": "string" } }, "required": ["response"] });
    assert_eq!(schema_of(&waiting), expected);
    gateway.ann_says(&waiting, fill(json!({ "response": "Because." }))).await.unwrap();
    assert_eq!(gateway.end_of(&waiting).await.value, Some(json!({ "response": "Because." })));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_does_not_fit_is_refused_and_the_question_stays_open() {
    let gateway = World::new(1).start().await;
    let waiting = gateway.ask("lab.form", json!({})).await.unwrap();
    for bad in [
        fill(json!({})),
        fill(json!({ "warehouse_id": 7 })),
        fill(json!({ "warehouse_id": null })),
        fill(json!({ "warehouse_id": "WH-7", "approved": true })),
        fill(json!("WH-7")),
        fill(json!(null)),
        yes(),
    ] {
        let refused = gateway.ann_says(&waiting, bad.clone()).await.unwrap_err();
        assert!(matches!(refused, DecideError::InvalidData(_)), "{bad:?}: {refused}");
        assert_eq!(refused.code(), "invalid_data");
        assert_eq!(gateway.open().await.len(), 1);
    }
    gateway.ann_says(&waiting, fill(json!({ "warehouse_id": "WH-7" }))).await.unwrap();
    assert!(gateway.end_of(&waiting).await.success());
}

#[tokio::test(start_paused = true)]
async fn data_beside_a_confirmation_is_refused_as_nobody_asked_for_it() {
    let gateway = World::new(1).start().await;
    let waiting = gateway.ask("lab.confirm", json!({})).await.unwrap();
    let refused = gateway.ann_says(&waiting, fill(json!({ "x": 1 }))).await.unwrap_err();
    assert!(matches!(refused, DecideError::InvalidData(_)), "{refused}");
    gateway.ann_says(&waiting, fill(json!({}))).await.unwrap();
    assert_eq!(gateway.end_of(&waiting).await.value, Some(json!({ "done": true })));
}

#[tokio::test(start_paused = true)]
async fn the_persons_thinking_time_hits_no_timeout() {
    for (path, args, answer) in [
        ("lab.confirm", json!({}), yes()),
        ("lab.form", json!({}), fill(json!({ "warehouse_id": "WH-7" }))),
        ("lab.destroy", json!({ "what": "x" }), yes()),
        ("lab.transfer", json!({ "amount": 20_000 }), yes()),
    ] {
        let world = World::new(1);
        let gateway = world.start().await;
        let waiting = gateway.ask(path, args).await.unwrap();
        tokio::time::sleep(23 * HOUR).await;
        assert_eq!(gateway.live(), 0, "thinking holds no memory");
        gateway.ann_says(&waiting, answer).await.unwrap();
        let end = gateway.end_of(&waiting).await;
        assert!(end.success(), "{path}: {:?}", end.error);
    }
}

#[tokio::test(start_paused = true)]
async fn a_day_is_exactly_as_long_as_it_says() {
    let gateway = World::new(1).start().await;
    let waiting = gateway.ask("lab.destroy", json!({ "what": "x" })).await.unwrap();
    let asked = waiting.paused().unwrap();
    assert_eq!(asked.asked_at.after(DAY), asked.elicitation.expires_at);
    tokio::time::sleep(DAY - Duration::from_millis(2)).await;
    assert_eq!(gateway.result(waiting.execution).await.unwrap().unwrap().status, Status::Waiting);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let end = gateway.end_of(&waiting).await;
    assert_eq!(end.error.unwrap().code, "expired");
    assert!(matches!(gateway.ann_says(&waiting, yes()).await, Err(DecideError::Expired)));
}

#[tokio::test(start_paused = true)]
async fn a_typed_form_is_answered_with_its_type() {
    let typed = Tool::new("own.typed").name("Typed").describe("Asks for a warehouse.").handler(
        async |ctx: Ctx, _: Nothing| -> Result<Done, ToolError> {
            let answer: Option<Warehouse> = ctx.elicit(Form::new("Which?")).await?;
            Ok(Done { done: answer.is_some_and(|w| w.warehouse_id == "WH-7") })
        },
    );
    let world = World::new(1);
    let plugin = Plugin::new("own", "Own", "Tools of this test.").tool(typed);
    let gateway = world.start_with(world.builder(Arc::new(world.disk.clone())).plugin(plugin)).await;
    let waiting = gateway.ask("own.typed", json!({})).await.unwrap();
    gateway.ann_says(&waiting, fill(json!({ "warehouse_id": "WH-7" }))).await.unwrap();
    assert_eq!(gateway.end_of(&waiting).await.value, Some(json!({ "done": true })));
}
