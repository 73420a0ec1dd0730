//! The tools as MCP clients see them, made once for each catalog: names, schemas, hints.
//!
//! Promise: one name is one tool. Of two tools with one name, that of a plugin or the one that had it before keeps it; a
//! source's tool that comes later is left out, with a warning. A tool whose schema clients cannot be shown is left out, with a warning, and never spoils the
//! list; scripts and REST can call it all the same. No part of the list is larger than clients and the bridge take. A tool that has an object for its output advertises a schema that admits that output or a
//! paused execution, because any call may come to wait: policy can ask about a tool that only reads, and a handler can ask by
//! itself. Official clients hold `structuredContent` against that schema.
//!
//! Where clients have `run` too, the list leaves out the tools of a source that has more than [`MAX_LISTED_PER_SOURCE`], and
//! the tools that stand for resources and prompts, which clients have in their own way. All of them are found by `search_tools`
//! and can be called by name and from scripts.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use countersign_kernel::ports::ByteBudget;
use countersign_kernel::{Catalog, CatalogTool};
use countersign_sdk::{EffectClass, McpRequest, ToolPath};
use rmcp::model::{
    CacheScope, ErrorData, JsonObject, ListToolsResult, PaginatedRequestParams, Tool, ToolAnnotations,
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::MountError;
use super::companion::Companion;
use super::options::Surface;
use super::requests::Era;
use super::schemas;
use super::upstream;

/// The most tools in one part of the list.
const PAGE: usize = 1_000;
/// The most tools of one source in the list, where clients can also search and run scripts. Lists of hundreds of tools fill a
/// model's context before its work begins.
pub(super) const MAX_LISTED_PER_SOURCE: usize = 40;
/// The longest name of a source's tool. Model providers take 64 characters, and clients put their own words for the server in
/// front: `mcp__countersign__`.
const MAX_NAME_CHARS: usize = 64 - "mcp__countersign__".len();
/// How many hexadecimal digits tell apart names that were cut.
const MARK_CHARS: usize = 6;
/// Where a schema says that an argument is sent in a header as well.
const HEADER_PARAM: &str = "x-mcp-header";
/// How long a client may go by a list it has. A change is announced.
const LIST_FRESH_MS: u64 = 60_000;

/// All tools, in the order of the list.
pub(super) struct Shelf {
    tools: Vec<Shown>,
    /// Tools that can be called by name and are not in the list.
    unlisted: Vec<Tool>,
    by_name: HashMap<String, Place>,
}

/// A tool of the list, and how much of a part it takes.
struct Shown {
    tool: Tool,
    bytes: usize,
}

/// Where a name leads.
struct Place {
    item: Item,
    at: Option<Slot>,
    /// Whether clients send some of its arguments in headers as well.
    has_header_params: bool,
}

/// Where a tool is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
    /// In the list, at this place.
    Listed(usize),
    /// Beside the list.
    Unlisted(usize),
}

/// Whether a tool goes into the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Listing {
    Listed,
    Unlisted,
}

/// What stands behind a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Item {
    /// A tool of the catalog.
    Catalog(ToolPath),
    /// A tool of the catalog that clients cannot be shown.
    NotShown(ToolPath),
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
    /// The list of a catalog. `before` is the list that clients have, whose names stay with their tools.
    pub(super) fn new(
        catalog: &Catalog,
        surface: Surface,
        companion: Option<&Companion>,
        before: Option<&Self>,
    ) -> Result<Self, MountError> {
        let mut shelf = Self::empty();
        let ours: &[_] = match surface {
            Surface::Both | Surface::Script => &[Own::Run, Own::Resume, Own::Search, Own::Read],
            Surface::Tools => &[Own::Resume, Own::Search, Own::Read],
        };
        for own in ours {
            let tool = own_tool(*own);
            shelf.put(tool.name.to_string(), Some(tool), Item::Own(*own), Listing::Listed)?;
        }
        if surface != Surface::Script {
            let holders = holders(catalog, before);
            let large = if surface == Surface::Both { large_sources(catalog) } else { HashSet::new() };
            let is_companions = |name: &str| companion.is_some_and(|companion| companion.has(name));
            for tool in catalog.iter() {
                let name = name_of(tool);
                let is_taken = holders.get(&name) != Some(&tool.path())
                    || shelf.by_name.contains_key(&name)
                    || is_companions(&name);
                if tool.tool().is_foreign() && is_taken {
                    left_out(tool.path().as_str(), &"another tool has its name");
                    continue;
                }
                let (shown, path) = (catalog_tool(tool), tool.path().clone());
                let item = if shown.is_some() { Item::Catalog(path) } else { Item::NotShown(path) };
                let listing = listing(tool, surface, &large);
                shelf.put(name, shown, item, listing)?;
            }
        }
        if let Some(companion) = companion {
            companion.check(|name| shelf.by_name.contains_key(name))?;
            for tool in companion.tools() {
                let shown = companion_tool(tool);
                shelf.put(tool.name.to_string(), shown, Item::Companion, Listing::Listed)?;
            }
        }
        Ok(shelf)
    }

    fn empty() -> Self {
        Self { tools: Vec::new(), unlisted: Vec::new(), by_name: HashMap::new() }
    }

    fn put(
        &mut self,
        name: String,
        tool: Option<Tool>,
        item: Item,
        listing: Listing,
    ) -> Result<(), MountError> {
        if let Some(other) = self.by_name.get(&name) {
            return Err(MountError::NameTaken { name, one: what(&other.item), other: what(&item) });
        }
        let has_header_params = tool.as_ref().is_some_and(|tool| annotates_headers(&tool.input_schema));
        let at = tool.map(|tool| self.keep(tool, listing));
        self.by_name.insert(name, Place { item, at, has_header_params });
        Ok(())
    }

    fn keep(&mut self, tool: Tool, listing: Listing) -> Slot {
        match listing {
            Listing::Listed => {
                let bytes = serde_json::to_string(&tool).map_or(0, |text| text.len());
                self.tools.push(Shown { tool, bytes });
                Slot::Listed(self.tools.len() - 1)
            }
            Listing::Unlisted => {
                self.unlisted.push(tool);
                Slot::Unlisted(self.unlisted.len() - 1)
            }
        }
    }

    /// What stands behind a name.
    pub(super) fn find(&self, name: &str) -> Option<&Item> {
        self.by_name.get(name).map(|place| &place.item)
    }

    /// Whether clients send some of a tool's arguments in headers as well.
    pub(super) fn has_header_params(&self, name: &str) -> bool {
        self.by_name.get(name).is_some_and(|place| place.has_header_params)
    }

    /// A tool by its name.
    pub(super) fn tool(&self, name: &str) -> Option<&Tool> {
        match self.by_name.get(name)?.at? {
            Slot::Listed(at) => self.tools.get(at).map(|shown| &shown.tool),
            Slot::Unlisted(at) => self.unlisted.get(at),
        }
    }

    /// Whether a name is in the list.
    pub(super) fn is_listed(&self, name: &str) -> bool {
        self.place(name).is_some()
    }

    fn place(&self, name: &str) -> Option<usize> {
        match self.by_name.get(name)?.at? {
            Slot::Listed(at) => Some(at),
            Slot::Unlisted(_) => None,
        }
    }

    /// What clients call a tool of the catalog, where they can.
    pub(super) fn shown_name(&self, tool: &CatalogTool) -> Option<String> {
        let is_shown =
            |name: &String| matches!(self.find(name), Some(Item::Catalog(path)) if path == tool.path());
        Some(name_of(tool)).filter(is_shown)
    }

    /// Whether a tool's output goes into `structuredContent`.
    pub(super) fn is_structured(&self, name: &str) -> bool {
        self.tool(name).is_some_and(|tool| tool.output_schema.is_some())
    }

    /// A part of the list, as this era has it. The cursor is the name of the last tool of the part before, so that a list
    /// which changed meanwhile goes on in the right place.
    pub(super) fn list(
        &self,
        page: Option<PaginatedRequestParams>,
        era: Era,
    ) -> Result<ListToolsResult, ErrorData> {
        let start = match page.and_then(|page| page.cursor) {
            None => 0,
            Some(cursor) => self.place(&cursor).map(|last| last + 1).ok_or_else(|| {
                let data = json!({ "code": "bad_cursor" });
                ErrorData::invalid_params("the cursor is not one of this list; start anew", Some(data))
            })?,
        };
        let mut budget = ByteBudget::of_a_part();
        let fits = self.tools[start..].iter().take(PAGE).take_while(|shown| budget.takes(shown.bytes));
        let tools: Vec<Tool> = fits.map(|shown| shown.tool.clone()).collect();
        let end = start + tools.len();
        let last = tools.last().map(|tool| tool.name.to_string());
        let mut list = ListToolsResult::with_all_items(tools);
        if era == Era::July2026 {
            list = list.with_ttl_ms(LIST_FRESH_MS).with_cache_scope(CacheScope::Private);
        }
        list.next_cursor = last.filter(|_| end < self.tools.len());
        Ok(list)
    }
}

/// What MCP clients call a tool of the catalog. The name of a source's tool that is too long is cut, and marked by the hash of
/// its path: whatever other tools there are, it is the same every time.
pub(super) fn name_of(tool: &CatalogTool) -> String {
    let chosen = tool.tool().definition().mcp_name.clone();
    chosen.unwrap_or_else(|| {
        let name = tool.path().as_str().replace('.', "__");
        if tool.tool().is_foreign() { fitted(name, tool.path()) } else { name }
    })
}

fn fitted(mut name: String, path: &ToolPath) -> String {
    if name.len() <= MAX_NAME_CHARS {
        return name;
    }
    let hash = Sha256::digest(path.as_str().as_bytes());
    let mark: String = hash.iter().take(MARK_CHARS / 2).map(|byte| format!("{byte:02x}")).collect();
    // Paths are ASCII.
    name.truncate(MAX_NAME_CHARS - MARK_CHARS - 1);
    format!("{name}_{mark}")
}

/// The sources that have too many tools for the list.
fn large_sources(catalog: &Catalog) -> HashSet<&str> {
    let mut tools: HashMap<&str, usize> = HashMap::new();
    for tool in catalog.iter().filter(|tool| tool.tool().is_foreign() && !stands_for_a_request(tool)) {
        *tools.entry(tool.source()).or_default() += 1;
    }
    tools.into_iter().filter(|(_, tools)| *tools > MAX_LISTED_PER_SOURCE).map(|(source, _)| source).collect()
}

fn listing(tool: &CatalogTool, surface: Surface, large: &HashSet<&str>) -> Listing {
    let is_left_out =
        (tool.tool().is_foreign() && large.contains(tool.source())) || stands_for_a_request(tool);
    if surface == Surface::Both && is_left_out { Listing::Unlisted } else { Listing::Listed }
}

/// Whether a tool stands for resources or prompts of an upstream MCP server.
fn stands_for_a_request(tool: &CatalogTool) -> bool {
    tool.tool().definition().mcp_request.is_some_and(|request| request != McpRequest::CallTool)
}

/// Which tool has which name: the one that had it, else one of a plugin, else the first by path.
fn holders<'a>(catalog: &'a Catalog, before: Option<&Shelf>) -> HashMap<String, &'a ToolPath> {
    let rank = |name: &str, tool: &CatalogTool| match before.and_then(|before| before.find(name)) {
        Some(Item::Catalog(path) | Item::NotShown(path)) if path == tool.path() => 0,
        _ if !tool.tool().is_foreign() => 1,
        _ => 2,
    };
    let mut holders: HashMap<String, (u8, &ToolPath)> = HashMap::new();
    for tool in catalog.iter() {
        let name = name_of(tool);
        let candidate = (rank(&name, tool), tool.path());
        let holder = holders.entry(name).or_insert(candidate);
        *holder = candidate.min(*holder);
    }
    holders.into_iter().map(|(name, (_, path))| (name, path)).collect()
}

/// Whether a schema says anywhere that an argument is sent in a header as well.
fn annotates_headers(schema: &JsonObject) -> bool {
    fn within(value: &Value) -> bool {
        match value {
            Value::Object(object) => annotates_headers(object),
            Value::Array(items) => items.iter().any(within),
            _ => false,
        }
    }
    schema.contains_key(HEADER_PARAM) || schema.values().any(within)
}

fn what(item: &Item) -> String {
    match item {
        Item::Catalog(path) | Item::NotShown(path) => path.to_string(),
        Item::Companion => "a tool of the companion".into(),
        Item::Own(_) => "a tool of the gateway itself".into(),
    }
}

/// A tool of the catalog as clients see it; none where they cannot be shown what it takes.
fn catalog_tool(tool: &CatalogTool) -> Option<Tool> {
    let definition = tool.tool().definition();
    let effects = tool.effects();
    let input =
        schemas::input(&tool.input_schema()).map_err(|why| left_out(tool.path().as_str(), &why)).ok()?;
    let mut hints = ToolAnnotations::with_title(definition.name.clone())
        .destructive(effects.destructive)
        .idempotent(effects.idempotent)
        .open_world(effects.open_world);
    // Clients run what only reads without a question, so nothing is said of tools that do not say it themselves.
    if effects.class() == EffectClass::Reads {
        hints = hints.read_only(true);
    }
    let mut shown = Tool::new(name_of(tool), definition.description.clone(), input)
        .with_title(definition.name.clone())
        .with_annotations(hints);
    let own = match upstream::is_upstream_call(tool) {
        true => upstream::own_output_schema(tool),
        // Clients refuse a result that does not fit an advertised schema; `read_tool` has this one.
        false if definition.output_is_hint => None,
        false => Some(tool.output_schema().clone()),
    };
    let output = own.map_or(Ok(None), |own| schemas::output(&own, Some(paused_schema())));
    shown.output_schema = output.unwrap_or_else(|why| as_text(tool.path().as_str(), &why)).map(Arc::new);
    Some(shown)
}

/// A tool of the companion as clients see it.
fn companion_tool(tool: &Tool) -> Option<Tool> {
    let schema = |schema: &Arc<JsonObject>| Value::Object((**schema).clone());
    let mut shown = tool.clone();
    let input = schemas::input(&schema(&tool.input_schema));
    shown.input_schema = Arc::new(input.map_err(|why| left_out(&tool.name, &why)).ok()?);
    if let Some(output) = &tool.output_schema {
        let output = schemas::output(&schema(output), None);
        shown.output_schema = output.unwrap_or_else(|why| as_text(&tool.name, &why)).map(Arc::new);
    }
    Some(shown)
}

fn left_out(tool: &str, why: &dyn std::fmt::Display) {
    tracing::warn!(
        tool,
        %why,
        "MCP clients cannot be shown this tool; it is left out of tools/list, and scripts and REST can still call it"
    );
}

fn as_text<T>(tool: &str, why: &schemas::NotShown) -> Option<T> {
    tracing::warn!(tool, %why, "MCP clients cannot be shown this tool's output schema; they get its results as text");
    None
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
const SEARCH: &str = "Finds tools by words in their path, name and description, best first. It also finds tools that tools/list leaves out \
(\"listed\": false): call them by their mcpName, or from a script with run.";
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

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_kernel::ports::MAX_LISTING_BYTES;

    /// Tools that weigh this much, one after the other.
    fn shelf(weights: &[usize]) -> Shelf {
        let mut shelf = Shelf::empty();
        for (n, bytes) in weights.iter().enumerate() {
            let tool = |description: String| Tool::new(format!("t{n:04}"), description, JsonObject::new());
            let empty = serde_json::to_string(&tool(String::new())).unwrap().len();
            let tool = tool("x".repeat(bytes.saturating_sub(empty)));
            shelf.put(tool.name.to_string(), Some(tool), Item::Companion, Listing::Listed).unwrap();
        }
        shelf
    }

    /// How many tools each part of the list has.
    fn parts(shelf: &Shelf) -> Vec<usize> {
        let (mut parts, mut page) = (Vec::new(), None);
        loop {
            let list = shelf.list(page, Era::July2026).unwrap();
            parts.push(list.tools.len());
            match list.next_cursor {
                Some(cursor) => page = Some(PaginatedRequestParams::default().with_cursor(Some(cursor))),
                None => return parts,
            }
        }
    }

    #[test]
    fn a_name_that_is_too_long_is_cut_and_marked_by_its_own_path() {
        let of = |path: &str| {
            let path = ToolPath::parse(path).unwrap();
            fitted(path.as_str().replace('.', "__"), &path)
        };
        let at_bound = format!("s.{}", "x".repeat(MAX_NAME_CHARS - 3));
        assert_eq!(of(&at_bound).len(), MAX_NAME_CHARS);
        assert!(of(&at_bound).ends_with('x'), "it is not cut");
        let past = format!("{at_bound}x");
        assert_eq!(of(&past).len(), MAX_NAME_CHARS);
        assert_ne!(of(&past), of(&format!("{past}y")), "what is cut away still tells them apart");
        assert_eq!(of(&past), of(&past));
        assert_eq!(MAX_NAME_CHARS, 46);
    }

    #[test]
    fn a_part_of_the_list_is_bounded_in_tools_and_in_bytes_and_every_tool_is_in_one() {
        assert_eq!(parts(&shelf(&[])), [0]);
        assert_eq!(parts(&shelf(&vec![0; PAGE])), [PAGE]);
        assert_eq!(parts(&shelf(&vec![0; PAGE + 1])), [PAGE, 1]);
        let half = MAX_LISTING_BYTES / 2;
        assert_eq!(parts(&shelf(&[half, half, half])), [2, 1]);
        assert_eq!(parts(&shelf(&[half, half + 1, half])), [1, 1, 1]);
        assert_eq!(
            parts(&shelf(&[100, MAX_LISTING_BYTES + 1, 100])),
            [1, 1, 1],
            "one that is too large stands alone"
        );
    }
}
