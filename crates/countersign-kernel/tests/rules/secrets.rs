//! R12 and A26: a token that a handler was given appears nowhere but in that handler.

use std::sync::{Arc, Mutex};

use countersign_core::event::Event;
use countersign_kernel::ports::Page;
use countersign_kernel::{ExecutionResult, Gateway};
use countersign_sdk::{AuthProvider, Ctx, ExposeSecret, Form, Plugin, Tool, ToolError};
use countersign_testkit::lab::{Keyring, What};
use countersign_testkit::world::{InTests, World, yes};
use serde_json::{Value, json};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};

const CANARY: &str = "gho_CANARY_4f9d2c71e8";

/// Keeps every log line of this thread, of every level.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<String>>);

impl Visit for Log {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.lock().unwrap().push_str(&format!(" {field}={value:?}"));
    }
}

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        attributes.record(&mut self.clone());
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, values: &Record<'_>) {
        values.record(&mut self.clone());
    }
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut self.clone());
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// Puts the token into places that the lab's own leaking tool does not think of.
fn leaks_elsewhere() -> Plugin {
    let tool = Tool::new("own.leak").name("Leak").describe("Leaks.").auth_provider("github").handler(
        async |ctx: Ctx, input: What| -> Result<Value, ToolError> {
            let token = ctx.auth().token("github").await?;
            let secret = token.expose_secret();
            let field = json!({ "type": "string", "title": secret, "default": secret });
            match input.what.as_str() {
                "schema" => {
                    let schema = json!({ "type": "object", "properties": { "a": field } });
                    Ok(json!({ "got": ctx.elicit(Form::<Value>::with_schema("Fill in.", schema)).await? }))
                }
                "property" => {
                    let schema = json!({ "type": "object", "properties": { secret: { "type": "boolean" } } });
                    Ok(json!({ "got": ctx.elicit(Form::<Value>::with_schema("Fill in.", schema)).await? }))
                }
                "step name" => ctx.step(secret, async || Ok(json!(1))).await,
                "code" => Err(ToolError::with_code(secret.to_owned(), "Failed.")),
                "cause" => Err(std::io::Error::other(format!("401 for {secret}")))?,
                "key" => Ok(json!({ secret: [{ "deep": { secret: secret } }] })),
                "level" => {
                    ctx.logger().debug(secret, json!([secret]));
                    ctx.logger().error(secret, json!({ secret: secret }));
                    Ok(json!(null))
                }
                other => Err(ToolError::new(other)),
            }
        },
    );
    Plugin::new("own", "Own", "Tools of this test.").auth(AuthProvider::oauth2("github")).tool(tool)
}

/// Everything that anybody but the handler can get to see.
async fn everything(gateway: &Gateway, end: &ExecutionResult) -> String {
    let journal: Vec<Event> = gateway.journal(end.execution).await.unwrap();
    let rows = gateway.elicitations(Default::default(), Page::first(100)).await.unwrap();
    let audit = gateway.audit(0, 1_000).await.unwrap();
    format!("{end:?} {} {rows:?} {audit:?}", serde_json::to_string(&journal).unwrap())
}

async fn leak(path: &str, what: &str) -> String {
    let world = World::new(1);
    let keys = Keyring(vec![("github", CANARY)]);
    let builder = world.builder(Arc::new(world.disk.clone())).plugin(leaks_elsewhere()).credentials(keys);
    let gateway = world.start_with(builder).await;
    let mut events = gateway.events();
    let waiting = gateway.ask(path, json!({ "what": what })).await.unwrap();
    if waiting.paused().is_some() {
        gateway.ann_says(&waiting, yes()).await.unwrap();
    }
    let end = gateway.end_of(&waiting).await;
    let mut seen = format!("{waiting:?} {}", everything(&gateway, &end).await);
    while let Ok(event) = events.try_recv() {
        seen.push_str(&format!("{event:?}"));
    }
    seen
}

#[tokio::test(start_paused = true)]
async fn a_token_is_in_no_result_error_log_question_step_journal_or_audit() {
    let log = Log::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    for what in ["result", "error", "ask", "step"] {
        let seen = leak("lab.leak", what).await;
        assert!(seen.contains("[redacted]"), "{what}: the tool did get its token");
        assert!(!seen.contains(CANARY), "{what}: {seen}");
    }
    let log = log.0.lock().unwrap();
    assert!(log.contains("[redacted]"), "the log was watched");
    assert!(!log.contains(CANARY));
}

#[tokio::test(start_paused = true)]
async fn a_token_is_in_no_cause_key_or_level_of_log() {
    let log = Log::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    for what in ["cause", "key", "level"] {
        assert!(!leak("own.leak", what).await.contains(CANARY), "{what}");
    }
    assert!(!log.0.lock().unwrap().contains(CANARY));
}

#[tokio::test(start_paused = true)]
async fn a_token_is_in_no_form_that_a_person_is_shown() {
    for what in ["schema", "property"] {
        assert!(!leak("own.leak", what).await.contains(CANARY), "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_is_in_no_name_of_a_step_and_in_no_code() {
    for what in ["step name", "code"] {
        assert!(!leak("own.leak", what).await.contains(CANARY), "{what}");
    }
}
