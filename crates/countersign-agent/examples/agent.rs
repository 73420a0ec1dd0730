//! An agent at the terminal that asks before it deletes: `cargo run -p countersign-agent --example agent`.
//!
//! It needs no network and no key: the model is scripted. Where standard input is no terminal, what would ask is rejected.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use countersign_agent::model::{ScriptedModel, ScriptedTurn};
use countersign_agent::providers::TerminalConfirmation;
use countersign_agent::{Agent, AgentEvent, AgentTool, BuildError, ConfirmationProvider, ToolCtx};
use countersign_sdk::ToolError;
use futures_util::StreamExt;
use serde_json::json;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct ListNotes {}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct DeleteNote {
    id: u64,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let deleted = talk(&mut std::io::stdout(), TerminalConfirmation::stdio()).await?;
    println!("{deleted} notes were deleted.");
    Ok(())
}

/// One chat; returns how many notes were deleted.
pub(crate) async fn talk(
    out: &mut (impl Write + Send),
    person: impl ConfirmationProvider,
) -> Result<usize, Failure> {
    let deleted = Arc::new(AtomicUsize::new(0));
    let agent = agent(&deleted, person)?;
    let mut events = agent.chat_stream("Delete the note about the old printer.");
    while let Some(event) = events.next().await {
        match event {
            AgentEvent::ContentDelta { text } => write!(out, "{text}")?,
            AgentEvent::ContentStop => writeln!(out)?,
            AgentEvent::ToolSettled(result) => writeln!(out, "  [{}: {}]", result.name, result.content)?,
            AgentEvent::Error(error) => return Err(error.to_string().into()),
            _ => {}
        }
    }
    Ok(deleted.load(Ordering::SeqCst))
}

fn agent(deleted: &Arc<AtomicUsize>, person: impl ConfirmationProvider) -> Result<Agent, BuildError> {
    let list = AgentTool::new("list_notes").describe("Lists the notes.").handler(
        async |_: ToolCtx, _: ListNotes| -> Result<_, ToolError> {
            Ok(json!([{ "id": 1, "title": "groceries" }, { "id": 2, "title": "the old printer" }]))
        },
    );
    let deleted = Arc::clone(deleted);
    let delete = AgentTool::new("delete_note").describe("Deletes a note for good.").destructive().handler(
        move |_: ToolCtx, input: DeleteNote| {
            deleted.fetch_add(1, Ordering::SeqCst);
            async move { Ok::<_, ToolError>(format!("note {} is gone", input.id)) }
        },
    );
    let model = ScriptedModel::new([
        ScriptedTurn::text(["Let me look ", "at the notes."]).and_calls("call-1", "list_notes", &json!({})),
        ScriptedTurn::says("Note 2 is the one.").and_calls("call-2", "delete_note", &json!({ "id": 2 })),
        ScriptedTurn::says("That is how it stands."),
    ]);
    Agent::builder()
        .model(model)
        .instructions("You keep a person's notes.")
        .tool(list)
        .tool(delete)
        .confirmation(person)
        .build()
}
