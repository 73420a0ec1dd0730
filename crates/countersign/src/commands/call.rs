//! `call`: one tool, the whole way.

use countersign_sdk::{SessionId, ToolPath};
use countersign_server::wire::{ExecuteRequest, Status};

use super::input::{self, Place};
use crate::args::CallArgs;
use crate::contact::{Contact, Purpose, Ready};
use crate::exit::{Exit, Problem};
use crate::{report, shown, terminal};

pub(super) async fn run(ready: Ready, args: CallArgs) -> anyhow::Result<Exit> {
    let input = input::json(args.input.as_deref(), "the arguments")?;
    let asks = ready.setup.screen.can_ask()
        && !args.no_wait
        && input::place(args.input.as_deref()) == Place::Elsewhere;
    let request = ExecuteRequest {
        tool: Some(args.path.clone()),
        args: Some(input),
        session_id: args.session.as_deref().map(session).transpose()?,
        ..ExecuteRequest::default()
    };
    ready
        .with_server(Purpose::Act, async |contact| {
            let caller = contact.caller(args.identity.as_token.as_deref())?;
            let mut result = match caller.execute(&request).await {
                Ok(result) => result,
                Err(problem) => return Err(refused(problem, &args.path, contact).await.into()),
            };
            if result.status == Status::Running {
                result = contact.operator.until_it_rests(&result.execution_id).await?;
            }
            if asks && result.paused.is_some() {
                result = terminal::see_through(contact, result).await?;
            }
            report::result(&result, contact.screen, &contact.invocation)
        })
        .await
}

/// A session's id from the command line.
pub(super) fn session(id: &str) -> Result<String, Problem> {
    let id = SessionId::parse(id).map_err(|e| Problem::usage(format!("--session: {e}")))?;
    Ok(id.to_string())
}

/// Why a call was not accepted, and what to do about it.
async fn refused(problem: Problem, path: &str, contact: &Contact) -> Problem {
    match problem.code.as_ref() {
        "tool_not_found" => not_found(problem, path, contact).await,
        "invalid_input" => {
            let show = contact.invocation.command(&format!("tools show {path}"));
            let lines = violations(&problem);
            problem
                .saying(format!("the arguments do not fit:{lines}"))
                .hint(format!("`{show}` shows what the tool takes."))
        }
        _ => of_session(problem),
    }
}

/// What to do where a session is somebody else's or another client's.
pub(super) fn of_session(problem: Problem) -> Problem {
    match problem.code.as_ref() {
        "session_not_found" => problem.hint("Choose another name with --session."),
        _ => problem,
    }
}

/// Every violation that a server lists, a line each.
pub(super) fn violations(problem: &Problem) -> String {
    let all = problem.more.get("violations").and_then(|all| all.as_array()).cloned().unwrap_or_default();
    let lines = all.iter().filter_map(|one| one.as_str()).map(|one| format!("\n  {}", shown::flat(one)));
    lines.collect()
}

/// That there is no such tool, and what was perhaps meant. The server names near misses; what is missing altogether is
/// explained here.
pub(super) async fn not_found(problem: Problem, path: &str, contact: &Contact) -> Problem {
    let Ok(all) = super::tools::all(contact, "").await else { return problem };
    let list = format!("`{}` lists what there is.", contact.invocation.command("tools"));
    let names = |name: &str| -> Vec<String> {
        let names = problem.more.get(name).and_then(|names| names.as_array()).cloned().unwrap_or_default();
        names.iter().filter_map(|name| name.as_str()).map(shown::flat).collect()
    };
    let (near, inside) = (names("near"), names("inside"));
    let missing = problem.saying(format!("there is no tool \"{}\"", shown::flat(path)));
    match (near.as_slice(), inside.as_slice()) {
        ([], []) if crate::demo::owns(path) && all.iter().all(|tool| tool.source != "demo") => {
            missing.hint(contact.missing_tool_hint(path))
        }
        ([], []) if all.is_empty() => {
            let with_demo = contact.invocation.command_with_demo("tools");
            missing.hint(format!("There are no tools at all. The demo has some: `{with_demo}`."))
        }
        ([], []) => match ToolPath::parse(path) {
            Ok(_) => missing.hint(list),
            Err(error) => missing.hint(format!("{error} {list}")),
        },
        (near, []) => missing.hint(format!("Did you mean {}? {list}", near.join(" or "))),
        (_, inside) => {
            let shown = shown::flat(path);
            let there = inside.join(", ");
            missing
                .saying(format!("\"{shown}\" is a namespace, not a tool; in it there are {there}"))
                .hint(list)
        }
    }
}
