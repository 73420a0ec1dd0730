//! REST under `/api`: the routes of CONTRACT.md, and their description as OpenAPI.
//!
//! Promise: no GET changes anything (R15). Whoever may not decide sees only what is their own, and is told of everything else
//! that it is not there.

mod audit;
pub(crate) mod body;
mod configuration;
mod elicitation;
mod events;
mod executions;
mod grants;
mod identity;
mod openapi;
mod own;
mod pages;
mod sessions;
mod source_parts;
mod sources;
mod tools;
mod users;

use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) use events::Feed;
pub(crate) use identity::login_link;
pub use openapi::openapi;

use crate::refusal::Refusal;
use crate::shared::Shared;

/// The routes.
pub(crate) fn routes() -> Router<Arc<Shared>> {
    let (router, _) = described().split_for_parts();
    router.route("/openapi.json", get(openapi::document))
}

/// The routes that are described, with their description.
fn described() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::with_openapi(openapi::head())
        .routes(routes!(executions::start, executions::list))
        .routes(routes!(executions::one))
        .routes(routes!(executions::journal))
        .routes(routes!(executions::resume))
        .routes(routes!(executions::cancel))
        .routes(routes!(executions::settle))
        .routes(routes!(elicitation::list))
        .routes(routes!(elicitation::one))
        .routes(routes!(elicitation::resolve))
        .routes(routes!(events::stream))
        .routes(routes!(tools::list))
        .routes(routes!(tools::one))
        .routes(routes!(tools::declarations))
        .routes(routes!(tools::explain))
        .routes(routes!(sessions::list))
        .routes(routes!(grants::list, grants::give, grants::clear))
        .routes(routes!(grants::revoke))
        .routes(routes!(audit::list))
        .routes(routes!(audit::verify))
        .routes(routes!(identity::whoami))
        .routes(routes!(identity::standing))
        .routes(routes!(identity::tokens, identity::create_token))
        .routes(routes!(identity::revoke_token))
        .routes(routes!(identity::create_login_link))
        .routes(routes!(users::list, users::add))
        .routes(routes!(users::change))
        .routes(routes!(users::invite))
        .routes(routes!(sources::list, sources::add))
        .routes(routes!(sources::one, sources::put, sources::remove))
        .routes(routes!(sources::refresh))
        .routes(routes!(sources::accept))
        .routes(routes!(sources::set_effect))
        .routes(routes!(configuration::in_force))
}

/// There is nothing at this address.
pub(crate) async fn nothing_here() -> Refusal {
    Refusal::not_found("there is nothing at this address")
}

/// There is something, but not for this method.
pub(crate) async fn not_that_method() -> Refusal {
    Refusal::new(405, "method_not_allowed", "this address does not take this method")
}
