//! The client: one request to one source, under the guard.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use countersign_kernel::ports::{Clock, Entropy, SystemClock, SystemEntropy};
use futures_util::StreamExt;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue, LOCATION, USER_AGENT};
use reqwest::{Client, Method, Response, Url};
use tokio::time::Instant;

use crate::http::address::{AddressPolicy, AddressRefused};
use crate::http::breaker::{Breaker, Report};
use crate::http::credentials::{self, Credential};
use crate::http::exchange::{Answer, Exchange, Extent, Intent, Lost, LostStage, NotSent};
use crate::http::resolver::{GuardedResolver, check_literal};
use crate::http::retry::wait_before_retry;
use crate::request::HttpRequest;
use crate::secrets::Secrets;

/// How many redirects of a read are followed.
const MAX_REDIRECTS: usize = 5;
const OUR_NAME: &str = concat!("countersign/", env!("CARGO_PKG_VERSION"));
/// Headers that belong to the connection or to the credentials' origin; a request that sets one is refused.
const RESERVED_HEADERS: [&str; 11] = [
    "connection",
    "content-length",
    "host",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// How a source is reached.
#[derive(Debug, Clone, Default)]
pub struct HttpOptions {
    /// Which addresses it may be at.
    pub addresses: AddressPolicy,
    /// What every request carries.
    pub credentials: Vec<Credential>,
    /// Time and size.
    pub limits: HttpLimits,
    /// A proxy the operator configured. It resolves names itself, so names are not checked here; addresses in URLs are.
    pub proxy: Option<String>,
}

/// The bounds of one exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HttpLimits {
    /// To resolve the name, connect and agree on TLS.
    pub connect: Duration,
    /// Until the answer's headers are there.
    pub headers: Duration,
    /// Until the whole body is there, once the headers are.
    pub body: Duration,
    /// The most of a body that is read.
    pub body_bytes: usize,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            headers: Duration::from_secs(60),
            body: Duration::from_secs(60),
            body_bytes: 1 << 20,
        }
    }
}

/// Why no client can be made.
#[derive(Debug, thiserror::Error)]
#[error("the HTTP client cannot be set up: {0}")]
pub struct SetupError(String);

/// A client for one source. Cheap to clone; clones share the circuit breaker.
#[derive(Clone)]
pub struct HttpClient {
    inner: Arc<Inner>,
}

struct Inner {
    addresses: Arc<AddressPolicy>,
    credentials: Vec<Credential>,
    secrets: Secrets,
    limits: HttpLimits,
    /// For reads: connections are kept.
    pooled: Client,
    /// For writes: a kept connection that the server closes at that moment would leave the write in doubt.
    fresh: Client,
    breaker: Mutex<Breaker>,
    started: Instant,
}

impl HttpClient {
    /// Sets up the client.
    pub fn new(options: HttpOptions) -> Result<Self, SetupError> {
        // Fails if one is installed already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let addresses = Arc::new(options.addresses.clone());
        let secrets = credentials::secrets(&options.credentials);
        let pooled = builder(&options, &addresses)?.pool_idle_timeout(Duration::from_secs(30)).build();
        let fresh = builder(&options, &addresses)?.pool_max_idle_per_host(0).build();
        let built = |client: reqwest::Result<Client>| {
            client.map_err(|error| SetupError(secrets.redact(&chain(&error.without_url()))))
        };
        let (pooled, fresh) = (built(pooled)?, built(fresh)?);
        let inner = Inner {
            addresses,
            credentials: options.credentials,
            secrets,
            limits: options.limits,
            pooled,
            fresh,
            breaker: Mutex::default(),
            started: Instant::now(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Sends a request. Dropping the future gives up a read; a write goes on to its end, unobserved, because nobody
    /// could say how far it had come.
    pub async fn send(&self, request: HttpRequest, intent: Intent) -> Exchange {
        let inner = Arc::clone(&self.inner);
        if intent == Intent::Read {
            return inner.send(&request, intent).await;
        }
        match tokio::spawn(async move { inner.send(&request, intent).await }).await {
            Ok(exchange) => exchange,
            Err(error) => Exchange::Lost(Lost { reason: error.to_string(), stage: LostStage::Broken }),
        }
    }

    /// Sends a request once and hands over the answer as soon as its headers are there, for bodies that are streams.
    pub(crate) async fn open(
        &self,
        request: &HttpRequest,
        intent: Intent,
        headers_within: Duration,
    ) -> Result<Response, Exchange> {
        let permit = self.inner.admit().map_err(Exchange::NotSent)?;
        let url = checked_url(&self.inner.addresses, &request.url).map_err(Exchange::NotSent)?;
        let opened = self.inner.open(request, url, intent, headers_within).await;
        permit.report(match &opened {
            Ok(response) if is_down(response.status().as_u16()) => Report::Failed,
            Ok(_) => Report::Worked,
            Err(failure) => report_of(failure),
        });
        opened
    }

    /// What this source's answers are cleaned of.
    pub fn secrets(&self) -> &Secrets {
        &self.inner.secrets
    }

    /// For how long calls are refused because the source failed repeatedly; nothing where they are not. Zero where the next call, or
    /// one on its way, finds out whether it is back.
    pub fn pause(&self) -> Option<Duration> {
        self.inner.breaker().pause(self.inner.started.elapsed())
    }
}

impl Inner {
    async fn send(self: &Arc<Self>, request: &HttpRequest, intent: Intent) -> Exchange {
        let mut attempt = 1;
        let mut permit = match self.admit() {
            Ok(permit) => permit,
            Err(refused) => return Exchange::NotSent(refused),
        };
        loop {
            let exchange = self.follow(request, intent).await;
            permit.report(report_of(&exchange));
            let wait = wait_before_retry(intent, attempt, &exchange, SystemClock.now(), jitter());
            let Some(wait) = wait else { return exchange };
            tokio::time::sleep(wait).await;
            attempt += 1;
            permit = match self.admit() {
                Ok(permit) => permit,
                // What was learned last says more than that the source is left alone now.
                Err(_) => return exchange,
            };
        }
    }

    /// One exchange, with its redirects if it is a read.
    async fn follow(&self, request: &HttpRequest, intent: Intent) -> Exchange {
        let mut url = match checked_url(&self.addresses, &request.url) {
            Ok(url) => url,
            Err(refused) => return Exchange::NotSent(refused),
        };
        for _ in 0..=MAX_REDIRECTS {
            let response = match self.open(request, url.clone(), intent, self.limits.headers).await {
                Ok(response) => response,
                Err(failure) => return failure,
            };
            match next_url(&url, &response, intent) {
                Some(next) => url = next,
                None => return self.read(response).await,
            }
        }
        let reason = format!("more than {MAX_REDIRECTS} redirects");
        Exchange::Lost(Lost { reason, stage: LostStage::Redirected })
    }

    async fn open(
        &self,
        request: &HttpRequest,
        url: Url,
        intent: Intent,
        headers_within: Duration,
    ) -> Result<Response, Exchange> {
        let built = self.build(request, url, intent).map_err(Exchange::NotSent)?;
        let client = if intent == Intent::Read { &self.pooled } else { &self.fresh };
        match tokio::time::timeout(headers_within, client.execute(built)).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(self.failure(error)),
            Err(_) => {
                let reason = format!("no answer within {} s", headers_within.as_secs());
                Err(Exchange::Lost(Lost { reason, stage: LostStage::Silent }))
            }
        }
    }

    fn build(
        &self,
        request: &HttpRequest,
        mut url: Url,
        intent: Intent,
    ) -> Result<reqwest::Request, NotSent> {
        let method = Method::from_bytes(request.method.as_bytes())
            .map_err(|_| NotSent::BadRequest(format!("{:?} is no HTTP method", request.method)))?;
        let mut headers = HeaderMap::new();
        headers.insert(USER_AGENT, HeaderValue::from_static(OUR_NAME));
        for (name, value) in &request.headers {
            append(&mut headers, name, value)?;
        }
        credentials::apply(&self.credentials, &mut url, &mut headers)?;
        let client = if intent == Intent::Read { &self.pooled } else { &self.fresh };
        let mut built = client.request(method, url).headers(headers);
        if let Some(body) = &request.body {
            built = built.body(body.clone());
        }
        built.build().map_err(|error| NotSent::BadRequest(self.describe(error)))
    }

    /// An error of reqwest, told apart by whether anything was sent.
    fn failure(&self, error: reqwest::Error) -> Exchange {
        if let Some(refused) = find::<AddressRefused>(&error) {
            return Exchange::NotSent(NotSent::Address(refused.clone()));
        }
        let not_sent = error.is_connect() || error.is_builder();
        let reason = self.describe(error);
        if not_sent {
            Exchange::NotSent(NotSent::Unreachable(reason))
        } else {
            Exchange::Lost(Lost { reason, stage: LostStage::Broken })
        }
    }

    async fn read(&self, response: Response) -> Exchange {
        let status = response.status().as_u16();
        let headers = response
            .headers()
            .iter()
            .map(|(name, value)| {
                (name.as_str().to_owned(), self.secrets.redact(&String::from_utf8_lossy(value.as_bytes())))
            })
            .collect();
        match tokio::time::timeout(self.limits.body, read_body(response, self.limits.body_bytes)).await {
            Ok(Ok((body, extent))) => {
                let body = self.secrets.redact_bytes(body);
                Exchange::Answered(Answer { status, headers, body, extent })
            }
            Ok(Err(error)) => {
                Exchange::Lost(Lost { reason: self.describe(error), stage: LostStage::Answering(status) })
            }
            Err(_) => {
                let reason = format!("the answer was not complete within {} s", self.limits.body.as_secs());
                Exchange::Lost(Lost { reason, stage: LostStage::Answering(status) })
            }
        }
    }

    fn describe(&self, error: reqwest::Error) -> String {
        self.secrets.redact(&chain(&error.without_url()))
    }

    fn admit(self: &Arc<Self>) -> Result<Permit, NotSent> {
        let now = self.started.elapsed();
        match self.breaker().admit(now) {
            Ok(()) => Ok(Permit { inner: Arc::clone(self), report: Report::Abandoned }),
            Err(open) => {
                let retry_in_ms = u64::try_from(open.retry_in.as_millis()).unwrap_or(u64::MAX);
                Err(NotSent::CircuitOpen { retry_in_ms })
            }
        }
    }

    fn breaker(&self) -> std::sync::MutexGuard<'_, Breaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An admitted call. It reports when it is dropped, so that a call that was given up does not block the breaker.
struct Permit {
    inner: Arc<Inner>,
    report: Report,
}

impl Permit {
    fn report(mut self, report: Report) {
        self.report = report;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let now = self.inner.started.elapsed();
        self.inner.breaker().report(now, self.report);
    }
}

fn builder(
    options: &HttpOptions,
    addresses: &Arc<AddressPolicy>,
) -> Result<reqwest::ClientBuilder, SetupError> {
    let mut builder = Client::builder()
        .no_proxy()
        .referer(false)
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .connect_timeout(options.limits.connect);
    if let Some(proxy) = &options.proxy {
        // The operator named the proxy, so it may be at any address; it then decides where names lead.
        let proxy =
            reqwest::Proxy::all(proxy).map_err(|_| SetupError("the proxy's address is no URL".into()))?;
        builder = builder.proxy(proxy);
    } else {
        builder = builder.dns_resolver(Arc::new(GuardedResolver { policy: Arc::clone(addresses) }));
    }
    Ok(builder)
}

fn checked_url(addresses: &AddressPolicy, text: &str) -> Result<Url, NotSent> {
    let url = Url::parse(text).map_err(|error| NotSent::BadRequest(error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(NotSent::BadRequest("its address begins with neither http:// nor https://".into()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(NotSent::BadRequest("its address contains a user name or password".into()));
    }
    check_literal(addresses, &url)?;
    Ok(url)
}

fn append(headers: &mut HeaderMap, name: &str, value: &str) -> Result<(), NotSent> {
    let header =
        HeaderName::try_from(name).map_err(|_| NotSent::BadRequest(format!("{name:?} is no header name")))?;
    if RESERVED_HEADERS.contains(&header.as_str()) {
        return Err(NotSent::BadRequest(format!("the header {header} is not for requests to set")));
    }
    let value = HeaderValue::from_str(value).map_err(|_| {
        NotSent::BadRequest(format!("the header {header} has characters that HTTP does not take"))
    })?;
    if header == USER_AGENT {
        headers.insert(header, value);
    } else {
        headers.append(header, value);
    }
    Ok(())
}

/// Where a redirect leads, if it is one that is followed: for reads, within the same origin.
fn next_url(url: &Url, response: &Response, intent: Intent) -> Option<Url> {
    if intent != Intent::Read || !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let next = url.join(response.headers().get(LOCATION)?.to_str().ok()?).ok()?;
    let has_user = !next.username().is_empty() || next.password().is_some();
    (next.origin() == url.origin() && !has_user).then_some(next)
}

async fn read_body(response: Response, limit: usize) -> reqwest::Result<(Vec<u8>, Extent)> {
    let mut body = Vec::new();
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk?;
        let room = limit - body.len();
        body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if chunk.len() > room {
            return Ok((body, Extent::Cut { limit_bytes: limit }));
        }
    }
    Ok((body, Extent::Whole))
}

/// What the breaker learns. Requests that are wrong in themselves say nothing about the source.
fn report_of(exchange: &Exchange) -> Report {
    match exchange {
        Exchange::Answered(answer) if is_down(answer.status) => Report::Failed,
        Exchange::Answered(_) => Report::Worked,
        Exchange::Lost(_) | Exchange::NotSent(NotSent::Unreachable(_)) => Report::Failed,
        Exchange::NotSent(_) => Report::Abandoned,
    }
}

fn is_down(status: u16) -> bool {
    matches!(status, 502..=504)
}

fn jitter() -> f64 {
    SystemEntropy.bits().map_or(0.5, |bits| f64::from(bits[0]) / 255.0)
}

fn find<'e, E: std::error::Error + 'static>(error: &'e (dyn std::error::Error + 'static)) -> Option<&'e E> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = error.source();
    }
    None
}

/// An error with everything that caused it: reqwest alone says only "error sending request".
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(deeper) = cause {
        text.push_str(": ");
        text.push_str(&deeper.to_string());
        cause = deeper.source();
    }
    text
}
