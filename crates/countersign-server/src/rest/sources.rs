//! Sources: list, add, change, refresh, accept, set effects, remove.
//!
//! Promises: whoever may decide reads them, only an admin changes them, and no agent does either. A preview keeps nothing. A
//! server without sources answers an empty list and refuses changes with `sources_not_available`.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use countersign_kernel::Caller;
use countersign_kernel::ports::{SourceConfig, SourceOrigin, Sources, SourcesError};
use serde::Deserialize;
use utoipa::IntoParams;

use super::body::{Body, Named, Params};
use super::source_parts;
use crate::refusal::Refusal;
use crate::shared::Shared;
use crate::wire;

/// What adding a source does.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct AddParams {
    /// `true` answers what the source would bring, and keeps nothing. Beyond 4 MiB, tools are without their schemas.
    #[serde(default)]
    preview: bool,
}

/// List the sources
#[utoipa::path(get, operation_id = "listSources", path = "/api/sources", tag = "sources", responses(
    (status = 200, description = "All sources, by name", body = wire::List<wire::Source>),
    (status = 403, description = "This credential may not decide", body = wire::Problem, content_type = "application/problem+json"),
))]
pub(super) async fn list(State(shared): State<Arc<Shared>>) -> Json<wire::List<wire::Source>> {
    let all = match &shared.sources {
        Some(sources) => sources.list().await,
        None => Vec::new(),
    };
    Json(wire::List::whole(all.into_iter().map(Into::into).collect()))
}

/// Add a source, or with `preview=true` see what it would bring
///
/// Its tools wait until they are accepted, unless its configuration trusts changes.
#[utoipa::path(post, operation_id = "addSource", path = "/api/sources", tag = "sources", params(AddParams), request_body = wire::SourceConfig, responses(
    (status = 200, description = "What it would bring; nothing was kept", body = wire::SourceDetail),
    (status = 201, description = "The source with its tools", body = wire::SourceDetail),
    (status = 409, description = "There is a source of this name (`source_exists`, `source_in_file`), or its tools clash with others (`source_conflict`)", body = wire::Problem, content_type = "application/problem+json"),
    (status = 422, description = "The configuration cannot be used (`invalid_source`)", body = wire::Problem, content_type = "application/problem+json"),
    (status = 501, description = "This server has no sources (`sources_not_available`)", body = wire::Problem, content_type = "application/problem+json"),
    (status = 502, description = "The source could not be read (`source_unreachable`)", body = wire::Problem, content_type = "application/problem+json"),
))]
pub(super) async fn add(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Params(params): Params<AddParams>,
    Body(request): Body<wire::SourceConfig>,
) -> Result<(StatusCode, Json<wire::SourceDetail>), Refusal> {
    let sources = available(&shared)?;
    let config = usable(request)?;
    if params.preview {
        return Ok((StatusCode::OK, Json(source_parts::in_brief(sources.preview(config).await?))));
    }
    match sources.show(&config.name).await {
        Err(SourcesError::NotFound(_)) => {}
        Err(error) => return Err(error.into()),
        Ok(there) if there.summary.origin == SourceOrigin::File => {
            return Err(SourcesError::InFile(config.name).into());
        }
        Ok(_) => {
            let detail =
                format!("there is a source {:?}; remove it first, or send PUT to change it", config.name);
            return Err(Refusal::new(409, "source_exists", detail));
        }
    }
    let added = sources.put(&caller, config).await?;
    Ok((StatusCode::CREATED, Json(source_parts::first(added))))
}

/// Which of a source's tools.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct PartParams {
    /// `nextCursor` of the part before.
    cursor: Option<String>,
}

/// Show one source with its tools
///
/// A part has at most 4 MiB of tools. Parts belong together while they have the same `digest`.
#[utoipa::path(get, operation_id = "showSource", path = "/api/sources/{name}", tag = "sources", params(("name" = String, Path, description = "The source's name"), PartParams), responses(
    (status = 200, description = "The source with its tools", body = wire::SourceDetail),
    (status = 400, description = "The cursor is not from an earlier part (`bad_cursor`)", body = wire::Problem, content_type = "application/problem+json"),
    (status = 404, description = "There is no such source", body = wire::Problem, content_type = "application/problem+json"),
))]
pub(super) async fn one(
    State(shared): State<Arc<Shared>>,
    Named(name): Named<String>,
    Params(wanted): Params<PartParams>,
) -> Result<Json<wire::SourceDetail>, Refusal> {
    let Some(sources) = &shared.sources else { return Err(SourcesError::NotFound(name).into()) };
    let detail = sources.show(&name).await?;
    match wanted.cursor {
        Some(cursor) => source_parts::behind(detail, &cursor).map(Json),
        None => Ok(Json(source_parts::first(detail))),
    }
}

/// Give a source another configuration, or add it
#[utoipa::path(put, operation_id = "putSource", path = "/api/sources/{name}", tag = "sources", params(("name" = String, Path, description = "The source's name, as in the body")), request_body = wire::SourceConfig, responses(
    (status = 200, description = "The source with its tools", body = wire::SourceDetail),
    (status = 409, description = "It is in the configuration file (`source_in_file`), or its tools clash with others (`source_conflict`)", body = wire::Problem, content_type = "application/problem+json"),
    (status = 422, description = "The configuration cannot be used (`invalid_source`)", body = wire::Problem, content_type = "application/problem+json"),
    (status = 502, description = "The source could not be read (`source_unreachable`)", body = wire::Problem, content_type = "application/problem+json"),
))]
pub(super) async fn put(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Named(name): Named<String>,
    Body(request): Body<wire::SourceConfig>,
) -> Result<Json<wire::SourceDetail>, Refusal> {
    let sources = available(&shared)?;
    let config = usable(request)?;
    if config.name != name {
        let reason =
            format!("the address names {name:?} and the body {:?}; a source keeps its name", config.name);
        return Err(SourcesError::BadConfig(reason).into());
    }
    Ok(Json(source_parts::first(sources.put(&caller, config).await?)))
}

/// Remove a source and its tools
#[utoipa::path(delete, operation_id = "removeSource", path = "/api/sources/{name}", tag = "sources", params(("name" = String, Path, description = "The source's name")), responses(
    (status = 204, description = "It is removed"),
    (status = 404, description = "There is no such source", body = wire::Problem, content_type = "application/problem+json"),
    (status = 409, description = "It is in the configuration file (`source_in_file`)", body = wire::Problem, content_type = "application/problem+json"),
))]
pub(super) async fn remove(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Named(name): Named<String>,
) -> Result<StatusCode, Refusal> {
    available(&shared)?.remove(&caller, &name).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Read anew what a source offers
#[utoipa::path(post, operation_id = "refreshSource", path = "/api/sources/{name}/refresh", tag = "sources", params(("name" = String, Path, description = "The source's name")), responses(
    (status = 200, description = "The source with its tools", body = wire::SourceDetail),
    (status = 404, description = "There is no such source", body = wire::Problem, content_type = "application/problem+json"),
    (status = 502, description = "The source could not be read (`source_unreachable`)", body = wire::Problem, content_type = "application/problem+json"),
))]
pub(super) async fn refresh(
    State(shared): State<Arc<Shared>>,
    Named(name): Named<String>,
) -> Result<Json<wire::SourceDetail>, Refusal> {
    Ok(Json(source_parts::first(available(&shared)?.refresh(&name).await?)))
}

/// Accept tools of a source as they are offered now
///
/// New and changed tools become callable; those that the source no longer offers are forgotten.
#[utoipa::path(post, operation_id = "acceptSource", path = "/api/sources/{name}/accept", tag = "sources", params(("name" = String, Path, description = "The source's name")), request_body = wire::AcceptRequest, responses(
    (status = 200, description = "The source with its tools", body = wire::SourceDetail),
    (status = 404, description = "There is no such source", body = wire::Problem, content_type = "application/problem+json"),
    (status = 409, description = "The source offers something else by now (`not_what_was_shown`), a tool does not wait (`nothing_to_accept`), or its tools clash with others (`source_conflict`)", body = wire::Problem, content_type = "application/problem+json"),
))]
pub(super) async fn accept(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Named(name): Named<String>,
    Body(request): Body<wire::AcceptRequest>,
) -> Result<Json<wire::SourceDetail>, Refusal> {
    let accepted = available(&shared)?.accept(&caller, &name, request.into()).await?;
    Ok(Json(source_parts::first(accepted)))
}

/// Say what a tool does to the world
///
/// The tool's exact path goes into the source's settings (`readOnly`, `writes` or `destructive`), nothing else of them changes, and
/// the source stays connected. Where several settings cover a tool, the worst of them counts; a setting that would thus change
/// nothing is refused. What was asked and approved about the tool is void.
#[utoipa::path(put, operation_id = "setEffect", path = "/api/sources/{name}/effects", tag = "sources", params(("name" = String, Path, description = "The source's name")), request_body = wire::EffectRequest, responses(
    (status = 200, description = "The source with its tools", body = wire::SourceDetail),
    (status = 404, description = "There is no such source", body = wire::Problem, content_type = "application/problem+json"),
    (status = 409, description = "It is in the configuration file (`source_in_file`)", body = wire::Problem, content_type = "application/problem+json"),
    (status = 422, description = "The source has no such tool, or a pattern of its settings says something worse (`invalid_source`)", body = wire::Problem, content_type = "application/problem+json"),
))]
pub(super) async fn set_effect(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Named(name): Named<String>,
    Body(request): Body<wire::EffectRequest>,
) -> Result<Json<wire::SourceDetail>, Refusal> {
    let set = available(&shared)?.set_effect(&caller, &name, request.into()).await?;
    Ok(Json(source_parts::first(set)))
}

/// Where sources are changed, if this server has any.
fn available(shared: &Shared) -> Result<&Arc<dyn Sources>, Refusal> {
    let none = "this server was started without sources; a server that `countersign serve` starts has them";
    shared.sources.as_ref().ok_or_else(|| Refusal::new(501, "sources_not_available", none))
}

fn usable(request: wire::SourceConfig) -> Result<SourceConfig, Refusal> {
    request
        .try_into()
        .map_err(|error: wire::BadSourceConfig| SourcesError::BadConfig(error.to_string()).into())
}
