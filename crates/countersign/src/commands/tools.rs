//! `tools`: what can be called. It needs no data folder.

use std::sync::Arc;

use countersign_kernel::{Catalog, CatalogTool, declarations};
use countersign_sdk::Plugin;
use serde_json::json;

use super::call::not_found;
use crate::args::{ToolsArgs, ToolsCommand};
use crate::exit::{Exit, Problem};
use crate::invocation::Invocation;
use crate::local::Setup;
use crate::screen::{Format, Paint, Screen};
use crate::{shown, wire};

pub(super) fn run(setup: Setup, args: &ToolsArgs) -> anyhow::Result<Exit> {
    let catalog = catalog(setup.plugins)?;
    match &args.show {
        Some(ToolsCommand::Show(args)) if args.types => {
            return types(&catalog, &args.wanted, setup.screen, &setup.invocation);
        }
        Some(ToolsCommand::Show(args)) => {
            let [path] = args.wanted.as_slice() else {
                let message = "`tools show` shows one tool: name it, or add --types for as many as you like";
                return Err(Problem::usage(message).into());
            };
            let tool = catalog.get(path).ok_or_else(|| not_found(path, &catalog, &setup.invocation))?;
            show(tool, setup.screen)?;
            return Ok(Exit::Done);
        }
        None => {}
    }
    let query = args.query.join(" ");
    let found: Vec<_> = catalog.search(&query, usize::MAX).into_iter().map(|hit| hit.tool).collect();
    let screen = setup.screen;
    if screen.format == Format::Json {
        screen.print_json(&wire::list(found.iter().map(|tool| wire::tool(tool)).collect(), None))?;
        return Ok(Exit::Done);
    }
    let width = found.iter().map(|tool| tool.path().as_str().len()).max().unwrap_or(0);
    for tool in &found {
        screen.print(&entry(tool, width, screen.out))?;
    }
    if catalog.is_empty() {
        let with_demo = setup.invocation.command_with_demo("tools");
        screen.note(&format!("There are no tools. The demo has some: `{with_demo}`."));
    } else if found.is_empty() {
        screen.note(&format!("No tool has {:?} in its path, name or description.", shown::line(&query)));
    }
    Ok(Exit::Done)
}

/// The tools of these plugins.
pub(super) fn catalog(plugins: Vec<Plugin>) -> Result<Catalog, Problem> {
    let mut catalog = Catalog::default();
    for plugin in plugins {
        let name = plugin.id().to_owned();
        catalog.register(plugin).map_err(|errors| {
            let lines: String = errors.iter().map(|e| format!("\n  {e}")).collect();
            Problem::new("bad_plugin", format!("the plugin \"{name}\" cannot be registered:{lines}"))
        })?;
    }
    Ok(catalog)
}

/// Tools as scripts see them. The text is made visible where it is made.
fn types(
    catalog: &Catalog,
    wanted: &[String],
    screen: Screen,
    invocation: &Invocation,
) -> anyhow::Result<Exit> {
    let query = wanted.join(" ");
    let found = named_or_searched(catalog, &query);
    if found.is_empty() {
        return Err(nothing_to_declare(&query, catalog, invocation).into());
    }
    let text = declarations(found.iter().map(AsRef::as_ref));
    match screen.format {
        Format::Json => screen.print_json(&json!({ "declarations": text }))?,
        Format::Text => screen.print(&text)?,
    }
    Ok(Exit::Done)
}

/// The tool or namespace that is called exactly so, else what a search finds.
fn named_or_searched(catalog: &Catalog, query: &str) -> Vec<Arc<CatalogTool>> {
    let below =
        |path: &str| path.strip_prefix(query).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    let named: Vec<_> = catalog.iter().filter(|tool| below(tool.path().as_str())).cloned().collect();
    if !named.is_empty() {
        return named;
    }
    catalog.search(query, usize::MAX).into_iter().map(|hit| hit.tool).collect()
}

fn nothing_to_declare(query: &str, catalog: &Catalog, invocation: &Invocation) -> Problem {
    if query.is_empty() {
        let with_demo = invocation.command_with_demo("tools show --types");
        return Problem::new("tool_not_found", "there are no tools")
            .hint(format!("The demo has some: `{with_demo}`."));
    }
    let message = format!(
        "no tool or namespace is called \"{0}\", and none has \"{0}\" in its path, name or description",
        shown::flat(query)
    );
    // Words to search for are no path, and should not be called a bad one.
    let meant_as_path = query.contains('.') || crate::demo::owns(query) || catalog.is_empty();
    let hint = if meant_as_path { not_found(query, catalog, invocation).hint } else { None };
    let list = || format!("`{}` lists what there is.", invocation.command("tools"));
    Problem::new("tool_not_found", message).hint(hint.unwrap_or_else(list))
}

fn entry(tool: &CatalogTool, width: usize, paint: Paint) -> String {
    let mark = if tool.effects().destructive { paint.yellow("asks ") } else { "     ".to_owned() };
    let path = format!("{:<width$}", tool.path().as_str());
    format!("{}  {mark}  {}", paint.bold(&path), shown::line(&tool.tool().definition().description))
}

fn show(tool: &CatalogTool, screen: Screen) -> anyhow::Result<()> {
    if screen.format == Format::Json {
        return screen.print_json(&wire::tool(tool));
    }
    let definition = tool.tool().definition();
    let (paint, effects) = (screen.out, definition.effects);
    let mut facts = vec![if effects.destructive { "destructive: a person is asked" } else { "reads only" }];
    facts.extend(effects.idempotent.then_some("idempotent"));
    facts.extend(effects.open_world.then_some("reaches outside systems"));
    facts.extend(definition.service_account_allowed.then_some("service accounts may call it"));
    screen.print(&format!(
        "{}  {}\n{}\n\neffects   {}\nsource    {}\nauth      {}\n\ninput\n{}\noutput\n{}",
        paint.bold(tool.path().as_str()),
        shown::line(&definition.name),
        shown::block(&definition.description, "", paint).trim_end(),
        facts.join(", "),
        shown::line(tool.source()),
        definition.auth_provider.as_deref().map_or_else(|| "none".to_owned(), shown::line),
        shown::json_block(tool.input_schema(), "  ", paint),
        shown::json_block(tool.output_schema(), "  ", paint),
    ))
}
