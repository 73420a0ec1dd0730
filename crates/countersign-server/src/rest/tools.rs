//! The catalog: search it, read it, and ask what policy would say.

use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use countersign_kernel::ports::ByteBudget;
use countersign_kernel::{CallError, Caller, Catalog, SessionError};
use countersign_sdk::{SessionId, ToolPath};
use serde::Deserialize;
use serde_json::json;
use utoipa::IntoParams;

use super::body::{Body, Named, Params};
use super::pages::{MAX_LIMIT, Part};
use crate::declarations::declarations as typescript;
use crate::refusal::Refusal;
use crate::session::{Through, is_own_over_rest, own_session_id};
use crate::shared::Shared;
use crate::size::json_bytes;
use crate::wire;

/// Which tools.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Wanted {
    /// Words to search for in paths, names and descriptions.
    query: Option<String>,
    /// `nextCursor` of the part before, where there is no query.
    cursor: Option<String>,
    /// How many at most, 1 to 1,000; 1,000 where nothing is said.
    limit: Option<usize>,
}

/// List or search the tools
///
/// With a query, the best so many, best first; else by path, in parts. A part has at most 4 MiB of tools.
#[utoipa::path(get, operation_id = "listTools", path = "/api/tools", tag = "tools", params(Wanted), responses(
    (status = 200, description = "The tools", body = wire::List<wire::ToolDetail>),
    (status = 400, description = "The cursor or the limit is not of the right form", body = wire::Problem, content_type = "application/problem+json"),
))]
pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
    Params(wanted): Params<Wanted>,
) -> Result<Json<wire::List<wire::ToolDetail>>, Refusal> {
    let limit = Part { cursor: None, limit: wanted.limit.or(Some(MAX_LIMIT)) }.limit()?;
    let catalog = shared.gateway.catalog();
    let Some(query) = wanted.query.filter(|query| !query.trim().is_empty()) else {
        return by_path(&catalog, wanted.cursor.as_deref(), limit).map(Json);
    };
    if wanted.cursor.is_some() {
        let detail = "a search has no parts; ask for more with `limit`, or leave out `query`";
        return Err(Refusal::bad_request("bad_cursor", detail));
    }
    let hits = catalog.search(&query, limit);
    let (items, _) = fitting(hits.iter().map(|hit| (&*hit.tool).into()), limit);
    Ok(Json(wire::List::whole(items)))
}

/// A part of the catalog. A cursor is the path of the last tool that was read.
fn by_path(
    catalog: &Catalog,
    cursor: Option<&str>,
    limit: usize,
) -> Result<wire::List<wire::ToolDetail>, Refusal> {
    let read = cursor
        .map(ToolPath::parse)
        .transpose()
        .map_err(|_| Refusal::bad_request("bad_cursor", "the cursor is not from an earlier page"))?;
    let rest: Box<dyn Iterator<Item = _>> = match &read {
        Some(path) => Box::new(catalog.after(path)),
        None => Box::new(catalog.iter()),
    };
    let (items, rest) = fitting(rest.map(|tool| (&**tool).into()), limit);
    let next_cursor = items.last().filter(|_| rest == Rest::More).map(|last| last.path.clone());
    Ok(wire::List { next_cursor, ..wire::List::whole(items) })
}

/// Whether a part of a list is the last.
#[derive(PartialEq, Eq)]
enum Rest {
    More,
    Nothing,
}

/// The tools that fit into a part: so many, and no more bytes than a part may have.
fn fitting(tools: impl Iterator<Item = wire::ToolDetail>, limit: usize) -> (Vec<wire::ToolDetail>, Rest) {
    let (mut items, mut budget) = (Vec::new(), ByteBudget::of_a_part());
    for tool in tools {
        if items.len() == limit || !budget.takes(json_bytes(&tool)) {
            return (items, Rest::More);
        }
        items.push(tool);
    }
    (items, Rest::Nothing)
}

/// One tool, with its schemas
#[utoipa::path(get, operation_id = "getTool", path = "/api/tools/{path}", tag = "tools", params(("path" = String, Path, description = "Such as `notes.delete`")), responses(
    (status = 200, description = "The tool", body = wire::ToolDetail),
    (status = 404, description = "There is no such tool; `near` says what was perhaps meant", body = wire::Problem, content_type = "application/problem+json"),
))]
pub(super) async fn one(
    State(shared): State<Arc<Shared>>,
    Named(path): Named<String>,
) -> Result<Json<wire::ToolDetail>, Refusal> {
    match shared.gateway.catalog().get(&path) {
        Some(tool) => Ok(Json((&**tool).into())),
        None => Err(missing(&shared, path)),
    }
}

/// Which tools to declare.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Declared {
    /// Paths, with commas; all tools where nothing is said.
    path: Option<String>,
}

/// What a script can call, as TypeScript
#[utoipa::path(get, operation_id = "getDeclarations", path = "/api/declarations", tag = "tools", params(Declared), responses(
    (status = 200, description = "TypeScript declarations", body = String, content_type = "text/plain"),
    (status = 404, description = "There is no such tool", body = wire::Problem, content_type = "application/problem+json"),
))]
pub(super) async fn declarations(
    State(shared): State<Arc<Shared>>,
    Params(declared): Params<Declared>,
) -> Result<String, Refusal> {
    let catalog = shared.gateway.catalog();
    let Some(paths) = declared.path else { return Ok(typescript(catalog.iter().map(|tool| &**tool))) };
    let mut tools = Vec::new();
    for path in paths.split(',').map(str::trim) {
        tools.push(catalog.get(path).ok_or_else(|| missing(&shared, path.to_owned()))?);
    }
    Ok(typescript(tools.into_iter().map(|tool| &**tool)))
}

/// What policy says of a call, and why
///
/// Nothing runs and nobody is asked.
#[utoipa::path(post, operation_id = "explainPolicy", path = "/api/policy/explain", tag = "tools", request_body = wire::ExplainRequest, responses(
    (status = 200, description = "The verdict, and every rule on the way to it", body = wire::Explanation),
    (status = 404, description = "There is no such tool", body = wire::Problem, content_type = "application/problem+json"),
))]
pub(super) async fn explain(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Body(request): Body<wire::ExplainRequest>,
) -> Result<Json<wire::Explanation>, Refusal> {
    let session = match request.session_id.as_deref() {
        Some(id) => named_to_explain(&shared, &caller, id).await?,
        // Named and not opened: nothing happens in it.
        None => own_session_id(&caller, Through::Rest)?,
    };
    let catalog = shared.gateway.catalog();
    let Some(tool) = catalog.get(&request.tool) else {
        return Err(missing(&shared, request.tool));
    };
    let args = request.args.unwrap_or_else(|| json!({}));
    // Rules see what would run: defaults filled in. What does not fit would never come to them, which is worth a word,
    // but a rule can be tried out without every argument.
    let (args, unfit) = match tool.tool().admit(args.clone()) {
        Ok(admitted) => (admitted, Vec::new()),
        Err(violations) => (args, violations.iter().map(ToString::to_string).collect()),
    };
    match shared.gateway.explain(&request.tool, &args, &caller, &session) {
        Some(explanation) => Ok(Json(wire::Explanation::of(&explanation, unfit))),
        None => Err(missing(&shared, request.tool)),
    }
}

/// A session that is named and not opened. One that the caller could not call in is not there.
async fn named_to_explain(shared: &Shared, caller: &Caller, id: &str) -> Result<SessionId, Refusal> {
    let id =
        SessionId::parse(id).map_err(|e| Refusal::new(422, "bad_session", format!("`sessionId`: {e}")))?;
    let owner = shared.gateway.session_owner(&id).await?;
    if owner.is_none_or(|owner| is_own_over_rest(&owner, caller) || caller.principal.may_decide()) {
        return Ok(id);
    }
    Err(SessionError::Taken.into())
}

fn missing(shared: &Shared, path: String) -> Refusal {
    let catalog = shared.gateway.catalog();
    let inside = catalog.inside(&path);
    if !inside.is_empty() {
        return CallError::Namespace { path, inside }.into();
    }
    let near = catalog.near(&path);
    CallError::ToolNotFound { path: path.chars().take(countersign_sdk::MAX_PATH_BYTES).collect(), near }
        .into()
}

#[cfg(test)]
mod tests {
    use countersign_kernel::ports::MAX_LISTING_BYTES;

    use super::*;

    fn tool(n: usize, bytes: usize) -> wire::ToolDetail {
        let described = json!({
            "path": format!("a.t{n}"), "name": "T", "description": "x".repeat(bytes), "source": "a", "fingerprint": "f", "effect": "writes",
            "effects": { "readOnly": false, "destructive": false, "idempotent": false, "openWorld": false },
            "effect": "writes", "inputSchema": {}, "outputSchema": {}, "serviceAccountAllowed": false,
        });
        serde_json::from_value(described).unwrap()
    }

    #[test]
    fn a_part_of_the_catalog_ends_at_its_number_or_its_bytes_and_has_one_tool_at_least() {
        let of = |count: usize, bytes: usize, limit: usize| {
            let (items, rest) = fitting((0..count).map(|n| tool(n, bytes)), limit);
            (items.len(), rest == Rest::More)
        };
        assert_eq!(of(3, 10, 3), (3, false));
        assert_eq!(of(4, 10, 3), (3, true));
        assert_eq!(of(9, MAX_LISTING_BYTES / 4, 100), (3, true), "each is a little more than a quarter");
        assert_eq!(of(2, MAX_LISTING_BYTES * 2, 100), (1, true));
        assert_eq!(of(0, 0, 100), (0, false));
    }
}
