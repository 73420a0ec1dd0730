//! From a configuration to a source that can be called: its document or server is read, and every tool it offers is known.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use countersign_kernel::ports::{
    CredentialConfig, CredentialPlace, McpProtocol, McpQuestions, McpSampling, SecretPlace, SourceConfig,
    SourceKind, SourcesError,
};
use countersign_sdk::SecretString;

use crate::fetch::{Fetched, Seen};
use crate::graphql;
use crate::http::{Credential, HttpClient, HttpLimits, HttpOptions};
use crate::mcp::{self, CommandConfig, Endpoint, Events, HttpEndpoint, Upstream, UpstreamConfig};
use crate::offer::Offer;
use crate::openapi;
use crate::openapi::names::{Decided, assign_proposed};
use crate::reach;
use crate::request::HttpRequest;

/// Reads secrets and variables for sources: the crate itself reads no environment.
pub trait SecretReader: Send + Sync + 'static {
    /// The secret at this place, or why there is none. The reason never holds the secret.
    fn read(&self, place: &SecretPlace) -> Result<SecretString, String>;

    /// A variable that every child process gets.
    fn variable(&self, name: &str) -> Option<String>;
}

/// A source that can be called.
pub(crate) enum Connection {
    OpenApi { operations: BTreeMap<String, Arc<openapi::Operation>>, client: HttpClient, seen: Seen },
    GraphQl { operations: BTreeMap<String, Arc<graphql::Operation>>, client: HttpClient, seen: Seen },
    Mcp(Arc<Upstream>),
}

impl Connection {
    /// For how long calls are refused because the service failed repeatedly.
    pub(crate) fn pause(&self) -> Option<Duration> {
        match self {
            Self::OpenApi { client, .. } | Self::GraphQl { client, .. } => client.pause(),
            Self::Mcp(upstream) => upstream.pause(),
        }
    }

    /// The document that it was made of.
    pub(crate) fn seen(&self) -> Option<&Seen> {
        match self {
            Self::OpenApi { seen, .. } | Self::GraphQl { seen, .. } => Some(seen),
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
    /// The document that was read last, where another one is wanted.
    pub(crate) seen: Option<Seen>,
}

impl Connecting<'_> {
    /// Reads what the source offers; nothing where its document is the one that was seen.
    pub(crate) async fn connect(self) -> Result<Option<(Offer, Connection)>, SourcesError> {
        let mut connected = self.connect_by_kind().await?;
        // An MCP server's offer has it already: it is named anew with each listing.
        if let Some((offer, Connection::OpenApi { .. } | Connection::GraphQl { .. })) = &mut connected {
            offer.warnings.extend(self.unconnected());
        }
        Ok(connected)
    }

    fn unconnected(&self) -> Option<String> {
        self.config.provider.as_deref().map(no_connections)
    }

    async fn connect_by_kind(&self) -> Result<Option<(Offer, Connection)>, SourcesError> {
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
            SourceKind::Mcp { .. } => {
                let upstream = Upstream::connect(self.upstream()?, self.events.clone())
                    .await
                    .map_err(|error| SourcesError::Unreachable(error.to_string()))?;
                let offer =
                    upstream.offer().await.map_err(|error| SourcesError::Unreachable(error.to_string()))?;
                Ok(Some((self.named(offer), Connection::Mcp(Arc::new(upstream)))))
            }
        }
    }

    fn upstream(&self) -> Result<UpstreamConfig, SourcesError> {
        let SourceKind::Mcp {
            url, command, folder, protocol, trust_annotations, questions, sampling, ..
        } = &self.config.kind
        else {
            return Err(bad("it is no MCP server"));
        };
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
        upstream.elicitation = match questions {
            McpQuestions::Ask => mcp::Elicitation::Serve,
            McpQuestions::Refuse => mcp::Elicitation::Refuse,
        };
        if *trust_annotations {
            upstream.annotations = mcp::Annotations::Trust;
        }
        upstream.sampling = match sampling {
            McpSampling::Refuse => mcp::Sampling::Refuse,
            McpSampling::Client => mcp::Sampling::Client,
        };
        upstream.roots = reach::roots(&self.config.kind)?;
        Ok(upstream)
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
        offer.warnings.extend(self.unconnected());
        offer.tools.sort_by(|a, b| a.name.cmp(&b.name));
        offer
    }

    async fn openapi(
        &self,
        place: &str,
        server: Option<&str>,
        options: openapi::Options,
    ) -> Result<Option<(Offer, Connection)>, SourcesError> {
        let Fetched::Read(bytes, seen) = self.document(place, server).await? else { return Ok(None) };
        let mapped = tokio::task::spawn_blocking(move || {
            let document = openapi::Document::parse(&bytes)?;
            drop(bytes);
            Ok(document.map(&options))
        });
        let mapped = mapped.await.map_err(|_| bad("the document could not be read"))?;
        let mut mapped = mapped.map_err(|error: openapi::DocumentError| bad(format!("{place}: {error}")))?;
        if self.config.credentials.is_empty() && self.config.provider.is_none() {
            mapped.offer.warnings.extend(openapi::wanted_credentials(&mapped.security));
        }
        let operations =
            mapped.operations.into_iter().map(|(name, operation)| (name, Arc::new(operation))).collect();
        Ok(Some((mapped.offer, Connection::OpenApi { operations, client: self.service()?, seen })))
    }

    async fn graphql(
        &self,
        url: &str,
        schema: Option<&str>,
    ) -> Result<Option<(Offer, Connection)>, SourcesError> {
        let fetched = match schema {
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
        let Fetched::Read(bytes, seen) = fetched else { return Ok(None) };
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
        Ok(Some((mapped.offer, Connection::GraphQl { operations, client: self.service()?, seen })))
    }

    /// The client for calls.
    fn service(&self) -> Result<HttpClient, SourcesError> {
        self.client(HttpLimits::default(), self.credentials()?)
    }

    pub(crate) fn client(
        &self,
        limits: HttpLimits,
        credentials: Vec<Credential>,
    ) -> Result<HttpClient, SourcesError> {
        let options = HttpOptions {
            addresses: reach::addresses(self.config)?,
            credentials,
            limits,
            proxy: reach::proxy(self.config)?,
        };
        HttpClient::new(options).map_err(|error| bad(error.to_string()))
    }

    fn http_endpoint(&self, url: &str) -> Result<HttpEndpoint, SourcesError> {
        Ok(HttpEndpoint {
            url: url.to_owned(),
            credentials: self.credentials()?,
            addresses: reach::addresses(self.config)?,
            proxy: reach::proxy(self.config)?,
        })
    }

    pub(crate) fn credentials(&self) -> Result<Vec<Credential>, SourcesError> {
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

pub(crate) fn is_url(place: &str) -> bool {
    place.starts_with("http://") || place.starts_with("https://")
}

/// What is said of a source whose calls need a connection of somebody.
pub(crate) fn no_connections(provider: &str) -> String {
    format!(
        "it is to use connections to the provider {provider:?}, which this version does not have yet: its calls fail with \
         auth_not_available. Until then name a token with auth = {{ bearer_env = \"VARIABLE\" }}"
    )
}

pub(crate) fn bad(problem: impl Into<String>) -> SourcesError {
    SourcesError::BadConfig(problem.into())
}
