//! From a configuration to a source that can be called: its document or server is read, and every tool it offers is known.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use countersign_kernel::ports::{
    CredentialConfig, CredentialPlace, McpProtocol, SecretPlace, SourceConfig, SourceKind, SourcesError,
};
use countersign_sdk::SecretString;
use url::Url;

use crate::graphql;
use crate::http::{
    AddressPolicy, Answer, Credential, Exchange, Extent, HttpClient, HttpLimits, HttpOptions, Intent,
    PrivateAddresses,
};
use crate::mcp::{self, CommandConfig, Endpoint, Events, HttpEndpoint, Upstream, UpstreamConfig};
use crate::offer::Offer;
use crate::openapi;
use crate::openapi::names::{Decided, assign_proposed};
use crate::request::HttpRequest;

/// The largest document that is read.
const MAX_DOCUMENT_BYTES: usize = 32 << 20;

/// Reads secrets and variables for sources: the crate itself reads no environment.
pub trait SecretReader: Send + Sync + 'static {
    /// The secret at this place, or why there is none. The reason never holds the secret.
    fn read(&self, place: &SecretPlace) -> Result<SecretString, String>;

    /// A variable that every child process gets.
    fn variable(&self, name: &str) -> Option<String>;
}

/// A source that can be called.
pub(crate) enum Connection {
    OpenApi { operations: BTreeMap<String, Arc<openapi::Operation>>, client: HttpClient },
    GraphQl { operations: BTreeMap<String, Arc<graphql::Operation>>, client: HttpClient },
    Mcp(Arc<Upstream>),
}

impl Connection {
    /// For how long calls are refused because the service failed repeatedly. A server that is connected to says by itself how it is.
    pub(crate) fn pause(&self) -> Option<Duration> {
        match self {
            Self::OpenApi { client, .. } | Self::GraphQl { client, .. } => client.pause(),
            Self::Mcp(_) => None,
        }
    }
}

/// What is needed to connect.
pub(crate) struct Connecting<'a> {
    pub(crate) config: &'a SourceConfig,
    /// Names that were given before, by origin.
    pub(crate) given_names: BTreeMap<String, String>,
    pub(crate) secrets: &'a dyn SecretReader,
    pub(crate) events: Events,
}

impl Connecting<'_> {
    pub(crate) async fn connect(self) -> Result<(Offer, Connection), SourcesError> {
        match &self.config.kind {
            SourceKind::OpenApi { document, server, variables, hosts } => {
                let options = openapi::Options {
                    server: server.clone(),
                    variables: variables.clone(),
                    document_url: is_url(document).then(|| document.clone()),
                    allowed_hosts: hosts.clone(),
                    name_overrides: self.config.tools.names.clone(),
                    given_names: self.given_names.clone(),
                };
                self.openapi(document, server.as_deref(), options).await
            }
            SourceKind::GraphQl { url, schema } => self.graphql(url, schema.as_deref()).await,
            SourceKind::Mcp { url, command, folder, protocol, trust_annotations } => {
                let endpoint = match (url, command.as_slice()) {
                    (Some(url), []) => Endpoint::Http(self.http_endpoint(url)?),
                    (None, [program, arguments @ ..]) => Endpoint::Command(CommandConfig {
                        program: program.clone(),
                        arguments: arguments.to_vec(),
                        variables: self.variables()?,
                        folder: folder.clone(),
                    }),
                    _ => return Err(bad("an MCP source has either a url or a command")),
                };
                let mut upstream = UpstreamConfig::new(&self.config.name, endpoint);
                upstream.protocol = match protocol {
                    McpProtocol::Auto => mcp::Protocol::Auto,
                    McpProtocol::Legacy => mcp::Protocol::Legacy,
                    McpProtocol::Modern => mcp::Protocol::Modern,
                };
                if *trust_annotations {
                    upstream.annotations = mcp::Annotations::Trust;
                }
                let upstream = Upstream::connect(upstream, self.events.clone())
                    .await
                    .map_err(|error| SourcesError::Unreachable(error.to_string()))?;
                let offer =
                    upstream.offer().await.map_err(|error| SourcesError::Unreachable(error.to_string()))?;
                Ok((self.named(offer), Connection::Mcp(Arc::new(upstream))))
            }
        }
    }

    /// Gives tools of an MCP server the names they had, or those of the operator, by the rules of every kind of source.
    pub(crate) fn named(&self, mut offer: Offer) -> Offer {
        let proposed: Vec<(&str, String)> =
            offer.tools.iter().map(|tool| (tool.origin.as_str(), tool.name.clone())).collect();
        let decided = Decided { overrides: &self.config.tools.names, given: &self.given_names };
        let (names, warnings) = assign_proposed(&proposed, decided);
        for (tool, name) in offer.tools.iter_mut().zip(names) {
            tool.name = name;
        }
        offer.warnings.extend(warnings);
        offer.tools.sort_by(|a, b| a.name.cmp(&b.name));
        offer
    }

    async fn openapi(
        &self,
        place: &str,
        server: Option<&str>,
        options: openapi::Options,
    ) -> Result<(Offer, Connection), SourcesError> {
        let bytes = self.document(place, server).await?;
        let mapped = tokio::task::spawn_blocking(move || {
            openapi::Document::parse(&bytes).map(|document| document.map(&options))
        });
        let mapped = mapped.await.map_err(|_| bad("the document could not be read"))?;
        let mut mapped = mapped.map_err(|error| bad(format!("{place}: {error}")))?;
        if self.config.credentials.is_empty() {
            mapped.offer.warnings.extend(openapi::wanted_credentials(&mapped.security));
        }
        let operations =
            mapped.operations.into_iter().map(|(name, operation)| (name, Arc::new(operation))).collect();
        Ok((mapped.offer, Connection::OpenApi { operations, client: self.service()? }))
    }

    async fn graphql(&self, url: &str, schema: Option<&str>) -> Result<(Offer, Connection), SourcesError> {
        let bytes = match schema {
            Some(place) => self.document(place, Some(url)).await?,
            None => {
                let body = serde_json::json!({ "query": graphql::INTROSPECTION_QUERY }).to_string();
                let headers = [("content-type", "application/json"), ("accept", "application/json")];
                let request = HttpRequest {
                    method: "POST".to_owned(),
                    url: url.to_owned(),
                    headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
                    body: Some(body.into_bytes()),
                };
                self.fetched(request, self.credentials()?).await?
            }
        };
        let options = graphql::Options {
            endpoint: url.to_owned(),
            name_overrides: self.config.tools.names.clone(),
            given_names: self.given_names.clone(),
        };
        let mapped = tokio::task::spawn_blocking(move || {
            graphql::Schema::parse(&bytes).map(|schema| schema.map(&options))
        });
        let mapped = mapped.await.map_err(|_| bad("the schema could not be read"))?;
        let mapped = mapped.map_err(|error| bad(format!("the schema of {url}: {error}")))?;
        let operations =
            mapped.operations.into_iter().map(|(name, operation)| (name, Arc::new(operation))).collect();
        Ok((mapped.offer, Connection::GraphQl { operations, client: self.service()? }))
    }

    /// A file or what a URL answers. Documents often lie on another host than the service that they describe: the credentials
    /// are sent only to the origin of the service, and only where the operator named it.
    async fn document(&self, place: &str, service: Option<&str>) -> Result<Vec<u8>, SourcesError> {
        if is_url(place) {
            let is_service = service.is_some_and(|service| is_same_origin(place, service));
            let credentials = if is_service { self.credentials()? } else { Vec::new() };
            let accept = "application/json, application/yaml, text/yaml, */*;q=0.1".to_owned();
            let request = HttpRequest {
                method: "GET".to_owned(),
                url: place.to_owned(),
                headers: vec![("accept".to_owned(), accept)],
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
            Ok(Ok(Some(bytes))) => Ok(bytes),
            Ok(Ok(None)) => Err(bad(format!("{place} has more than {MAX_DOCUMENT_BYTES} bytes"))),
            Ok(Err(error)) => Err(bad(format!("{place} cannot be read: {error}"))),
            Err(_) => Err(bad(format!("{place} could not be read"))),
        }
    }

    async fn fetched(
        &self,
        request: HttpRequest,
        credentials: Vec<Credential>,
    ) -> Result<Vec<u8>, SourcesError> {
        let url = request.url.clone();
        let limits = HttpLimits { body_bytes: MAX_DOCUMENT_BYTES, ..HttpLimits::default() };
        let is_unauthenticated = credentials.is_empty() && !self.config.credentials.is_empty();
        let client = self.client(limits, credentials)?;
        let unreachable = |reason: String| SourcesError::Unreachable(format!("{url}: {reason}"));
        match client.send(request, Intent::Read).await {
            Exchange::Answered(Answer { extent: Extent::Cut { limit_bytes }, .. }) => {
                Err(unreachable(format!("it has more than {limit_bytes} bytes")))
            }
            Exchange::Answered(Answer { status: 200..300, body, .. }) => Ok(body),
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

    /// The client for calls.
    fn service(&self) -> Result<HttpClient, SourcesError> {
        self.client(HttpLimits::default(), self.credentials()?)
    }

    fn client(&self, limits: HttpLimits, credentials: Vec<Credential>) -> Result<HttpClient, SourcesError> {
        let options = HttpOptions { addresses: self.addresses(), credentials, limits, proxy: None };
        HttpClient::new(options).map_err(|error| bad(error.to_string()))
    }

    fn http_endpoint(&self, url: &str) -> Result<HttpEndpoint, SourcesError> {
        Ok(HttpEndpoint {
            url: url.to_owned(),
            credentials: self.credentials()?,
            addresses: self.addresses(),
            proxy: None,
        })
    }

    fn addresses(&self) -> AddressPolicy {
        let private =
            if self.config.allow_private { PrivateAddresses::Permit } else { PrivateAddresses::Refuse };
        AddressPolicy { private, ..AddressPolicy::default() }
    }

    fn credentials(&self) -> Result<Vec<Credential>, SourcesError> {
        let mut credentials = Vec::new();
        for CredentialConfig { goes, from } in &self.config.credentials {
            let value = self.secret(from)?;
            credentials.push(match goes {
                CredentialPlace::Bearer => Credential::Bearer(value),
                CredentialPlace::Basic { user } => Credential::Basic { user: user.clone(), password: value },
                CredentialPlace::Header { name } => Credential::Header { name: name.clone(), value },
                CredentialPlace::Query { name } => Credential::Query { name: name.clone(), value },
                CredentialPlace::Variable { name } => {
                    return Err(bad(format!(
                        "the variable {name} is for a command, and this source is a URL"
                    )));
                }
            });
        }
        Ok(credentials)
    }

    /// The whole environment of a child process.
    fn variables(&self) -> Result<Vec<(String, SecretString)>, SourcesError> {
        let defaults = mcp::DEFAULT_VARIABLES.into_iter();
        let mut variables: Vec<(String, SecretString)> = defaults
            .filter_map(|name| Some((name.to_owned(), SecretString::from(self.secrets.variable(name)?))))
            .collect();
        for CredentialConfig { goes, from } in &self.config.credentials {
            let CredentialPlace::Variable { name } = goes else {
                return Err(bad("a command takes its credentials as variables"));
            };
            variables.push((name.clone(), self.secret(from)?));
        }
        Ok(variables)
    }

    fn secret(&self, from: &SecretPlace) -> Result<SecretString, SourcesError> {
        self.secrets.read(from).map_err(bad)
    }
}

fn is_same_origin(one: &str, other: &str) -> bool {
    let origin = |url: &str| Url::parse(url).ok().map(|url| url.origin()).filter(url::Origin::is_tuple);
    origin(one).is_some_and(|one| Some(one) == origin(other))
}

fn is_url(place: &str) -> bool {
    place.starts_with("http://") || place.starts_with("https://")
}

fn bad(problem: impl Into<String>) -> SourcesError {
    SourcesError::BadConfig(problem.into())
}
