//! Tools whose types make schemas that some official client cannot read: one of them must not spoil the list for the others.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use countersign_kernel::ports::Store;
use countersign_kernel::{Gateway, NewToken};
use countersign_sdk::{Ctx, ExposeSecret as _, Plugin, Role, Tool, ToolError};
use countersign_server::{Links, Options};
use countersign_store::SqliteStore;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use crate::client::{Client, Elicitation, Era, in_every_era};
use crate::server::asked;

in_every_era!(
    a_tool_with_an_odd_schema_is_listed_and_called_beside_the_others,
    a_tool_whose_schema_cannot_be_shown_is_left_out_and_the_others_are_listed,
);

/// A server in this process, with the odd tools and nothing else.
struct Odd {
    _runtime: Runtime,
    _server: countersign_server::Server,
    _folder: TempDir,
    url: String,
    token: String,
}

impl Odd {
    fn serve() -> Self {
        let runtime = Runtime::new().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (server, url, token) = runtime.block_on(async {
            let store: Arc<dyn Store> = Arc::new(SqliteStore::open(folder.path()).unwrap());
            let gateway = Gateway::on(store).plugin(plugin()).start().await.unwrap();
            let token = gateway.create_token(NewToken::new("odd", Role::Agent), None).await.unwrap();
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("http://{}", listener.local_addr().unwrap());
            let options = Options::at(Links::below(&url), [7; 32]);
            let server = countersign_server::Server::start(listener, gateway, options, None).unwrap();
            (server, url, token.secret.expose_secret().to_owned())
        });
        Self { _runtime: runtime, _server: server, _folder: folder, url, token }
    }

    fn client(&self, era: Era) -> Client {
        Client::over_http(era, Elicitation::Absent, &self.url, &self.token)
    }
}

fn a_tool_with_an_odd_schema_is_listed_and_called_beside_the_others(era: Era) {
    let odd = Odd::serve();
    let mut client = odd.client(era);
    let tools = client.tools();
    let tree = json!({ "name": "a", "children": [{ "name": "b", "children": [] }] });
    for (name, arguments, output) in [
        ("odd__any", json!({ "value": [1, { "a": null }] }), json!({ "value": [1, { "a": null }] })),
        ("odd__never", json!({ "anything": 7 }), json!({ "anything": 7, "nothing": null })),
        ("odd__tree", tree.clone(), tree),
        ("odd__choice", json!({ "kind": "move", "x": 3 }), json!({ "chosen": "move to 3" })),
        ("odd__pattern", json!({ "text": "a-b" }), json!({ "text": "a-b" })),
        ("odd__pair", json!({ "n": 2 }), json!({ "pair": [2, "two"], "by_number": { "2": "two" } })),
        ("odd__plain", json!({ "n": 2 }), json!({ "n": 2 })),
    ] {
        let tool = tools.iter().find(|tool| tool["name"] == name).unwrap_or_else(|| panic!("no {name}"));
        assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
        assert_eq!(tool["outputSchema"]["type"], "object", "{tool}");
        let result = client.call(name, &arguments);
        assert_eq!(result["structuredContent"], output, "{name}: {result}");
    }
    let refused = client.call("odd__choice", &json!({ "kind": "fly" }));
    assert_eq!(refused["isError"], true, "a call is held against the tool's own schema: {refused}");
}

fn a_tool_whose_schema_cannot_be_shown_is_left_out_and_the_others_are_listed(era: Era) {
    let odd = Odd::serve();
    let mut client = odd.client(era);
    let names: Vec<Value> = client.tools().iter().map(|tool| tool["name"].clone()).collect();
    assert!(names.contains(&json!("odd__plain")), "{names:?}");
    for (name, path, arguments) in [
        ("odd__huge", "odd.huge", json!({ "value": "a" })),
        ("odd__deep", "odd.deep", json!({ "value": {} })),
    ] {
        assert!(!names.contains(&json!(name)), "{name} is listed");
        let refused = client.call(name, &arguments);
        let text = crate::client::text(&refused);
        assert!(text.contains("not_shown") && text.contains(path), "it says what to do instead: {refused}");
        let body = json!({ "tool": path, "args": arguments });
        let called = asked("POST", &format!("{}/api/executions", odd.url), &odd.token, Some(&body));
        assert_eq!(called["status"], "succeeded", "it can be called all the same: {called}");
    }
    let found = client.call("search_tools", &json!({ "query": "huge" }));
    let hits = found["structuredContent"]["tools"].as_array().unwrap();
    let named = |path: &str| hits.iter().find(|hit| hit["path"] == path).unwrap_or_else(|| panic!("{found}"));
    assert_eq!(named("odd.huge")["mcpName"], Value::Null, "it has no name over MCP");
    assert_eq!(named("odd.huge_output")["mcpName"], "odd__huge_output");
    let result = client.call("odd__huge_output", &json!({ "n": 1 }));
    assert_eq!(crate::client::text(&result), r#"{"value":"a"}"#, "its output is text: {result}");
}

#[test]
fn a_tool_that_cannot_be_shown_is_named_with_the_reason_when_the_server_starts() {
    let log = Log::default();
    let writer = log.clone();
    tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).init();
    let _odd = Odd::serve();
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let line = |tool: &str| {
        let named = format!("tool=\"{tool}\"");
        log.lines().find(|line| line.contains(&named)).unwrap_or_else(|| panic!("nothing of {tool}: {log}"))
    };
    assert!(
        line("odd.huge").contains("left out of tools/list") && line("odd.huge").contains("bytes"),
        "{log}"
    );
    assert!(line("odd.deep").contains("levels deep"), "{log}");
    assert!(line("odd.huge_output").contains("as text"), "{log}");
    assert!(!log.contains("odd.plain") && !log.contains("odd.any"), "what is shown needs no warning: {log}");
}

/// What was logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Any {
    value: Value,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Never {
    #[schemars(schema_with = "anything")]
    anything: Value,
    #[serde(default)]
    #[schemars(schema_with = "null_or_nothing")]
    nothing: Option<bool>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Tree {
    name: String,
    children: Vec<Tree>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Choice {
    Move { x: i32 },
    Stay,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Chosen {
    chosen: String,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Pattern {
    #[schemars(schema_with = "text_of_another_dialect")]
    text: String,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Number {
    n: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Pair {
    pair: (u64, String),
    by_number: BTreeMap<i64, String>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Huge {
    #[schemars(schema_with = "a_choice_of_very_many")]
    value: String,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Deep {
    #[schemars(schema_with = "objects_in_objects")]
    value: Value,
}

fn anything(_: &mut SchemaGenerator) -> Schema {
    true.into()
}

fn null_or_nothing(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "anyOf": [{ "type": "null" }, false] })
}

/// What JavaScript and Python take for no regular expression, and words of other dialects.
fn text_of_another_dialect(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "allOf": [{ "type": "string", "pattern": r"^[\w\-]+$" }, { "pattern": "(?i)^A-B$" }],
        "nullable": true, "id": "text", "example": "a-b"
    })
}

fn a_choice_of_very_many(_: &mut SchemaGenerator) -> Schema {
    let mut many: Vec<String> = (0..30_000).map(|n| format!("choice number {n}")).collect();
    many.push("a".into());
    json_schema!({ "type": "string", "enum": many })
}

fn objects_in_objects(_: &mut SchemaGenerator) -> Schema {
    let deep = (0..60).fold(
        json!({ "type": "string" }),
        |inner, _| json!({ "type": "object", "properties": { "a": inner } }),
    );
    deep.try_into().unwrap()
}

fn plugin() -> Plugin {
    let tool = |path: &str| Tool::new(path).name(path).describe("A tool with an odd schema.");
    Plugin::new("odd", "Odd", "Tools with odd schemas.")
        .tool(tool("odd.any").handler(async |_: Ctx, any: Any| Ok::<_, ToolError>(any)))
        .tool(tool("odd.never").handler(async |_: Ctx, never: Never| Ok::<_, ToolError>(never)))
        .tool(tool("odd.tree").handler(async |_: Ctx, tree: Tree| Ok::<_, ToolError>(tree)))
        .tool(tool("odd.choice").handler(async |_: Ctx, choice: Choice| {
            let chosen = match choice {
                Choice::Move { x } => format!("move to {x}"),
                Choice::Stay => "stay".to_owned(),
            };
            Ok::<_, ToolError>(Chosen { chosen })
        }))
        .tool(tool("odd.pattern").handler(async |_: Ctx, text: Pattern| Ok::<_, ToolError>(text)))
        .tool(tool("odd.pair").handler(async |_: Ctx, _: Number| {
            let by_number = BTreeMap::from([(2, "two".to_owned())]);
            Ok::<_, ToolError>(Pair { pair: (2, "two".into()), by_number })
        }))
        .tool(tool("odd.plain").handler(async |_: Ctx, number: Number| Ok::<_, ToolError>(number)))
        .tool(tool("odd.huge").handler(async |_: Ctx, huge: Huge| Ok::<_, ToolError>(huge)))
        .tool(
            tool("odd.huge_output")
                .handler(async |_: Ctx, _: Number| Ok::<_, ToolError>(Huge { value: "a".into() })),
        )
        .tool(tool("odd.deep").handler(async |_: Ctx, _: Deep| Ok::<_, ToolError>(Number { n: 1 })))
}
