//! `inbox`: what waits for a person. It only looks; `--watch` is in `watch`.

use countersign_server::wire::{Elicitation, List};

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
    let (mut waiting, mut late) = (Vec::new(), 0_usize);
    let (mut part, mut number) = (Some(Part::default()), 0_usize);
    while let Some(wanted) = part {
        let list = contact.operator.elicitations(&wanted).await?;
        part = Part::after(&list);
        for damaged in &list.damaged {
            screen.note(&format!("{}: {}", damaged.id, damaged.message));
        }
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
        screen.print_json(&serde_json::to_value(List::whole(waiting))?)?;
        return Ok(Exit::Done);
    }
    let late = if late == 0 { String::new() } else { format!(" {late} more expired undecided.") };
    screen.print(&match number {
        0 => format!("Nothing waits for a person.{late}"),
        1 => format!("1 waits for a person.{late}"),
        number => format!("{number} wait for a person.{late}"),
    })?;
    Ok(Exit::Done)
}

async fn entry(asked: &Elicitation, paint: Paint, contact: &Contact) -> String {
    let pending = &asked.question;
    let (id, tool) = (&pending.elicitation_id, pending.tool_path.as_str());
    let demo = contact.serves == Serves::Here && crate::demo::owns(tool) && contact.lacks(tool).await;
    let command = |verb: &str| {
        let rest = format!("{verb} {id}");
        if demo { contact.invocation.command_with_demo(&rest) } else { contact.invocation.command(&rest) }
    };
    let denials = crate::denials::of(&contact.operator, contact.names().await, asked).await;
    let data = if report::authorises(pending) { "" } else { " --data '{…}'" };
    format!(
        "{}  asked {} by {} in {}\n{}  approve   {}{data}\n  deny      {}\n\n",
        paint.bold(id),
        report::ago(&pending.asked_at),
        contact.names().await.of(&asked.requester),
        crate::shown::line(&asked.session_id),
        report::question(pending, &denials, paint),
        command("approve"),
        command("deny"),
    )
}
