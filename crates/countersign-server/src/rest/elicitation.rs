//! Elicitations: what waits for a person, and the decision.

use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::{Extension, Json};
use countersign_core::ids::{ElicitationId, ExecutionId};
use countersign_kernel::ports::{ElicitationFilter, TokenRow, UserRow};
use countersign_kernel::{Answer, Caller, Coverage, CoveredArgs, Decide, DecideError, GatewayError, Target};
use serde::Deserialize;
use serde_json::json;
use utoipa::IntoParams;

use super::body::{Body, Named, Params};
use super::executions::{channel, shown};
use super::own;
use super::pages::Part;
use crate::access::Credential;
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
    /// Only those about the same tool and arguments as this one (`eli_…`), requested for the same user: whatever was decided on
    /// the same before, in whatever session and through whatever client.
    same_as: Option<String>,
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
    let (subject, owner) = match &wanted.same_as {
        None => (None, None),
        Some(id) => {
            let row = own::elicitation(&shared, &caller, id).await?;
            (Some(row.elicitation.subject()), row.owner)
        }
    };
    let requester = own::scope(&caller);
    let filter = ElicitationFilter { open_only, execution, subject, owner, requester };
    let page = Part { cursor: wanted.cursor, limit: wanted.limit }.page()?;
    let part = shared.gateway.elicitations(filter, page).await?;
    let catalog = shared.gateway.catalog();
    let item = |row| wire::Elicitation::of(row, &shared.links).in_catalog(row, &catalog);
    let mut items: Vec<_> = part.items.iter().map(item).collect();
    named(&shared, &mut items).await?;
    let damaged = part.damaged.iter().map(Into::into).collect();
    Ok(Json(wire::List { items, next_cursor: part.next, damaged }))
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
    let mut item = [wire::Elicitation::of(&row, &shared.links).in_catalog(&row, &shared.gateway.catalog())];
    named(&shared, &mut item).await?;
    let [item] = item;
    Ok(Json(item))
}

/// Adds what people call those who ask and those who decide.
pub(super) async fn named(shared: &Shared, items: &mut [wire::Elicitation]) -> Result<(), GatewayError> {
    if items.is_empty() {
        return Ok(());
    }
    let names = Names::read(shared).await?;
    for item in items {
        item.requester_name = names.of(&item.requester);
        item.owner_name = item.owner.as_deref().and_then(|owner| names.of(owner));
        if let Some(decision) = &mut item.decision {
            decision.by_name = names.of(&decision.by);
        }
    }
    Ok(())
}

/// What people call users, and the tokens of agents and services.
struct Names {
    users: Vec<UserRow>,
    tokens: Vec<TokenRow>,
}

impl Names {
    async fn read(shared: &Shared) -> Result<Self, GatewayError> {
        Ok(Self { users: shared.gateway.users().await?, tokens: shared.gateway.tokens().await? })
    }

    fn of(&self, principal: &str) -> Option<String> {
        let user = self.users.iter().find(|user| user.id.to_string() == principal);
        let token = || self.tokens.iter().find(|token| token.principal.id.as_str() == principal);
        user.map(|user| user.name.clone()).or_else(|| token().map(|token| token.name.clone()))
    }
}

/// Why a decision was not taken; where somebody was faster, with what people call them.
pub(super) async fn not_taken(shared: &Shared, error: DecideError) -> Refusal {
    if let DecideError::NotWhatWasShown(pending) = &error {
        let pending = pending.clone();
        return now_pending(shared, error, &pending).await;
    }
    let DecideError::Decided(made) = &error else { return error.into() };
    let mut made = wire::Decision::from(&**made);
    // A name that cannot be had is no reason to hide the decision.
    made.by_name = Names::read(shared).await.ok().and_then(|names| names.of(&made.by));
    Refusal::from(error).with("decision", json!(made))
}

/// What is pending instead, whole, so that it can be shown before it is decided.
async fn now_pending(shared: &Shared, error: DecideError, ids: &[ElicitationId]) -> Refusal {
    let mut items = Vec::new();
    for id in ids {
        if let Ok(Some(row)) = shared.gateway.elicitation(*id).await {
            items.push(wire::Elicitation::of(&row, &shared.links));
        }
    }
    Refusal::from(error).with("pending", json!(items))
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
    Extension(credential): Extension<Credential>,
    headers: HeaderMap,
    Named(id): Named<String>,
    Body(request): Body<wire::ResolveRequest>,
) -> Result<Json<wire::ElicitationResponse>, Refusal> {
    let mut target = own::target(&id)?;
    if let Some(execution) = &request.execution_id {
        belongs(&shared, target, execution).await?;
    }
    if let Some(digest) = shown(request.digest.as_deref())? {
        target = match target {
            Target::Elicitation(id) | Target::Shown(id, _) => Target::Shown(id, digest),
            Target::Execution(id) | Target::ShownBy(id, _) => Target::ShownBy(id, digest),
        };
    }
    let covers = coverage(&request)?;
    let answer = match request.approved {
        true => Answer::Approve { covers, data: request.data },
        false => Answer::Deny,
    };
    let channel = channel(credential, &headers).to_owned();
    let decide = Decide { target, by: caller, channel, answer, comment: request.comment };
    match shared.gateway.decide(decide).await {
        Ok(receipt) => Ok(Json(wire::ElicitationResponse::from(&receipt))),
        Err(error) => Err(not_taken(&shared, error).await),
    }
}

/// What an approval is to cover.
fn coverage(request: &wire::ResolveRequest) -> Result<Option<Coverage>, Refusal> {
    let bad = |detail: &str| Err(Refusal::new(422, "bad_request", detail));
    let is_narrowed = request.remember_args.is_some() || request.remember_uses.is_some();
    let args = match request.remember_args.as_deref() {
        None | Some("any") => CoveredArgs::Any,
        Some("same") => CoveredArgs::Same,
        Some(_) => return bad("`rememberArgs` is `any` or `same`"),
    };
    if request.remember_uses == Some(0) {
        return bad("`rememberUses` is at least 1");
    }
    match request.remember.as_deref() {
        Some("session") => Ok(Some(Coverage::Session { args, uses: request.remember_uses })),
        _ if is_narrowed => bad("`rememberArgs` and `rememberUses` go with `remember: \"session\"`"),
        Some("call") => Ok(Some(Coverage::Call)),
        None => Ok(None),
        Some(_) => bad("`remember` is `call` or `session`"),
    }
}

/// Makes sure that the question is this execution's: a decider who names both must mean one thing.
async fn belongs(shared: &Shared, target: Target, execution: &str) -> Result<(), Refusal> {
    let actual = match target {
        Target::Execution(id) | Target::ShownBy(id, _) => Some(id),
        Target::Elicitation(id) | Target::Shown(id, _) => {
            shared.gateway.elicitation(id).await?.map(|row| row.execution)
        }
    };
    match actual {
        Some(id) if id.to_string() == execution => Ok(()),
        _ => Err(Refusal::not_found("there is no such elicitation of this execution")),
    }
}
