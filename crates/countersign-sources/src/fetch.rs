//! Reading a document: a file, or what a URL answers.
//!
//! Promises: a document that was seen before is told as the same without being looked into. Documents often lie on another host
//! than the service that they describe: the credentials are sent only to the origin of the service, and only where the operator
//! named it.

use std::path::Path;

use countersign_core::digest::Digest;
use countersign_kernel::ports::SourcesError;
use url::Url;

use crate::connect::{Connecting, bad, is_url};
use crate::http::{Answer, Credential, Exchange, Extent, HttpLimits, Intent};
use crate::request::HttpRequest;

/// The largest document that is read.
const MAX_DOCUMENT_BYTES: usize = 32 << 20;

/// Stands for a document that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    digest: Digest,
    /// Its `ETag`, with which it is asked for again.
    tag: Option<String>,
}

/// What became of a document that was asked for.
pub(crate) enum Fetched {
    /// It is the one that was seen.
    Same,
    Read(Vec<u8>, Seen),
}

impl Connecting<'_> {
    /// A document at its place.
    pub(crate) async fn document(&self, place: &str, service: Option<&str>) -> Result<Fetched, SourcesError> {
        if is_url(place) {
            let is_service = service.is_some_and(|service| is_same_origin(place, service));
            let credentials = if is_service { self.credentials()? } else { Vec::new() };
            let accept = "application/json, application/yaml, text/yaml, */*;q=0.1".to_owned();
            let tag = self.seen.as_ref().and_then(|seen| seen.tag.clone());
            let tag = tag.map(|tag| ("if-none-match".to_owned(), tag));
            let request = HttpRequest {
                method: "GET".to_owned(),
                url: place.to_owned(),
                headers: [("accept".to_owned(), accept)].into_iter().chain(tag).collect(),
                body: None,
            };
            return self.fetched(request, credentials).await;
        }
        let path = Path::new(place).to_owned();
        let read = tokio::task::spawn_blocking(move || -> std::io::Result<Option<Vec<u8>>> {
            let metadata = std::fs::metadata(&path)?;
            // A device or a pipe may have no end.
            if !metadata.is_file() {
                return Err(std::io::Error::other("it is no regular file"));
            }
            if metadata.len() > MAX_DOCUMENT_BYTES as u64 {
                return Ok(None);
            }
            std::fs::read(path).map(Some)
        });
        match read.await {
            Ok(Ok(Some(bytes))) => self.told_apart(bytes, None).await,
            Ok(Ok(None)) => Err(bad(format!("{place} has more than {MAX_DOCUMENT_BYTES} bytes"))),
            Ok(Err(error)) => Err(bad(format!("{place} cannot be read: {error}"))),
            Err(_) => Err(bad(format!("{place} could not be read"))),
        }
    }

    /// What a URL answers.
    pub(crate) async fn fetched(
        &self,
        request: HttpRequest,
        credentials: Vec<Credential>,
    ) -> Result<Fetched, SourcesError> {
        let url = request.url.clone();
        let limits = HttpLimits { body_bytes: MAX_DOCUMENT_BYTES, ..HttpLimits::default() };
        let is_unauthenticated = credentials.is_empty() && !self.config.credentials.is_empty();
        let was_tagged = request.header("if-none-match").is_some();
        let client = self.client(limits, credentials)?;
        let unreachable = |reason: String| SourcesError::Unreachable(format!("{url}: {reason}"));
        match client.send(request, Intent::Read).await {
            Exchange::Answered(Answer { extent: Extent::Cut { limit_bytes }, .. }) => {
                Err(unreachable(format!("it has more than {limit_bytes} bytes")))
            }
            Exchange::Answered(Answer { status: 304, .. }) if was_tagged => Ok(Fetched::Same),
            Exchange::Answered(answer) if (200..300).contains(&answer.status) => {
                let tag = answer.header("etag").map(ToOwned::to_owned);
                self.told_apart(answer.body, tag).await
            }
            Exchange::Answered(Answer { status: status @ (401 | 403), .. }) if is_unauthenticated => {
                let advice =
                    "the credentials are sent to a document only where `server` names the same origin";
                Err(unreachable(format!("it answered {status}; {advice}")))
            }
            Exchange::Answered(Answer { status, .. }) => Err(unreachable(format!("it answered {status}"))),
            Exchange::NotSent(reason) => Err(unreachable(reason.to_string())),
            Exchange::Lost(reason) => Err(unreachable(reason.to_string())),
        }
    }

    /// The document, unless it is the one that was seen.
    async fn told_apart(&self, bytes: Vec<u8>, tag: Option<String>) -> Result<Fetched, SourcesError> {
        let digested = tokio::task::spawn_blocking(move || (Digest::of(&bytes), bytes)).await;
        let (digest, bytes) = digested.map_err(|_| bad("the document could not be read"))?;
        match &self.seen {
            Some(seen) if seen.digest == digest => Ok(Fetched::Same),
            _ => Ok(Fetched::Read(bytes, Seen { digest, tag })),
        }
    }
}

fn is_same_origin(one: &str, other: &str) -> bool {
    let origin = |url: &str| Url::parse(url).ok().map(|url| url.origin()).filter(url::Origin::is_tuple);
    origin(one).is_some_and(|one| Some(one) == origin(other))
}
