//! `user`: the people who decide.

use countersign_server::wire::{AddUserRequest, ChangeUserRequest, User};
use serde_json::json;

use crate::args::{UserCommand, UserRoleArg};
use crate::contact::{Contact, Purpose, Ready, Serves};
use crate::exit::{Exit, Problem};
use crate::screen::{Format, Screen};
use crate::shown;
use crate::table::Table;

pub(super) async fn run(ready: Ready, command: UserCommand) -> anyhow::Result<Exit> {
    let purpose = match command {
        UserCommand::Add { .. } => Purpose::Keep,
        UserCommand::List
        | UserCommand::Disable { .. }
        | UserCommand::Enable { .. }
        | UserCommand::Invite { .. } => Purpose::Look,
    };
    ready
        .with_server(purpose, async |contact| match command {
            UserCommand::Add { name, role } => add(contact, name, &role).await,
            UserCommand::List => list(contact).await,
            UserCommand::Disable { user } => change(contact, &user, true).await,
            UserCommand::Enable { user } => change(contact, &user, false).await,
            UserCommand::Invite { user } => invite(contact, &user).await,
        })
        .await
}

async fn add(contact: &Contact, name: String, roles: &[UserRoleArg]) -> anyhow::Result<Exit> {
    let word = |role: &UserRoleArg| match role {
        UserRoleArg::Approver => "approver".to_owned(),
        UserRoleArg::Admin => "admin".to_owned(),
    };
    let request = AddUserRequest { name, roles: roles.iter().map(word).collect() };
    let user = contact.operator.add_user(&request).await?;
    told(&user, contact.screen)?;
    let name = crate::invocation::quoted(&user.name);
    let next = match user.roles.is_empty() {
        true => format!("token create --role agent --user {name} --name LAPTOP"),
        false => format!("user invite {name}"),
    };
    contact.screen.note(&format!("Next: `{}`", contact.invocation.command(&next)));
    Ok(Exit::Done)
}

async fn list(contact: &Contact) -> anyhow::Result<Exit> {
    let users = contact.operator.users().await?;
    let screen = contact.screen;
    if screen.format == Format::Json {
        screen.print_json(&json!(users))?;
        return Ok(Exit::Done);
    }
    let mut table = Table::new(screen, &["NAME", "ROLES", "STATUS", "ID"]);
    for user in &users.items {
        let status = if user.disabled_at.is_some() { "disabled" } else { "active" };
        let cells =
            [shown::line(&user.name), user.roles.join(", "), status.to_owned(), shown::line(&user.user_id)];
        table.row(cells.map(Into::into));
    }
    screen.print(&table.render())?;
    crate::report::damaged(&users.damaged, screen);
    Ok(Exit::Done)
}

async fn change(contact: &Contact, user: &str, disabled: bool) -> anyhow::Result<Exit> {
    let request = ChangeUserRequest { roles: None, disabled: Some(disabled) };
    let changed =
        contact.operator.change_user(user, &request).await.map_err(|problem| unknown(problem, contact))?;
    told(&changed, contact.screen)?;
    Ok(Exit::Done)
}

async fn invite(contact: &Contact, user: &str) -> anyhow::Result<Exit> {
    if contact.serves == Serves::Here {
        let hint = format!("Start it with `{}`.", contact.invocation.command("serve"));
        return Err(Problem::new("no_server", "no server is running, so there is no console to invite to")
            .hint(hint)
            .into());
    }
    let link = contact.operator.invite_user(user).await.map_err(|problem| unknown(problem, contact))?;
    match contact.screen.format {
        Format::Json => contact.screen.print_json(&json!(link))?,
        Format::Text => {
            contact.screen.print(&link.url)?;
            contact.screen.note("Send it to the user (single use, expires in 10 min).");
        }
    }
    Ok(Exit::Done)
}

fn told(user: &User, screen: Screen) -> anyhow::Result<()> {
    if screen.format == Format::Json {
        return screen.print_json(&json!(user));
    }
    let roles = if user.roles.is_empty() { "no role".to_owned() } else { user.roles.join(", ") };
    let status = if user.disabled_at.is_some() { "disabled" } else { "active" };
    screen.print(&format!("{} ({}): {roles}, {status}", shown::line(&user.name), shown::line(&user.user_id)))
}

fn unknown(problem: Problem, contact: &Contact) -> Problem {
    match problem.code.as_ref() {
        "not_found" => problem.hint(format!("`{}` lists them.", contact.invocation.command("user list"))),
        _ => problem,
    }
}
