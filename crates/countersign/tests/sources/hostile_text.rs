//! Text of an upstream that means harm, escapes and bidirectional controls in it: in terminal and console it is the letters it is.

use axum::Router;
use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::changing::{Changing, Era, Transport, eventually, tool};
use crate::ledger::node;
use crate::page::text_of;
use crate::server::Home;

/// As the upstream says it, and as a person reads it.
const RAW: &str = "\u{1b}[31mred\u{1b}[0m \u{202e}gnp.exe\u{7}";
const SHOWN: &str = "⟦U+001B⟧[31mred⟦U+001B⟧[0m ⟦U+202E⟧gnp.exe⟦U+0007⟧";

/// Whether nothing of a text moves a cursor, colours or turns what follows.
#[track_caller]
fn is_harmless(place: &str, text: &str) {
    let is_harmful = |c: &char| {
        (c.is_control() && *c != '\n') || matches!(*c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let found = text.chars().find(is_harmful);
    assert!(found.is_none(), "{place} has {found:?}: {text:?}");
}

impl Home {
    /// Everything that a command prints, whether it succeeds or not; it shows the text.
    #[track_caller]
    fn shows(&self, words: &[&str]) {
        let output = self.run(words);
        let text = [output.stdout, output.stderr].map(|part| String::from_utf8(part).unwrap()).concat();
        is_harmless(&words.join(" "), &text);
        assert!(text.contains(SHOWN), "{words:?} does not show it: {text}");
    }

    /// A console page that shows the text.
    async fn page_shows(&self, path: &str) {
        let page = self.page(path).await;
        is_harmless(path, &page);
        let text = text_of(&page);
        assert!(text.contains(SHOWN), "{path} does not show it: {text}");
    }
}

/// An upstream whose tools are described, ask and fail in hostile words, behind the gate.
async fn upstream(home: &Home) -> Changing {
    let reads = json!({ "readOnlyHint": true });
    let described = |name: &str| {
        let mut tool = tool(name, &reads);
        tool["description"] = json!(format!("{name} {RAW}"));
        tool
    };
    let server =
        Changing::start(Era::Legacy, Transport::Stdio, &json!([described("ask"), described("fail")])).await;
    let properties = json!({ "word": { "type": "string", "title": RAW, "description": RAW } });
    let question =
        json!({ "message": RAW, "requestedSchema": { "type": "object", "properties": properties } });
    server.put("question.json", &question);
    server.put("answer.json", &json!({ "isError": true, "content": [{ "type": "text", "text": RAW }] }));
    let (node, command) = (node().display().to_string(), server.command());
    let flags = ["mcp", "upstream", "--protocol", "legacy", "--trust-annotations", "--", &node];
    let words: Vec<&str> = flags.into_iter().chain(command[1..].iter().map(String::as_str)).collect();
    home.said(&[&["--json", "source", "add"], &words[..]].concat());
    server
}

fn accept(home: &Home) {
    let shown = home.said(&["source", "show", "upstream", "--json"]);
    let digest = shown["digest"].as_str().unwrap();
    home.said(&["source", "accept", "upstream", "--yes", "--digest", digest, "--json"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_tool_says_of_itself_is_harmless_where_a_person_accepts_it() {
    let home = Home::served();
    let _server = upstream(&home).await;
    home.shows(&["source", "show", "upstream"]);
    home.page_shows("/sources/upstream").await;
    accept(&home);
    home.shows(&["tools", "show", "upstream.ask"]);
    home.shows(&["tools", "upstream"]);
    home.page_shows("/tools").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_upstream_asks_is_harmless_in_the_inbox_and_named_as_its_own() {
    let home = Home::served();
    let _server = upstream(&home).await;
    accept(&home);
    let call = json!({ "tool": "upstream.ask", "args": {} });
    let waiting = home.client("agent").post("/api/executions", &call).await;
    let message = waiting["paused"]["message"].as_str().unwrap_or_else(|| panic!("{waiting:#}"));
    assert!(message.starts_with("upstream asks: "), "{message:?}");
    home.shows(&["inbox"]);
    home.page_shows("/").await;
    let elicitation = waiting["paused"]["elicitationId"].as_str().unwrap();
    // Without a terminal it decides nothing, and shows what there is to decide.
    let shown = home.run(&["approve", elicitation]);
    let text = [shown.stdout, shown.stderr].map(|part| String::from_utf8(part).unwrap()).concat();
    is_harmless("approve", &text);
    let path = format!("/elicitations/{elicitation}");
    home.page_shows(&path).await;
    home.page_shows(&format!("/executions/{}", waiting["executionId"].as_str().unwrap())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_upstream_fails_with_is_harmless_in_terminal_and_console() {
    let home = Home::served();
    let server = upstream(&home).await;
    accept(&home);
    home.shows(&["call", "upstream.fail", "{}"]);
    eventually(|| server.ledger() == ["fail"]).await;
    let ended =
        home.client("agent").post("/api/executions", &json!({ "tool": "upstream.fail", "args": {} })).await;
    assert_eq!(ended["error"]["code"], "upstream_error", "{ended:#}");
    let execution = ended["executionId"].as_str().unwrap();
    home.shows(&["executions", execution]);
    home.page_shows(&format!("/executions/{execution}")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_body_of_a_services_error_is_harmless_in_terminal_and_console() {
    let home = Home::served();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    let app = Router::new().fallback(async || (StatusCode::BAD_REQUEST, RAW));
    tokio::spawn(async move { axum::serve(listener, app).await });
    let document: Value = json!({
        "openapi": "3.1.0",
        "info": { "title": "Rude", "version": "1" },
        "servers": [{ "url": server }],
        "paths": { "/x": { "get": { "operationId": "look/x", "responses": {} } } },
    });
    let file = home.data().join("rude.json");
    std::fs::write(&file, document.to_string()).unwrap();
    home.added(&["openapi", "rude", file.to_str().unwrap(), "--allow-private"]);
    home.shows(&["call", "rude.look.x", "{}"]);
    let ended =
        home.client("agent").post("/api/executions", &json!({ "tool": "rude.look.x", "args": {} })).await;
    let execution = ended["executionId"].as_str().unwrap();
    home.shows(&["executions", execution]);
    home.page_shows(&format!("/executions/{execution}")).await;
}
