//! `grants`: approvals that are remembered for a session, and how to forget them.

use countersign_server::wire::{Grant, List};
use serde_json::json;

use super::call::session;
use crate::args::GrantsCommand;
use crate::contact::{Contact, Purpose, Ready};
use crate::exit::{Exit, Problem};
use crate::names::Names;
use crate::screen::{Format, Screen};
use crate::table::Table;
use crate::{report, short_ids, shown};

pub(super) async fn run(ready: Ready, command: GrantsCommand) -> anyhow::Result<Exit> {
    let (GrantsCommand::List(scope) | GrantsCommand::Clear { scope, .. }) = &command;
    let named = scope.session.as_deref().map(session).transpose()?;
    ready
        .with_server(Purpose::Look, async |contact| {
            let session = match named {
                Some(named) => named,
                None => own_session(contact).await?,
            };
            match command {
                GrantsCommand::List(_) => list(contact, &session).await,
                GrantsCommand::Clear { id, .. } => clear(contact, &session, id.as_deref()).await,
            }
        })
        .await
}

/// The session that the server gives this credential where it names none.
async fn own_session(contact: &Contact) -> Result<String, Problem> {
    Ok(format!("ses_of_{}", contact.operator.whoami().await?.principal))
}

async fn list(contact: &Contact, session: &str) -> anyhow::Result<Exit> {
    let grants = match contact.operator.grants(session).await {
        // A session is opened by its first call; until then it remembers nothing.
        Err(problem) if problem.code == "session_not_found" => List::whole(Vec::new()),
        answer => answer?,
    };
    let screen = contact.screen;
    if screen.format == Format::Json {
        screen.print_json(&serde_json::to_value(&grants)?)?;
        return Ok(Exit::Done);
    }
    screen.print(&table(&grants.items, contact.names().await, screen).render())?;
    if grants.items.is_empty() {
        screen.note(&format!("Nothing is remembered in {session}: every destructive call there asks."));
    } else {
        let clear = contact.invocation.command(&format!("grants clear --session {session}"));
        screen.note(&format!("These run without asking. To be asked again: `{clear}`"));
    }
    Ok(Exit::Done)
}

fn table(grants: &[Grant], names: &Names, screen: Screen) -> Table {
    let mut table = Table::new(screen, &["GRANT", "TOOLS", "GIVEN", "BY", "EXPIRES", "USES LEFT"]);
    for grant in grants {
        let tools = grant.tool_paths.iter().map(|path| shown::line(path)).collect::<Vec<_>>().join(", ");
        table.row([
            shown::line(&grant.grant_id).into(),
            tools.into(),
            report::ago(&grant.given_at).into(),
            names.of(&grant.by).into(),
            grant.expires_at.as_deref().map_or_else(|| "never".to_owned(), report::left_until).into(),
            grant.uses_left.map_or_else(|| "any".to_owned(), |uses| uses.to_string()).into(),
        ]);
    }
    table
}

async fn clear(contact: &Contact, session: &str, id: Option<&str>) -> anyhow::Result<Exit> {
    match id {
        None => contact.operator.clear_grants(session).await?,
        Some(id) => contact
            .operator
            .revoke_grant(session, &short_ids::grant(contact, session, id).await?)
            .await
            .map_err(|problem| {
                let list = contact.invocation.command(&format!("grants list --session {session}"));
                match problem.code.as_ref() {
                    "not_found" => Problem::new(
                        "not_found",
                        format!("there is no remembered approval {id} in {session}"),
                    )
                    .hint(format!("`{list}` lists them.")),
                    _ => problem,
                }
            })?,
    }
    match contact.screen.format {
        Format::Json => contact.screen.print_json(&json!({ "sessionId": session, "cleared": true }))?,
        Format::Text => contact.screen.note(&match id {
            None => format!("Nothing is remembered in {session} any more."),
            Some(id) => format!("{} is forgotten.", shown::line(id)),
        }),
    }
    Ok(Exit::Done)
}
