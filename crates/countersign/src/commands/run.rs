//! `run`: a script, call by call, with the person at this terminal.

use std::time::Duration;

use countersign_server::wire::{ExecuteRequest, ExecutionResult, Status};

use super::call::{of_session, session};
use super::input::{self, Place};
use crate::args::RunArgs;
use crate::contact::{Contact, Purpose, Ready};
use crate::exit::{Exit, Problem};
use crate::progress::Progress;
use crate::report;
use crate::terminal::{self, Asked, Keyboard};

/// How often what is shown is brought up to date.
const TICK: Duration = Duration::from_millis(80);

pub(super) async fn run(ready: Ready, args: RunArgs) -> anyhow::Result<Exit> {
    let source = input::text(&args.file)?;
    let asks =
        ready.setup.screen.can_ask() && !args.no_wait && input::place(Some(&args.file)) == Place::Elsewhere;
    let request = ExecuteRequest {
        code: Some(source),
        session_id: args.session.as_deref().map(session).transpose()?,
        wait_ms: Some(u64::try_from(TICK.as_millis()).unwrap_or(u64::MAX)),
        ..ExecuteRequest::default()
    };
    ready
        .with_server(Purpose::Act, async |contact| {
            let begun = contact.caller(args.identity.as_token.as_deref())?.execute(&request).await;
            let begun = begun.map_err(|problem| refused(problem, &args.file))?;
            let result = watched(contact, begun, asks.then(Keyboard::of_process)).await?;
            report::result(&result, contact.screen, &contact.invocation)
        })
        .await
}

/// Shows calls as they happen and, where there is a keyboard, asks what needs a person, until the script ends or is left
/// waiting.
async fn watched(
    contact: &Contact,
    mut result: ExecutionResult,
    mut keyboard: Option<Keyboard>,
) -> anyhow::Result<ExecutionResult> {
    let mut progress = Progress::new(contact.screen);
    loop {
        progress.show(&result);
        match (result.status, &mut keyboard) {
            (Status::Running, _) => {}
            (Status::Paused, Some(keyboard)) => {
                progress.step_aside();
                if terminal::ask_oldest(contact, &result, keyboard).await? == Asked::Left {
                    break;
                }
            }
            _ => break,
        }
        result = contact.operator.execution(&result.execution_id, TICK).await?;
    }
    progress.step_aside();
    Ok(result)
}

/// Why a script was not accepted, and what to do about it.
fn refused(problem: Problem, file: &str) -> Problem {
    let number = |name: &str| problem.more.get(name).and_then(serde_json::Value::as_u64);
    match (number("line"), number("column")) {
        (Some(line), Some(column)) => {
            let place = if file == "-" { "standard input" } else { file };
            let what = problem.more.get("problem").and_then(|what| what.as_str()).unwrap_or(&problem.message);
            let message = format!("{place}:{line}:{column}: {what}");
            problem.saying(message)
        }
        _ => of_session(problem),
    }
}
