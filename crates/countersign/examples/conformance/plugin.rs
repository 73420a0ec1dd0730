//! The suite's tools that go the whole way through the gateway: they are looked up, judged, asked about, recorded and
//! settled like anybody's, and only their MCP names are the suite's.

use std::time::Duration;

use countersign::sdk::{Ctx, Form, Plugin, Safe, Tool, ToolBuilder, ToolError};
use countersign_server::mcp::{Announcement, Announcer};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::sleep;

/// Between two things that a client is told of.
const BEAT: Duration = Duration::from_millis(50);
/// Longer than the front holds a call before it makes a task of it.
const LONG_ENOUGH_FOR_A_TASK: Duration = Duration::from_millis(1_300);

#[derive(Debug, Deserialize, JsonSchema)]
struct Nothing {}

/// What every tool here answers: a text, which clients see as it is.
type Answer = Result<String, ToolError>;

fn said(text: impl Into<String>) -> Answer {
    Ok(text.into())
}

/// The fixtures. `announcer` is the one that the front was given.
pub(crate) fn plugin(announcer: &Announcer) -> Plugin {
    let plugin = Plugin::new("conformance", "Conformance", "What the official suite calls.");
    let tools = [answering(), asking(), asking_in_rounds(), long_running(), changing(announcer)];
    tools.into_iter().flatten().fold(plugin, Plugin::tool)
}

fn answering() -> Vec<Tool> {
    vec![
        fixture("simple_text", "test_simple_text").handler(async |_: Ctx, _: Nothing| -> Answer {
            said("This is a simple text response for testing.")
        }),
        fixture("error_handling", "test_error_handling").handler(async |_: Ctx, _: Nothing| -> Answer {
            Err(ToolError::new("This tool intentionally returns an error for testing"))
        }),
        fixture("with_logging", "test_tool_with_logging").handler(logging),
        fixture("logging", "test_logging_tool").handler(logging),
        fixture("with_progress", "test_tool_with_progress").handler(async |ctx: Ctx, _: Nothing| -> Answer {
            for done in [0.0, 50.0, 100.0] {
                ctx.progress(done, Some(100.0), "Working");
                sleep(BEAT).await;
            }
            said("Progress test completed")
        }),
        fixture("custom_header", "test_custom_header")
            .handler(async |_: Ctx, input: Routed| -> Answer { said(format!("Routed to {}", input.region)) }),
        fixture("greet", "greet")
            .handler(async |_: Ctx, input: Named| -> Answer { said(format!("Hello, {}!", input.name)) }),
        // The stream is not closed under it: the front keeps streams open for as long as a person thinks.
        fixture("reconnection", "test_reconnection")
            .handler(async |_: Ctx, _: Nothing| -> Answer { said("Reconnection test completed") }),
    ]
}

fn asking() -> Vec<Tool> {
    vec![
        fixture("elicitation", "test_elicitation").handler(async |ctx: Ctx, input: Message| -> Answer {
            let schema = json!({
                "type": "object",
                "properties": {
                    "username": { "type": "string", "description": "User's response" },
                    "email": { "type": "string", "description": "User's email address" },
                },
                "required": ["username", "email"],
            });
            let answer = ctx.elicit(Form::<Value>::with_schema(input.message, schema)).await?;
            said(format!("User response: {}", outcome(answer.as_ref())))
        }),
        fixture("elicitation_defaults", "test_elicitation_sep1034_defaults").handler(
            async |ctx: Ctx, _: Nothing| -> Answer {
                let answer =
                    ctx.elicit(Form::<Value>::with_schema("Check the defaults.", defaults())).await?;
                said(format!("Elicitation completed: {}", outcome(answer.as_ref())))
            },
        ),
        fixture("elicitation_enums", "test_elicitation_sep1330_enums").handler(
            async |ctx: Ctx, _: Nothing| -> Answer {
                let answer = ctx.elicit(Form::<Value>::with_schema("Choose.", enums())).await?;
                said(format!("Elicitation completed: {}", outcome(answer.as_ref())))
            },
        ),
        fixture("streaming_elicitation", "test_streaming_elicitation").handler(
            async |ctx: Ctx, _: Nothing| -> Answer {
                ctx.progress(1.0, None, "About to ask");
                let confirmed = ctx.confirm("Go on?").await?;
                said(format!("Confirmed: {confirmed}"))
            },
        ),
    ]
}

fn asking_in_rounds() -> Vec<Tool> {
    let one_question = |path: &str, mcp_name: &str| {
        fixture(path, mcp_name).handler(async |ctx: Ctx, _: Nothing| -> Answer {
            let answer = ctx.elicit(Form::<Confirmed>::new("Please confirm")).await?;
            let ok = answer.is_some_and(|answer| answer.ok);
            said(if ok { "state-ok" } else { "not confirmed" })
        })
    };
    vec![
        one_question("request_state", "test_input_required_result_request_state"),
        one_question("tampered_state", "test_input_required_result_tampered_state"),
        fixture("multi_round", "test_input_required_result_multi_round").handler(
            async |ctx: Ctx, _: Nothing| -> Answer {
                let name = ctx.elicit(Form::<Named>::new("Step 1: What is your name?")).await?;
                let color = ctx.elicit(Form::<Coloured>::new("Step 2: What is your favorite color?")).await?;
                let (name, color) = (name.map(|n| n.name), color.map(|c| c.color));
                said(format!("{} likes {}", name.unwrap_or_default(), color.unwrap_or_default()))
            },
        ),
    ]
}

fn long_running() -> Vec<Tool> {
    vec![
        fixture("slow_compute", "slow_compute").handler(async |ctx: Ctx, input: Slow| -> Answer {
            if input.seconds > 0.0 {
                let work = Duration::from_secs_f64(input.seconds).max(LONG_ENOUGH_FOR_A_TASK);
                tokio::select! {
                    () = sleep(work) => {}
                    () = ctx.cancelled() => return Err(ToolError::new("cancelled")),
                }
            }
            said(format!("{} computed", input.label))
        }),
        fixture("confirm_delete", "confirm_delete").handler(async |ctx: Ctx, input: File| -> Answer {
            let question = format!("Delete {}?", input.filename);
            let deleted =
                ctx.elicit(Form::<Deletion>::new(question)).await?.is_some_and(|answer| answer.confirm);
            said(if deleted { format!("Deleted {}", input.filename) } else { "Kept".to_owned() })
        }),
        fixture("multi_input", "multi_input").handler(async |ctx: Ctx, _: Nothing| -> Answer {
            let (first, second) = tokio::join!(
                ctx.elicit(Form::<Both>::new("First name?")),
                ctx.elicit(Form::<Both>::new("Second name?")),
            );
            let name = |answer: Option<Both>| answer.map(|n| n.name).unwrap_or_default();
            said(format!("{} and {}", name(first?), name(second?)))
        }),
    ]
}

fn changing(announcer: &Announcer) -> Vec<Tool> {
    let change = |path: &str, mcp_name: &str, what: Announcement| {
        let announcer = announcer.clone();
        fixture(path, mcp_name).handler(move |_: Ctx, _: Nothing| {
            let (announcer, what) = (announcer.clone(), what.clone());
            async move {
                announcer.announce(what).await;
                said("Told everybody")
            }
        })
    };
    vec![
        change("trigger_tool_change", "test_trigger_tool_change", Announcement::Tools),
        change("trigger_prompt_change", "test_trigger_prompt_change", Announcement::Prompts),
    ]
}

fn fixture(path: &str, mcp_name: &str) -> ToolBuilder<Safe> {
    Tool::new(format!("conformance.{path}"))
        .mcp_name(mcp_name)
        .name(mcp_name)
        .describe("A fixture of the conformance suite.")
}

async fn logging(ctx: Ctx, _: Nothing) -> Answer {
    for message in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
        ctx.logger().info(message, json!({}));
        sleep(BEAT).await;
    }
    said("Logging test completed")
}

fn outcome(answer: Option<&Value>) -> String {
    match answer {
        Some(content) => format!("action=accept, content={content}"),
        None => "action=decline".to_owned(),
    }
}

fn defaults() -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": { "type": "string", "default": "John Doe" },
            "age": { "type": "integer", "default": 30 },
            "score": { "type": "number", "default": 95.5 },
            "status": { "type": "string", "enum": ["active", "inactive", "pending"], "default": "active" },
            "verified": { "type": "boolean", "default": true },
        },
    })
}

fn enums() -> Value {
    let titled = json!([
        { "const": "value1", "title": "First Option" },
        { "const": "value2", "title": "Second Option" },
        { "const": "value3", "title": "Third Option" },
    ]);
    json!({
        "type": "object",
        "properties": {
            "untitledSingle": { "type": "string", "enum": ["option1", "option2", "option3"] },
            "titledSingle": { "type": "string", "oneOf": titled },
            "legacyEnum": {
                "type": "string",
                "enum": ["opt1", "opt2", "opt3"],
                "enumNames": ["Option One", "Option Two", "Option Three"],
            },
            "untitledMulti": {
                "type": "array",
                "items": { "type": "string", "enum": ["option1", "option2", "option3"] },
            },
            "titledMulti": { "type": "array", "items": { "anyOf": titled } },
        },
    })
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Message {
    /// The message to show the user.
    message: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Routed {
    /// Where the call is routed to.
    #[schemars(extend("x-mcp-header" = "Region"))]
    region: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Named {
    name: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Coloured {
    color: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Confirmed {
    ok: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Deletion {
    confirm: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Both {
    name: String,
    #[serde(rename = "confirm")]
    _confirm: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Slow {
    seconds: f64,
    #[serde(default)]
    label: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct File {
    filename: String,
}
