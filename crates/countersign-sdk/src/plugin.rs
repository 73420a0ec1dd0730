//! Plugins: tools with the auth providers they need.

use std::collections::HashSet;

use crate::{IdError, Tool};

/// The longest name that every MCP client takes.
const MAX_MCP_NAME_BYTES: usize = 64;

/// A named group of tools.
pub struct Plugin {
    id: String,
    name: String,
    description: String,
    version: String,
    providers: Vec<AuthProvider>,
    tools: Vec<Tool>,
}

/// A way to get the caller's credentials for some outside system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthProvider {
    /// The id that tools and `ctx.auth().token(…)` name.
    pub id: String,
    /// How the credential is obtained.
    pub kind: AuthKind,
}

/// How a credential is obtained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuthKind {
    /// An OAuth 2 access token.
    OAuth2 {
        /// The scopes that the token must have.
        scopes: Vec<String>,
    },
    /// A key that a user pasted in.
    ApiKey,
}

impl AuthProvider {
    /// An OAuth 2 provider.
    pub fn oauth2(id: impl Into<String>) -> Self {
        Self { id: id.into(), kind: AuthKind::OAuth2 { scopes: Vec::new() } }
    }

    /// A provider whose credential is one key.
    pub fn api_key(id: impl Into<String>) -> Self {
        Self { id: id.into(), kind: AuthKind::ApiKey }
    }

    /// The scopes that the token must have. They have no meaning for an API key.
    #[must_use]
    pub fn scopes<S: Into<String>>(mut self, wanted: impl IntoIterator<Item = S>) -> Self {
        if let AuthKind::OAuth2 { scopes } = &mut self.kind {
            scopes.extend(wanted.into_iter().map(Into::into));
        }
        self
    }
}

/// A problem of a plugin. All problems are reported at once.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the names say it")]
pub enum PluginError {
    /// The plugin's id is no id.
    #[error("the plugin's id is unusable: {0}")]
    Id(#[from] IdError),
    /// A tool's path breaks the rule.
    #[error("{0}")]
    Path(#[from] crate::PathError),
    /// Two tools with one path.
    #[error("the path \"{0}\" is taken by another tool; paths are unique")]
    DuplicatePath(String),
    /// A tool without a name or description.
    #[error("tool \"{path}\" has no {missing}; people decide by it, so say something")]
    Missing { path: String, missing: &'static str },
    /// A tool that names a provider the plugin does not declare.
    #[error(
        "tool \"{path}\" uses the auth provider \"{provider}\", which the plugin does not declare; add .auth(AuthProvider::…(\"{provider}\"))"
    )]
    UndeclaredProvider { path: String, provider: String },
    /// A tool that declares both `read_only` and `destructive`.
    #[error(
        "tool \"{0}\" is declared both read-only and destructive; remove one of .read_only() and .destructive(…)"
    )]
    Contradiction(String),
    /// A name that MCP clients do not take.
    #[error(
        "tool \"{path}\" cannot be called \"{name}\" over MCP; use 1 to {MAX_MCP_NAME_BYTES} letters, digits, _ or -"
    )]
    McpName { path: String, name: String },
    /// A type that makes no usable schema.
    #[error("tool \"{path}\": {problem}")]
    Schema { path: String, problem: String },
}

#[expect(missing_docs, reason = "the names say it")]
impl Plugin {
    /// Starts a plugin: a stable id, a name and what it provides.
    pub fn new(id: impl Into<String>, name: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            name: name.into(),
            description: description.into(),
            version: "0".into(),
            providers: Vec::new(),
            tools: Vec::new(),
        }
    }

    /// The version of the code behind the tools. It is part of every fingerprint: a change voids pending approvals.
    #[must_use]
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = version.into();
        self
    }

    /// Declares an auth provider that the tools may use.
    #[must_use]
    pub fn auth(mut self, provider: AuthProvider) -> Self {
        self.providers.push(provider);
        self
    }

    #[must_use]
    pub fn tool(mut self, tool: Tool) -> Self {
        self.tools.push(tool);
        self
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    /// The name people see.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it provides.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// The version of the code behind the tools.
    pub fn code_version(&self) -> &str {
        &self.version
    }

    pub fn providers(&self) -> &[AuthProvider] {
        &self.providers
    }

    pub fn tools(&self) -> &[Tool] {
        &self.tools
    }

    /// Takes the tools out, to register them.
    pub fn into_tools(self) -> Vec<Tool> {
        self.tools
    }

    /// Everything that is wrong with the plugin, at once.
    pub fn check(&self) -> Result<(), Vec<PluginError>> {
        let mut errors = Vec::new();
        if let Err(e) = crate::PrincipalId::parse(&self.id) {
            errors.push(e.into());
        }
        let mut seen = HashSet::new();
        for tool in &self.tools {
            self.check_tool(tool, &mut errors);
            if !seen.insert(&tool.definition().path) {
                errors.push(PluginError::DuplicatePath(tool.definition().path.clone()));
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    fn check_tool(&self, tool: &Tool, errors: &mut Vec<PluginError>) {
        let definition = tool.definition();
        let path = definition.path.clone();
        if let Err(e) = tool.path() {
            errors.push(e.clone().into());
        }
        for (missing, text) in [("name", &definition.name), ("description", &definition.description)] {
            if text.trim().is_empty() {
                errors.push(PluginError::Missing { path: path.clone(), missing });
            }
        }
        if let Some(provider) = &definition.auth_provider
            && !self.providers.iter().any(|p| p.id == *provider)
        {
            errors.push(PluginError::UndeclaredProvider { path: path.clone(), provider: provider.clone() });
        }
        if let Some(name) = definition.mcp_name.as_ref().filter(|name| !is_mcp_name(name)) {
            errors.push(PluginError::McpName { path: path.clone(), name: name.clone() });
        }
        if definition.effects.read_only && definition.effects.destructive {
            errors.push(PluginError::Contradiction(path.clone()));
        }
        for schema in [tool.input_schema(), tool.output_schema()] {
            if let Err(e) = schema {
                errors.push(PluginError::Schema { path: path.clone(), problem: e.to_string() });
            }
        }
    }
}

fn is_mcp_name(name: &str) -> bool {
    let fits = (1..=MAX_MCP_NAME_BYTES).contains(&name.len());
    fits && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
}
