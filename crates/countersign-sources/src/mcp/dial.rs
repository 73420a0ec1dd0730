//! Making one connection: starting the process or reaching the URL, then the handshake.

use std::sync::Arc;

use crate::http::{HttpClient, HttpLimits, HttpOptions};
use crate::mcp::config::{CommandConfig, Endpoint, HttpEndpoint, Protocol, UpstreamConfig};
use crate::mcp::connection::Connection;
use crate::mcp::events::Events;
use crate::mcp::link::Link;
use crate::mcp::process::{self, ServerProcess};
use crate::mcp::stdio::StdioTransport;
use crate::mcp::streamable::HttpTransport;
use crate::secrets::Secrets;

/// A connection, and the process behind it if there is one.
pub(super) struct Dialed {
    pub(super) connection: Arc<Connection>,
    pub(super) process: Option<ServerProcess>,
}

/// Makes a connection. The error is for people; it may contain secrets.
///
/// A server of the older era may end when it is asked which era it speaks, instead of answering. It is then started once
/// more and spoken to as the older era does.
pub(super) async fn dial(config: &UpstreamConfig, events: &Events) -> Result<Dialed, String> {
    match &config.endpoint {
        Endpoint::Command(command) => match start(config, command, events).await {
            Err(DialError::Ended(_)) if config.protocol == Protocol::Auto => {
                let legacy = UpstreamConfig { protocol: Protocol::Legacy, ..config.clone() };
                start(&legacy, command, events).await.map_err(DialError::into_reason)
            }
            started => started.map_err(DialError::into_reason),
        },
        Endpoint::Http(endpoint) => reach(config, endpoint, events).await,
    }
}

/// Why a process cannot be used.
enum DialError {
    NotStarted(String),
    /// It ended during the handshake.
    Ended(String),
    Handshake(String),
}

impl DialError {
    fn into_reason(self) -> String {
        match self {
            Self::NotStarted(reason) | Self::Ended(reason) | Self::Handshake(reason) => reason,
        }
    }
}

async fn start(
    config: &UpstreamConfig,
    command: &CommandConfig,
    events: &Events,
) -> Result<Dialed, DialError> {
    let link = Arc::new(Link::new(secrets(config)));
    let (mut process, pipes) = ServerProcess::start(&config.name, command)
        .map_err(|error| DialError::NotStarted(format!("{} cannot be started: {error}", command.program)))?;
    let bytes = config.limits.message_bytes;
    let transport = StdioTransport::new(pipes.output, pipes.input, Arc::clone(&link), bytes);
    let opened = tokio::select! {
        biased;
        ended = process.ended() => return Err(DialError::Ended(ended)),
        opened = Connection::open(config, transport, Arc::clone(&link), events) => opened,
    };
    match opened {
        Ok(connection) => Ok(Dialed { connection: Arc::new(connection), process: Some(process) }),
        Err(reason) if link.is_closed() => Err(DialError::Ended(reason)),
        Err(reason) => Err(DialError::Handshake(reason)),
    }
}

async fn reach(config: &UpstreamConfig, endpoint: &HttpEndpoint, events: &Events) -> Result<Dialed, String> {
    let link = Arc::new(Link::new(secrets(config)));
    let client = HttpClient::new(http_options(endpoint, config)).map_err(|error| error.to_string())?;
    let transport = HttpTransport::new(client.clone(), &endpoint.url, Arc::clone(&link), &config.limits);
    let connection = Connection::open(config, transport, link, events).await?;
    Ok(Dialed { connection: Arc::new(connection.through(client)), process: None })
}

/// What must never come back from this server.
pub(super) fn secrets(config: &UpstreamConfig) -> Secrets {
    match &config.endpoint {
        Endpoint::Command(command) => process::secrets(command),
        Endpoint::Http(endpoint) => crate::http::secrets_of(&endpoint.credentials),
    }
}

fn http_options(endpoint: &HttpEndpoint, config: &UpstreamConfig) -> HttpOptions {
    HttpOptions {
        addresses: endpoint.addresses.clone(),
        credentials: endpoint.credentials.clone(),
        limits: HttpLimits { body_bytes: config.limits.message_bytes, ..HttpLimits::default() },
        proxy: endpoint.proxy.clone(),
    }
}
