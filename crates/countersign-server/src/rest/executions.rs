//! Executions: run, look, wait, decide and continue, stop, settle.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::{Extension, Json};
use countersign_core::digest::Digest;
use countersign_core::event::Settlement;
use countersign_core::ids::{CallNo, ExecutionId};
use countersign_kernel::ports::ExecutionFilter;
use countersign_kernel::{
    Answer, CallRequest, Caller, CancelError, Decide, ExecutionResult, Follow, Patience, RunRequest, Target,
};
use countersign_sdk::{PrincipalId, SessionId};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::IntoParams;

use super::body::{Body, Named, Params};
use super::own;
use super::pages::{MAX_LIMIT, Part};
use crate::access::Credential;
use crate::refusal::Refusal;
use crate::session::{Through, named_session, own_session};
use crate::shared::Shared;
use crate::{trace, wire};

/// What the caller reads of an execution that was stopped over REST.
const STOPPED: &str = "stopped by its caller or a person";

/// Run a tool or a script
///
/// Answers once it ends or first waits for a person; with `waitMs`, once it ends or the time is up. It goes on either way.
#[utoipa::path(post, operation_id = "startExecution", path = "/api/executions", tag = "executions", request_body = wire::ExecuteRequest, responses(
    (status = 200, description = "As it stands: final, paused, or still running", body = wire::ExecutionResult),
    (status = "4XX", description = "It was not accepted; nothing ran", body = wire::Problem, content_type = "application/problem+json"),
))]
pub(super) async fn start(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Body(request): Body<wire::ExecuteRequest>,
) -> Result<Json<wire::ExecutionResult>, Refusal> {
    let patience = match request.wait_ms {
        None => Patience::UntilPausedWithin(shared.limits.wait),
        Some(ms) => Patience::AtMost(wait(&shared, ms)?),
    };
    let session = session(&shared, &caller, request.session_id.as_deref()).await?;
    let key = request.idempotency_key;
    let begun = match (request.code, request.tool) {
        (Some(source), None) if request.args.is_none() => {
            let run = RunRequest { source, caller, session, key, patience };
            shared.gateway.begin_run(run, Follow::No).await?
        }
        (None, Some(path)) => {
            let args = request.args.unwrap_or_else(|| json!({}));
            let call = CallRequest { path, args, caller, session, key, patience };
            shared.gateway.begin_call(call, Follow::No).await?
        }
        _ => {
            return Err(Refusal::bad_request("bad_request", "give either `code`, or `tool` with its `args`"));
        }
    };
    let result = tokio::select! {
        waited = shared.gateway.wait_for(&begun, patience) => waited?,
        () = shared.stop.cancelled() => shared.gateway.wait_for(&begun, last_patience(&shared)).await?,
    };
    Ok(answer(&shared, &result))
}

/// Which executions.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(super) struct Wanted {
    /// Only those that stand here: one status, or several with commas.
    status: Option<String>,
    /// Only those of this session.
    session_id: Option<String>,
    /// Only what this principal asked for.
    requester: Option<String>,
    /// `nextCursor` of the part before.
    cursor: Option<String>,
    /// How many items at most, 1 to 1,000; 50 where nothing is said.
    limit: Option<usize>,
}

/// List executions, newest first
///
/// Whoever may not decide sees their own.
#[utoipa::path(get, operation_id = "listExecutions", path = "/api/executions", tag = "executions", params(Wanted), responses(
    (status = 200, description = "A part of the list", body = wire::List<wire::ExecutionSummary>),
    (status = "4XX", description = "Not granted", body = wire::Problem, content_type = "application/problem+json"),
))]
pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Params(wanted): Params<Wanted>,
) -> Result<Json<wire::List<wire::ExecutionSummary>>, Refusal> {
    let status = wanted.status.as_deref().map(statuses).transpose()?.unwrap_or_default();
    let bad = |what: &str| Refusal::bad_request("bad_request", format!("`{what}` is not of the right form"));
    let session =
        wanted.session_id.map(|id| SessionId::parse(&id)).transpose().map_err(|_| bad("sessionId"))?;
    let requester =
        wanted.requester.map(|id| PrincipalId::parse(&id)).transpose().map_err(|_| bad("requester"))?;
    let page = Part { cursor: wanted.cursor, limit: wanted.limit }.page()?;
    let requester = match (own::scope(&caller), requester) {
        (Some(own), Some(asked)) if own != asked => return Ok(Json(wire::List::whole(Vec::new()))),
        (own, asked) => own.or(asked),
    };
    let filter = ExecutionFilter { status, requester, session };
    let part = shared.gateway.executions(filter, page).await?;
    let (items, damaged) = (part.items.iter().map(Into::into), part.damaged.iter().map(Into::into));
    Ok(Json(wire::List { items: items.collect(), next_cursor: part.next, damaged: damaged.collect() }))
}

/// How long to wait.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(super) struct Waiting {
    /// Wait up to so many milliseconds, until it is final or asks anew.
    wait_ms: Option<u64>,
}

/// One execution
///
/// With `waitMs`, answers once it is final or asks something it does not ask now.
#[utoipa::path(get, operation_id = "getExecution", path = "/api/executions/{id}", tag = "executions", params(("id" = String, Path, description = "`exec_…`"), Waiting), responses(
    (status = 200, description = "As it stands", body = wire::ExecutionResult),
    (status = 404, description = "There is no such execution of yours", body = wire::Problem, content_type = "application/problem+json"),
))]
pub(super) async fn one(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Named(id): Named<String>,
    Params(waiting): Params<Waiting>,
) -> Result<Json<wire::ExecutionResult>, Refusal> {
    let id = own::execution(&shared, &caller, &id).await?.id;
    let result = match waiting.wait_ms {
        None | Some(0) => shared.gateway.result(id).await?,
        Some(ms) => {
            let limit = wait(&shared, ms)?;
            tokio::select! {
                waited = shared.gateway.wait_anew(id, limit) => waited?,
                // A server that stops answers with how it stands; the execution is in the store.
                () = shared.stop.cancelled() => shared.gateway.result(id).await?,
            }
        }
    };
    Ok(answer(&shared, &result.ok_or_else(|| Refusal::not_found("there is no such execution"))?))
}

/// Which part of a journal.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct JournalWanted {
    /// `nextCursor` of the part before.
    cursor: Option<String>,
    /// How many events at most, 1 to 1,000; 1,000 where nothing is said.
    limit: Option<usize>,
}

/// The timeline of an execution
///
/// A part has at most 4 MiB of events.
#[utoipa::path(get, operation_id = "getJournal", path = "/api/executions/{id}/journal", tag = "executions", params(("id" = String, Path, description = "`exec_…`"), JournalWanted), responses(
    (status = 200, description = "The events, in order", body = wire::List<wire::JournalEvent>),
    (status = 400, description = "The cursor or the limit is not of the right form", body = wire::Problem, content_type = "application/problem+json"),
    (status = 404, description = "There is no such execution of yours", body = wire::Problem, content_type = "application/problem+json"),
))]
pub(super) async fn journal(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Named(id): Named<String>,
    Params(wanted): Params<JournalWanted>,
) -> Result<Json<wire::List<Value>>, Refusal> {
    let limit = Part { cursor: None, limit: wanted.limit.or(Some(MAX_LIMIT)) }.limit()?;
    let bad_cursor = |_| Refusal::bad_request("bad_cursor", "the cursor is not from an earlier page");
    let from =
        wanted.cursor.map(|cursor| cursor.parse::<u64>()).transpose().map_err(bad_cursor)?.unwrap_or(0);
    let id = own::execution(&shared, &caller, &id).await?.id;
    let part = shared.gateway.journal_part(id, from, limit).await?;
    let items = part.events.iter().map(|event| json!(event)).collect();
    let next_cursor = part.next.map(|next| next.to_string());
    Ok(Json(wire::List { next_cursor, ..wire::List::whole(items) }))
}

/// Decide the only question an execution waits for, and continue
#[utoipa::path(post, operation_id = "resumeExecution", path = "/api/executions/{id}/resume", tag = "executions", params(("id" = String, Path, description = "`exec_…`")), request_body = wire::ResumeRequest, responses(
    (status = 200, description = "What came of it: final, or paused anew", body = wire::ExecutionResult),
    (status = 403, description = "This credential may not decide", body = wire::Problem, content_type = "application/problem+json"),
    (status = 409, description = "Decided otherwise already, or several questions are open", body = wire::Problem, content_type = "application/problem+json"),
    (status = 410, description = "It has expired", body = wire::Problem, content_type = "application/problem+json"),
))]
pub(super) async fn resume(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Extension(credential): Extension<Credential>,
    headers: HeaderMap,
    Named(id): Named<String>,
    Body(request): Body<wire::ResumeRequest>,
) -> Result<Json<wire::ExecutionResult>, Refusal> {
    let id = own::execution(&shared, &caller, &id).await?.id;
    let answer_given = match request.approved {
        // The question of a moment, answered: it covers what it asked about.
        true => Answer::Approve { covers: None, data: request.data },
        false => Answer::Deny,
    };
    let digest = shown(request.digest.as_deref())?;
    let target = match (&request.elicitation_id, digest) {
        (None, None) => Target::Execution(id),
        (None, Some(digest)) => Target::ShownBy(id, digest),
        (Some(seen), digest) => {
            let row = own::elicitation(&shared, &caller, seen).await?;
            if row.execution != id {
                return Err(Refusal::not_found("there is no such elicitation of this execution"));
            }
            let id = row.elicitation.id;
            digest.map_or(Target::Elicitation(id), |digest| Target::Shown(id, digest))
        }
    };
    let channel = channel(credential, &headers).to_owned();
    let decide = Decide { target, by: caller, channel, answer: answer_given, comment: None };
    if let Err(error) = shared.gateway.decide(decide).await {
        return Err(super::elicitation::not_taken(&shared, error).await);
    }
    let result = tokio::select! {
        waited = shared.gateway.wait(id, Patience::UntilPausedWithin(shared.limits.wait)) => waited?,
        () = shared.stop.cancelled() => shared.gateway.wait(id, last_patience(&shared)).await?,
    };
    Ok(answer(&shared, &result.ok_or_else(|| Refusal::not_found("there is no such execution"))?))
}

/// Stop an execution
#[utoipa::path(post, operation_id = "cancelExecution", path = "/api/executions/{id}/cancel", tag = "executions", params(("id" = String, Path, description = "`exec_…`")), responses(
    (status = 200, description = "It was stopped", body = wire::ExecutionResult),
    (status = 202, description = "A call is past the point of return; it is stopped when that has ended", body = wire::ExecutionResult),
    (status = 409, description = "It has ended, or a call of it may have had its effect", body = wire::Problem, content_type = "application/problem+json"),
))]
pub(super) async fn cancel(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Named(id): Named<String>,
) -> Result<(axum::http::StatusCode, Json<wire::ExecutionResult>), Refusal> {
    let id = own::execution(&shared, &caller, &id).await?.id;
    match shared.gateway.cancel(id, &caller, STOPPED).await {
        Ok(result) => Ok((axum::http::StatusCode::OK, answer(&shared, &result))),
        Err(CancelError::Stopping) => {
            let result = shared.gateway.result(id).await?;
            let result = result.ok_or_else(|| Refusal::not_found("there is no such execution"))?;
            Ok((axum::http::StatusCode::ACCEPTED, answer(&shared, &result)))
        }
        Err(error) => Err(error.into()),
    }
}

/// Say what became of a call that is in doubt
#[utoipa::path(post, operation_id = "settleExecution", path = "/api/executions/{id}/settle", tag = "executions", params(("id" = String, Path, description = "`exec_…`")), request_body = wire::SettleRequest, responses(
    (status = 200, description = "As it stands now", body = wire::ExecutionResult),
    (status = 403, description = "This credential may not settle", body = wire::Problem, content_type = "application/problem+json"),
    (status = 409, description = "The call is not in doubt", body = wire::Problem, content_type = "application/problem+json"),
))]
pub(super) async fn settle(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Named(id): Named<String>,
    Body(request): Body<wire::SettleRequest>,
) -> Result<Json<wire::ExecutionResult>, Refusal> {
    let id = own::execution(&shared, &caller, &id).await?.id;
    let settlement = match request.settlement {
        wire::Settlement::Done => {
            let value = request.value.unwrap_or(Value::Null);
            fits(&shared, id, request.call, &value).await?;
            let value = countersign_core::canonical::Verbatim::of(&value)
                .map_err(|error| Refusal::new(422, error.code(), error.to_string()))?;
            Settlement::Done { value }
        }
        wire::Settlement::Failed => Settlement::Failed {
            message: request.reason.unwrap_or_else(|| "a person settled it as failed".to_owned()),
        },
        wire::Settlement::Retry => Settlement::Retry,
    };
    let result = shared.gateway.settle(id, CallNo(request.call), settlement, &caller).await?;
    Ok(answer(&shared, &result))
}

/// Whoever waits for the value relies on the tool's output schema.
async fn fits(shared: &Shared, id: ExecutionId, call: u32, value: &Value) -> Result<(), Refusal> {
    let Some(result) = shared.gateway.result(id).await? else { return Ok(()) };
    let path =
        usize::try_from(call).ok().and_then(|call| result.calls.get(call)).map(|call| call.path.as_str());
    let catalog = shared.gateway.catalog();
    let Some(tool) = path.and_then(|path| catalog.get(path)) else { return Ok(()) };
    tool.tool().check_output(value).map_err(|found| {
        let violations: Vec<String> = found.iter().map(ToString::to_string).collect();
        let detail = format!("the value is not what {} gives: {}", tool.path(), violations.join("; "));
        Refusal::new(422, "invalid_output", detail).with("violations", json!(violations))
    })
}

/// What our own command line calls itself. Anybody may call themselves so: a channel is a word for the record, not a proof.
const COMMAND_LINE: &str = "countersign-cli/";

/// How a decision that came this way is recorded.
pub(super) fn channel(credential: Credential, headers: &HeaderMap) -> &'static str {
    let agent = headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok());
    match credential {
        Credential::Bearer if agent.is_some_and(|agent| agent.starts_with(COMMAND_LINE)) => "cli",
        Credential::Bearer => "rest",
        Credential::Cookie(_) => "console",
    }
}

/// The digest of what a decider was shown, if they say it.
pub(super) fn shown(digest: Option<&str>) -> Result<Option<Digest>, Refusal> {
    let parsed = digest.map(|text| serde_json::from_value(text.into())).transpose();
    parsed.map_err(|_| Refusal::new(422, "bad_request", "`digest` is the digest of an elicitation"))
}

fn answer(shared: &Shared, result: &ExecutionResult) -> Json<wire::ExecutionResult> {
    trace::execution(result.execution);
    Json(wire::ExecutionResult::of(result, &shared.links))
}

async fn session(shared: &Shared, caller: &Caller, id: Option<&str>) -> Result<SessionId, Refusal> {
    let Some(id) = id else { return Ok(own_session(&shared.gateway, caller, Through::Rest).await?) };
    let id = SessionId::parse(id)
        .map_err(|error| Refusal::new(422, "bad_session", format!("`sessionId`: {error}")))?;
    Ok(named_session(&shared.gateway, caller, id).await?)
}

/// How long a server that stops still waits: what asks is answered at once, and what runs may come to its end while
/// there is time to say so.
fn last_patience(shared: &Shared) -> Patience {
    Patience::UntilPausedWithin(shared.limits.drain / 2)
}

fn wait(shared: &Shared, ms: u64) -> Result<Duration, Refusal> {
    let longest = shared.limits.wait;
    let asked = Duration::from_millis(ms);
    if asked > longest {
        let detail = format!("`waitMs` is at most {}; ask again to wait longer", longest.as_millis());
        return Err(Refusal::bad_request("wait_too_long", detail));
    }
    Ok(asked)
}

fn statuses(text: &str) -> Result<Vec<countersign_core::execution::Status>, Refusal> {
    let one = |word: &str| {
        let status: Result<wire::Status, _> = serde_json::from_value(json!(word.trim()));
        status.map(Into::into).map_err(|_| {
            let detail = format!(
                "{word:?} is no status; there are running, paused, in_doubt, succeeded, failed and cancelled"
            );
            Refusal::bad_request("bad_request", detail)
        })
    };
    text.split(',').map(one).collect()
}
