//! `settle`: a person says what became of a call in doubt.

use countersign_sdk::FormSchema;
use countersign_server::wire::{SettleRequest, Settlement};
use serde_json::{Map, Value, json};

use super::call::violations;
use super::executions::{execution_id, not_found};
use super::input;
use crate::args::{SettleArgs, SettlementArg};
use crate::contact::{Contact, Purpose, Ready};
use crate::exit::{Exit, Problem};
use crate::{report, short_ids};

pub(super) async fn run(ready: Ready, args: SettleArgs) -> anyhow::Result<Exit> {
    execution_id(&args.execution, &ready.setup.invocation)?;
    let mut request = request(&args)?;
    let exit = ready
        .with_server(Purpose::Change, async |contact| {
            let id = short_ids::execution(contact, &args.execution).await?;
            let known = contact.operator.execution(&id, std::time::Duration::ZERO).await;
            let known = known.map_err(|problem| not_found(problem, &id, &contact.invocation))?;
            let call = usize::try_from(args.call).ok().and_then(|call| known.calls.get(call));
            if let (Settlement::Retry, Some(call)) = (request.settlement, call)
                && contact.lacks(&call.path).await
            {
                return Err(contact.tool_not_here(&call.path, "so it cannot run again").into());
            }
            if let (Settlement::Done, None, Some(call)) = (request.settlement, &request.value, call)
                && contact.screen.can_ask()
                && let Some(schema) = output_form(contact, &call.path).await
            {
                contact.screen.note(&format!("What did {} give? Look at the outside system.", call.path));
                let Some(value) = crate::terminal::fill_in(&schema, contact.screen).await else {
                    return Err(Problem::new("not_settled", "nothing was settled").into());
                };
                request.value = Some(value);
            }
            let settled = contact.operator.settle(&id, &request).await;
            let path = call.map_or("the tool", |call| call.path.as_str());
            settled.map_err(|problem| refused(problem, &id, path, contact))?;
            let result = contact.operator.until_it_rests(&id).await?;
            report::result(&result, contact.screen, &contact.invocation)
        })
        .await?;
    // Settled as failed is settled; only what ran again can fail anew.
    Ok(if args.settlement == SettlementArg::Retry { exit } else { Exit::Done })
}

/// The tool's output as a form, where it is an object of plain fields. For any other there is `--value`.
async fn output_form(contact: &Contact, path: &str) -> Option<FormSchema> {
    let output = contact.operator.tool(path).await.ok()?.output_schema;
    let known = ["type", "title", "description", "enum", "minimum", "maximum", "minLength", "maxLength"];
    let properties: Map<String, Value> = output["properties"]
        .as_object()?
        .iter()
        .map(|(name, property)| {
            let kept = property.as_object().into_iter().flatten();
            let kept = kept.filter(|(key, _)| known.contains(&key.as_str()));
            (name.clone(), kept.map(|(key, value)| (key.clone(), value.clone())).collect::<Value>())
        })
        .collect();
    let required = output.get("required").cloned().unwrap_or_else(|| json!([]));
    FormSchema::new(&json!({ "type": "object", "properties": properties, "required": required })).ok()
}

fn request(args: &SettleArgs) -> Result<SettleRequest, Problem> {
    let misplaced = |flag: &str, with: &str| Problem::usage(format!("{flag} belongs to --as {with}"));
    let settlement = match args.settlement {
        SettlementArg::Done if args.reason.is_some() => return Err(misplaced("--reason", "failed")),
        SettlementArg::Failed | SettlementArg::Retry if args.value.is_some() => {
            return Err(misplaced("--value", "done"));
        }
        SettlementArg::Retry if args.reason.is_some() => return Err(misplaced("--reason", "failed")),
        SettlementArg::Done => Settlement::Done,
        SettlementArg::Failed => Settlement::Failed,
        SettlementArg::Retry => Settlement::Retry,
    };
    let value = args.value.as_deref().map(|value| input::json(Some(value), "--value")).transpose()?;
    Ok(SettleRequest { call: args.call, settlement, value, reason: args.reason.clone() })
}

fn refused(problem: Problem, id: &str, path: &str, contact: &Contact) -> Problem {
    match problem.code.as_ref() {
        "invalid_output" => {
            let lines = violations(&problem);
            problem
                .saying(format!("the value is not what {path} gives:{lines}"))
                .hint("Give with --value what the tool would have given.")
        }
        _ => {
            let show = contact.invocation.command(&format!("executions {id}"));
            problem.hint(format!("`{show}` shows where each call stands."))
        }
    }
}
