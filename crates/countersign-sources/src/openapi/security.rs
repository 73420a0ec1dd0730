//! Credentials that a document's security schemes propose.
//!
//! They only propose: a fifth of published documents declare no scheme and half of the operations no requirement, so
//! credentials belong to the source and the operator decides. What a scheme sends is no argument.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::parameters::{Declared, Place};
use super::{Dialect, Document};
use crate::bounded::bounded;

/// How many schemes an operator is told of, and how much of each.
const MAX_LISTED_SCHEMES: usize = 5;
const MAX_TOLD_BYTES: usize = 200;

/// A credential that the document says its operations want.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProposedCredential {
    /// The scheme's name in the document.
    pub scheme: String,
    /// The document's words about it. They come from outside: fronts label them.
    pub description: Option<String>,
    /// How it is sent, or obtained.
    pub kind: CredentialKind,
    /// The scopes that operations ask for; none that the document lacks.
    pub scopes: BTreeSet<String>,
    /// How many operations name it.
    pub operations: usize,
    /// Other schemes that some operation wants at the same time: those need several secrets.
    pub together_with: BTreeSet<String>,
}

/// How a credential is sent, or obtained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CredentialKind {
    /// A key in a header.
    Header {
        /// The header's name.
        name: String,
    },
    /// A key in the query.
    Query {
        /// The parameter's name.
        name: String,
    },
    /// A key in a cookie.
    Cookie {
        /// The cookie's name.
        name: String,
    },
    /// `Authorization: Bearer`.
    Bearer,
    /// `Authorization: Basic`.
    Basic,
    /// A bearer token from an OAuth 2 server.
    OAuth2 {
        /// Where a person logs in.
        authorization_url: Option<String>,
        /// Where tokens are issued.
        token_url: Option<String>,
    },
    /// A bearer token from an OpenID provider.
    OpenIdConnect {
        /// Where its configuration is.
        url: String,
    },
    /// Something else, in the document's word.
    Other {
        /// `mutualTLS`, `digest`, …
        name: String,
    },
}

/// Every scheme of the document, by its name.
pub(super) fn proposed(document: &Document) -> BTreeMap<String, ProposedCredential> {
    let schemes = match document.dialect() {
        Dialect::Swagger2 => document.root.get("securityDefinitions"),
        Dialect::OpenApi30 | Dialect::OpenApi31 => document.root.pointer("/components/securitySchemes"),
    };
    let schemes = schemes.and_then(Value::as_object).into_iter().flatten();
    let readable = schemes.filter_map(|(name, scheme)| {
        let scheme = document.resolve(scheme).ok()?;
        let credential = ProposedCredential {
            scheme: name.clone(),
            description: scheme.get("description").and_then(Value::as_str).map(str::to_owned),
            kind: kind(scheme)?,
            scopes: BTreeSet::new(),
            operations: 0,
            together_with: BTreeSet::new(),
        };
        Some((name.clone(), credential))
    });
    readable.collect()
}

/// Counts what one operation requires.
pub(super) fn count(
    schemes: &mut BTreeMap<String, ProposedCredential>,
    document: &Document,
    operation: &Value,
) {
    let required = operation.get("security").or_else(|| document.root.get("security"));
    let alternatives = required.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object);
    let mut named = BTreeSet::new();
    for together in alternatives {
        for (name, scopes) in together {
            let Some(scheme) = schemes.get_mut(name) else { continue };
            named.insert(name.as_str());
            let scopes = scopes.as_array().into_iter().flatten().filter_map(Value::as_str);
            scheme.scopes.extend(scopes.map(str::to_owned));
            scheme.together_with.extend(together.keys().filter(|other| *other != name).cloned());
        }
    }
    for name in named {
        if let Some(scheme) = schemes.get_mut(name) {
            scheme.operations += 1;
        }
    }
}

/// What an operator who configured no credential is told.
pub(crate) fn wanted_credentials(proposed: &[ProposedCredential]) -> Option<String> {
    let named: Vec<&ProposedCredential> = proposed.iter().filter(|one| one.operations > 0).collect();
    let listed: Vec<String> = named.iter().take(MAX_LISTED_SCHEMES).map(|one| one.told()).collect();
    let more = named.len().saturating_sub(MAX_LISTED_SCHEMES);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!named.is_empty()).then(|| {
        format!("the document asks for credentials, and this source has none: {}{more}", listed.join("; "))
    })
}

impl ProposedCredential {
    fn told(&self) -> String {
        let how = match &self.kind {
            CredentialKind::Header { name } => format!("a key in the header {name}"),
            CredentialKind::Query { name } => format!("a key in the query parameter {name}"),
            CredentialKind::Cookie { name } => format!("a key in the cookie {name}"),
            CredentialKind::Bearer => "a bearer token".to_owned(),
            CredentialKind::Basic => "a user and a password".to_owned(),
            CredentialKind::OAuth2 { .. } | CredentialKind::OpenIdConnect { .. } => {
                "a bearer token from a login".to_owned()
            }
            CredentialKind::Other { name } => name.clone(),
        };
        let count = self.operations;
        let operations = if count == 1 { "1 operation".to_owned() } else { format!("{count} operations") };
        bounded(&format!("{how} ({}, {operations})", self.scheme), MAX_TOLD_BYTES)
    }
}

/// Whether a parameter is what a scheme sends.
pub(super) fn is_credential(schemes: &BTreeMap<String, ProposedCredential>, declared: &Declared<'_>) -> bool {
    let parameter = &declared.parameter;
    schemes.values().any(|scheme| match (&scheme.kind, parameter.place) {
        (CredentialKind::Header { name }, Place::Header) => name.eq_ignore_ascii_case(&parameter.name),
        (CredentialKind::Query { name }, Place::Query) | (CredentialKind::Cookie { name }, Place::Cookie) => {
            *name == parameter.name
        }
        _ => false,
    })
}

fn kind(scheme: &Value) -> Option<CredentialKind> {
    let said = |key: &str| scheme.get(key).and_then(Value::as_str);
    let owned = |key: &str| said(key).map(str::to_owned);
    Some(match said("type")? {
        "apiKey" => {
            let name = owned("name")?;
            match said("in")? {
                "header" => CredentialKind::Header { name },
                "query" => CredentialKind::Query { name },
                "cookie" => CredentialKind::Cookie { name },
                _ => return None,
            }
        }
        "basic" => CredentialKind::Basic,
        "http" => match said("scheme").unwrap_or_default().to_ascii_lowercase().as_str() {
            "bearer" => CredentialKind::Bearer,
            "basic" => CredentialKind::Basic,
            other => CredentialKind::Other { name: other.to_owned() },
        },
        "oauth2" => {
            // Swagger 2 has one flow and writes it into the scheme itself.
            let flows =
                scheme.get("flows").and_then(Value::as_object).into_iter().flatten().map(|(_, flow)| flow);
            let places: Vec<&Value> = flows.chain([scheme]).collect();
            let find = |key: &str| places.iter().find_map(|flow| flow.get(key)?.as_str()).map(str::to_owned);
            CredentialKind::OAuth2 {
                authorization_url: find("authorizationUrl"),
                token_url: find("tokenUrl"),
            }
        }
        "openIdConnect" => CredentialKind::OpenIdConnect { url: owned("openIdConnectUrl")? },
        other => CredentialKind::Other { name: other.to_owned() },
    })
}
