//! `login`: a link that logs the person here in to the console.

use serde_json::json;

use crate::contact::{Purpose, Ready, Serves};
use crate::exit::{Exit, Problem};
use crate::screen::Format;

pub(super) async fn run(ready: Ready) -> anyhow::Result<Exit> {
    ready
        .with_server(Purpose::Look, async |contact| {
            if contact.serves == Serves::Here {
                let hint = format!("Start it with `{}`.", contact.invocation.command("serve"));
                return Err(Problem::new(
                    "no_server",
                    "no server runs for this data folder, so there is no console",
                )
                .hint(hint)
                .into());
            }
            let link = contact.operator.login_link().await?;
            match contact.screen.format {
                Format::Json => contact.screen.print_json(&json!(link))?,
                Format::Text => {
                    contact.screen.print(&link.url)?;
                    contact
                        .screen
                        .note(&format!("Open it in a browser. Single use, expires at {}.", link.expires_at));
                }
            }
            Ok(Exit::Done)
        })
        .await
}
