//! What a request brings: a JSON body, and parameters of its address. What does not fit is said in our own words.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::header;
use axum::http::request::Parts;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::de::DeserializeOwned;

use crate::access::is_json;
use crate::refusal::Refusal;
use crate::shared::Shared;

/// A JSON body.
pub(crate) struct Body<T>(pub(crate) T);

/// The named parts of the address. What is no text names nothing.
pub(crate) struct Named<T>(pub(crate) T);

/// Parameters after the `?`.
pub(crate) struct Params<T>(pub(crate) T);

/// What a page's form sent, as it came.
pub(crate) struct Form(pub(crate) String);

impl<T: DeserializeOwned> FromRequest<Arc<Shared>> for Body<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, shared: &Arc<Shared>) -> Result<Self, Refusal> {
        let kind = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        if !kind.is_some_and(is_json) {
            // The door refuses other types; none at all comes this far.
            return Err(Refusal::forbidden("not_json", "send `Content-Type: application/json`"));
        }
        serde_json::from_slice(&whole(request, shared).await?)
            .map(Self)
            .map_err(|error| Refusal::bad_request("bad_request", format!("the body does not fit: {error}")))
    }
}

impl FromRequest<Arc<Shared>> for Form {
    type Rejection = Refusal;

    async fn from_request(request: Request, shared: &Arc<Shared>) -> Result<Self, Refusal> {
        let bytes = whole(request, shared).await?;
        Ok(Self(String::from_utf8_lossy(&bytes).into_owned()))
    }
}

/// Reads a body to its end. A client that never gets there keeps its connection only so long.
async fn whole(request: Request, shared: &Arc<Shared>) -> Result<Bytes, Refusal> {
    let bounded = Limited::new(request.into_body(), shared.limits.body_bytes);
    let Ok(read) = tokio::time::timeout(shared.limits.sending, bounded.collect()).await else {
        return Err(Refusal::new(408, "body_too_slow", "the body did not come in time; send it again"));
    };
    read.map(http_body_util::Collected::to_bytes).map_err(|error| match error.is::<LengthLimitError>() {
        true => Refusal::new(413, "body_too_large", "the body is larger than this server takes"),
        false => Refusal::bad_request("bad_body", "the body ended early"),
    })
}

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Named<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let path = Path::<T>::from_request_parts(parts, state).await;
        path.map(|Path(named)| Self(named)).map_err(|_| Refusal::not_found("there is nothing of this name"))
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Params<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let query = Query::<T>::from_request_parts(parts, state).await;
        query.map(|Query(params)| Self(params)).map_err(|rejection: QueryRejection| {
            Refusal::bad_request(
                "bad_request",
                format!("the parameters do not fit: {}", rejection.body_text()),
            )
        })
    }
}
