//! `demo`: a server with the demo tools, and a scripted agent that uses them, so that a newcomer sees a call wait and go on.

use std::time::Duration;

use countersign_kernel::ports::{Clock as _, SystemClock};
use countersign_server::wire::{ExecuteRequest, ExecutionResult, Pending, Status};
use serde_json::{Value, json};

use super::serve::{self, LAST_HANDLERS, Wish};
use crate::client::Part;
use crate::contact::Contact;
use crate::exit::Exit;
use crate::local::Setup;
use crate::reach::{LONG_WAIT, Reach};
use crate::screen::Audience;
use crate::serving::{Listen, Mode, Serving};
use crate::{shown, terminal};

/// One thing the agent does, and what it is about.
struct Step {
    says: &'static str,
    tool: &'static str,
    args: Value,
}

/// What the agent does. The first steps flow through; each of the others waits for the person who watches.
fn steps(note: &Value) -> [Step; 5] {
    [
        Step { says: "Reading and adding flow through.", tool: "notes.list", args: json!({}) },
        Step {
            says: "Deleting does not: it waits for you.",
            tool: "notes.delete",
            args: json!({ "id": note }),
        },
        Step {
            says: "Paying waits too, each time.",
            tool: "bank.pay",
            args: json!({ "to": "Ann's Printing Ltd", "amount": 120 }),
        },
        Step { says: "A tool may ask you something itself.", tool: "stock.check", args: json!({}) },
        Step { says: "What took effect is in the ledger.", tool: "bank.ledger", args: json!({}) },
    ]
}

pub(super) async fn run(setup: Setup) -> anyhow::Result<Exit> {
    let (screen, invocation, listen) = (setup.screen, setup.invocation.clone(), setup.config.listen);
    let mut wish = Wish::expect()?;
    let serving = Serving::start(setup, Listen::AtOrElsewhere(listen), Mode::Public).await?;
    serve::tell(&serving, screen).await?;
    if screen.audience == Audience::Program
        && let Some(link) = serving.login_link().await?
    {
        // The demo promises its link to whoever runs it, also where that is a program.
        serve::tell_link(&link.url, &serving.url, screen);
    }
    let reach = Reach::of(serving);
    let contact = Contact::of(&reach, screen, invocation)?;
    screen.note(&format!("  decide   `{}` in another terminal", contact.invocation.command("inbox --watch")));
    serve::tell_how_to_stop(screen);
    let story = async {
        ask_about_earlier(&contact).await?;
        tell_story(&contact).await?;
        tell_what_is_next(&contact).await?;
        std::future::pending::<anyhow::Result<()>>().await
    };
    let ended = tokio::select! {
        () = wish.come_true() => Ok(()),
        told = story => told,
    };
    screen.note("\nStopping. What waits for a person is kept.");
    reach.leave_within(LAST_HANDLERS).await;
    ended.map(|()| Exit::Done)
}

/// What an earlier run left waiting is told first: otherwise it would turn up in the middle of this one.
async fn ask_about_earlier(contact: &Contact) -> anyhow::Result<()> {
    let earlier = contact.operator.elicitations(&Part::default()).await?.items;
    if earlier.is_empty() {
        return Ok(());
    }
    let screen = contact.screen;
    let number = earlier.len();
    let plural = if number == 1 { "request is" } else { "requests are" };
    screen.note(&format!(
        "\n{}",
        screen.err.bold(&format!("{number} {plural} still waiting from an earlier run."))
    ));
    for asked in earlier {
        let execution = &asked.question.execution_id;
        let result = contact.operator.execution(execution, Duration::ZERO).await?;
        if result.paused.is_none() {
            continue;
        }
        if screen.can_ask() {
            tell_end(&terminal::see_through(contact, result).await?, contact);
        } else {
            screen.note(&format!("  waits    {}", shown::line(&asked.question.message)));
        }
    }
    Ok(())
}

/// The server runs on: what can be done with it, and what was left waiting.
async fn tell_what_is_next(contact: &Contact) -> anyhow::Result<()> {
    let (screen, waiting) = (contact.screen, contact.operator.elicitations(&Part::default()).await?.items);
    screen.note(&format!(
        "\nThat was the demo. The server runs on: try `{}`, or connect an agent with `{}`. Ctrl-C ends it.",
        contact.invocation.command("call notes.purge"),
        contact.invocation.command("mcp install claude-code"),
    ));
    if !waiting.is_empty() {
        let plural = if waiting.len() == 1 { "request still waits" } else { "requests still wait" };
        let inbox = contact.invocation.command("inbox --watch");
        screen.note(&format!("{} {plural}: `{inbox}`", waiting.len()));
    }
    Ok(())
}

async fn tell_story(contact: &Contact) -> anyhow::Result<()> {
    let screen = contact.screen;
    // A session of this run's own: what an earlier run was allowed does not count here, whatever number its process had.
    let session = format!("ses_demo_{}", SystemClock.now().as_millis());
    screen.note(&format!("\n{}", screen.err.bold("A scripted agent begins.")));
    let added = call(
        contact,
        &session,
        "notes.add",
        json!({ "title": "Draft of the report", "body": "It was a dark and stormy quarter." }),
    )
    .await?;
    let note = added.value.as_ref().map_or(Value::Null, |note| note["id"].clone());
    for step in steps(&note) {
        screen.note(&format!("\n{}", screen.err.bold(step.says)));
        call(contact, &session, step.tool, step.args).await?;
    }
    Ok(())
}

/// Calls a tool as the agent, and shows what came of it. Where it waits, the person here decides, or anybody elsewhere; what
/// they leave for later waits on, and the agent goes on with something else.
async fn call(contact: &Contact, session: &str, tool: &str, args: Value) -> anyhow::Result<ExecutionResult> {
    let screen = contact.screen;
    screen.note(&format!("  agent    {tool} {}", shown::flat(&args.to_string())));
    let request = ExecuteRequest {
        tool: Some(tool.to_owned()),
        args: Some(args),
        session_id: Some(session.to_owned()),
        ..ExecuteRequest::default()
    };
    let mut result = contact.agent.execute(&request).await?;
    if result.paused.is_some() {
        result = match screen.can_ask() {
            true => terminal::see_through(contact, result).await?,
            false => until_decided(contact, result).await?,
        };
    }
    tell_end(&result, contact);
    Ok(result)
}

/// Waits for somebody elsewhere.
async fn until_decided(contact: &Contact, mut result: ExecutionResult) -> anyhow::Result<ExecutionResult> {
    let mut told = None;
    while let Some(pending) = &result.paused {
        if told.as_ref() != Some(&pending.elicitation_id) {
            tell_waiting(pending, contact);
            told = Some(pending.elicitation_id.clone());
        }
        result = contact.agent.execution(&result.execution_id, LONG_WAIT).await?;
    }
    if result.status == Status::Running {
        result = contact.agent.until_it_rests(&result.execution_id).await?;
    }
    Ok(result)
}

fn tell_waiting(pending: &Pending, contact: &Contact) {
    contact.screen.note(&format!("  waits    {}", shown::line(&pending.message)));
    let approve = contact.invocation.command(&format!("approve {}", pending.elicitation_id));
    contact.screen.note(&format!("           decide it: {approve}"));
}

fn tell_end(result: &ExecutionResult, contact: &Contact) {
    let screen = contact.screen;
    let line = match (&result.value, &result.error, &result.paused) {
        (_, _, Some(pending)) => return tell_waiting(pending, contact),
        (Some(value), _, _) => {
            format!("  {}     {}", screen.err.green("gets"), shown::flat(&value.to_string()))
        }
        (None, Some(error), _) => {
            format!(
                "  {}     {}: {}",
                screen.err.red("gets"),
                shown::line(&error.code),
                shown::line(&error.message)
            )
        }
        (None, None, None) => "  nothing yet".to_owned(),
    };
    screen.note(&line);
}
