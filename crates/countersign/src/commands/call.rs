//! `call`: one tool, the whole way.

use countersign_kernel::{CallError, CallRequest, Catalog, Patience};
use countersign_sdk::ToolPath;

use super::input::{self, Place};
use crate::args::CallArgs;
use crate::data_folder::DataFolder;
use crate::exit::{Exit, Problem};
use crate::invocation::Invocation;
use crate::local::{Local, Setup, missing_tool_hint};
use crate::{report, terminal};

pub(super) async fn run(setup: Setup, args: CallArgs) -> anyhow::Result<Exit> {
    let input = input::json(args.input.as_deref(), "the arguments")?;
    let asks =
        setup.screen.can_ask() && !args.no_wait && input::place(args.input.as_deref()) == Place::Elsewhere;
    let folder = DataFolder::open(&setup.config.data_dir)?;
    setup
        .with_gateway(&folder, async |local| {
            let request = CallRequest {
                path: args.path.clone(),
                args: input,
                caller: local.agent().clone(),
                session: local.open_session(&args.session).await?,
                key: None,
                patience: Patience::UntilPaused,
            };
            let called = local.gateway.call(request).await;
            let mut result = called.map_err(|error| refused(error, &args.path, local))?;
            if asks && result.paused().is_some() {
                result = terminal::see_through(local, result).await?;
            }
            report::result(&result, local.screen, &local.invocation)
        })
        .await
}

/// Why a call was not accepted, and what to do about it.
fn refused(error: CallError, path: &str, local: &Local) -> anyhow::Error {
    let (code, invocation) = (error.code(), &local.invocation);
    match error {
        CallError::ToolNotFound { .. } => not_found(path, local.gateway.catalog(), invocation).into(),
        CallError::InvalidInput { violations } => {
            let lines: String =
                violations.iter().map(|v| format!("\n  {}", crate::shown::flat(&v.to_string()))).collect();
            Problem::new(code, format!("the arguments do not fit:{lines}"))
                .hint(format!(
                    "`{}` shows what the tool takes.",
                    invocation.command(&format!("tools show {path}"))
                ))
                .into()
        }
        CallError::Gateway(error) => error.into(),
        other => Problem::new(code, other.to_string()).into(),
    }
}

/// That there is no such tool, and what was perhaps meant.
pub(super) fn not_found(path: &str, catalog: &Catalog, invocation: &Invocation) -> Problem {
    let shown = crate::shown::flat(path);
    let below: Vec<&str> = catalog
        .iter()
        .map(|tool| tool.path().as_str())
        .filter(|p| p.starts_with(&format!("{path}.")))
        .collect();
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
        [] => match ToolPath::parse(path) {
            Ok(_) => problem.hint(format!("`{list}` lists what there is.")),
            Err(error) => problem.hint(format!("{error} `{list}` lists what there is.")),
        },
        near => {
            let names: Vec<&str> = near.iter().map(ToolPath::as_str).collect();
            problem.hint(format!("Did you mean {}? `{list}` lists what there is.", names.join(" or ")))
        }
    }
}
