//! Messages as HTTP requests, with the headers of their era, and answers as they come back.

use std::pin::Pin;
use std::time::Duration;

use anyhow::Context as _;
use countersign_server::mcp::CALL_HEADER;
use futures_util::{Stream, StreamExt as _, TryStreamExt as _};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url};
use sse_stream::{Sse, SseStream};

use super::failure::Failure;
use super::message::{Kind, Message, header_value};
use super::session::Head;

/// How long a connection may take to come about.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// The most that one answer or one event may weigh.
const MAX_ANSWER: usize = 16 * 1024 * 1024;
/// How much of an answer that is none is shown.
const SHOWN: usize = 300;

pub(super) const SESSION_ID: &str = "mcp-session-id";
const PROTOCOL_VERSION: &str = "mcp-protocol-version";
const METHOD: &str = "mcp-method";
const NAME: &str = "mcp-name";
const LAST_EVENT_ID: &str = "last-event-id";
const EVENT_STREAM: &str = "text/event-stream";
const JSON: &str = "application/json";

/// Where a server is, and what opens its door.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    mcp: Url,
    authorization: Option<HeaderValue>,
}

/// Events as they arrive.
pub(super) type Events = Pin<Box<dyn Stream<Item = Result<Sse, sse_stream::Error>> + Send>>;

/// What came back.
pub(super) enum Answer {
    Events(Events),
    Json {
        text: String,
        status: StatusCode,
    },
    /// The server does not know the session; whatever was sent did not get in.
    SessionGone,
    /// The connection broke while the answer came: what it answers did get in.
    Broken,
}

/// The connections to a server.
#[derive(Clone)]
pub(super) struct Http {
    client: Client,
}

impl Place {
    /// The server at an address such as `http://127.0.0.1:7420`, with or without `/mcp`.
    pub(crate) fn at(address: &str, token: Option<&str>) -> anyhow::Result<Self> {
        let address = address.trim_end_matches('/');
        let address = address.strip_suffix("/mcp").unwrap_or(address);
        let mcp =
            Url::parse(&format!("{address}/mcp")).with_context(|| format!("{address:?} is no address"))?;
        let authorization = token.map(|token| {
            let mut value = HeaderValue::from_str(&format!("Bearer {}", token.trim()))
                .context("the token has characters that no token has")?;
            value.set_sensitive(true);
            anyhow::Ok(value)
        });
        Ok(Self { mcp, authorization: authorization.transpose()? })
    }

    /// Whether it is the server at this address.
    pub(super) fn is_at(&self, address: &str) -> bool {
        Self::at(address, None).is_ok_and(|place| place.mcp == self.mcp)
    }

    /// Whether it is on this machine.
    pub(super) fn is_loopback(&self) -> bool {
        match self.mcp.host_str() {
            Some("localhost" | "[::1]") => true,
            Some(host) => host.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback()),
            None => false,
        }
    }
}

/// How far away the server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Distance {
    /// A token for this machine has no business with a proxy. And a connection costs nothing, so each request has its own:
    /// one to a server that was killed fails before anything is sent, and not halfway.
    ThisMachine,
    Elsewhere,
}

impl Http {
    pub(super) fn new(distance: Distance) -> anyhow::Result<Self> {
        // No total timeout: a person's thinking time has no bound.
        // And no redirects: a call goes where it was sent, and nowhere a second time.
        let builder = Client::builder().connect_timeout(CONNECT_WITHIN).redirect(Policy::none());
        let builder = match distance {
            Distance::ThisMachine => builder.no_proxy().pool_max_idle_per_host(0),
            Distance::Elsewhere => builder,
        };
        Ok(Self { client: builder.build().context("the HTTP client cannot be made")? })
    }

    /// A message on its way.
    pub(super) fn post(&self, place: &Place, head: &Head, message: &Message) -> RequestBuilder {
        let request = self.client.post(place.mcp.clone()).headers(base(place));
        let request = request
            .header(ACCEPT, format!("{JSON}, {EVENT_STREAM}"))
            .header(CONTENT_TYPE, JSON)
            .body(message.text.clone());
        let Some(version) = &message.version else { return with_session(request, head) };
        let request = request.header(PROTOCOL_VERSION, header_value(version));
        match &message.kind {
            Kind::Request { method, name, .. } => {
                let request = request.header(METHOD, header_value(method));
                match name {
                    Some(name) => request.header(NAME, header_value(name)),
                    None => request,
                }
            }
            Kind::Notification { method, .. } => request.header(METHOD, header_value(method)),
            Kind::Answer { .. } => request,
        }
    }

    /// A call on its way, under a name by which it can be cancelled; or its cancellation.
    pub(super) fn post_named(
        &self,
        place: &Place,
        head: &Head,
        message: &Message,
        name: Option<&HeaderValue>,
    ) -> RequestBuilder {
        let request = self.post(place, head, message);
        match name {
            Some(name) => request.header(CALL_HEADER, name.clone()),
            None => request,
        }
    }

    /// The server's own stream of a session, or the rest of another one from after `last_event`.
    pub(super) fn stream(&self, place: &Place, head: &Head, last_event: Option<&str>) -> RequestBuilder {
        let request = self.client.get(place.mcp.clone()).headers(base(place)).header(ACCEPT, EVENT_STREAM);
        let request = with_session(request, head);
        match last_event {
            Some(id) => request.header(LAST_EVENT_ID, id),
            None => request,
        }
    }

    /// The end of a session.
    pub(super) fn leave(&self, place: &Place, head: &Head) -> RequestBuilder {
        with_session(self.client.delete(place.mcp.clone()).headers(base(place)), head)
    }
}

/// What a response is. A refusal that is a JSON-RPC message is an answer like any other.
pub(super) async fn answer(response: Response, head: &Head) -> Result<Answer, Failure> {
    let status = response.status();
    if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
        return Err(Failure::Unauthorised(status.as_u16()));
    }
    if status == StatusCode::NOT_FOUND && head.id.is_some() {
        return Ok(Answer::SessionGone);
    }
    let kind = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if kind.starts_with(EVENT_STREAM) && status.is_success() {
        return Ok(Answer::Events(events(response)));
    }
    let is_json = kind.starts_with(JSON);
    let Some(text) = whole(response).await? else { return Ok(Answer::Broken) };
    if is_json {
        return Ok(Answer::Json { text, status });
    }
    Err(refused(status, &text))
}

/// That an answer is none.
pub(super) fn refused(status: StatusCode, body: &str) -> Failure {
    Failure::Refused { status: status.as_u16(), body: body.chars().take(SHOWN).collect() }
}

fn base(place: &Place) -> HeaderMap {
    let authorization = place.authorization.clone().map(|value| (AUTHORIZATION, value));
    authorization.into_iter().collect()
}

fn with_session(request: RequestBuilder, head: &Head) -> RequestBuilder {
    let request = match &head.id {
        Some(id) => request.header(SESSION_ID, id.clone()),
        None => request,
    };
    match &head.version {
        Some(version) => request.header(PROTOCOL_VERSION, header_value(version)),
        None => request,
    }
}

async fn whole(response: Response) -> Result<Option<String>, Failure> {
    let status = response.status();
    let (mut bytes, mut chunks) = (Vec::new(), response.bytes_stream());
    while let Some(chunk) = chunks.next().await {
        let Ok(chunk) = chunk else { return Ok(None) };
        if bytes.len() + chunk.len() > MAX_ANSWER {
            return Err(refused(status, &format!("an answer of more than {MAX_ANSWER} bytes")));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

fn events(response: Response) -> Events {
    let mut since_an_end = 0;
    let bounded = response.bytes_stream().map_err(std::io::Error::other).and_then(move |chunk| {
        let ends = chunk.windows(2).any(|pair| pair == b"\n\n");
        since_an_end = if ends { chunk.len() } else { since_an_end + chunk.len() };
        let within = since_an_end <= MAX_ANSWER;
        std::future::ready(if within {
            Ok(chunk)
        } else {
            Err(std::io::Error::other(format!("an event of more than {MAX_ANSWER} bytes")))
        })
    });
    Box::pin(SseStream::from_bytes_stream(bounded))
}
