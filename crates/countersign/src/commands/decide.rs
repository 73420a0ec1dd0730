//! `approve` and `deny`: a person's word, and what came of it.
//!
//! Before anything is decided it is made sure that the server could go on with the call: one that does not have the
//! tool would leave it waiting.

use countersign_core::coverage::{Coverage, CoveredArgs};
use countersign_core::ids::{ElicitationId, ExecutionId};
use countersign_sdk::Remember;
use countersign_server::wire::{
    Decision, Elicitation, ElicitationResponse, Pending, PendingKind, ResolveRequest,
};
use serde_json::Value;

use super::call::violations;
use super::input;
use crate::args::{ApproveArgs, DenyArgs, RememberArg};
use crate::client::Part;
use crate::contact::{Contact, Purpose, Ready};
use crate::coverage::{self, most_remembered};
use crate::exit::{Exit, Problem};
use crate::invocation::Invocation;
use crate::report::Background;
use crate::screen::{Format, Screen};
use crate::{report, short_ids, shown, terminal};

pub(super) async fn approve(ready: Ready, args: ApproveArgs) -> anyhow::Result<Exit> {
    check_target(&args.id, &ready.setup.invocation)?;
    let data = args.data.as_deref().map(|data| input::json(Some(data), "--data")).transpose()?;
    ready
        .with_server(Purpose::Change, async |contact| {
            let asked = decidable(contact, &short_ids::waiting(contact, &args.id).await?).await?;
            let Some(answer) = confirmed(&asked, &args, data, contact).await? else {
                return Ok(left(contact.screen));
            };
            let receipt = decide(contact, &asked, &answer).await?;
            announce(&receipt, &asked, &answer, contact.screen);
            let result = contact.operator.until_it_rests(&receipt.execution_id).await?;
            report::result(&result, contact.screen, &contact.invocation)
        })
        .await
}

pub(super) async fn deny(ready: Ready, args: DenyArgs) -> anyhow::Result<Exit> {
    check_target(&args.id, &ready.setup.invocation)?;
    ready
        .with_server(Purpose::Change, async |contact| {
            let asked = decidable(contact, &short_ids::waiting(contact, &args.id).await?).await?;
            let answer = terminal::no(args.reason);
            let receipt = decide(contact, &asked, &answer).await?;
            announce(&receipt, &asked, &answer, contact.screen);
            let result = contact.operator.until_it_rests(&receipt.execution_id).await?;
            report::result(&result, contact.screen, &contact.invocation)
        })
        .await?;
    // A denial that was recorded is a success, whatever the execution makes of it.
    Ok(Exit::Done)
}

/// What `approve` and `deny` name: an elicitation, or an execution.
fn check_target(id: &str, invocation: &Invocation) -> Result<(), Problem> {
    let parsed = if [ExecutionId::PREFIX, ElicitationId::PREFIX]
        .iter()
        .any(|prefix| short_ids::is_beginning(id, prefix))
    {
        Ok(())
    } else if id.starts_with(ExecutionId::PREFIX) {
        id.parse::<ExecutionId>().map(drop).map_err(|e| e.to_string())
    } else if id.starts_with(ElicitationId::PREFIX) {
        id.parse::<ElicitationId>().map(drop).map_err(|e| e.to_string())
    } else {
        Err(format!("{id:?} is neither an elicitation (eli_…) nor an execution (exec_…)"))
    };
    parsed.map_err(|e| {
        Problem::usage(e).hint(format!("`{}` lists what waits, with its ids.", invocation.command("inbox")))
    })
}

/// The question that is decided, if the server can go on with it.
async fn decidable(contact: &Contact, id: &str) -> Result<Elicitation, Problem> {
    let asked = match contact.operator.elicitation(id).await {
        Ok(asked) => asked,
        Err(problem) => match last_asked(contact, id).await {
            Some(asked) if problem.code == "not_found" => asked,
            _ => return Err(refused(problem, contact).await),
        },
    };
    let tool = asked.question.tool_path.as_str();
    if asked.decision.is_none() && contact.lacks(tool).await {
        return Err(contact.tool_not_here(tool, "so it could not run; it waits still"));
    }
    Ok(asked)
}

/// The last question of an execution that asks nothing now: whoever decides it again is told how it was decided.
async fn last_asked(contact: &Contact, id: &str) -> Option<Elicitation> {
    id.parse::<ExecutionId>().ok()?;
    let (mut part, mut last) = (Some(Part::default()), None);
    while let Some(wanted) = part {
        let list = contact.operator.elicitations_of(id, &wanted).await.ok()?;
        part = Part::after(&list);
        last = list.items.into_iter().next_back().or(last);
    }
    last
}

async fn decide(
    contact: &Contact,
    asked: &Elicitation,
    answer: &ResolveRequest,
) -> Result<ElicitationResponse, Problem> {
    match contact.operator.resolve(&asked.question, answer).await {
        Ok(receipt) => Ok(receipt),
        Err(problem) => Err(refused(problem, contact).await),
    }
}

/// The approval, once the person has seen the whole question and said yes; nothing where they leave it waiting. A script says with
/// `--yes --digest` what its author has seen.
async fn confirmed(
    asked: &Elicitation,
    args: &ApproveArgs,
    data: Option<Value>,
    contact: &Contact,
) -> anyhow::Result<Option<ResolveRequest>> {
    let pending = &asked.question;
    let chosen = chosen(args, pending);
    let covers = chosen.unwrap_or_else(|| coverage::of_plain_yes(pending));
    let is_decided_here = data.is_some() || args.remember.is_some();
    let answer =
        ResolveRequest { comment: args.comment.clone(), ..coverage::approval(pending, covers, data) };
    if asked.decision.is_some() {
        // There is nothing to ask any more; the server says how it was decided.
        return Ok(Some(answer));
    }
    if chosen.is_some_and(|covers| covers != Coverage::Call) && most_remembered(pending) == Remember::Call {
        let message = "this approval cannot be remembered; approve the one call";
        return Err(Problem::new("remember_not_allowed", message).into());
    }
    if let Some(digest) = &args.digest
        && *digest != pending.digest
    {
        let message = format!("this is not the question with the digest {digest}");
        let hint =
            format!("`{}` shows what waits, with its digest.", contact.invocation.command("inbox --json"));
        return Err(Problem::new("not_what_was_shown", message).hint(hint).into());
    }
    if args.yes {
        return Ok(Some(answer));
    }
    let background = Background { chosen, ..contact.background(&pending.elicitation_id).await };
    if !contact.screen.can_ask() {
        return Err(nobody_asked(asked, args, &background, contact).into());
    }
    if is_decided_here {
        // What the command line says already is not asked for again; whether to approve it is.
        return Ok(terminal::confirms(asked, &background, contact.screen).await.then_some(answer));
    }
    Ok(terminal::ask_about(asked, &background, contact).await.map(|said| ResolveRequest {
        comment: said.comment.clone().or_else(|| args.comment.clone()),
        ..said
    }))
}

/// What the command line says that the approval is to cover; nothing where it leaves that to the question.
fn chosen(args: &ApproveArgs, pending: &Pending) -> Option<Coverage> {
    let is_narrowed = args.same_arguments || args.uses.is_some();
    let for_session = match args.remember {
        Some(remember) => remember == RememberArg::Session,
        None if is_narrowed => true,
        None => return None,
    };
    let args_covered = if args.same_arguments { CoveredArgs::Same } else { CoveredArgs::Any };
    let session = Coverage::Session { args: args_covered, uses: args.uses };
    (pending.kind == PendingKind::Approval).then_some(if for_session { session } else { Coverage::Call })
}

/// Shows the question whole before the hint names its digest, so that the hint invites no blind yes. JSON has no place for what is
/// shown beside it, and names where the question is.
fn nobody_asked(
    asked: &Elicitation,
    args: &ApproveArgs,
    background: &Background,
    contact: &Contact,
) -> Problem {
    let (pending, screen) = (&asked.question, contact.screen);
    screen.note(&report::question(pending, background, screen.err));
    let mut again = format!("approve {}", pending.elicitation_id);
    match background.chosen {
        None => {}
        Some(Coverage::Call) => again.push_str(" --remember call"),
        Some(Coverage::Session { .. }) => again.push_str(" --remember session"),
    }
    if args.same_arguments {
        again.push_str(" --same-arguments");
    }
    if let Some(uses) = args.uses {
        again.push_str(&format!(" --uses {uses}"));
    }
    let again = contact.invocation.command(&again);
    let message = "nobody is at this terminal to answer, and nothing was approved";
    if screen.format == Format::Json {
        let inbox = contact.invocation.command("inbox --json");
        return Problem::new("not_confirmed", message).hint(format!(
            "Run it in a terminal, or open the console. A program that has read the question from `{inbox}` passes its digest: \
             --yes --digest DIGEST"
        ));
    }
    Problem::new("not_confirmed", message).hint(format!(
        "The question is shown above. Run it in a terminal, or open the console. For scripts, once it was read: `{again} --yes \
         --digest {}`",
        pending.digest
    ))
}

fn left(screen: Screen) -> Exit {
    screen.note("It was left waiting.");
    Exit::Done
}

/// Says what was decided, and what it means for later calls.
fn announce(receipt: &ElicitationResponse, asked: &Elicitation, answer: &ResolveRequest, screen: Screen) {
    if screen.format == Format::Json {
        return;
    }
    let pending = &asked.question;
    screen.note(&report::receipt(receipt, pending, screen.err));
    screen.note(shown::block(&pending.message, "  ", screen.err).trim_end());
    let remembered = answer.remember.as_deref().unwrap_or(&pending.remember) == "session";
    if answer.approved && pending.kind == PendingKind::Approval && remembered {
        let (tool, session) = (shown::line(&pending.tool_path), shown::line(&asked.session_id));
        let arguments = match answer.remember_args.as_deref() {
            Some("same") => " with these arguments",
            _ => "",
        };
        let uses = answer.remember_uses.map(|uses| format!(", {uses} at most")).unwrap_or_default();
        screen.note(&format!(
            "Later calls of {tool}{arguments} in {session} run without asking{uses}; `grants list` says for how long. \
             (--remember call approves one call only; another --session asks anew.)"
        ));
    }
}

/// Why nothing was decided, and what to do about it.
async fn refused(problem: Problem, contact: &Contact) -> Problem {
    let inbox = contact.invocation.command("inbox");
    match problem.code.as_ref() {
        "not_found" => Problem::new("not_found", "no pending request has this id")
            .hint(format!("`{inbox}` lists what waits.")),
        "already_decided" => {
            let decision = problem
                .more
                .get("decision")
                .cloned()
                .and_then(|d| serde_json::from_value::<Decision>(d).ok());
            let names = contact.names().await;
            let by = decision.map_or_else(String::new, |d| format!(": {}", report::told_decision(&d, names)));
            problem.saying(format!("it was decided already{by}"))
        }
        "several_pending" => {
            let open =
                problem.more.get("pending").and_then(|open| open.as_array()).cloned().unwrap_or_default();
            let id =
                |one: &serde_json::Value| one.as_str().or(one["elicitationId"].as_str()).map(str::to_owned);
            let ids: String = open.iter().filter_map(id).map(|id| format!("\n  {id}")).collect();
            let message = format!("the execution waits for {} decisions; name one of them:{ids}", open.len());
            problem.saying(message).hint(format!("`{inbox}` shows each."))
        }
        "invalid_data" => {
            let lines = violations(&problem);
            problem
                .saying(format!("the answer does not fit the form:{lines}"))
                .hint(format!("Give it with --data '{{…}}'; `{inbox} --json` shows the form's schema."))
        }
        _ => problem,
    }
}
