//! The tools as MCP clients see them, made once: names, schemas, hints.
//!
//! Promise: one name is one tool. A tool that has an object for its output advertises a schema that admits that output or a
//! paused execution, because any call may come to wait: policy can ask about a tool that only reads, and a handler can ask by
//! itself. Official clients hold `structuredContent` against that schema.

use std::collections::HashMap;
use std::sync::Arc;

use countersign_kernel::ports::ByteBudget;
use countersign_kernel::{Catalog, CatalogTool};
use countersign_sdk::ToolPath;
use rmcp::model::{
    CacheScope, ErrorData, JsonObject, ListToolsResult, PaginatedRequestParams, Tool, ToolAnnotations,
};
use serde_json::{Value, json};

use super::MountError;
use super::companion::Companion;
use super::options::Surface;
use super::requests::Era;
use crate::size::json_bytes;

/// The most tools in one part of the list.
const PAGE: usize = 500;
/// How long a client may go by a list it has: the catalog is fixed while a process lives, and a change is announced.
const LIST_FRESH_MS: u64 = 60_000;

/// All tools, in the order of the list.
pub(super) struct Shelf {
    tools: Vec<Tool>,
    by_name: HashMap<String, (usize, Item)>,
}

/// What stands behind a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Item {
    /// A tool of the catalog.
    Catalog(ToolPath),
    /// One of the gateway's own.
    Own(Own),
    /// A tool of the companion.
    Companion,
}

/// The gateway's own tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Own {
    /// `run`: a script.
    Run,
    /// `resume`: waiting for an execution.
    Resume,
    /// `search_tools`: finding tools.
    Search,
    /// `read_tool`: reading one.
    Read,
}

impl Shelf {
    pub(super) fn new(
        catalog: &Catalog,
        surface: Surface,
        companion: Option<&Companion>,
    ) -> Result<Self, MountError> {
        let mut shelf = Self { tools: Vec::new(), by_name: HashMap::new() };
        let ours: &[_] = match surface {
            Surface::Both | Surface::Script => &[Own::Run, Own::Resume, Own::Search, Own::Read],
            Surface::Tools => &[Own::Resume, Own::Search, Own::Read],
        };
        for own in ours {
            shelf.put(own_tool(*own), Item::Own(*own))?;
        }
        if surface != Surface::Script {
            for tool in catalog.iter() {
                shelf.put(catalog_tool(tool), Item::Catalog(tool.path().clone()))?;
            }
        }
        if let Some(companion) = companion {
            companion.check(|name| shelf.by_name.contains_key(name))?;
            for tool in companion.tools() {
                shelf.put(tool.clone(), Item::Companion)?;
            }
        }
        Ok(shelf)
    }

    fn put(&mut self, tool: Tool, item: Item) -> Result<(), MountError> {
        let name = tool.name.to_string();
        if let Some((_, other)) = self.by_name.get(&name) {
            return Err(MountError::NameTaken { name, one: what(other), other: what(&item) });
        }
        self.by_name.insert(name, (self.tools.len(), item));
        self.tools.push(tool);
        Ok(())
    }

    /// What stands behind a name.
    pub(super) fn find(&self, name: &str) -> Option<&Item> {
        self.by_name.get(name).map(|(_, item)| item)
    }

    /// A tool by its name.
    pub(super) fn tool(&self, name: &str) -> Option<&Tool> {
        self.by_name.get(name).map(|(at, _)| &self.tools[*at])
    }

    /// Whether a tool's output goes into `structuredContent`.
    pub(super) fn is_structured(&self, name: &str) -> bool {
        self.tool(name).is_some_and(|tool| tool.output_schema.is_some())
    }

    /// A part of the list, as this era has it. The cursor is where it goes on.
    pub(super) fn list(
        &self,
        page: Option<PaginatedRequestParams>,
        era: Era,
    ) -> Result<ListToolsResult, ErrorData> {
        let start = match page.and_then(|page| page.cursor) {
            None => 0,
            Some(cursor) => {
                let start = cursor.parse::<usize>().ok().filter(|start| *start <= self.tools.len());
                start.ok_or_else(|| {
                    let data = json!({ "code": "bad_cursor" });
                    ErrorData::invalid_params("the cursor is not one of this list; start anew", Some(data))
                })?
            }
        };
        let mut budget = ByteBudget::of_a_part();
        let fits = self.tools[start..].iter().take(PAGE).take_while(|tool| budget.takes(json_bytes(tool)));
        let end = start + fits.count();
        let mut list = ListToolsResult::with_all_items(self.tools[start..end].to_vec());
        if era == Era::July2026 {
            list = list.with_ttl_ms(LIST_FRESH_MS).with_cache_scope(CacheScope::Private);
        }
        list.next_cursor = (end < self.tools.len()).then(|| end.to_string());
        Ok(list)
    }
}

/// What MCP clients call a tool of the catalog.
pub(super) fn name_of(tool: &CatalogTool) -> String {
    let chosen = tool.tool().definition().mcp_name.clone();
    chosen.unwrap_or_else(|| tool.path().as_str().replace('.', "__"))
}

fn what(item: &Item) -> String {
    match item {
        Item::Catalog(path) => path.to_string(),
        Item::Companion => "a tool of the companion".into(),
        Item::Own(_) => "a tool of the gateway itself".into(),
    }
}

fn catalog_tool(tool: &CatalogTool) -> Tool {
    let definition = tool.tool().definition();
    let effects = tool.effects();
    // Nothing is said of reading only: a tool may write and destroy nothing, and effects do not tell the two apart.
    let hints = ToolAnnotations::with_title(definition.name.clone())
        .destructive(effects.destructive)
        .idempotent(effects.idempotent)
        .open_world(effects.open_world);
    let mut shown = Tool::new(name_of(tool), definition.description.clone(), object(tool.input_schema()))
        .with_title(definition.name.clone())
        .with_annotations(hints);
    shown.output_schema = output_or_paused(tool.output_schema()).map(Arc::new);
    shown
}

/// The schema of a tool's output or of a paused execution; none where the output is no object.
fn output_or_paused(own: &Value) -> Option<JsonObject> {
    let mut own = own.as_object().cloned()?;
    if own.get("type").and_then(Value::as_str) != Some("object") {
        return None;
    }
    // References point to the top, so that is where definitions stay. A dialect is left out: it is the default one, and a
    // client that has not loaded it by name refuses the whole tool.
    let definitions = own.remove("$defs");
    own.remove("$schema");
    let mut either = json!({ "type": "object", "anyOf": [Value::Object(own), paused_schema()] });
    if let Some(definitions) = definitions {
        either["$defs"] = definitions;
    }
    match either {
        Value::Object(either) => Some(either),
        _ => None,
    }
}

fn paused_schema() -> Value {
    json!({
        "type": "object",
        "title": "Paused",
        "description": "The call waits for a person. Call resume with its executionId to wait for the decision.",
        "properties": {
            "executionId": { "type": "string" },
            "status": { "const": "paused" },
            "success": { "const": false },
            "paused": { "type": "object" },
            "pending": { "type": "array", "items": { "type": "object" } }
        },
        "required": ["executionId", "status", "success", "pending"]
    })
}

fn own_tool(own: Own) -> Tool {
    let (name, title, description) = match own {
        Own::Run => ("run", "Run a script", RUN),
        Own::Resume => ("resume", "Wait for a decision", RESUME),
        Own::Search => ("search_tools", "Search tools", SEARCH),
        Own::Read => ("read_tool", "Read a tool", READ),
    };
    // A script can do whatever tools can; the rest only looks.
    let acts = own == Own::Run;
    let hints = ToolAnnotations::with_title(title).read_only(!acts).destructive(acts).open_world(acts);
    let mut tool =
        Tool::new(name, description, object(&own_input(own))).with_title(title).with_annotations(hints);
    tool.output_schema = own_output(own).as_object().cloned().map(Arc::new);
    tool
}

const RUN: &str = "Runs the body of an async TypeScript function that calls tools as `await tools.<path>(args)`. Use it for several \
calls, loops and conditions in one go; `return` gives the value and console.* is logged. What destroys, sends or \
overwrites waits for a person's approval. Find tools with search_tools and their types with read_tool.";
const RESUME: &str = "Waits for an execution that is paused until a person has decided, and gives its result; call it again if it is \
still paused. `approved` and `data` are for people: they change nothing unless the operator lets agents decide.";
const SEARCH: &str = "Finds tools by words in their path, name and description, best first.";
const READ: &str = "One tool: what it does, its schemas, whether it waits for approval, and its TypeScript declaration for scripts.";

fn own_input(own: Own) -> Value {
    let (properties, required) = match own {
        Own::Run => {
            let says = "The body of an async function, in TypeScript or JavaScript.";
            (json!({ "script": { "type": "string", "description": says } }), "script")
        }
        Own::Resume => (
            json!({
                "execution_id": { "type": "string", "description": "The executionId of the paused call or script, exec_…" },
                "approved": { "type": "boolean", "description": "A decision; changes nothing unless agents may decide here." },
                "data": { "type": "object", "description": "The fields of a form, with `approved: true`." }
            }),
            "execution_id",
        ),
        Own::Search => (
            json!({
                "query": { "type": "string", "description": "Words; empty finds everything." },
                "limit": { "type": "integer", "minimum": 1, "maximum": 100, "default": 10 }
            }),
            "query",
        ),
        Own::Read => {
            let says = "Its path, as in github.issues.create";
            (json!({ "path": { "type": "string", "description": says } }), "path")
        }
    };
    json!({
        "type": "object", "properties": properties, "required": [required], "additionalProperties": false
    })
}

fn own_output(own: Own) -> Value {
    match own {
        Own::Run | Own::Resume => execution_schema(),
        Own::Search => json!({
            "type": "object",
            "properties": { "tools": { "type": "array", "items": { "type": "object" } } },
            "required": ["tools"]
        }),
        Own::Read => json!({
            "type": "object",
            "properties": { "path": { "type": "string" }, "declaration": { "type": "string" } },
            "required": ["path"]
        }),
    }
}

fn execution_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "executionId": { "type": "string" },
            "status": { "enum": ["running", "paused", "in_doubt", "succeeded", "failed", "cancelled"] },
            "success": { "type": "boolean" },
            "value": {},
            "calls": { "type": "array", "items": { "type": "object" } },
            "logs": { "type": "array", "items": { "type": "object" } },
            "pending": { "type": "array", "items": { "type": "object" } }
        },
        "required": ["executionId", "status", "success"]
    })
}

fn object(schema: &Value) -> Arc<JsonObject> {
    Arc::new(schema.as_object().cloned().unwrap_or_default())
}
