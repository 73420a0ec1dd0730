//! `token`: who may talk to the server, and as what.

use countersign_server::wire::{CreateTokenRequest, Token};
use serde_json::json;

use crate::args::TokenCommand;
use crate::contact::{Contact, Purpose, Ready};
use crate::exit::{Exit, Problem};
use crate::screen::{Format, Screen};
use crate::table::Table;
use crate::{report, shown};

pub(super) async fn run(ready: Ready, command: TokenCommand) -> anyhow::Result<Exit> {
    ready
        .with_server(Purpose::Keep, async |contact| match command {
            TokenCommand::Create { role, name } => {
                create(contact, CreateTokenRequest { name, role: role.to_string() }).await
            }
            TokenCommand::List => list(contact).await,
            TokenCommand::Revoke { id } => revoke(contact, &id).await,
        })
        .await
}

/// The secret stands alone on standard output, so that a shell can take it; everything else is said beside it.
async fn create(contact: &Contact, request: CreateTokenRequest) -> anyhow::Result<Exit> {
    let created = contact.operator.create_token(&request).await?;
    let screen = contact.screen;
    if screen.format == Format::Json {
        screen.print_json(&serde_json::to_value(&created)?)?;
        return Ok(Exit::Done);
    }
    let Token { token_id, name, role, .. } = &created.token;
    screen.note(&format!(
        "{} is the token {:?} with the role {}. Its secret is shown this once:",
        shown::line(token_id),
        shown::line(name),
        shown::line(role)
    ));
    screen.print(&created.secret)?;
    let revoke = contact.invocation.command(&format!("token revoke {token_id}"));
    screen.note(&format!(
        "Use it as COUNTERSIGN_TOKEN, or as `Authorization: Bearer …`. To take it back: `{revoke}`"
    ));
    Ok(Exit::Done)
}

async fn list(contact: &Contact) -> anyhow::Result<Exit> {
    let tokens = contact.operator.tokens().await?;
    let screen = contact.screen;
    if screen.format == Format::Json {
        screen.print_json(&serde_json::to_value(&tokens)?)?;
        return Ok(Exit::Done);
    }
    screen.print(&table(&tokens.items, screen).render())?;
    if tokens.items.is_empty() {
        screen.note("There are none.");
    }
    Ok(Exit::Done)
}

fn table(tokens: &[Token], screen: Screen) -> Table {
    let mut table = Table::new(screen, &["TOKEN", "ROLE", "NAME", "MADE", "STATE"]);
    for token in tokens {
        let state = match &token.revoked_at {
            None => ("good".to_owned(), screen.out.green("good")),
            Some(at) => {
                let text = format!("revoked {}", report::ago(at));
                let painted = screen.out.red(&text);
                (text, painted)
            }
        };
        table.row([
            shown::line(&token.token_id).into(),
            shown::line(&token.role).into(),
            shown::line(&token.name).into(),
            report::ago(&token.created_at).into(),
            state.into(),
        ]);
    }
    table
}

async fn revoke(contact: &Contact, id: &str) -> anyhow::Result<Exit> {
    let list = contact.invocation.command("token list");
    contact.operator.revoke_token(id).await.map_err(|problem| match problem.code.as_ref() {
        "not_found" | "token_not_found" => {
            Problem::new("not_found", format!("there is no token {id}")).hint(format!("`{list}` lists them."))
        }
        _ => problem,
    })?;
    match contact.screen.format {
        Format::Json => contact.screen.print_json(&json!({ "tokenId": id, "revoked": true }))?,
        Format::Text => {
            contact.screen.note(&format!("{} is revoked and is refused from now on.", shown::line(id)));
        }
    }
    Ok(Exit::Done)
}
