//! The configuration of a source, as one flat object.
//!
//! Promise: a field that no kind of source has, or that this kind does not have, is refused and named; nothing is ignored.

use std::collections::BTreeMap;
use std::path::PathBuf;

use countersign_kernel::ports;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How a source is reached and what is taken of it. It names credentials and never holds one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SourceConfig {
    /// Its name: one segment of a path, the first of its tools' paths.
    pub name: String,
    /// What it is.
    pub kind: SourceKind,
    /// Where it listens, for `mcp` behind a URL and for `graphql`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// For `mcp` that is started: the program and its arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// The folder that `command` is started in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// For `mcp`: `auto`, `legacy` or `modern`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<McpProtocol>,
    /// For `mcp`: whether what it says of its tools' effects counts.
    #[serde(default, skip_serializing_if = "is_false")]
    pub trust_annotations: bool,
    /// For `mcp`: `ask`, or `refuse` for a server that may not ask people. A program that is started and speaks the older era takes
    /// one call at a time while it may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub questions: Option<McpQuestions>,
    /// For `mcp`: `refuse`, or `client` for a server that may use the model of the MCP client that calls it (sampling), where that
    /// client has one. A program that is started and speaks the older era takes one call at a time while it may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampling: Option<McpSampling>,
    /// For `mcp` that is started: folders of the server's machine that it is told of as its roots.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roots: Vec<String>,
    /// For `mcp`, in place of `roots`: whether it is told of the roots of the MCP client that calls it. An agent's client then
    /// says what a server may touch that goes by its roots.
    #[serde(default, skip_serializing_if = "is_false")]
    pub client_roots: bool,
    /// For `openapi`: a file of the server's machine, or a URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<String>,
    /// For `openapi`: the base URL, where it is not the document's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// For `openapi`: values of the variables in its URL.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, String>,
    /// For `openapi`: further hosts that some of its operations name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// For `graphql`: a file of the server's machine with its schema, where it answers no introspection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// What its requests carry. A child process gets them as variables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub credentials: Vec<SourceCredential>,
    /// Whether its address may be loopback or private. Never link-local or a metadata service.
    #[serde(default, skip_serializing_if = "is_false")]
    pub allow_private: bool,
    /// Host names that may lead to private addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow_hosts: Vec<String>,
    /// Networks that its address may be in although they are not global: `10.1.0.0/16`. A metadata service only where its address
    /// is named exactly.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow_networks: Vec<String>,
    /// The proxy through which it is reached. None is taken from the environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<String>,
    /// The provider whose connections its calls use, in place of `credentials`. There are no connections yet: its calls fail with
    /// `auth_not_available`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// How often it is looked whether it offers something else: `90s`, `15m` (where nothing is said), `24h` or `never`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh: Option<String>,
    /// Whether new and changed tools are taken without being accepted by anybody.
    #[serde(default, skip_serializing_if = "is_false")]
    pub trust_changes: bool,
    /// Which of its tools are taken, and what the operator says of their effects.
    #[serde(default)]
    pub tools: ToolSettings,
}

/// What a source is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SourceKind {
    /// An MCP server.
    Mcp,
    /// A service that an OpenAPI document describes.
    OpenApi,
    /// A GraphQL endpoint.
    GraphQl,
}

/// Which era of MCP is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum McpProtocol {
    /// The newer one, if the server speaks it.
    Auto,
    /// Up to 2025-11-25.
    Legacy,
    /// From 2026-07-28.
    Modern,
}

/// Whether an MCP server may ask people during a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum McpQuestions {
    /// Yes.
    Ask,
    /// No: it is told that nobody can be asked.
    Refuse,
}

/// Whether an MCP server may use a model during a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum McpSampling {
    /// No: it is told that there is none.
    Refuse,
    /// The model of the client that calls.
    Client,
}

/// A credential by the place it is read from, and where it goes. Exactly one of `env` and `file` is given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SourceCredential {
    /// Where it goes.
    #[serde(rename = "as")]
    pub goes: CredentialPlace,
    /// For `basic`: the user's name at the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// For `header`, `query` and `variable`: its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The variable of the gateway's environment that has the secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<String>,
    /// The file of the gateway's machine that has the secret. Only its owner may be able to read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

/// Where a credential goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum CredentialPlace {
    /// `Authorization: Bearer …`.
    Bearer,
    /// `Authorization: Basic …` with a user.
    Basic,
    /// A header.
    Header,
    /// A query parameter.
    Query,
    /// A variable of a child process.
    Variable,
}

/// Which tools are taken, and what the operator says of their effects. Patterns are those of rules, below the source's name:
/// `issues.*`, `**`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ToolSettings {
    /// Only these; all where there are none.
    pub include: Vec<String>,
    /// Not these.
    pub exclude: Vec<String>,
    /// These only read.
    pub read_only: Vec<String>,
    /// These write and destroy nothing.
    pub writes: Vec<String>,
    /// These destroy, whatever else is said of them.
    pub destructive: Vec<String>,
    /// Running these twice with the same arguments is the same as running them once: a call whose answer was lost fails instead
    /// of being in doubt, and one that was interrupted runs again. Never taken from a source's own word.
    pub idempotent: Vec<String>,
    /// Names of the operator's choice, by what the tool is at the source.
    pub names: BTreeMap<String, String>,
}

impl SourceConfig {
    /// The configuration of a source of which only name and kind are known.
    pub fn new(name: impl Into<String>, kind: SourceKind) -> Self {
        Self {
            name: name.into(),
            kind,
            url: None,
            command: Vec::new(),
            folder: None,
            protocol: None,
            trust_annotations: false,
            questions: None,
            sampling: None,
            roots: Vec::new(),
            client_roots: false,
            document: None,
            server: None,
            variables: BTreeMap::new(),
            hosts: Vec::new(),
            schema: None,
            credentials: Vec::new(),
            allow_private: false,
            allow_hosts: Vec::new(),
            allow_networks: Vec::new(),
            proxy: None,
            provider: None,
            refresh: None,
            trust_changes: false,
            tools: ToolSettings::default(),
        }
    }

    /// The fields that are given and that only some kinds have.
    fn given(&self) -> Vec<&'static str> {
        let fields = [
            ("url", self.url.is_some()),
            ("command", !self.command.is_empty()),
            ("folder", self.folder.is_some()),
            ("protocol", self.protocol.is_some()),
            ("trustAnnotations", self.trust_annotations),
            ("questions", self.questions.is_some()),
            ("sampling", self.sampling.is_some()),
            ("roots", !self.roots.is_empty()),
            ("clientRoots", self.client_roots),
            ("document", self.document.is_some()),
            ("server", self.server.is_some()),
            ("variables", !self.variables.is_empty()),
            ("hosts", !self.hosts.is_empty()),
            ("schema", self.schema.is_some()),
        ];
        fields.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name).collect()
    }
}

impl SourceKind {
    /// The kind as it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mcp => "mcp",
            Self::OpenApi => "openapi",
            Self::GraphQl => "graphql",
        }
    }

    /// The fields of a [`SourceConfig`] that this kind has and others do not.
    pub fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Mcp => &[
                "url",
                "command",
                "folder",
                "protocol",
                "trustAnnotations",
                "questions",
                "sampling",
                "roots",
                "clientRoots",
            ],
            Self::OpenApi => &["document", "server", "variables", "hosts"],
            Self::GraphQl => &["url", "schema"],
        }
    }
}

/// Why a configuration cannot be used, in words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadSourceConfig(String);

impl TryFrom<SourceConfig> for ports::SourceConfig {
    type Error = BadSourceConfig;

    fn try_from(mut config: SourceConfig) -> Result<Self, BadSourceConfig> {
        let kind = config.kind;
        if let Some(field) = config.given().into_iter().find(|field| !kind.fields().contains(field)) {
            return Err(BadSourceConfig(format!("a source of kind {} has no `{field}`", kind.as_str())));
        }
        let kind = kind_of(&mut config)?;
        match &kind {
            ports::SourceKind::Mcp { url: None, .. } => fits_a_program(&config)?,
            _ => fits_a_url(&config)?,
        }
        let refresh = config.refresh.map(|text| text.parse()).transpose();
        let refresh =
            refresh.map_err(|error: ports::BadRefreshInterval| BadSourceConfig(error.to_string()))?;
        let credentials = config.credentials.into_iter().map(TryInto::try_into).collect::<Result<_, _>>()?;
        Ok(Self {
            name: config.name,
            kind,
            credentials,
            allow_private: config.allow_private,
            allow_hosts: config.allow_hosts,
            allow_networks: config.allow_networks,
            proxy: config.proxy,
            provider: config.provider,
            refresh: refresh.unwrap_or_default(),
            trust_changes: config.trust_changes,
            tools: config.tools.into(),
        })
    }
}

/// Takes the fields of its kind out of a configuration.
fn kind_of(config: &mut SourceConfig) -> Result<ports::SourceKind, BadSourceConfig> {
    let kind = config.kind;
    let needs = |field: &str| BadSourceConfig(format!("a source of kind {} needs `{field}`", kind.as_str()));
    Ok(match kind {
        SourceKind::Mcp => {
            if config.client_roots && !config.roots.is_empty() {
                return Err(bad("a source has either `roots` or `clientRoots` (`client_roots` in a file)"));
            }
            if config.url.is_some() != config.command.is_empty() {
                return Err(bad("a source of kind mcp has either `url` or `command`"));
            }
            ports::SourceKind::Mcp {
                url: config.url.take(),
                command: std::mem::take(&mut config.command),
                folder: config.folder.as_ref().map(PathBuf::from),
                protocol: config.protocol.map(Into::into).unwrap_or_default(),
                trust_annotations: config.trust_annotations,
                questions: config.questions.map(Into::into).unwrap_or_default(),
                sampling: config.sampling.map(Into::into).unwrap_or_default(),
                roots: config.roots.iter().map(PathBuf::from).collect(),
                client_roots: config.client_roots,
            }
        }
        SourceKind::OpenApi => ports::SourceKind::OpenApi {
            document: config.document.take().ok_or_else(|| needs("document"))?,
            server: config.server.take(),
            variables: std::mem::take(&mut config.variables),
            hosts: std::mem::take(&mut config.hosts),
        },
        SourceKind::GraphQl => ports::SourceKind::GraphQl {
            url: config.url.take().ok_or_else(|| needs("url"))?,
            schema: config.schema.take(),
        },
    })
}

/// Checks what is said of a program that is started: nothing of how an address is reached.
fn fits_a_program(config: &SourceConfig) -> Result<(), BadSourceConfig> {
    let of_addresses = [
        ("proxy", config.proxy.is_some()),
        ("allowHosts", !config.allow_hosts.is_empty()),
        ("allowNetworks", !config.allow_networks.is_empty()),
        ("provider", config.provider.is_some()),
    ];
    if let Some((field, _)) = of_addresses.into_iter().find(|(_, is_given)| *is_given) {
        return Err(BadSourceConfig(format!("`{field}` is for a source with an address, not for `command`")));
    }
    match config.credentials.iter().all(|credential| credential.goes == CredentialPlace::Variable) {
        true => Ok(()),
        false => Err(bad("a program that is started gets its credentials as variables (`as`: `variable`)")),
    }
}

/// Checks what is said of a source with an address: nothing of how a program is started.
fn fits_a_url(config: &SourceConfig) -> Result<(), BadSourceConfig> {
    if config.folder.is_some() {
        return Err(bad("`folder` belongs to `command`, not to `url`"));
    }
    if !config.roots.is_empty() {
        return Err(bad("`roots` belong to `command`, not to `url`"));
    }
    if config.provider.is_some() && !config.credentials.is_empty() {
        return Err(bad("a source has either `provider` or `credentials`"));
    }
    match config.credentials.iter().any(|credential| credential.goes == CredentialPlace::Variable) {
        true => Err(bad("a `variable` credential is for a source with `command`")),
        false => Ok(()),
    }
}

fn bad(reason: &str) -> BadSourceConfig {
    BadSourceConfig(reason.to_owned())
}

impl TryFrom<SourceCredential> for ports::CredentialConfig {
    type Error = BadSourceConfig;

    fn try_from(credential: SourceCredential) -> Result<Self, BadSourceConfig> {
        let SourceCredential { goes, user, name, env, file } = credential;
        let bad = |reason: &str| Err(BadSourceConfig(reason.to_owned()));
        let goes = match (goes, user, name) {
            (CredentialPlace::Bearer, None, None) => ports::CredentialPlace::Bearer,
            (CredentialPlace::Bearer, _, _) => {
                return bad("a bearer credential has neither `user` nor `name`");
            }
            (CredentialPlace::Basic, Some(user), None) => ports::CredentialPlace::Basic { user },
            (CredentialPlace::Basic, _, _) => {
                return bad("a basic credential needs `user` and has no `name`");
            }
            (CredentialPlace::Header, None, Some(name)) => ports::CredentialPlace::Header { name },
            (CredentialPlace::Query, None, Some(name)) => ports::CredentialPlace::Query { name },
            (CredentialPlace::Variable, None, Some(name)) => ports::CredentialPlace::Variable { name },
            (CredentialPlace::Header | CredentialPlace::Query | CredentialPlace::Variable, _, _) => {
                return bad("a header, query or variable credential needs `name` and has no `user`");
            }
        };
        let from = match (env, file) {
            (Some(env), None) => ports::SecretPlace::Env(env),
            (None, Some(file)) => ports::SecretPlace::File(file.into()),
            _ => return bad("a credential needs either `env` or `file`: it is never written down here"),
        };
        Ok(Self { goes, from })
    }
}

impl From<McpProtocol> for ports::McpProtocol {
    fn from(protocol: McpProtocol) -> Self {
        match protocol {
            McpProtocol::Auto => Self::Auto,
            McpProtocol::Legacy => Self::Legacy,
            McpProtocol::Modern => Self::Modern,
        }
    }
}

impl From<McpQuestions> for ports::McpQuestions {
    fn from(questions: McpQuestions) -> Self {
        match questions {
            McpQuestions::Ask => Self::Ask,
            McpQuestions::Refuse => Self::Refuse,
        }
    }
}

impl From<McpSampling> for ports::McpSampling {
    fn from(sampling: McpSampling) -> Self {
        match sampling {
            McpSampling::Refuse => Self::Refuse,
            McpSampling::Client => Self::Client,
        }
    }
}

impl From<ToolSettings> for ports::ToolSettings {
    fn from(settings: ToolSettings) -> Self {
        let ToolSettings { include, exclude, read_only, writes, destructive, idempotent, names } = settings;
        Self { include, exclude, read_only, writes, destructive, idempotent, names }
    }
}

fn is_false(value: &bool) -> bool {
    !value
}
