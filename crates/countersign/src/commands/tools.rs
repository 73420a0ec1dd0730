//! `tools`: what can be called. It only looks.

use countersign_server::wire::{List, ToolDetail, ToolEffect};
use serde_json::json;

use super::call::not_found;
use crate::args::{ShowArgs, ToolsArgs, ToolsCommand};
use crate::contact::{Contact, Purpose, Ready};
use crate::exit::{Exit, Problem};
use crate::screen::{Format, Screen};
use crate::shown;
use crate::table::Table;

pub(super) async fn run(ready: Ready, args: ToolsArgs) -> anyhow::Result<Exit> {
    if let Some(ToolsCommand::Show(show)) = &args.show
        && !show.types
        && show.wanted.len() != 1
    {
        let message = "`tools show` shows one tool: name it, or add --types for as many as you like";
        return Err(Problem::usage(message).into());
    }
    ready
        .with_server(Purpose::Catalog, async |contact| match args.show {
            Some(ToolsCommand::Show(show)) if show.types => types(contact, &show.wanted.join(" ")).await,
            Some(ToolsCommand::Show(show)) => one(contact, &show).await,
            None => list(contact, &args.query.join(" ")).await,
        })
        .await
}

/// Every tool that has these words.
pub(super) async fn all(contact: &Contact, query: &str) -> Result<Vec<ToolDetail>, Problem> {
    Ok(contact.agent.tools(query).await?.items)
}

async fn list(contact: &Contact, query: &str) -> anyhow::Result<Exit> {
    let found = all(contact, query).await?;
    let screen = contact.screen;
    if screen.format == Format::Json {
        screen.print_json(&serde_json::to_value(List::whole(found))?)?;
        return Ok(Exit::Done);
    }
    let mut table = Table::new(screen, &["TOOL", "EFFECT", "WHAT IT DOES"]);
    for tool in &found {
        let path = shown::line(&tool.path);
        let effect = tool.effect.label();
        let painted = match tool.effect {
            ToolEffect::Destroys => screen.out.yellow(effect),
            ToolEffect::Reads | ToolEffect::Writes => effect.to_owned(),
        };
        table.row([
            (path.clone(), screen.out.bold(&path)).into(),
            (effect.to_owned(), painted).into(),
            shown::line(first_line(&tool.description)).into(),
        ]);
    }
    screen.print(&table.render())?;
    if found.is_empty() {
        screen.note(&nothing_found(contact, query).await);
    }
    Ok(Exit::Done)
}

/// Operations of published documents are described in pages; `tools show` has them whole.
fn first_line(description: &str) -> &str {
    description.trim().lines().next().unwrap_or_default()
}

async fn nothing_found(contact: &Contact, query: &str) -> String {
    match all(contact, "").await {
        Ok(all) if all.is_empty() => {
            let with_demo = contact.invocation.command_with_demo("tools");
            format!("There are no tools. The demo has some: `{with_demo}`.")
        }
        _ => format!("No tool has {:?} in its path, name or description.", shown::line(query)),
    }
}

/// Tools as scripts see them. The text is made visible where it is made.
async fn types(contact: &Contact, query: &str) -> anyhow::Result<Exit> {
    let found = named_or_searched(contact, query).await?;
    if found.is_empty() {
        return Err(nothing_to_declare(query, contact).await.into());
    }
    let paths: Vec<&str> = found.iter().map(|tool| tool.path.as_str()).collect();
    let text = contact.agent.declarations(&paths).await?;
    match contact.screen.format {
        Format::Json => contact.screen.print_json(&json!({ "declarations": text }))?,
        Format::Text => contact.screen.print(&text)?,
    }
    Ok(Exit::Done)
}

/// The tool or namespace that is called exactly so, else what a search finds.
async fn named_or_searched(contact: &Contact, query: &str) -> Result<Vec<ToolDetail>, Problem> {
    let every = all(contact, "").await?;
    if query.is_empty() {
        return Ok(every);
    }
    let below =
        |path: &str| path.strip_prefix(query).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    let named: Vec<_> = every.into_iter().filter(|tool| below(&tool.path)).collect();
    if named.is_empty() { all(contact, query).await } else { Ok(named) }
}

async fn nothing_to_declare(query: &str, contact: &Contact) -> Problem {
    if query.is_empty() {
        let with_demo = contact.invocation.command_with_demo("tools show --types");
        return Problem::new("tool_not_found", "there are no tools")
            .hint(format!("The demo has some: `{with_demo}`."));
    }
    let message = format!(
        "no tool or namespace is called \"{0}\", and none has \"{0}\" in its path, name or description",
        shown::flat(query)
    );
    let hint = match contact.agent.tool(query).await {
        // Words to search for are no path, and should not be called a bad one.
        Err(problem) if query.contains('.') || crate::demo::owns(query) => {
            not_found(problem, query, contact).await.hint
        }
        _ => None,
    };
    let list = || format!("`{}` lists what there is.", contact.invocation.command("tools"));
    Problem::new("tool_not_found", message).hint(hint.unwrap_or_else(list))
}

async fn one(contact: &Contact, args: &ShowArgs) -> anyhow::Result<Exit> {
    let path = args.wanted.first().map(String::as_str).unwrap_or_default();
    match contact.agent.tool(path).await {
        Ok(tool) => show(&tool, contact.screen)?,
        Err(problem) if problem.code == "tool_not_found" => {
            return Err(not_found(problem, path, contact).await.into());
        }
        Err(problem) => return Err(problem.into()),
    }
    Ok(Exit::Done)
}

fn show(tool: &ToolDetail, screen: Screen) -> anyhow::Result<()> {
    if screen.format == Format::Json {
        return screen.print_json(&serde_json::to_value(tool)?);
    }
    let (paint, effects) = (screen.out, tool.effects);
    let mut facts = vec![match tool.effect {
        ToolEffect::Reads => "Reads",
        ToolEffect::Writes => "Writes",
        ToolEffect::Destroys => "Destroys: a person is asked",
    }];
    facts.extend(effects.idempotent.then_some("idempotent"));
    facts.extend(effects.open_world.then_some("reaches outside systems"));
    facts.extend(tool.service_account_allowed.then_some("service accounts may call it"));
    screen.print(&format!(
        "{}  {}\n{}\n\neffects   {}\nsource    {}\nauth      {}\n\ninput\n{}\noutput\n{}",
        paint.bold(&shown::line(&tool.path)),
        shown::line(&tool.name),
        shown::block(&tool.description, "", paint).trim_end(),
        facts.join(", "),
        shown::line(&tool.source),
        tool.auth_provider.as_deref().map_or_else(|| "none".to_owned(), shown::line),
        shown::json_block(&tool.input_schema, "  ", paint),
        shown::json_block(&tool.output_schema, "  ", paint),
    ))
}

#[cfg(test)]
mod tests {
    use super::first_line;

    #[test]
    fn a_list_has_the_first_line_of_a_description() {
        assert_eq!(first_line("\nCreate an issue\n\nAny user with access can."), "Create an issue");
        assert_eq!(first_line(""), "");
    }
}
