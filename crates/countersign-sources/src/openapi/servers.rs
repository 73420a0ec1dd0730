//! Where requests go: the operator's base URL, else the document's first server with its variables.
//!
//! Promise: no argument chooses a host. An operation that has a server of its own is called there only if the operator
//! allowed that host.

use std::collections::BTreeMap;

use serde_json::Value;
use url::Url;

use super::map::Options;
use super::{Dialect, Document};

/// The base URL for operations without a server of their own; the error says what the operator has to do.
pub(super) fn base_url(document: &Document, options: &Options) -> Result<String, String> {
    if let Some(server) = &options.server {
        return checked(&with_variables(server, None, &options.variables));
    }
    let declared = match document.dialect() {
        Dialect::Swagger2 => swagger2(document),
        Dialect::OpenApi30 | Dialect::OpenApi31 => {
            let servers = document.root.get("servers").and_then(Value::as_array);
            servers
                .and_then(|servers| servers.first())
                .and_then(|server| server_url(server, &options.variables))
        }
    };
    let Some(declared) = declared else {
        return Err("the document names no server; say which one to call".to_owned());
    };
    match &options.document_url {
        Some(url) if !declared.contains("://") => {
            let joined = Url::parse(url).and_then(|url| url.join(&declared));
            checked(joined.map_err(|_| format!("the server {declared:?} is no URL"))?.as_str())
        }
        _ => checked(&declared),
    }
}

/// The base URL of an operation that may have a server of its own.
pub(super) fn base_url_of(
    document: &Document,
    options: &Options,
    base_url: &str,
    levels: [&Value; 2],
) -> Result<String, String> {
    let own = levels.iter().find_map(|level| level.get("servers")?.as_array()?.first());
    let Some(own) = own.and_then(|server| server_url(server, &options.variables)) else {
        return Ok(base_url.to_owned());
    };
    let documents = document.root.get("servers").and_then(Value::as_array);
    let is_documents = documents
        .into_iter()
        .flatten()
        .any(|server| server_url(server, &options.variables).as_deref() == Some(own.as_str()));
    if is_documents {
        return Ok(base_url.to_owned());
    }
    let own = if own.contains("://") {
        own
    } else {
        let joined = Url::parse(base_url).and_then(|base| base.join(&own));
        joined.map_err(|_| format!("its server {own:?} is no URL"))?.to_string()
    };
    let own = checked(&own)?;
    let host = |url: &str| Url::parse(url).ok().map(|url| (url.scheme().to_owned(), authority(&url)));
    if own == base_url || host(&own) == host(base_url) {
        return Ok(own);
    }
    let (_, authority) = host(&own).unwrap_or_default();
    if options.allowed_hosts.iter().any(|allowed| allowed.eq_ignore_ascii_case(&authority)) {
        return Ok(own);
    }
    Err(format!("it is served by {authority}, which is not among the allowed hosts"))
}

fn authority(url: &Url) -> String {
    match (url.host_str(), url.port()) {
        (Some(host), Some(port)) => format!("{host}:{port}"),
        (Some(host), None) => host.to_owned(),
        (None, _) => String::new(),
    }
}

fn server_url(server: &Value, chosen: &BTreeMap<String, String>) -> Option<String> {
    let url = server.get("url")?.as_str()?;
    Some(with_variables(url, server.get("variables"), chosen))
}

/// `{region}` becomes what the operator chose, else the document's default.
fn with_variables(url: &str, declared: Option<&Value>, chosen: &BTreeMap<String, String>) -> String {
    let mut made = url.to_owned();
    let defaults =
        declared.and_then(Value::as_object).into_iter().flatten().filter_map(|(name, variable)| {
            Some((name.as_str(), super::style::text_of(variable.get("default")?)))
        });
    for (name, value) in chosen.iter().map(|(name, value)| (name.as_str(), value.clone())).chain(defaults) {
        made = made.replace(&format!("{{{name}}}"), &value);
    }
    made
}

fn swagger2(document: &Document) -> Option<String> {
    let said = |key: &str| document.root.get(key).and_then(Value::as_str);
    let schemes = document.root.get("schemes").and_then(Value::as_array);
    let schemes: Vec<&str> = schemes.into_iter().flatten().filter_map(Value::as_str).collect();
    let scheme = if schemes.is_empty() || schemes.contains(&"https") { "https" } else { schemes[0] };
    let base_path = said("basePath").unwrap_or_default();
    match said("host") {
        Some(host) => Some(format!("{scheme}://{host}{base_path}")),
        None if base_path.is_empty() => None,
        None => Some(base_path.to_owned()),
    }
}

/// A base URL that requests can be built on, without a slash at its end.
fn checked(url: &str) -> Result<String, String> {
    let refuse = |problem: &str| Err(format!("the server {url:?} {problem}"));
    if url.contains(['{', '}']) {
        return refuse("has a variable without a value; choose one");
    }
    let Ok(parsed) = Url::parse(url) else { return refuse("is no absolute URL; say which one to call") };
    if !matches!(parsed.scheme(), "http" | "https") || parsed.host_str().is_none() {
        return refuse("is not http or https");
    }
    if !parsed.username().is_empty() || parsed.password().is_some() {
        return refuse("carries credentials; configure them apart");
    }
    if parsed.query().is_some() || parsed.fragment().is_some() {
        return refuse("has a query or fragment");
    }
    Ok(parsed.as_str().trim_end_matches('/').to_owned())
}
