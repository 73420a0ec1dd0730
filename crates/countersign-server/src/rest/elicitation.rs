//! Elicitations: what waits for a person, and the decision.

use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::{Extension, Json};
use countersign_core::digest::Digest;
use countersign_core::ids::ExecutionId;
use countersign_kernel::ports::{ElicitationFilter, TokenRow};
use countersign_kernel::{Answer, Caller, Decide, DecideError, GatewayError, Target};
use countersign_sdk::Remember;
use serde::Deserialize;
use serde_json::json;
use utoipa::IntoParams;

use super::body::{Body, Named, Params};
use super::executions::channel;
use super::own;
use super::pages::Part;
use crate::access::Proof;
use crate::refusal::Refusal;
use crate::shared::Shared;
use crate::wire;

/// Which elicitations.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(super) struct Wanted {
    /// `pending`: those nobody decided. Nothing said: all.
    status: Option<String>,
    /// Only this execution's.
    execution_id: Option<String>,
    /// Only those bound to this digest: earlier decisions on the same thing.
    digest: Option<String>,
    /// `nextCursor` of the part before.
    cursor: Option<String>,
    /// How many items at most, 1 to 1,000; 50 where nothing is said.
    limit: Option<usize>,
}

/// List elicitations, oldest first
///
/// Whoever may not decide sees those of their own executions.
#[utoipa::path(get, operation_id = "listElicitations", path = "/api/elicitation", tag = "elicitations", params(Wanted), responses(
    (status = 200, description = "A part of the list", body = wire::List<wire::Elicitation>),
    (status = "4XX", description = "Not granted", body = wire::Problem, content_type = "application/problem+json"),
))]
pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Params(wanted): Params<Wanted>,
) -> Result<Json<wire::List<wire::Elicitation>>, Refusal> {
    let open_only = match wanted.status.as_deref() {
        None => false,
        Some("pending") => true,
        Some(_) => {
            return Err(Refusal::bad_request("bad_request", "`status` is `pending`, or left out for all"));
        }
    };
    let bad = |what: &str| Refusal::bad_request("bad_request", format!("`{what}` is not of the right form"));
    let execution = wanted
        .execution_id
        .map(|id| id.parse::<ExecutionId>())
        .transpose()
        .map_err(|_| bad("executionId"))?;
    let digest: Option<Digest> = wanted
        .digest
        .map(|text| serde_json::from_value(text.into()))
        .transpose()
        .map_err(|_| bad("digest"))?;
    let filter = ElicitationFilter { open_only, execution, digest, requester: own::scope(&caller) };
    let page = Part { cursor: wanted.cursor, limit: wanted.limit }.page()?;
    let part = shared.gateway.elicitations(filter, page).await?;
    let mut items: Vec<_> = part.items.iter().map(|row| wire::Elicitation::of(row, &shared.links)).collect();
    named(&shared, &mut items).await?;
    Ok(Json(wire::List { items, next_cursor: part.next }))
}

/// One elicitation
#[utoipa::path(get, operation_id = "getElicitation", path = "/api/elicitation/{id}", tag = "elicitations", params(("id" = String, Path, description = "`eli_…`, or its `exec_…` while that waits for only one")), responses(
    (status = 200, description = "The question, and its decision if it has one", body = wire::Elicitation),
    (status = 404, description = "There is no such elicitation of yours", body = wire::Problem, content_type = "application/problem+json"),
))]
pub(super) async fn one(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Named(id): Named<String>,
) -> Result<Json<wire::Elicitation>, Refusal> {
    let row = own::elicitation(&shared, &caller, &id).await?;
    let mut item = [wire::Elicitation::of(&row, &shared.links)];
    named(&shared, &mut item).await?;
    let [item] = item;
    Ok(Json(item))
}

/// Adds what people call those who ask and those who decide.
pub(super) async fn named(shared: &Shared, items: &mut [wire::Elicitation]) -> Result<(), GatewayError> {
    if items.is_empty() {
        return Ok(());
    }
    let tokens = shared.gateway.tokens().await?;
    for item in items {
        item.requester_name = name(&tokens, &item.requester);
        if let Some(decision) = &mut item.decision {
            decision.by_name = name(&tokens, &decision.by);
        }
    }
    Ok(())
}

fn name(tokens: &[TokenRow], principal: &str) -> Option<String> {
    let token = tokens.iter().find(|token| token.principal.id.as_str() == principal);
    token.map(|token| token.name.clone())
}

/// Why a decision was not taken; where somebody was faster, with what people call them.
async fn not_taken(shared: &Shared, error: DecideError) -> Refusal {
    let DecideError::Decided(made) = &error else { return error.into() };
    let mut made = wire::Decision::from(&**made);
    // A name that cannot be had is no reason to hide the decision.
    made.by_name = shared.gateway.tokens().await.ok().and_then(|tokens| name(&tokens, &made.by));
    Refusal::from(error).with("decision", json!(made))
}

/// Decide an elicitation
///
/// Answered with 200 only once the decision is durable. The same decider saying the same again gets the same answer.
#[utoipa::path(post, operation_id = "resolveElicitation", path = "/api/elicitation/{id}/resolve", tag = "elicitations", params(("id" = String, Path, description = "`eli_…`, or its `exec_…` while that waits for only one")), request_body = wire::ResolveRequest, responses(
    (status = 200, description = "This is now the decision", body = wire::ElicitationResponse),
    (status = 403, description = "This credential may not decide", body = wire::Problem, content_type = "application/problem+json"),
    (status = 404, description = "There is no such elicitation", body = wire::Problem, content_type = "application/problem+json"),
    (status = 409, description = "Decided otherwise already, with `decision`; or several are pending, with `pending`", body = wire::Problem, content_type = "application/problem+json"),
    (status = 410, description = "It has expired", body = wire::Problem, content_type = "application/problem+json"),
    (status = 422, description = "The data does not fit the form", body = wire::Problem, content_type = "application/problem+json"),
))]
pub(super) async fn resolve(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Extension(proof): Extension<Proof>,
    headers: HeaderMap,
    Named(id): Named<String>,
    Body(request): Body<wire::ResolveRequest>,
) -> Result<Json<wire::ElicitationResponse>, Refusal> {
    let target = own::target(&id)?;
    if let Some(execution) = &request.execution_id {
        belongs(&shared, target, execution).await?;
    }
    let remember = match request.remember.as_deref() {
        None => None,
        Some("call") => Some(Remember::Call),
        Some("session") => Some(Remember::Session),
        Some(_) => return Err(Refusal::new(422, "bad_request", "`remember` is `call` or `session`")),
    };
    let answer = match request.approved {
        true => Answer::Approve { remember, data: request.data },
        false => Answer::Deny,
    };
    let channel = channel(&proof, &headers).to_owned();
    let decide = Decide { target, by: caller, channel, answer, comment: request.comment };
    match shared.gateway.decide(decide).await {
        Ok(receipt) => Ok(Json(wire::ElicitationResponse::from(&receipt))),
        Err(error) => Err(not_taken(&shared, error).await),
    }
}

/// Makes sure that the question is this execution's: a decider who names both must mean one thing.
async fn belongs(shared: &Shared, target: Target, execution: &str) -> Result<(), Refusal> {
    let actual = match target {
        Target::Execution(id) => Some(id),
        Target::Elicitation(id) => shared.gateway.elicitation(id).await?.map(|row| row.execution),
    };
    match actual {
        Some(id) if id.to_string() == execution => Ok(()),
        _ => Err(Refusal::not_found("there is no such elicitation of this execution")),
    }
}
