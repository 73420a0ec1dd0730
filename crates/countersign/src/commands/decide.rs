//! `approve` and `deny`: a person's word, and what came of it.
//!
//! Before anything is decided it is made sure that this process could go on with the call: a gateway that does not have
//! the tool, or has other rules, would have to withdraw the question.

use countersign_core::execution::Call;
use countersign_kernel::{Answer, DecideError, Receipt, Target};
use countersign_sdk::{AskKind, Remember};

use super::input;
use crate::args::{ApproveArgs, DenyArgs};
use crate::data_folder::{DataFolder, Told, target};
use crate::exit::{Exit, Problem};
use crate::invocation::Invocation;
use crate::local::{Setup, missing_tool_hint};
use crate::screen::{Format, Screen};
use crate::{report, terminal};

pub(super) async fn approve(setup: Setup, args: ApproveArgs) -> anyhow::Result<Exit> {
    let target = target(&args.id, &setup.invocation)?;
    let mut data = args.data.as_deref().map(|data| input::json(Some(data), "--data")).transpose()?;
    let folder = DataFolder::open(&setup.config.data_dir)?;
    let told = decidable(&folder, target, &setup).await?;
    check_policy(&told, target, &setup)?;
    let screen = setup.screen;
    if data.is_none() && screen.can_ask() {
        match filled(&told, target, screen).await {
            Filled::NoForm => {}
            Filled::With(given) => data = Some(given),
            Filled::Left => return Ok(left(screen)),
        }
    }
    let remember = args.remember.map(Remember::from);
    let answer = Answer::Approve { remember, data };
    setup
        .with_gateway(&folder, async |local| {
            let decided = local.decide(target, answer.clone(), args.comment).await;
            let receipt = decided.map_err(|error| refused(error, &local.invocation))?;
            announce(&receipt, &told, &answer, local.screen);
            let result = local.until_paused(receipt.execution).await?;
            report::result(&result, local.screen, &local.invocation)
        })
        .await
}

pub(super) async fn deny(setup: Setup, args: DenyArgs) -> anyhow::Result<Exit> {
    let target = target(&args.id, &setup.invocation)?;
    let folder = DataFolder::open(&setup.config.data_dir)?;
    let told = decidable(&folder, target, &setup).await?;
    let execution = told.execution.id();
    setup
        .with_gateway(&folder, async |local| {
            let decided = local.decide(target, Answer::Deny, args.reason).await;
            let receipt = decided.map_err(|error| refused(error, &local.invocation))?;
            announce(&receipt, &told, &Answer::Deny, local.screen);
            let result = local.until_paused(execution).await?;
            report::result(&result, local.screen, &local.invocation)
        })
        .await?;
    // A denial that was recorded is a success, whatever the execution makes of it.
    Ok(Exit::Done)
}

/// The execution that is decided about, if this process can go on with it.
async fn decidable(folder: &DataFolder, target: Target, setup: &Setup) -> anyhow::Result<Told> {
    let Some(told) = folder.told_of(target).await? else {
        let hint = format!("`{}` lists what waits.", setup.invocation.command("inbox"));
        return Err(Problem::new("not_found", "there is nothing of this id to decide").hint(hint).into());
    };
    let paths = setup.paths();
    let missing =
        told.execution.unsettled().find(|call| !paths.iter().any(|path| call.path.as_str() == path));
    match missing {
        Some(call) if !told.execution.status().is_final() => {
            let message =
                format!("it waits still, but its tool {} is not here, so it could not run", call.path);
            let hint = missing_tool_hint(call.path.as_str(), &setup.invocation);
            Err(Problem::new("tool_not_here", message).hint(hint).into())
        }
        _ => Ok(told),
    }
}

/// An approval is bound to the rules it was asked under; under others the gateway would withdraw the question.
fn check_policy(told: &Told, target: Target, setup: &Setup) -> Result<(), Problem> {
    let same = |call: &Call| call.policy_version == setup.config.policy.version().digest();
    let waits = told.execution.open().any(|e| match target {
        Target::Elicitation(id) => e.id == id,
        Target::Execution(_) => true,
    });
    if !waits || told.execution.unsettled().all(same) {
        return Ok(());
    }
    let file = match &setup.config.file {
        Some(file) => format!("the rules of {}", file.display()),
        None => "no rules".to_owned(),
    };
    let deny = setup.invocation.command("deny ID");
    Err(Problem::new("approval_void", format!("it was asked under other rules than are in force here ({file})")).hint(
        format!("Approve with the --config it was asked under. If the rules changed for good, `{deny}` and call again."),
    ))
}

/// What came of asking for a form's fields here.
enum Filled {
    NoForm,
    With(serde_json::Value),
    Left,
}

async fn filled(told: &Told, target: Target, screen: Screen) -> Filled {
    let question = told.execution.open().find(|e| match target {
        Target::Elicitation(id) => e.id == id,
        Target::Execution(_) => true,
    });
    let Some(question) = question else { return Filled::NoForm };
    let AskKind::Form { schema } = &question.kind else { return Filled::NoForm };
    if question.authorises() {
        return Filled::NoForm;
    }
    screen.note(&report::question(question, screen.err));
    match terminal::fill(schema, screen).await {
        Some(Answer::Approve { data: Some(data), .. }) => Filled::With(data),
        _ => Filled::Left,
    }
}

fn left(screen: Screen) -> Exit {
    screen.note("It was left waiting.");
    Exit::Done
}

/// Says what was decided, and what it means for later calls.
fn announce(receipt: &Receipt, told: &Told, answer: &Answer, screen: Screen) {
    let Some(asked) = told.execution.find(receipt.elicitation) else { return };
    if screen.format == Format::Json {
        return;
    }
    let elicitation = &asked.elicitation;
    screen.note(&report::receipt(receipt, elicitation, screen.err));
    screen.note(crate::shown::block(&elicitation.message, "  ", screen.err).trim_end());
    if let Answer::Approve { remember, .. } = answer
        && elicitation.kind == AskKind::Approval
        && remember.unwrap_or(elicitation.remember) == Remember::Session
    {
        let (tool, session) = (&elicitation.tool, told.execution.session());
        screen.note(&format!(
            "Later calls of {tool} in {session} run without asking. (--remember call approves one call only; another \
             --session asks anew.)"
        ));
    }
}

fn refused(error: DecideError, invocation: &Invocation) -> anyhow::Error {
    let (code, text) = (error.code(), error.to_string());
    let inbox = invocation.command("inbox");
    match error {
        DecideError::Gateway(error) => error.into(),
        DecideError::Expired => Problem::new(code, text).exit(Exit::Refused).into(),
        DecideError::Decided(decision) => {
            Problem::new(code, format!("it was decided already: {}", report::decision(&decision))).into()
        }
        DecideError::Ambiguous(open) => {
            let ids: String = open.iter().map(|id| format!("\n  {id}")).collect();
            Problem::new(
                code,
                format!("the execution waits for {} decisions; name one of them:{ids}", open.len()),
            )
            .hint(format!("`{inbox}` shows each."))
            .into()
        }
        DecideError::InvalidData(violations) => {
            let lines: String =
                violations.iter().map(|v| format!("\n  {}", crate::shown::flat(&v.to_string()))).collect();
            Problem::new(code, format!("the answer does not fit the form:{lines}"))
                .hint(format!("Give it with --data '{{…}}'; `{inbox} --json` shows the form's schema."))
                .into()
        }
        DecideError::NotFound => Problem::new(code, text).hint(format!("`{inbox}` lists what waits.")).into(),
        _ => Problem::new(code, text).into(),
    }
}
