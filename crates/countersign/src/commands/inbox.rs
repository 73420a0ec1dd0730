//! `inbox`: what waits for a person, calls in doubt first. It only looks; `--watch` is in `watch`.

use std::time::Duration;

use countersign_core::execution::Execution;
use countersign_server::wire::{Elicitation, ExecutionSummary, List, Status};
use serde_json::json;

use crate::args::InboxArgs;
use crate::client::Part;
use crate::contact::{Contact, Purpose, Ready, Serves};
use crate::exit::{Exit, Problem};
use crate::report;
use crate::screen::{Format, Paint};

pub(super) async fn run(ready: Ready, args: InboxArgs) -> anyhow::Result<Exit> {
    if args.watch {
        if !ready.setup.screen.can_ask() {
            return Err(Problem::usage("`inbox --watch` is a view for a terminal")
                .hint("Leave --watch out; `--json` is for programs.")
                .into());
        }
        return ready.with_server(Purpose::Share, async |contact| crate::watch::run(contact).await).await;
    }
    ready.with_server(Purpose::Look, async |contact| look(contact).await).await
}

async fn look(contact: &Contact) -> anyhow::Result<Exit> {
    let screen = contact.screen;
    let doubts = doubts(contact).await?;
    if screen.format == Format::Text {
        for doubt in &doubts {
            screen.print(&doubt_entry(doubt, screen.out, contact).await?)?;
        }
    }
    let (mut waiting, mut all_damaged, mut late) = (Vec::new(), Vec::new(), 0_usize);
    let (mut part, mut number) = (Some(Part::default()), 0_usize);
    while let Some(wanted) = part {
        let list = contact.operator.elicitations(&wanted).await?;
        part = Part::after(&list);
        report::damaged(&list.damaged, screen);
        all_damaged.extend(list.damaged);
        for asked in list.items {
            // What has expired is closed by the server's clock; nobody can decide it any more.
            if report::time_left(&asked.question).is_none() {
                late += 1;
            } else if screen.format == Format::Json {
                waiting.push(asked);
            } else {
                number += 1;
                screen.print(&entry(&asked, screen.out, contact).await)?;
            }
        }
    }
    if screen.format == Format::Json {
        let mut list = serde_json::to_value(List { damaged: all_damaged, ..List::whole(waiting) })?;
        list["inDoubt"] = doubts.iter().map(|doubt| json!(doubt.summary)).collect();
        screen.print_json(&list)?;
        return Ok(Exit::Done);
    }
    let late = if late == 0 { String::new() } else { format!(" {late} more expired undecided.") };
    let in_doubt = match doubts.len() {
        0 => String::new(),
        number => format!("{number} in doubt. "),
    };
    screen.print(&match number {
        0 => format!("{in_doubt}Nothing waits for a person.{late}"),
        1 => format!("{in_doubt}1 waits for a person.{late}"),
        number => format!("{in_doubt}{number} wait for a person.{late}"),
    })?;
    Ok(Exit::Done)
}

/// An execution with calls in doubt.
struct Doubt {
    summary: ExecutionSummary,
    /// Their numbers.
    calls: Vec<usize>,
}

/// Every execution with a call in doubt. Without a server, also those whose process ended in a call: nobody was there to
/// record the doubt, and this command changes nothing.
async fn doubts(contact: &Contact) -> Result<Vec<Doubt>, Problem> {
    let statuses: &[Status] = match contact.serves {
        Serves::Here => &[Status::InDoubt, Status::Running],
        Serves::Elsewhere => &[Status::InDoubt],
    };
    let (mut all, mut part) = (Vec::new(), Some(Part::default()));
    while let Some(wanted) = part {
        let list = contact.operator.executions(statuses, &wanted).await?;
        part = Part::after(&list);
        for mut summary in list.items {
            let calls = calls_in_doubt(contact, &summary).await?;
            if !calls.is_empty() {
                summary.status = Status::InDoubt;
                all.push(Doubt { summary, calls });
            }
        }
    }
    Ok(all)
}

async fn calls_in_doubt(contact: &Contact, summary: &ExecutionSummary) -> Result<Vec<usize>, Problem> {
    let id = &summary.execution_id;
    if summary.status == Status::InDoubt {
        let result = contact.operator.execution(id, Duration::ZERO).await?;
        let numbered = result.calls.iter().enumerate();
        return Ok(numbered
            .filter(|(_, call)| call.status == "in_doubt")
            .map(|(number, _)| number)
            .collect());
    }
    let journal = contact.operator.journal(id).await?;
    let lost = Execution::replay(&journal).map(|execution| execution.lost_calls().collect::<Vec<_>>());
    Ok(lost.unwrap_or_default().into_iter().map(|call| call.0 as usize).collect())
}

async fn doubt_entry(doubt: &Doubt, paint: Paint, contact: &Contact) -> Result<String, Problem> {
    let id = &doubt.summary.execution_id;
    let result = contact.operator.execution(id, Duration::ZERO).await?;
    let mut text = format!("{}  {}\n", paint.bold(id), paint.yellow("in doubt: started, outcome unknown"));
    for number in &doubt.calls {
        let settle = contact.invocation.command(&format!("settle {id} {number} --as done|failed|retry"));
        if let Some(call) = result.calls.get(*number) {
            let args = crate::shown::json_block(&call.args, "  ", paint);
            text.push_str(&format!("  call {number}    {}\n{args}", crate::shown::line(&call.path)));
        }
        text.push_str(&format!("  settle    {settle}\n"));
    }
    text.push_str("  Check the outside system, then settle it. It will not run again by itself.\n\n");
    Ok(text)
}

async fn entry(asked: &Elicitation, paint: Paint, contact: &Contact) -> String {
    let pending = &asked.question;
    let (id, tool) = (&pending.elicitation_id, pending.tool_path.as_str());
    let demo = contact.serves == Serves::Here && crate::demo::owns(tool) && contact.lacks(tool).await;
    let command = |verb: &str| {
        let rest = format!("{verb} {id}");
        if demo { contact.invocation.command_with_demo(&rest) } else { contact.invocation.command(&rest) }
    };
    let background = contact.background(id).await;
    let data = if report::authorises(pending) { "" } else { " --data '{…}'" };
    format!(
        "{}  asked {} by {} in {}\n{}  approve   {}{data}\n  deny      {}\n\n",
        paint.bold(id),
        report::ago(&pending.asked_at),
        contact.names().await.of(&asked.requester),
        crate::shown::line(&asked.session_id),
        report::question(pending, &background, paint),
        command("approve"),
        command("deny"),
    )
}
