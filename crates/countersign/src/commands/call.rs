//! `call`: one tool, the whole way.

use countersign_kernel::{CallError, CallRequest, Catalog, Patience};

use super::input::{self, Place};
use crate::args::CallArgs;
use crate::data_folder::DataFolder;
use crate::exit::{Exit, Problem};
use crate::invocation::Invocation;
use crate::local::{Setup, missing_tool_hint};
use crate::{report, terminal};

pub(super) async fn run(setup: Setup, args: CallArgs) -> anyhow::Result<Exit> {
    let input = input::json(args.input.as_deref(), "the arguments")?;
    let screen = setup.screen;
    let asks = screen.can_ask() && !args.no_wait && input::place(args.input.as_deref()) == Place::Elsewhere;
    let folder = DataFolder::open(&setup.config.data_dir)?;
    let (local, invocation) = setup.start(&folder).await?;
    let request = CallRequest {
        path: args.path,
        args: input,
        caller: local.agent().clone(),
        session: local.open_session(&args.session).await?,
        key: None,
        patience: Patience::UntilPaused,
    };
    let mut result = local
        .gateway
        .call(request)
        .await
        .map_err(|error| refused(error, local.gateway.catalog(), &invocation))?;
    if asks && result.paused().is_some() {
        result = terminal::see_through(&local, result, screen).await?;
    }
    local.close().await;
    report::result(&result, screen, &invocation)
}

/// Why a call was not accepted, and what to do about it.
fn refused(error: CallError, catalog: &Catalog, invocation: &Invocation) -> anyhow::Error {
    let code = error.code();
    match error {
        CallError::ToolNotFound { path, .. } => not_found(&path, catalog, invocation).into(),
        CallError::InvalidInput { violations } => {
            let lines: String = violations.iter().map(|v| format!("\n  {}", crate::shown::line(&v.to_string()))).collect();
            Problem::new(code, format!("the arguments do not fit:{lines}"))
                .hint(format!("`{}` shows what the tool takes.", invocation.command("tools show PATH")))
                .into()
        }
        CallError::Gateway(error) => error.into(),
        other => Problem::new(code, other.to_string()).into(),
    }
}

/// That there is no such tool, and what was perhaps meant.
pub(super) fn not_found(path: &str, catalog: &Catalog, invocation: &Invocation) -> Problem {
    let shown = crate::shown::line(path);
    let below: Vec<&str> =
        catalog.iter().map(|tool| tool.path().as_str()).filter(|p| p.starts_with(&format!("{path}."))).collect();
    let near = catalog.near(path);
    let list = invocation.command("tools");
    if !below.is_empty() {
        let message = format!("\"{shown}\" is a namespace, not a tool; in it there are {}", below.join(", "));
        return Problem::new("tool_not_found", message);
    }
    let message = format!("there is no tool \"{shown}\"");
    let problem = Problem::new("tool_not_found", message);
    match near.as_slice() {
        [] if crate::demo::owns(path) && catalog.iter().all(|tool| tool.source() != "demo") => {
            problem.hint(missing_tool_hint(path, invocation))
        }
        [] if catalog.is_empty() => {
            let with_demo = invocation.command_with_demo("tools");
            problem.hint(format!("There are no tools at all. The demo has some: `{with_demo}`."))
        }
        [] => problem.hint(format!("`{list}` lists what there is.")),
        near => {
            let names: Vec<&str> = near.iter().map(countersign_sdk::ToolPath::as_str).collect();
            problem.hint(format!("Did you mean {}? `{list}` lists what there is.", names.join(" or ")))
        }
    }
}
