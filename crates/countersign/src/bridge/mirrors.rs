//! Arguments that the 2026-07-28 era wants repeated in headers. A tool's schema names them (`x-mcp-header`); a client on
//! standard input has no headers, so the bridge learns the names from the lists that pass through it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

use super::message::header_value;

const ANNOTATION: &str = "x-mcp-header";
const PREFIX: &str = "mcp-param-";
/// How many tools with such arguments are remembered.
const MAX_TOOLS: usize = 1_000;

/// Which arguments of which tools go into headers.
#[derive(Default)]
pub(super) struct Mirrors(Mutex<HashMap<String, Vec<Mirror>>>);

/// One argument, and its header.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mirror {
    path: Vec<String>,
    header: HeaderName,
}

impl Mirrors {
    /// Remembers what a list of tools says.
    pub(super) fn learn(&self, list: &str) {
        if !list.contains(ANNOTATION) {
            return;
        }
        let Ok(list) = serde_json::from_str::<Value>(list) else { return };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for tool in list["result"]["tools"].as_array().into_iter().flatten() {
            let mut mirrors = Vec::new();
            collect(&tool["inputSchema"], &mut Vec::new(), &mut mirrors);
            if let Some(name) = tool["name"].as_str()
                && !mirrors.is_empty()
                && known.len() < MAX_TOOLS
            {
                known.insert(name.to_owned(), mirrors);
            }
        }
    }

    /// The headers of a call.
    pub(super) fn of_call(&self, tool: &str, message: &str) -> HeaderMap {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(tool).cloned();
        let Some(mirrors) = known else { return HeaderMap::new() };
        let message: Value = serde_json::from_str(message).unwrap_or_default();
        let arguments = &message["params"]["arguments"];
        let header = |mirror: Mirror| {
            let argument = mirror.path.iter().try_fold(arguments, |value, key| value.get(key))?;
            let text = match argument {
                Value::String(text) => text.clone(),
                Value::Bool(_) | Value::Number(_) => argument.to_string(),
                _ => return None,
            };
            Some((mirror.header, HeaderValue::from_str(&header_value(&text)).ok()?))
        };
        mirrors.into_iter().filter_map(header).collect()
    }
}

/// Annotations count where `properties` alone lead to them.
fn collect(schema: &Value, path: &mut Vec<String>, found: &mut Vec<Mirror>) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        path.push(name.clone());
        let header = property[ANNOTATION].as_str().filter(|header| !header.is_empty());
        if let Some(header) = header.and_then(|h| format!("{PREFIX}{h}").to_ascii_lowercase().parse().ok()) {
            found.push(Mirror { path: path.clone(), header });
        }
        collect(property, path, found);
        path.pop();
    }
}
