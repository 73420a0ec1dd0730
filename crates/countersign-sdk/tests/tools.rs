//! Tools, plugins, forms and schemas as their authors meet them.

use countersign_sdk::{
    Approval, Approved, AskKind, AskReply, AuthKind, AuthProvider, Ctx, ElicitationResponse, Form,
    FormSchema, FormSchemaError, FreeText, Outcome, Plugin, Question, Remember, Schema, Tool, ToolError,
    ToolErrorCode, UnknownProperties,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
struct Note {
    id: u64,
    #[serde(default = "draft")]
    state: String,
}

fn draft() -> String {
    "draft".into()
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Nothing {}

fn deletes() -> Tool {
    Tool::new("notes.delete")
        .name("Delete")
        .describe("Deletes.")
        .destructive(|n: &Note| format!("Delete {} ({})?", n.id, n.state))
        .handler(async |_: Ctx, n: Approved<Note>| -> Result<u64, ToolError> { Ok(n.id) })
}

fn reply(outcome: Outcome, data: Option<Value>) -> AskReply {
    AskReply { execution_id: "exec_1".into(), outcome, data }
}

const EVERY_NO: [Outcome; 3] = [Outcome::Denied, Outcome::Cancelled, Outcome::Expired];

#[test]
fn the_message_is_made_from_checked_input_with_its_defaults() {
    let tool = deletes();
    let admitted = tool.admit(json!({ "id": 7 })).unwrap();
    assert_eq!(tool.message(&admitted).unwrap().unwrap(), "Delete 7 (draft)?");
    assert!(
        tool.message(&json!({ "id": "seven" })).unwrap().is_err(),
        "input that was not checked makes no message"
    );
}

#[test]
fn the_builders_order_does_not_matter() {
    let early = Tool::new("a.b").remember(Remember::Call).idempotent().name("N").describe("D");
    let early = early.destructive(|_: &Note| "Sure?".into());
    let late = Tool::new("a.b").destructive(|_: &Note| "Sure?".into());
    let late = late.describe("D").name("N").idempotent().remember(Remember::Call);
    let definitions = [early, late].map(|builder| {
        let tool = builder.handler(async |_: Ctx, n: Approved<Note>| -> Result<u64, ToolError> { Ok(n.id) });
        format!("{:?}", tool.definition())
    });
    assert_eq!(definitions[0], definitions[1]);
}

#[test]
fn a_bad_path_is_kept_as_it_was_written_and_reported_at_registration() {
    let tool =
        Tool::new("Notes.Delete").handler(async |_: Ctx, _: Nothing| -> Result<u64, ToolError> { Ok(1) });
    assert_eq!(tool.definition().path, "Notes.Delete");
    assert_eq!(tool.path().unwrap_err().suggestion(), Some("notes.delete"));
    let plugin = Plugin::new("notes", "Notes", "Notes.").tool(tool);
    assert_eq!(plugin.check().unwrap_err().len(), 3, "path, name and description");
}

#[test]
fn a_type_that_is_no_object_cannot_be_a_tools_input() {
    let tool = Tool::new("a.b")
        .name("N")
        .describe("D")
        .handler(async |_: Ctx, n: u64| -> Result<u64, ToolError> { Ok(n) });
    assert!(tool.input_schema().is_err());
    assert!(tool.admit(json!(1)).is_err(), "what cannot be checked is refused");
    let errors = Plugin::new("a", "A", "A.").tool(tool).check().unwrap_err();
    assert!(errors[0].to_string().contains("struct with named fields"), "{}", errors[0]);
}

#[test]
fn a_type_without_fields_takes_no_properties() {
    let refuse = Schema::for_input::<Nothing>(UnknownProperties::Refuse).unwrap();
    assert_eq!(refuse.admit(json!({})).unwrap(), json!({}));
    assert_eq!(refuse.admit(Value::Null).unwrap(), json!({}), "no arguments are no properties");
    assert!(refuse.admit(json!({ "x": 1 })).is_err());
    let strip = Schema::for_input::<Nothing>(UnknownProperties::Strip).unwrap();
    assert_eq!(strip.admit(json!({ "x": 1 })).unwrap(), json!({}));
}

#[derive(Deserialize, JsonSchema)]
struct Open {
    #[expect(dead_code, reason = "only its schema is looked at")]
    labels: std::collections::HashMap<String, String>,
    #[expect(dead_code, reason = "only its schema is looked at")]
    anything: Value,
    #[expect(dead_code, reason = "only its schema is looked at")]
    inner: Option<Nothing>,
}

#[test]
fn maps_and_free_values_stay_open_and_what_is_inside_them_is_closed() {
    let schema = Schema::for_input::<Open>(UnknownProperties::Refuse).unwrap();
    let good = json!({ "labels": { "a": "b", "c": "d" }, "anything": { "x": { "y": 1 } }, "inner": {} });
    assert!(schema.admit(good).is_ok());
    assert!(schema.admit(json!({ "labels": {}, "anything": 1, "inner": null })).is_ok());
    assert!(schema.admit(json!({ "labels": {}, "anything": 1, "inner": { "x": 1 } })).is_err());
    assert!(schema.admit(json!({ "labels": { "a": 1 }, "anything": 1 })).is_err());
}

#[test]
fn output_is_checked_against_its_type() {
    let tool = deletes();
    assert!(tool.check_output(&json!(7)).is_ok());
    assert!(tool.check_output(&json!("seven")).is_err());
    assert!(tool.check_output(&json!(-1)).is_err());
}

#[test]
fn providers_have_scopes_only_where_scopes_mean_something() {
    let oauth = AuthProvider::oauth2("github").scopes(["repo"]).scopes(["read:user"]);
    assert_eq!(oauth.kind, AuthKind::OAuth2 { scopes: vec!["repo".into(), "read:user".into()] });
    assert_eq!(AuthProvider::api_key("slack").scopes(["x"]).kind, AuthKind::ApiKey);
}

#[test]
fn an_approval_is_true_only_on_an_explicit_yes() {
    let yes = Approval::new("Sure?").answer(reply(Outcome::Approved, Some(json!({ "a": 1 })))).unwrap();
    assert_eq!(
        yes,
        ElicitationResponse { execution_id: "exec_1".into(), approved: true, data: Some(json!({ "a": 1 })) }
    );
    for no in EVERY_NO {
        assert!(!Approval::new("Sure?").answer(reply(no, None)).unwrap().approved);
    }
    let wire = serde_json::to_value(&yes).unwrap();
    assert_eq!(wire, json!({ "executionId": "exec_1", "approved": true, "data": { "a": 1 } }));
}

#[test]
fn an_approval_asks_about_the_running_tool_unless_it_says_otherwise() {
    let plain = Approval::new("Sure?").request().unwrap();
    assert_eq!((plain.tool_path, plain.args, plain.kind), (None, None, AskKind::Approval));
    let full = Approval::new("Sure?").tool_path("notes.delete").args(json!({ "id": 7 })).request().unwrap();
    assert_eq!(full.tool_path.unwrap().as_str(), "notes.delete");
    assert_eq!(full.args, Some(json!({ "id": 7 })));
    let bad = Approval::new("Sure?").tool_path("Notes").request().unwrap_err();
    assert_eq!((bad.code(), bad.code().json_rpc()), (&ToolErrorCode::InvalidParams, -32602));
}

#[test]
fn a_form_gives_its_type_or_nothing() {
    let form = || Form::<Note>::new("Which?");
    let data = json!({ "id": 7, "state": "done" });
    let given = form().answer(reply(Outcome::Approved, Some(data))).unwrap();
    assert_eq!(given, Some(Note { id: 7, state: "done".into() }));
    for no in EVERY_NO {
        assert_eq!(form().answer(reply(no, Some(json!({ "id": 7 })))).unwrap(), None);
    }
    let error = form().answer(reply(Outcome::Approved, Some(json!({ "id": "x" })))).unwrap_err();
    assert_eq!(error.code(), &ToolErrorCode::InvalidAnswer);
    assert!(!error.message().contains('x') || error.cause().is_some());
}

#[derive(Deserialize, JsonSchema)]
struct Choices {
    #[expect(dead_code, reason = "only its schema is looked at")]
    colour: Colour,
    #[expect(dead_code, reason = "only its schema is looked at")]
    maybe: Option<u32>,
    #[expect(dead_code, reason = "only its schema is looked at")]
    sure: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Colour {
    Red,
    Blue,
}

#[test]
fn enums_options_and_booleans_become_fields_that_every_client_can_show() {
    let AskKind::Form { schema } = Form::<Choices>::new("Which?").request().unwrap().kind else {
        panic!("a form")
    };
    let fields = &schema.as_value()["properties"];
    assert_eq!(fields["colour"]["enum"], json!(["red", "blue"]));
    assert_eq!(fields["maybe"]["type"], "integer");
    assert_eq!(schema.as_value()["required"], json!(["colour", "sure"]));
    assert!(schema.check(&json!({ "colour": "red", "sure": true })).is_ok());
    assert!(schema.check(&json!({ "colour": "green", "sure": "yes", "more": 1 })).unwrap_err().len() >= 3);
}

#[derive(Deserialize, JsonSchema)]
struct Nested {
    #[expect(dead_code, reason = "only its schema is looked at")]
    note: Note,
}

#[test]
fn a_type_that_no_client_can_show_is_refused_where_it_is_asked() {
    let error = Form::<Nested>::new("Which?").request().unwrap_err();
    assert_eq!(error.code(), &ToolErrorCode::InvalidParams);
    assert!(error.message().contains("\"note\""), "{}", error.message());
    let list = json!({ "type": "object", "properties": {}, "allOf": [{}] });
    assert_eq!(FormSchema::new(&list), Err(FormSchemaError::Combinator("allOf")));
}

#[test]
fn a_form_without_a_schema_is_one_text() {
    let request = Form::text("Why?").request().unwrap();
    assert_eq!(request.kind, AskKind::Form { schema: FormSchema::free_text() });
    let text =
        Form::text("Why?").answer(reply(Outcome::Approved, Some(json!({ "response": "So." })))).unwrap();
    assert_eq!(text, Some(FreeText { response: "So.".into() }));
}

#[test]
fn codes_have_the_numbers_that_clients_know() {
    for (code, text, number) in [
        (ToolErrorCode::ElicitationNotAvailable, "elicitation_not_available", -32007),
        (ToolErrorCode::InvalidParams, "invalid_params", -32602),
        (ToolErrorCode::Denied, "denied", -32005),
        (ToolErrorCode::Cancelled, "cancelled", -32001),
        (ToolErrorCode::Other("teapot".into()), "teapot", -32005),
    ] {
        assert_eq!((code.as_str(), code.json_rpc()), (text, number));
    }
}
