//! The console: pages where a person sees what agents want to do, decides, and finds out later what happened.
//!
//! Promises: a page shows nothing that the public REST routes would not give its reader, because it asks them and nothing else
//! ([`Api`]); everything that came from outside is text, escaped by construction and made visible (`text.rs`); opening a page
//! changes nothing. Pages are made here; the one script (`console.js`) keeps them live, hears keys and sends decisions to REST.

mod api;
mod arguments;
mod assets;
mod audit;
mod executions;
mod form;
mod frame;
mod inbox;
mod login;
mod request;
mod schemas;
mod sessions;
mod sources;
mod text;
mod timeline;
mod tokens;
mod tools;
mod users;
mod when;

use std::sync::Arc;

use axum::routing::{get, post};
use axum::{Extension, Router};

pub(crate) use api::Api;
pub(crate) use frame::{empty_page, turned_away};

use crate::shared::Shared;

/// The pages, over REST.
pub(crate) fn routes(api: Api) -> Router<Arc<Shared>> {
    Router::new()
        .route("/", get(inbox::page))
        .route("/inbox/cards", get(inbox::cards))
        .route("/elicitations/{id}", get(request::page))
        .route("/executions", get(executions::list))
        .route("/executions/{id}", get(executions::one))
        .route("/tools", get(tools::list))
        .route("/tools/{path}", get(tools::one))
        .route("/sources", get(sources::list))
        .route("/sources/{name}", get(sources::one))
        .route("/add-source", get(sources::add))
        .route("/add-source/preview", post(sources::preview))
        .route("/sessions", get(sessions::list))
        .route("/sessions/{id}", get(sessions::one))
        .route("/audit", get(audit::page))
        .route("/tokens", get(tokens::page))
        .route("/users", get(users::page))
        .route("/assets/{name}", get(assets::one))
        .route("/login", get(login::page).post(login::log_in))
        .route("/logout", post(login::log_out))
        .layer(Extension(api))
}
