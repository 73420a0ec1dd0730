//! `executions`: what was called and where it stands. It only looks.

use countersign_core::event::Event;
use countersign_core::execution::Execution;
use countersign_core::ids::ExecutionId;
use countersign_server::wire::{ExecutionResult, ExecutionSummary, List, Status};
use serde_json::json;

use super::timeline;
use crate::args::ExecutionsArgs;
use crate::client::Part;
use crate::contact::{Contact, Purpose, Ready, Serves};
use crate::exit::{Exit, Problem};
use crate::invocation::Invocation;
use crate::names::Names;
use crate::screen::{Format, Screen};
use crate::table::Table;
use crate::{report, short_ids, shown};

pub(super) async fn run(ready: Ready, args: ExecutionsArgs) -> anyhow::Result<Exit> {
    args.id.as_deref().map(|id| execution_id(id, &ready.setup.invocation)).transpose()?;
    ready
        .with_server(Purpose::Look, async |contact| match &args.id {
            None => list(contact, args).await,
            Some(id) => one(contact, &short_ids::execution(contact, id).await?).await,
        })
        .await
}

/// Checks an execution's id from the command line, which may be cut.
pub(super) fn execution_id(id: &str, invocation: &Invocation) -> Result<(), Problem> {
    if short_ids::is_beginning(id, ExecutionId::PREFIX) {
        return Ok(());
    }
    let error = id.parse::<ExecutionId>().err().map(|error| error.to_string()).unwrap_or_default();
    Err(Problem::usage(error).hint(format!("`{}` lists executions.", invocation.command("executions"))))
}

/// That there is no such execution, and where there are some.
pub(super) fn not_found(problem: Problem, id: &str, invocation: &Invocation) -> Problem {
    match problem.code.as_ref() {
        "not_found" => problem
            .saying(format!("there is no execution {id}"))
            .hint(format!("`{}` lists executions.", invocation.command("executions"))),
        _ => problem,
    }
}

async fn list(contact: &Contact, args: ExecutionsArgs) -> anyhow::Result<Exit> {
    let status: Vec<Status> = args.status.into_iter().map(Status::from).collect();
    let list = gathered(contact, &status, args.cursor, usize::from(args.limit)).await?;
    let screen = contact.screen;
    if screen.format == Format::Json {
        screen.print_json(&serde_json::to_value(list)?)?;
        return Ok(Exit::Done);
    }
    screen.print(&table(&list.items, contact.names().await, screen).render())?;
    report::damaged(&list.damaged, screen);
    match list.next_cursor {
        Some(cursor) => screen.note(&format!(
            "More: `{}`",
            contact.invocation.command(&format!("executions --cursor {cursor}"))
        )),
        None if list.items.is_empty() && list.damaged.is_empty() => screen.note("There are none."),
        None => {}
    }
    Ok(Exit::Done)
}

/// As many as are wanted, however many the server gives at once.
async fn gathered(
    contact: &Contact,
    status: &[Status],
    cursor: Option<String>,
    wanted: usize,
) -> Result<List<ExecutionSummary>, Problem> {
    let mut all = List { next_cursor: cursor, ..List::whole(Vec::new()) };
    loop {
        let part = Part { cursor: all.next_cursor.take(), limit: Some(wanted - all.items.len()) };
        let list = contact.operator.executions(status, &part).await?;
        all.items.extend(list.items);
        all.damaged.extend(list.damaged);
        all.next_cursor = list.next_cursor;
        if all.items.len() >= wanted || all.next_cursor.is_none() {
            return Ok(all);
        }
    }
}

fn table(items: &[ExecutionSummary], names: &Names, screen: Screen) -> Table {
    let paint = screen.out;
    let mut table = Table::new(screen, &["EXECUTION", "STATUS", "TOOL", "SESSION", "REQUESTER", "STARTED"]);
    for item in items {
        let word = report::status_text(item.status);
        table.row([
            shown::line(short_ids::in_a_list(&item.execution_id)).into(),
            (word.to_owned(), report::status(item.status, paint)).into(),
            item.tool.as_deref().map_or_else(|| "(script)".to_owned(), shown::line).into(),
            shown::line(&item.session_id).into(),
            names.of(&item.requester).into(),
            report::ago(&item.created_at).into(),
        ]);
    }
    table
}

async fn one(contact: &Contact, id: &str) -> anyhow::Result<Exit> {
    let lost = |problem| not_found(problem, id, &contact.invocation);
    let result = contact.operator.execution(id, std::time::Duration::ZERO).await.map_err(lost)?;
    let journal = contact.operator.journal(id).await.map_err(lost)?;
    let screen = contact.screen;
    if screen.format == Format::Json {
        let mut document = serde_json::to_value(&result)?;
        document["journal"] = json!(journal);
        screen.print_json(&document)?;
        return Ok(Exit::Done);
    }
    print_head(&result, &journal, screen)?;
    for line in timeline::lines(&journal, contact.names().await) {
        screen.print(&line)?;
    }
    if let Some(note) = what_to_do(&result, &journal, contact) {
        screen.print(&format!("\n{note}"))?;
    }
    Ok(Exit::Done)
}

fn print_head(result: &ExecutionResult, journal: &[Event], screen: Screen) -> anyhow::Result<()> {
    let paint = screen.out;
    let id = paint.bold(&result.execution_id);
    screen.print(&format!("{id}  {}", report::status(result.status, paint)))?;
    if journal.is_empty() {
        return Ok(());
    }
    let execution = Execution::replay(journal)?;
    if let Some(script) = execution.script() {
        screen.print(&format!("  script\n{}", shown::block(script.source.trim_end(), "  ", paint)))?;
    }
    for call in execution.calls() {
        let args = shown::json_block(&call.args.to_value(), "  ", paint);
        screen.print(&format!("  call {}    {}\n{args}", call.no, call.path))?;
    }
    Ok(())
}

/// What a person can do about it, and what the journal cannot say because nobody was there to write it.
fn what_to_do(result: &ExecutionResult, journal: &[Event], contact: &Contact) -> Option<String> {
    let id = &result.execution_id;
    let command = |rest: String| contact.invocation.command(&rest);
    let settle = |call: String| command(format!("settle {id} {call} --as done|failed|retry"));
    match result.status {
        Status::Paused => {
            let waits = result.pending.iter().map(|p| command(format!("approve {}", p.elicitation_id)));
            let waits: Vec<String> = waits.map(|command| format!("`{command}`")).collect();
            Some(format!("It waits for a person: {}, or deny.", waits.join(", ")))
        }
        Status::InDoubt => {
            let call = result.calls.iter().position(|call| call.status == "in_doubt")?;
            Some(format!("In doubt: look at the outside system, then `{}`.", settle(call.to_string())))
        }
        Status::Running if contact.serves == Serves::Here => {
            Some(match Execution::replay(journal).ok()?.lost_calls().next() {
                Some(call) => format!(
                    "Its process ended while call {call} ran, so it is in doubt. Look at the outside system, then `{}`.",
                    settle(call.to_string())
                ),
                _ => "Its process ended before it did; it goes on with the next call or decision.".to_owned(),
            })
        }
        _ => None,
    }
}
