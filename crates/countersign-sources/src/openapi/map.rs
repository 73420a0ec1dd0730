//! From a document to what it offers.
//!
//! Promise: every operation of the document is either a tool or listed as unmapped with its reason. One bad operation never
//! costs another.

use std::collections::BTreeMap;

use countersign_core::compact::CompactJson;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use super::effects::{self, Described};
use super::names::{self, Decided, Named};
use super::operation::{Operation, Piece, Segment, is_idempotency_key};
use super::parameters::{Declared, Need, Parameter, Place};
use super::patterns::Patterns;
use super::security::{self, ProposedCredential};
use super::{Document, bodies, input, parameters, servers};
use crate::bounded::bounded;
use crate::offer::{Offer, OfferedTool, Unmapped};

/// The methods that become tools.
const METHODS: [(&str, &str); 5] =
    [("delete", "DELETE"), ("get", "GET"), ("patch", "PATCH"), ("post", "POST"), ("put", "PUT")];
/// The methods that are about requests, not about resources.
const HIDDEN_METHODS: [(&str, &str); 4] =
    [("head", "HEAD"), ("options", "OPTIONS"), ("trace", "TRACE"), ("query", "QUERY")];
/// The most bytes of a tool's description.
const MAX_DESCRIPTION_BYTES: usize = 2000;
/// What may stand in a path as it is: unreserved characters, sub-delimiters, `:`, `@`, and what is encoded already.
const PATH_LITERAL: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'=')
    .remove(b':')
    .remove(b'@')
    .remove(b'%');

/// What the operator decided about a source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// The base URL; without it the document's first server.
    pub server: Option<String>,
    /// Values for the variables of server URLs.
    pub variables: BTreeMap<String, String>,
    /// Where the document came from; relative server URLs are resolved against it.
    pub document_url: Option<String>,
    /// Hosts (with the port, where it is not the scheme's) that operations with a server of their own may be called at.
    pub allowed_hosts: Vec<String>,
    /// Names that the operator chose, by origin (`POST /repos/{owner}/{repo}/issues`).
    pub name_overrides: BTreeMap<String, String>,
    /// Names that were given before, by origin; also of operations that are gone.
    pub given_names: BTreeMap<String, String>,
}

/// What a document offers.
#[derive(Debug, Clone, PartialEq)]
pub struct Mapped {
    /// The tools and what cannot be one.
    pub offer: Offer,
    /// How each tool is called, by its name.
    pub operations: BTreeMap<String, Operation>,
    /// The credentials that the document proposes.
    pub security: Vec<ProposedCredential>,
}

impl Document {
    /// Makes tools of the document's operations.
    pub fn map(&self, options: &Options) -> Mapped {
        let mut mapping = Mapping {
            document: self,
            options,
            base_url: servers::base_url(self, options),
            patterns: Patterns::default(),
            schemes: security::proposed(self),
            found: Vec::new(),
            unmapped: Vec::new(),
        };
        mapping.read_paths();
        mapping.finish()
    }
}

/// One operation before it has a name.
struct Found<'d> {
    path: &'d str,
    tool: OfferedTool,
    operation: Operation,
    operation_id: Option<&'d str>,
    first_tag: Option<&'d str>,
}

struct Mapping<'d> {
    document: &'d Document,
    options: &'d Options,
    base_url: Result<String, String>,
    patterns: Patterns,
    schemes: BTreeMap<String, ProposedCredential>,
    found: Vec<Found<'d>>,
    unmapped: Vec<Unmapped>,
}

impl<'d> Mapping<'d> {
    fn read_paths(&mut self) {
        let paths = self.document.root.get("paths").and_then(Value::as_object);
        for (path, item) in paths.into_iter().flatten().filter(|(path, _)| path.starts_with('/')) {
            let item = match self.document.resolve(item) {
                Ok(item) => item,
                Err(why) => {
                    self.unmapped
                        .push(Unmapped { origin: path.clone(), reason: format!("it is unreadable: {why}") });
                    continue;
                }
            };
            for (key, method) in METHODS {
                let Some(operation) = item.get(key).filter(|operation| operation.is_object()) else {
                    continue;
                };
                match self.read(method, path, item, operation) {
                    Ok(found) => self.found.push(found),
                    Err(reason) => {
                        self.unmapped.push(Unmapped { origin: format!("{method} {path}"), reason });
                    }
                }
            }
            for (_, method) in
                HIDDEN_METHODS.iter().filter(|(key, _)| item.get(key).is_some_and(Value::is_object))
            {
                let reason = format!("{method} requests are not offered as tools");
                self.unmapped.push(Unmapped { origin: format!("{method} {path}"), reason });
            }
        }
    }

    fn read(
        &mut self,
        method: &'static str,
        path: &'d str,
        item: &'d Value,
        operation: &'d Value,
    ) -> Result<Found<'d>, String> {
        let base_url = self.base_url.clone()?;
        let base_url = servers::base_url_of(self.document, self.options, &base_url, [operation, item])?;
        let mut declarations = parameters::declared(self.document, item, operation)?;
        let schemes = &self.schemes;
        declarations.parameters.retain(|declared| !security::is_credential(schemes, declared));
        let body = bodies::declared(self.document, operation, &declarations)?;
        let mut declared = declarations.parameters;
        let template = path_template(path, &mut declared)?;
        input::name_arguments(&mut declared, body.as_ref());
        let input_schema = input::schema(self.document, &self.patterns, &declared, body.as_ref());
        let answered = input::answered(self.document, &self.patterns, method, operation);
        security::count(&mut self.schemes, self.document, operation);

        let said =
            |key: &str| operation.get(key).and_then(Value::as_str).map(str::trim).filter(|s| !s.is_empty());
        let origin = format!("{method} {path}");
        let described =
            Described { method, path, operation_id: said("operationId"), summary: said("summary") };
        let mut effects = effects::effects(described);
        effects.idempotent =
            effects.destructive && declared.iter().any(|declared| demands_key(&declared.parameter));
        let tool = OfferedTool {
            name: String::new(),
            title: said("summary").map(|summary| bounded(summary, 200)),
            description: description(operation, &origin),
            input_schema: input_schema.into(),
            output_schema: answered.schema.map(CompactJson::from),
            server: Some(base_url.clone()),
            effects,
            origin: origin.clone(),
        };
        let parameters = declared.into_iter().map(|declared| declared.parameter).collect();
        let body = body.map(|declared| (declared.body, declared.need));
        let (accept, answer) = (answered.accept, answered.shape);
        let call = Operation { origin, method, base_url, path: template, parameters, body, accept, answer };
        let first_tag = operation.get("tags").and_then(|tags| tags.get(0)?.as_str());
        Ok(Found { path, tool, operation: call, operation_id: said("operationId"), first_tag })
    }

    fn finish(self) -> Mapped {
        let named: Vec<Named<'_>> = self
            .found
            .iter()
            .map(|found| Named {
                origin: &found.tool.origin,
                method: found.operation.method,
                path: found.path,
                operation_id: found.operation_id,
                first_tag: found.first_tag,
            })
            .collect();
        let decided = Decided { overrides: &self.options.name_overrides, given: &self.options.given_names };
        let (names, mut warnings) = names::assign(&named, decided);
        warnings.extend(self.base_url.err());
        let mut tools = Vec::with_capacity(names.len());
        let mut operations = BTreeMap::new();
        for (name, mut found) in names.into_iter().zip(self.found) {
            found.tool.name.clone_from(&name);
            tools.push(found.tool);
            operations.insert(name, found.operation);
        }
        tools.sort_by(|one, other| one.name.cmp(&other.name));
        let offer = Offer { tools, unmapped: self.unmapped, warnings };
        Mapped { offer, operations, security: self.schemes.into_values().collect() }
    }
}

/// A required key is the same each time the same arguments are sent; an optional one may be left out.
fn demands_key(parameter: &Parameter) -> bool {
    parameter.place == Place::Header
        && parameter.need == Need::Required
        && is_idempotency_key(&parameter.name)
}

/// A path as segments with their parameters. Declared path parameters that it lacks are dropped, and those that it has
/// without declaring are added.
fn path_template(path: &str, declared: &mut Vec<Declared<'_>>) -> Result<Vec<Segment>, String> {
    if path.contains(['#', '?']) {
        return Err("its path has a \"#\" or \"?\", so no request can be addressed to it".to_owned());
    }
    let is_in_path = |name: &str| path.contains(&format!("{{{name}}}"));
    declared
        .retain(|declared| declared.parameter.place != Place::Path || is_in_path(&declared.parameter.name));
    let mut segments = Vec::new();
    for segment in path.trim_start_matches('/').split('/') {
        if matches!(segment, "." | "..") {
            return Err("its path has a segment of dots, which changes where it leads".to_owned());
        }
        segments.push(Segment(pieces(segment, declared)?));
    }
    Ok(segments)
}

fn pieces(segment: &str, declared: &mut Vec<Declared<'_>>) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut rest = segment;
    while let Some(open) = rest.find('{') {
        let close = rest[open..].find('}').map(|close| open + close);
        let close = close.ok_or_else(|| "its path has a \"{\" without a \"}\"".to_owned())?;
        if open > 0 {
            pieces.push(literal(&rest[..open]));
        }
        let name = &rest[open + 1..close];
        let known =
            declared.iter().position(|d| d.parameter.place == Place::Path && d.parameter.name == name);
        let at = known.unwrap_or_else(|| {
            declared.push(parameters::undeclared(name));
            declared.len() - 1
        });
        pieces.push(Piece::Parameter(at));
        rest = &rest[close + 1..];
    }
    if !rest.is_empty() {
        pieces.push(literal(rest));
    }
    Ok(pieces)
}

fn literal(text: &str) -> Piece {
    Piece::Literal(utf8_percent_encode(text, PATH_LITERAL).to_string())
}

fn description(operation: &Value, origin: &str) -> String {
    let said = |key: &str| operation.get(key).and_then(Value::as_str).map(str::trim).unwrap_or_default();
    let (summary, long) = (said("summary"), said("description"));
    let is_deprecated = operation.get("deprecated").and_then(Value::as_bool) == Some(true);
    let deprecated = if is_deprecated { "Deprecated." } else { "" };
    let long = if long == summary { "" } else { long };
    let parts: Vec<&str> = [deprecated, summary, long].into_iter().filter(|part| !part.is_empty()).collect();
    if parts.is_empty() { origin.to_owned() } else { bounded(&parts.join("\n\n"), MAX_DESCRIPTION_BYTES) }
}
