//! `run`: a script, call by call, with the person at this terminal.

use std::time::Duration;

use countersign_kernel::ports::ScriptFault;
use countersign_kernel::{CallError, ExecutionResult, Patience, RunRequest};

use super::input::{self, Place};
use crate::args::RunArgs;
use crate::data_folder::DataFolder;
use crate::exit::{Exit, Problem};
use crate::local::{Local, Setup};
use crate::progress::Progress;
use crate::report;
use crate::terminal::{self, Asked, Keyboard};

/// How often what is shown is brought up to date.
const TICK: Duration = Duration::from_millis(80);

pub(super) async fn run(setup: Setup, args: RunArgs) -> anyhow::Result<Exit> {
    let source = input::text(&args.file)?;
    let asks = setup.screen.can_ask() && !args.no_wait && input::place(Some(&args.file)) == Place::Elsewhere;
    let folder = DataFolder::open(&setup.config.data_dir)?;
    setup
        .with_gateway(&folder, async |local| {
            let request = RunRequest {
                source,
                caller: local.agent().clone(),
                session: local.open_session(&args.session).await?,
                key: None,
                patience: Patience::AtMost(TICK),
            };
            let begun = local.gateway.run(request).await.map_err(|error| refused(error, &args.file))?;
            let result = watched(local, begun, asks.then(Keyboard::of_process)).await?;
            report::result(&result, local.screen, &local.invocation)
        })
        .await
}

/// Shows calls as they happen and, where there is a keyboard, asks what needs a person, until the script ends or is left
/// waiting.
async fn watched(
    local: &Local,
    mut result: ExecutionResult,
    mut keyboard: Option<Keyboard>,
) -> anyhow::Result<ExecutionResult> {
    let mut progress = Progress::new(local.screen);
    loop {
        progress.show(&result);
        let rests = result.status.is_final() || result.status == countersign_core::execution::Status::InDoubt;
        match &mut keyboard {
            _ if rests => break,
            Some(keyboard) if result.paused().is_some() => {
                progress.step_aside();
                if terminal::ask_oldest(local, &result, keyboard).await? == Asked::Left {
                    break;
                }
            }
            None if waits(&result) => break,
            _ => {}
        }
        let next = local.gateway.wait(result.execution, Patience::AtMost(TICK)).await?;
        let gone = || Problem::new("not_found", format!("there is no execution {}", result.execution));
        result = next.ok_or_else(gone)?;
    }
    progress.step_aside();
    Ok(result)
}

/// Nothing but a person can bring it on.
fn waits(result: &ExecutionResult) -> bool {
    result.status == countersign_core::execution::Status::Waiting
}

/// Why a script was not accepted, and what to do about it.
fn refused(error: CallError, file: &str) -> anyhow::Error {
    let code = error.code();
    match error {
        CallError::Script(ScriptFault::Invalid { message, line, column }) => {
            let place = if file == "-" { "standard input" } else { file };
            Problem::new(code, format!("{place}:{line}:{column}: {message}")).into()
        }
        CallError::Gateway(error) => error.into(),
        other => Problem::new(code, other.to_string()).into(),
    }
}
