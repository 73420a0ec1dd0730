//! A companion beside the gateway: what it may be, and what it cannot take over.

use axum::http::request::Parts;
use countersign_sdk::{Ctx, Plugin, Tool, ToolError};
use countersign_server::mcp::{self, Companion, CompanionError, MountError, Options};
use countersign_server::{Limits, Links};
use countersign_testkit::lab::Nothing;
use countersign_testkit::world::World;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ServerCapabilities, ServerConfig,
    Tool as McpTool, ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::json;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

use crate::client::{Era, text};
use crate::house::House;

struct Parrot;

impl ServerHandler for Parrot {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_prompts().build())
    }

    async fn call_tool(
        &self,
        params: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let said = match &*params.name {
            "headers" => format!("{:?}", context.extensions.get::<Parts>().unwrap().headers),
            name => format!("parrot: {name}"),
        };
        Ok(CallToolResult::success(vec![ContentBlock::text(said)]).into())
    }
}

fn tool(name: &'static str, hints: ToolAnnotations) -> McpTool {
    McpTool::new(name, "Says its name.", serde_json::Map::new()).with_annotations(hints)
}

fn reads() -> ToolAnnotations {
    ToolAnnotations::new().read_only(true)
}

async fn mounted(world: World, plugin: Option<Plugin>, tools: Vec<McpTool>) -> Result<(), MountError> {
    let builder = world.builder(Arc::new(world.disk.clone()));
    let builder = match plugin {
        Some(plugin) => builder.plugin(plugin),
        None => builder,
    };
    let mut options = Options::sealed_with([1; 32]);
    options.companion = Some(Companion::new(Parrot, tools));
    let gateway = world.start_with(builder).await;
    mcp::service(gateway, Links::below("http://x"), options, &Limits::default(), CancellationToken::new())
        .map(drop)
}

#[tokio::test]
async fn a_companion_answers_its_own_tools_and_adds_its_capabilities() {
    let house =
        House::with(|o| o.companion = Some(Companion::new(Parrot, vec![tool("squawk", reads())]))).await;
    for era in Era::ALL {
        let client = house.client(era).await;
        assert_eq!(text(&client.call("squawk", json!({})).await), "parrot: squawk");
        let read = client.call("lab__read", json!({ "what": "x" })).await;
        assert_eq!(
            read["structuredContent"],
            json!({ "what": "x" }),
            "the gateway's tools stay the gateway's"
        );
    }
    let found = house.client(Era::July2026).await.ask("server/discover", json!({})).await;
    assert!(found["result"]["capabilities"]["prompts"].is_object());
}

#[tokio::test]
async fn what_is_declared_is_served_and_nothing_else() {
    let with_prompts = House::with(|o| o.companion = Some(Companion::new(Parrot, vec![]))).await;
    let alone = House::open().await;
    let calls = [
        ("prompts/list", json!({})),
        ("prompts/get", json!({ "name": "p" })),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("resources/read", json!({ "uri": "a://b" })),
        (
            "completion/complete",
            json!({ "ref": { "type": "ref/prompt", "name": "p" }, "argument": { "name": "a", "value": "" } }),
        ),
    ];
    for era in Era::ALL {
        for (house, prompts) in [(&with_prompts, true), (&alone, false)] {
            let client = house.client(era).await;
            for (method, params) in &calls {
                let answer = client.ask(method, params.clone()).await;
                // Resources and prompts are always declared, because a source may bring some at any time.
                let unknown = answer["error"]["code"] == -32601;
                let is_own_prompt = *method == "prompts/get" && prompts;
                let is_unserved = *method == "completion/complete" || is_own_prompt;
                assert_eq!(unknown, is_unserved, "{era:?} {method} {prompts}: {answer}");
            }
        }
        let found = with_prompts.client(era).await.capabilities().await;
        assert!(found["prompts"].is_object() && found.get("completions").is_none(), "{era:?} {found}");
        let found = alone.client(era).await.capabilities().await;
        for list in ["tools", "resources", "prompts"] {
            assert_eq!(found[list]["listChanged"], true, "{era:?} {found}");
        }
    }
}

/// A26: what proves who calls goes no further than the door.
#[tokio::test]
async fn no_credential_reaches_a_companion() {
    let house =
        House::with(|o| o.companion = Some(Companion::new(Parrot, vec![tool("headers", reads())]))).await;
    let key = house.key(countersign_sdk::Role::Agent).await;
    for era in Era::ALL {
        let heard = house.client_of(&key, era).await.call("headers", json!({})).await;
        assert!(text(&heard).contains("mcp-protocol-version"), "{heard}");
        assert!(!text(&heard).contains(&key.secret) && !text(&heard).contains("authorization"), "{heard}");
    }
}

#[tokio::test]
async fn a_companion_whose_tools_do_not_only_read_is_refused() {
    for hints in [
        ToolAnnotations::new(),
        ToolAnnotations::new().read_only(false),
        ToolAnnotations::new().destructive(false),
    ] {
        let refused = mounted(World::new(1), None, vec![tool("squawk", hints)]).await;
        assert_eq!(refused, Err(CompanionError::NotReadOnly("squawk".into()).into()));
    }
    let silent = McpTool::new("squawk", "Says nothing of itself.", serde_json::Map::new());
    assert!(mounted(World::new(1), None, vec![silent]).await.is_err());
}

#[tokio::test]
async fn a_companion_takes_no_name_that_is_taken() {
    for name in ["lab__destroy", "resume", "run"] {
        let refused = mounted(World::new(1), None, vec![tool(name, reads())]).await;
        assert_eq!(refused, Err(CompanionError::NameTaken(name.into()).into()));
    }
    let twice = vec![tool("squawk", reads()), tool("squawk", reads())];
    assert!(mounted(World::new(1), None, twice).await.is_err());
}

#[tokio::test]
async fn two_tools_of_the_catalog_with_one_name_are_refused() {
    let named = |path: &str, name: Option<&str>| {
        let tool = Tool::new(path).name("N").describe("D");
        let tool = match name {
            Some(name) => tool.mcp_name(name),
            None => tool,
        };
        tool.handler(async |_: Ctx, _: Nothing| -> Result<Nothing, ToolError> { Ok(Nothing {}) })
    };
    let clash = |a: Tool, b: Tool| Plugin::new("p", "P", "D").tool(a).tool(b);
    for plugin in [
        clash(named("p.a.b", None), named("p.a__b", None)),
        clash(named("p.a", Some("same")), named("p.b", Some("same"))),
        clash(named("p.a", Some("resume")), named("p.b", None)),
    ] {
        let refused = mounted(World::new(1), Some(plugin), vec![]).await;
        assert!(matches!(refused, Err(MountError::NameTaken { .. })), "{refused:?}");
    }
    let bad = Plugin::new("p", "P", "D").tool(named("p.a", Some("no spaces")));
    assert!(bad.check().is_err(), "a name that clients do not take is refused at registration");
}
