//! `settle`: a person says what became of a call in doubt.

use countersign_core::canonical::Verbatim;
use countersign_core::event::Settlement;
use countersign_core::ids::{CallNo, ExecutionId};
use countersign_kernel::{Catalog, SettleError};

use super::input;
use crate::args::{SettleArgs, SettlementArg};
use crate::data_folder::{DataFolder, execution_id};
use crate::exit::{Exit, Problem};
use crate::invocation::Invocation;
use crate::local::{Setup, missing_tool_hint};
use crate::report;

pub(super) async fn run(setup: Setup, args: SettleArgs) -> anyhow::Result<Exit> {
    let id = execution_id(&args.execution, &setup.invocation)?;
    let call = CallNo(args.call);
    let settlement = settlement(&args)?;
    let folder = DataFolder::open(&setup.config.data_dir)?;
    let Some(told) = folder.told(id).await? else {
        let hint = format!("`{}` lists executions.", setup.invocation.command("executions"));
        return Err(Problem::new("not_found", format!("there is no execution {id}")).hint(hint).into());
    };
    let path = told.execution.call(call).map(|call| call.path.to_string());
    if let (Settlement::Retry, Some(path)) = (&settlement, path)
        && !setup.paths().contains(&path)
    {
        let hint = missing_tool_hint(&path, &setup.invocation);
        return Err(Problem::new(
            "tool_not_here",
            format!("its tool {path} is not here, so it cannot run again"),
        )
        .hint(hint)
        .into());
    }
    let exit = setup
        .with_gateway(&folder, async |local| {
            if let (Settlement::Done { value }, Some(call)) = (&settlement, told.execution.call(call)) {
                check_value(value, call.path.as_str(), local.gateway.catalog())?;
            }
            let settled = local.gateway.settle(id, call, settlement, local.operator()).await;
            settled.map_err(|error| refused(error, id, &local.invocation))?;
            let result = local.until_paused(id).await?;
            report::result(&result, local.screen, &local.invocation)
        })
        .await?;
    // Settled as failed is settled; only what ran again can fail anew.
    Ok(if args.settlement == SettlementArg::Retry { exit } else { Exit::Done })
}

fn settlement(args: &SettleArgs) -> Result<Settlement, Problem> {
    let misplaced = |flag: &str, with: &str| Problem::usage(format!("{flag} belongs to --as {with}"));
    match args.settlement {
        SettlementArg::Done if args.reason.is_some() => Err(misplaced("--reason", "failed")),
        SettlementArg::Failed | SettlementArg::Retry if args.value.is_some() => {
            Err(misplaced("--value", "done"))
        }
        SettlementArg::Retry if args.reason.is_some() => Err(misplaced("--reason", "failed")),
        SettlementArg::Retry => Ok(Settlement::Retry),
        SettlementArg::Failed => {
            let message =
                args.reason.clone().unwrap_or_else(|| "A person found that the call took no effect.".into());
            Ok(Settlement::Failed { message })
        }
        SettlementArg::Done => {
            let value = match &args.value {
                None => Verbatim::null(),
                Some(given) => Verbatim::of(&input::json(Some(given), "--value")?)
                    .map_err(|e| Problem::usage(e.to_string()))?,
            };
            Ok(Settlement::Done { value })
        }
    }
}

/// Whoever waits for the value relies on the tool's output schema.
fn check_value(value: &Verbatim, path: &str, catalog: &Catalog) -> Result<(), Problem> {
    let Some(tool) = catalog.get(path) else { return Ok(()) };
    tool.tool().check_output(&value.to_value()).map_err(|violations| {
        let lines: String =
            violations.iter().map(|v| format!("\n  {}", crate::shown::flat(&v.to_string()))).collect();
        Problem::new("invalid_output", format!("the value is not what {path} gives:{lines}"))
            .hint("Give with --value what the tool would have given.")
    })
}

fn refused(error: SettleError, id: ExecutionId, invocation: &Invocation) -> anyhow::Error {
    let text = error.to_string();
    let code = match error {
        SettleError::Gateway(error) => return error.into(),
        SettleError::NotFound => "not_found",
        SettleError::NotInDoubt => "not_in_doubt",
        SettleError::NotAllowed => "not_allowed",
        SettleError::ToolChanged => "tool_changed",
        SettleError::OutOfBounds(_) => "value_too_large",
    };
    let hint = format!("`{}` shows where each call stands.", invocation.command(&format!("executions {id}")));
    Problem::new(code, text).hint(hint).into()
}
