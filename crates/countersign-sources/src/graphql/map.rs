//! From a schema to what it offers.

use std::collections::BTreeMap;
use std::sync::Arc;

use countersign_sdk::Effects;
use url::Url;

use super::operation::Operation;
use super::schema::{Field, Root, Schema};
use super::selection::Reach;
use super::{input, selection};
use crate::bounded::bounded;
use crate::offer::{Offer, OfferedTool, Unmapped};
use crate::openapi::effects::name_says_change;
use crate::openapi::names::{self, Decided};
use crate::openapi::words::snake_case;

/// The most bytes of a tool's description.
const MAX_DESCRIPTION_BYTES: usize = 2000;

/// What the operator decided about a source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Where requests go.
    pub endpoint: String,
    /// Names that the operator chose, by origin (`mutation createIssue`).
    pub name_overrides: BTreeMap<String, String>,
    /// Names that were given before, by origin; also of fields that are gone.
    pub given_names: BTreeMap<String, String>,
}

/// What a schema offers.
#[derive(Debug, Clone)]
pub struct Mapped {
    /// The tools and what cannot be one.
    pub offer: Offer,
    /// How each tool is called, by its name.
    pub operations: BTreeMap<String, Operation>,
}

impl Schema {
    /// Makes tools of the schema's queries and mutations.
    pub fn map(self, options: &Options) -> Mapped {
        let schema = Arc::new(self);
        let endpoint = checked(&options.endpoint);
        let mut offer = Offer { warnings: schema.warnings.clone(), ..Offer::default() };
        let mut found = Vec::new();
        for root in [Root::Query, Root::Mutation] {
            for field in schema.root_fields(root) {
                match &endpoint {
                    Ok(endpoint) => found.push(tool(&schema, endpoint, root, field)),
                    Err(reason) => offer.unmapped.push(unmapped(root, field, reason)),
                }
            }
        }
        for field in schema.root_fields(Root::Subscription) {
            offer.unmapped.push(unmapped(
                Root::Subscription,
                field,
                "subscriptions are not offered as tools",
            ));
        }
        let proposed: Vec<(&str, String)> =
            found.iter().map(|(tool, _)| (tool.origin.as_str(), tool.name.clone())).collect();
        let decided = Decided { overrides: &options.name_overrides, given: &options.given_names };
        let (names, warnings) = names::assign_proposed(&proposed, decided);
        offer.warnings.extend(warnings);
        let mut operations = BTreeMap::new();
        for (name, (mut tool, operation)) in names.into_iter().zip(found) {
            tool.name.clone_from(&name);
            offer.tools.push(tool);
            operations.insert(name, operation);
        }
        offer.tools.sort_by(|one, other| one.name.cmp(&other.name));
        Mapped { offer, operations }
    }
}

fn unmapped(root: Root, field: &Field, reason: &str) -> Unmapped {
    Unmapped { origin: format!("{} {}", root.as_str(), field.name), reason: reason.to_owned() }
}

fn tool(schema: &Arc<Schema>, endpoint: &str, root: Root, field: &Field) -> (OfferedTool, Operation) {
    let reach = if root == Root::Mutation { Reach::Members } else { Reach::Leaves };
    let default_selection = selection::by_default(schema, field.kind.inner(), reach);
    let reads = root == Root::Query && !name_says_change(&field.name);
    let word = snake_case(&field.name).unwrap_or_else(|| "field".to_owned());
    let operation = Operation {
        schema: schema.clone(),
        endpoint: endpoint.to_owned(),
        root,
        field: field.clone(),
        default_selection: default_selection.clone(),
    };
    let tool = OfferedTool {
        name: format!("{}.{word}", root.as_str()),
        title: None,
        description: description(root, field),
        input_schema: input::schema(schema, field, default_selection.as_deref()).into(),
        // What is answered depends on the caller's selection.
        output_schema: None,
        server: None,
        effects: Effects {
            destructive: !reads,
            idempotent: false,
            open_world: true,
            read_only: reads,
            ..Effects::default()
        },
        origin: operation.origin(),
    };
    (tool, operation)
}

fn description(root: Root, field: &Field) -> String {
    let said = field.description.as_deref().map(str::trim).filter(|text| !text.is_empty());
    let mut text = said.map_or_else(|| format!("{} {}", root.as_str(), field.name), str::to_owned);
    if field.is_deprecated {
        text.insert_str(0, "Deprecated. ");
    }
    bounded(&text, MAX_DESCRIPTION_BYTES)
}

fn checked(endpoint: &str) -> Result<String, String> {
    let refuse = |problem: &str| Err(format!("the endpoint {problem}"));
    let Ok(url) = Url::parse(endpoint) else { return refuse("is no absolute URL") };
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return refuse("is not http or https");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return refuse("carries credentials; configure them apart");
    }
    if url.fragment().is_some() {
        return refuse("has a fragment");
    }
    Ok(url.to_string())
}
