//! `token`: who may talk to the server, and as what.

use countersign_core::policy::parse_duration;
use countersign_server::wire::{CreateTokenRequest, Token};
use serde_json::json;

use crate::args::{TokenArgs, TokenCommand};
use crate::contact::{Contact, Purpose, Ready};
use crate::exit::{Exit, Problem};
use crate::screen::{Format, Screen};
use crate::table::Table;
use crate::{report, short_ids, shown};

pub(super) async fn run(ready: Ready, command: TokenCommand) -> anyhow::Result<Exit> {
    let purpose = match command {
        TokenCommand::Create(_) => Purpose::Keep,
        TokenCommand::List | TokenCommand::Revoke { .. } => Purpose::Look,
    };
    ready
        .with_server(purpose, async |contact| match command {
            TokenCommand::Create(args) => create(contact, request(args)?).await,
            TokenCommand::List => list(contact).await,
            TokenCommand::Revoke { id } => revoke(contact, &short_ids::token(contact, &id).await?).await,
        })
        .await
}

fn request(args: TokenArgs) -> Result<CreateTokenRequest, Problem> {
    let TokenArgs { role, name, user, attended, expires } = args;
    let expires = expires.map(|text| parse_duration(&text)).transpose();
    let expires = expires.map_err(|error| Problem::usage(format!("--expires: {error}")))?;
    let expires_in_ms = expires.map(|life| u64::try_from(life.as_millis()).unwrap_or(u64::MAX));
    Ok(CreateTokenRequest { name, role: role.to_string(), user, attended, expires_in_ms })
}

/// The secret stands alone on standard output, so that a shell can take it; everything else is said beside it.
async fn create(contact: &Contact, request: CreateTokenRequest) -> anyhow::Result<Exit> {
    let created = contact.operator.create_token(&request).await?;
    let screen = contact.screen;
    if screen.format == Format::Json {
        screen.print_json(&serde_json::to_value(&created)?)?;
        return Ok(Exit::Done);
    }
    let Token { token_id, name, role, attended, owner_name, expires_at, .. } = &created.token;
    let attended = if *attended { ", attended" } else { "" };
    let user =
        owner_name.as_deref().map_or(String::new(), |user| format!(" of the user {}", shown::line(user)));
    let end =
        expires_at.as_deref().map_or(String::new(), |end| format!(" It expires at {}.", shown::line(end)));
    screen.note(&format!(
        "Created {} {:?}: role {}{attended},{user}.{end} The secret is shown once:",
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
    report::damaged(&tokens.damaged, screen);
    if tokens.items.is_empty() && tokens.damaged.is_empty() {
        screen.note("There are none.");
    }
    Ok(Exit::Done)
}

fn table(tokens: &[Token], screen: Screen) -> Table {
    let mut table = Table::new(screen, &["TOKEN", "ROLE", "NAME", "USER", "CREATED", "LAST USED", "STATUS"]);
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
            format!("{}{}", shown::line(&token.role), if token.attended { " (attended)" } else { "" }).into(),
            shown::line(&token.name).into(),
            shown::line(token.owner_name.as_deref().unwrap_or("")).into(),
            report::ago(&token.created_at).into(),
            token.last_used_at.as_deref().map_or_else(|| "never".to_owned(), report::ago).into(),
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
