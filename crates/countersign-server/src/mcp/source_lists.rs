//! Lists over all sources: resources, templates and prompts, read through the sources' own tools as the caller.
//!
//! Promises: every page of every source is a call that policy judged and the journal has. A list asks nobody: a source whose
//! list policy does not simply allow is left out, and so is one that fails; `_meta["countersign/leftOut"]` says which, why, and
//! what to do. A page is bounded in sources and bytes, and the next one goes on from there.

use std::sync::Arc;
use std::time::Duration;

use countersign_core::policy::Effect;
use countersign_kernel::ports::ByteBudget;
use countersign_kernel::{CallRequest, Catalog, CatalogTool, Patience};
use countersign_sdk::{McpRequest, SessionId};
use futures_util::future::join_all;
use rmcp::ErrorData;
use rmcp::model::MetaObject;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::answer::invalid;
use super::requests::Incoming;

/// The most sources that are read for one page.
const MAX_SOURCES_PER_PAGE: usize = 16;
/// How long one source may take to list a page. Clients give up on a list after a minute.
const LIST_PATIENCE: Duration = Duration::from_secs(10);
/// The longest cursor of a source that is passed on.
const MAX_CURSOR_BYTES: usize = 1_024;
/// The most pages of one source that are read to find something.
const MAX_PAGES: usize = 10;
/// Where it says which sources are left out.
const LEFT_OUT: &str = "countersign/leftOut";

/// Where a list goes on. Clients carry it as JSON; what they change in it only changes what they are shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Cursor {
    /// In the companion's list, which comes first.
    Companion(String),
    /// In these sources.
    Sources(Vec<Place>),
}

/// A source that is still to be read, and its own cursor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    source: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

/// A part of a list.
#[derive(Debug, Default)]
pub(super) struct Part {
    /// Each source with its entries, as it sent them.
    pub(super) entries: Vec<(String, Vec<Value>)>,
    pub(super) next: Option<String>,
    left_out: Vec<Value>,
}

/// Why a source is not in a list.
#[derive(Debug)]
struct LeftOut {
    code: String,
    message: String,
}

/// What one source answered.
type Answered = Result<(Vec<Value>, Option<String>), LeftOut>;

impl Cursor {
    /// What a client sent; nothing at the beginning.
    pub(super) fn read(text: Option<&str>) -> Result<Option<Self>, ErrorData> {
        let Some(text) = text else { return Ok(None) };
        let read = serde_json::from_str(text);
        read.map(Some).map_err(|_| invalid("bad_cursor", "the cursor is not one of this list; start anew"))
    }

    pub(super) fn text(&self) -> Option<String> {
        serde_json::to_string(self).ok()
    }
}

impl Part {
    /// What is said about sources that are left out.
    pub(super) fn meta(&self) -> Option<MetaObject> {
        if self.left_out.is_empty() {
            return None;
        }
        let mut meta = MetaObject::default();
        meta.0.insert(LEFT_OUT.into(), Value::Array(self.left_out.clone()));
        Some(meta)
    }

    fn leave_out(&mut self, source: &str, why: &LeftOut) {
        tracing::debug!(source, code = why.code, why.message, "a source is left out of a list");
        self.left_out.push(json!({ "source": source, "code": why.code, "message": why.message }));
    }
}

/// The tools that stand for a request, by path: at most one for each source.
pub(super) fn tools_for(catalog: &Catalog, request: McpRequest) -> Vec<Arc<CatalogTool>> {
    let stands_for = |tool: &&Arc<CatalogTool>| tool.tool().definition().mcp_request == Some(request);
    catalog.iter().filter(stands_for).cloned().collect()
}

impl Incoming<'_> {
    /// A part of a list over all sources.
    pub(super) async fn list_of_sources(
        &self,
        request: McpRequest,
        cursor: Option<Cursor>,
    ) -> Result<Part, ErrorData> {
        let tools = tools_for(&self.front.gateway.catalog(), request);
        let mut places: Vec<Place> = match cursor {
            Some(Cursor::Sources(places)) => places,
            _ => tools.iter().map(|tool| Place { source: tool.source().to_owned(), cursor: None }).collect(),
        };
        // A source that went meanwhile has nothing to list.
        places.retain(|place| tools.iter().any(|tool| tool.source() == place.source));
        let mut part = Part::default();
        if places.is_empty() {
            return Ok(part);
        }
        let session = self.session().await?;
        let mut later = places.split_off(places.len().min(MAX_SOURCES_PER_PAGE));
        let reading = places.iter().filter_map(|place| {
            let tool = tools.iter().find(|tool| tool.source() == place.source)?;
            Some(self.page_of(tool, place.cursor.as_deref(), &session))
        });
        let pages: Vec<Answered> = join_all(reading).await;
        let mut budget = ByteBudget::of_a_part();
        for (place, page) in places.into_iter().zip(pages) {
            match page {
                Err(why) => part.leave_out(&place.source, &why),
                Ok((entries, _)) if !budget.takes(bytes_of(&entries)) => later.push(place),
                Ok((entries, next)) => {
                    part.entries.push((place.source.clone(), entries));
                    later.extend(next.map(|cursor| Place { cursor: Some(cursor), ..place }));
                }
            }
        }
        part.next = if later.is_empty() { None } else { Cursor::Sources(later).text() };
        Ok(part)
    }

    /// Everything that one source lists, within bounds; nothing where it lists nothing to this caller.
    pub(super) async fn all_of(&self, tool: &CatalogTool, session: &SessionId) -> Vec<Value> {
        let (mut all, mut cursor) = (Vec::new(), None);
        for _ in 0..MAX_PAGES {
            let Ok((entries, next)) = self.page_of(tool, cursor.as_deref(), session).await else { break };
            all.extend(entries);
            if next.is_none() || next == cursor {
                break;
            }
            cursor = next;
        }
        all
    }

    /// One page of one source.
    async fn page_of(&self, tool: &CatalogTool, cursor: Option<&str>, session: &SessionId) -> Answered {
        let args = cursor.map_or_else(|| json!({}), |cursor| json!({ "cursor": cursor }));
        let gateway = &self.front.gateway;
        let path = tool.path().as_str();
        let verdict = gateway.explain(path, &args, &self.caller, session).map(|explained| explained.verdict);
        match verdict.map(|verdict| verdict.effect) {
            Some(Effect::Allow) | None => {}
            Some(Effect::Ask) => {
                let message = format!("{path} needs a person's approval; call it as a tool to ask for it");
                return Err(LeftOut { code: "approval_needed".into(), message });
            }
            Some(Effect::Deny) => {
                return Err(LeftOut { code: "denied".into(), message: format!("policy denies {path}") });
            }
        }
        let request = CallRequest {
            path: path.to_owned(),
            args,
            caller: self.caller.clone(),
            session: session.clone(),
            key: None,
            patience: Patience::UntilPausedWithin(LIST_PATIENCE),
        };
        let called = gateway.call(request).await;
        let result =
            called.map_err(|error| LeftOut { code: error.code().to_owned(), message: error.to_string() })?;
        match (result.value, result.error) {
            (Some(value), _) => Ok(page(value, tool.tool().definition().mcp_request)),
            (None, Some(error)) => Err(LeftOut { code: error.code, message: error.message }),
            (None, None) => {
                let message = format!("{path} does not answer; try again later");
                Err(LeftOut { code: "running".into(), message })
            }
        }
    }
}

/// The entries of a page and the cursor behind it.
fn page(mut value: Value, request: Option<McpRequest>) -> (Vec<Value>, Option<String>) {
    let key = match request {
        Some(McpRequest::ListResourceTemplates) => "resourceTemplates",
        Some(McpRequest::ListPrompts) => "prompts",
        _ => "resources",
    };
    let next = value.get("nextCursor").and_then(Value::as_str);
    let next =
        next.filter(|cursor| !cursor.is_empty() && cursor.len() <= MAX_CURSOR_BYTES).map(str::to_owned);
    let entries = match value.get_mut(key).map(Value::take) {
        Some(Value::Array(entries)) => entries,
        _ => Vec::new(),
    };
    (entries, next)
}

fn bytes_of(entries: &[Value]) -> usize {
    entries.iter().map(|entry| entry.to_string().len()).sum()
}
