//! The console's way to everything it shows: the public REST routes, asked inside the process.
//!
//! Promise: who may not read something over REST does not find it on a page. Each question passes the table of routes with
//! the reader's own role.

use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request, StatusCode, header};
use axum::middleware;
use countersign_kernel::Caller;
use http_body_util::BodyExt as _;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tower::ServiceExt as _;

use crate::access::{self, Credential};
use crate::refusal::Refusal;
use crate::wire;

/// REST, from inside.
#[derive(Clone)]
pub(crate) struct Api {
    rest: Router,
}

impl Api {
    /// Asks these routes.
    pub(crate) fn over(rest: Router) -> Self {
        Self { rest: rest.layer(middleware::from_fn(access::admit)) }
    }

    /// What a GET answers to this reader.
    pub(super) async fn get<T: DeserializeOwned>(
        &self,
        reader: &Caller,
        path: &str,
    ) -> Result<T, wire::Problem> {
        self.ask(reader, Method::GET, path, Body::empty()).await
    }

    /// What a POST answers that changes nothing, such as an explanation.
    pub(super) async fn ask_about<T: DeserializeOwned>(
        &self,
        reader: &Caller,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, wire::Problem> {
        let body = serde_json::to_vec(body).map_err(|_| unreadable("a question could not be written"))?;
        self.ask(reader, Method::POST, path, Body::from(body)).await
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        reader: &Caller,
        method: Method,
        path: &str,
        body: Body,
    ) -> Result<T, wire::Problem> {
        let request =
            Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, "application/json");
        let mut request = request.body(body).map_err(|_| unreadable("this is no address"))?;
        request.extensions_mut().insert(reader.clone());
        request.extensions_mut().insert(Credential::Bearer);
        let Ok(response) = self.rest.clone().oneshot(request).await;
        let status = response.status();
        let read = response.into_body().collect().await;
        let bytes = read.map_err(|_| unreadable("an answer ended early"))?.to_bytes();
        match status {
            StatusCode::OK => serde_json::from_slice(&bytes).map_err(|error| {
                tracing::error!(%error, path, "the console cannot read what REST answered");
                unreadable("an answer could not be read")
            }),
            _ => {
                Err(serde_json::from_slice(&bytes)
                    .unwrap_or_else(|_| unreadable("an answer could not be read")))
            }
        }
    }
}

/// Parameters of an address, encoded; those without a value are left out.
pub(super) fn query(path: &str, parameters: &[(&str, Option<&str>)]) -> String {
    let mut encoded = form_urlencoded::Serializer::new(String::new());
    for (name, value) in parameters {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            encoded.append_pair(name, value);
        }
    }
    match encoded.finish() {
        none if none.is_empty() => path.to_owned(),
        some => format!("{path}?{some}"),
    }
}

/// One part of a path, encoded.
pub(super) fn segment(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20")
}

fn unreadable(detail: &str) -> wire::Problem {
    Refusal::new(500, "internal", detail).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_an_address_cannot_end_it_or_add_to_it() {
        assert_eq!(segment("a/b?c#d e&f"), "a%2Fb%3Fc%23d%20e%26f");
        assert_eq!(query("/x", &[("a", Some("1&b=2")), ("c", None), ("d", Some(""))]), "/x?a=1%26b%3D2");
        assert_eq!(query("/x", &[("a", None)]), "/x");
    }
}
