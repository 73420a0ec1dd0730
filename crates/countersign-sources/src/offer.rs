//! What a source offers, before anybody accepted it.

use countersign_core::compact::CompactJson;
use countersign_sdk::Effects;
use serde::{Deserialize, Serialize};

/// The tools a source would bring, and what it cannot bring.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Offer {
    /// Sorted by name; names are unique.
    pub tools: Vec<OfferedTool>,
    /// Operations that have no tool, each with its reason.
    pub unmapped: Vec<Unmapped>,
    /// What is wrong with the document or the server without costing a tool.
    pub warnings: Vec<String>,
}

/// One tool that a source offers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OfferedTool {
    /// The path below the source's name: `issues.create` becomes `github.issues.create`.
    pub name: String,
    /// A short name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The source's own words. They come from outside: fronts label them.
    pub description: String,
    /// JSON Schema 2020-12 of the arguments; an object at the top.
    pub input_schema: CompactJson,
    /// JSON Schema 2020-12 of the result, where the source says one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<CompactJson>,
    /// The base URL of its calls, for an operation of a document: a document that names another server later is another offer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// What the protocol says of its effects; the operator's settings come on top.
    pub effects: Effects,
    /// What it is at the source: `POST /repos/{owner}/{repo}/issues`, `mutation createIssue`, `read_file`.
    pub origin: String,
}

/// An operation without a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Unmapped {
    /// What it is at the source.
    pub origin: String,
    /// Why it cannot be called.
    pub reason: String,
}
