//! Resources and prompts as clients list and read them: the companion's first, then those of every source.
//!
//! Promise: what the companion has under a name or URI is its own; everything else goes to a source, through its tools and the
//! gate (`source_lists.rs`, `source_reads.rs`).

use countersign_sdk::McpRequest;
use rmcp::ErrorData;
use rmcp::RoleServer;
use rmcp::model::{
    GetPromptRequestParams, GetPromptResponse, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, MetaObject, PaginatedRequestParams, Prompt, ReadResourceRequestParams,
    ReadResourceResponse, Resource, ResourceTemplate,
};
use rmcp::service::RequestContext;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::handler::Handler;
use super::source_lists::{Cursor, Part, tools_for};
use super::source_names::{prompt_name, prompt_of, resource_uri};
use super::upstream;

type Context = RequestContext<RoleServer>;

impl Handler {
    pub(super) async fn prompts(
        &self,
        page: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Result<ListPromptsResult, ErrorData> {
        let (first, cursor) = beginning(page.as_ref())?;
        let mut list = ListPromptsResult::default();
        if let (Some(companion), Some(page)) = (self.companion_with(|can| can.prompts.is_some()), first) {
            list = companion.list_prompts(Some(page), context.clone()).await?;
            if let Some(next) = list.next_cursor.take() {
                list.next_cursor = Cursor::Companion(next).text();
                return Ok(list);
            }
        }
        let mut part = self.incoming(&context)?.list_of_sources(McpRequest::ListPrompts, cursor).await?;
        let tools = tools_for(&self.front.gateway.catalog(), McpRequest::GetPrompt);
        let sources: Vec<&str> = tools.iter().map(|tool| tool.source()).collect();
        let prompts = named::<Prompt>(&mut part, |source, prompt| {
            prompt.name = prompt_name(source, &prompt.name);
        });
        // One whose name leads elsewhere could not be got.
        let leads_there =
            |source: &str, name: &str| prompt_of(name, &sources).is_some_and(|(found, _)| found == source);
        let prompts = prompts.into_iter().filter(|(source, prompt)| leads_there(source, &prompt.name));
        list.prompts.extend(prompts.map(|(_, prompt)| prompt));
        list.next_cursor.clone_from(&part.next);
        list.meta = merged(list.meta, &part);
        Ok(list)
    }

    pub(super) async fn prompt(
        &self,
        params: GetPromptRequestParams,
        context: Context,
    ) -> Result<GetPromptResponse, ErrorData> {
        let incoming = self.incoming(&context)?;
        let refused = match self.companion_with(|can| can.prompts.is_some()) {
            Some(companion) => match companion.get_prompt(params.clone(), context.clone()).await {
                Ok(got) => return Ok(got),
                Err(refused) => Some(refused),
            },
            None => None,
        };
        let got = incoming.prompt_of_source(&params.name, params.arguments).await;
        Ok(got.map_err(|error| companions_or(refused, error))?.into())
    }

    pub(super) async fn resources(
        &self,
        page: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Result<ListResourcesResult, ErrorData> {
        let (first, cursor) = beginning(page.as_ref())?;
        let mut list = ListResourcesResult::default();
        if let (Some(companion), Some(page)) = (self.companion_with(|can| can.resources.is_some()), first) {
            list = companion.list_resources(Some(page), context.clone()).await?;
            if let Some(next) = list.next_cursor.take() {
                list.next_cursor = Cursor::Companion(next).text();
                return Ok(list);
            }
        }
        let mut part = self.incoming(&context)?.list_of_sources(McpRequest::ListResources, cursor).await?;
        let resources = named::<Resource>(&mut part, |source, resource| {
            resource.uri = resource_uri(source, &resource.uri);
        });
        list.resources.extend(resources.into_iter().map(|(_, resource)| resource));
        list.next_cursor.clone_from(&part.next);
        list.meta = merged(list.meta, &part);
        Ok(list)
    }

    pub(super) async fn resource_templates(
        &self,
        page: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let (first, cursor) = beginning(page.as_ref())?;
        let mut list = ListResourceTemplatesResult::default();
        if let (Some(companion), Some(page)) = (self.companion_with(|can| can.resources.is_some()), first) {
            list = companion.list_resource_templates(Some(page), context.clone()).await?;
            if let Some(next) = list.next_cursor.take() {
                list.next_cursor = Cursor::Companion(next).text();
                return Ok(list);
            }
        }
        let request = McpRequest::ListResourceTemplates;
        let mut part = self.incoming(&context)?.list_of_sources(request, cursor).await?;
        let templates = named::<ResourceTemplate>(&mut part, |source, template| {
            template.uri_template = resource_uri(source, &template.uri_template);
        });
        list.resource_templates.extend(templates.into_iter().map(|(_, template)| template));
        list.next_cursor.clone_from(&part.next);
        list.meta = merged(list.meta, &part);
        Ok(list)
    }

    pub(super) async fn resource(
        &self,
        params: ReadResourceRequestParams,
        context: Context,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let incoming = self.incoming(&context)?;
        let refused = match self.companion_with(|can| can.resources.is_some()) {
            Some(companion) => match companion.read_resource(params.clone(), context.clone()).await {
                Ok(read) => return Ok(read),
                Err(refused) => Some(refused),
            },
            None => None,
        };
        let read = incoming.read_of_source(&params.uri).await;
        Ok(read.map_err(|error| companions_or(refused, error))?.into())
    }
}

/// Where a list begins: the page that the companion is asked for, where its part is not over, and where the sources go on.
fn beginning(
    page: Option<&PaginatedRequestParams>,
) -> Result<(Option<PaginatedRequestParams>, Option<Cursor>), ErrorData> {
    let cursor = Cursor::read(page.and_then(|page| page.cursor.as_deref()))?;
    let first = PaginatedRequestParams::default();
    Ok(match cursor {
        None => (Some(first), None),
        Some(Cursor::Companion(cursor)) => (Some(first.with_cursor(Some(cursor))), None),
        Some(sources) => (None, Some(sources)),
    })
}

/// The entries of all sources, each with its source and named after it.
fn named<T: DeserializeOwned>(part: &mut Part, name: impl Fn(&str, &mut T)) -> Vec<(String, T)> {
    let mut named = Vec::new();
    for (source, entries) in std::mem::take(&mut part.entries) {
        for mut entry in upstream::entries::<T>(entries, &source) {
            name(&source, &mut entry);
            named.push((source.clone(), entry));
        }
    }
    named
}

fn merged(companions: Option<MetaObject>, part: &Part) -> Option<MetaObject> {
    match (companions, part.meta()) {
        (Some(mut meta), Some(ours)) => {
            meta.0.extend(ours.0);
            Some(meta)
        }
        (companions, ours) => companions.or(ours),
    }
}

/// The error of a name that neither the companion nor a source knows is the companion's; any other is the source's.
fn companions_or(companions: Option<ErrorData>, error: ErrorData) -> ErrorData {
    let code = error.data.as_ref().and_then(|data| data.get("code")).and_then(Value::as_str);
    let is_unknown = code.is_some_and(|code| code.ends_with("_not_found"));
    companions.filter(|_| is_unknown).unwrap_or(error)
}
