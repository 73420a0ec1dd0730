//! `cancel`: stops an execution.

use countersign_server::wire::Status;

use super::executions::{execution_id, not_found};
use crate::args::CancelArgs;
use crate::contact::{Purpose, Ready};
use crate::exit::Exit;
use crate::screen::Format;
use crate::short_ids;

pub(super) async fn run(ready: Ready, args: &CancelArgs) -> anyhow::Result<Exit> {
    execution_id(&args.execution, &ready.setup.invocation)?;
    ready
        .with_server(Purpose::Change, async |contact| {
            let id = short_ids::execution(contact, &args.execution).await?;
            let stopped = contact.operator.cancel(&id).await;
            let stopped = stopped.map_err(|problem| not_found(problem, &id, &contact.invocation))?;
            match (contact.screen.format, stopped.status) {
                (Format::Json, _) => contact.screen.print_json(&serde_json::to_value(&stopped)?)?,
                (Format::Text, Status::Cancelled) => contact.screen.print(&format!("Cancelled {id}."))?,
                (Format::Text, _) => contact.screen.print(&format!(
                    "Cancelling {id}: a call of it has started and comes to its end first. `{}` shows how it ended.",
                    contact.invocation.command(&format!("executions {id}"))
                ))?,
            }
            Ok(Exit::Done)
        })
        .await
}
