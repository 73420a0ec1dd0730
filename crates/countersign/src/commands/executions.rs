//! `executions`: what was called and where it stands. It only looks.

use countersign_core::execution::{Execution, Recovery, Status};
use countersign_kernel::ExecutionResult;
use countersign_kernel::ports::{ExecutionFilter, ExecutionRow, Page, Store as _};
use serde_json::json;

use super::timeline;
use crate::args::ExecutionsArgs;
use crate::data_folder::{DataFolder, Told, execution_id};
use crate::exit::{Exit, Problem};
use crate::local::Setup;
use crate::screen::{Format, Paint, Screen};
use crate::{report, shown, wire};

pub(super) async fn run(setup: &Setup, args: ExecutionsArgs) -> anyhow::Result<Exit> {
    let id = args.id.as_deref().map(|id| execution_id(id, &setup.invocation)).transpose()?;
    let folder = DataFolder::open(&setup.config.data_dir)?;
    match id {
        None => list(&folder, args, setup).await,
        Some(id) => match folder.told(id).await? {
            Some(told) => one(&told, setup),
            None => {
                let hint = format!("`{}` lists executions.", setup.invocation.command("executions"));
                Err(Problem::new("not_found", format!("there is no execution {id}")).hint(hint).into())
            }
        },
    }
}

async fn list(folder: &DataFolder, args: ExecutionsArgs, setup: &Setup) -> anyhow::Result<Exit> {
    let status = args.status.into_iter().map(Status::from).collect();
    let page = Page { cursor: args.cursor, limit: usize::from(args.limit) };
    let part = folder.store.executions(ExecutionFilter { status, requester: None }, page).await?;
    let screen = setup.screen;
    if screen.format == Format::Json {
        screen.print_json(&wire::list(
            part.items.iter().map(wire::execution).collect(),
            part.next.as_deref(),
        ))?;
        return Ok(Exit::Done);
    }
    for row in &part.items {
        screen.print(&entry(row, screen.out))?;
    }
    match part.next {
        Some(cursor) => screen
            .note(&format!("More: `{}`", setup.invocation.command(&format!("executions --cursor {cursor}")))),
        None if part.items.is_empty() => screen.note("There are none."),
        None => {}
    }
    Ok(Exit::Done)
}

fn entry(row: &ExecutionRow, paint: Paint) -> String {
    let status = report::status(row.status, paint);
    let padding = " ".repeat(10_usize.saturating_sub(wire::status(row.status).len()));
    let tool = row.tool.as_ref().map(ToString::to_string).unwrap_or_default();
    format!(
        "{}  {status}{padding} {tool:<20} {:<12} {}",
        row.id,
        row.session.as_str(),
        report::ago(row.created_at)
    )
}

fn one(told: &Told, setup: &Setup) -> anyhow::Result<Exit> {
    let result = ExecutionResult::of(&told.execution, Vec::new());
    let screen = setup.screen;
    if screen.format == Format::Json {
        let mut document = wire::result(&result);
        document["journal"] = json!(told.journal);
        screen.print_json(&document)?;
        return Ok(Exit::Done);
    }
    print_head(&told.execution, screen)?;
    for line in timeline::lines(&told.journal) {
        screen.print(&line)?;
    }
    if let Some(note) = interrupted(&told.execution, setup) {
        screen.print(&format!("\n{note}"))?;
    }
    Ok(Exit::Done)
}

fn print_head(execution: &Execution, screen: Screen) -> anyhow::Result<()> {
    let paint = screen.out;
    let id = paint.bold(&execution.id().to_string());
    screen.print(&format!("{id}  {}", report::status(execution.status(), paint)))?;
    if let Some(script) = execution.script() {
        screen.print(&format!("  script\n{}", shown::block(script.source.trim_end(), "  ", paint)))?;
    }
    for call in execution.calls() {
        let args = shown::json_block(&call.args.to_value(), "  ", paint);
        screen.print(&format!("  call {}    {}\n{args}", call.no, call.path))?;
    }
    Ok(())
}

/// What the journal cannot say because nobody was there to write it: its process died.
fn interrupted(execution: &Execution, setup: &Setup) -> Option<String> {
    let id = execution.id();
    let settle = |call| setup.invocation.command(&format!("settle {id} {call} --as done|failed|retry"));
    match execution.status() {
        Status::InDoubt => {
            let call = execution
                .calls()
                .iter()
                .find(|c| matches!(c.phase(), countersign_core::execution::Phase::InDoubt(_)))?;
            Some(format!("In doubt: look at the outside system, then `{}`.", settle(call.no)))
        }
        Status::Running => Some(match execution.recover().first() {
            Some(Recovery::FoundInDoubt(call)) => format!(
                "Its process ended while call {call} ran, so it is in doubt. Look at the outside system, then `{}`.",
                settle(*call)
            ),
            _ => "Its process ended before it did; it goes on with the next call or decision.".to_owned(),
        }),
        _ => None,
    }
}
