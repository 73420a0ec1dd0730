//! Making one connection: starting the process or reaching the URL, then the handshake.

use std::sync::Arc;

use crate::http::{HttpClient, HttpLimits, HttpOptions};
use crate::mcp::config::{Endpoint, HttpEndpoint, UpstreamConfig};
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
pub(super) async fn dial(config: &UpstreamConfig, events: &Events) -> Result<Dialed, String> {
    let link = Arc::new(Link::default());
    match &config.endpoint {
        Endpoint::Command(command) => {
            let (mut process, pipes) = ServerProcess::start(&config.name, command)
                .map_err(|error| format!("{} cannot be started: {error}", command.program))?;
            let bytes = config.limits.message_bytes;
            let transport = StdioTransport::new(pipes.output, pipes.input, Arc::clone(&link), bytes);
            let opened = tokio::select! {
                opened = Connection::open(config, transport, link, events) => opened,
                ended = process.ended() => Err(ended),
            };
            Ok(Dialed { connection: Arc::new(opened?), process: Some(process) })
        }
        Endpoint::Http(endpoint) => {
            let client =
                HttpClient::new(http_options(endpoint, config)).map_err(|error| error.to_string())?;
            let transport = HttpTransport::new(client, &endpoint.url, Arc::clone(&link), &config.limits);
            let connection = Connection::open(config, transport, link, events).await?;
            Ok(Dialed { connection: Arc::new(connection), process: None })
        }
    }
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
