//! A server behind the gate that asks its own questions: they reach the attended client and the inbox in the source's name, as
//! the letters they are. And a call that a client gives up is cancelled there too.

use std::path::Path;

use serde_json::{Value, json};

use crate::changing::{self, Changing, Transport, tool};
use crate::client::{Client, Elicitation, Era, accept, in_every_era, text};
use crate::node::toolbox;
use crate::server::{PROGRAM, Server, asked};
use crate::upstream::Upstream;

in_every_era!(
    a_question_of_a_server_over_stdio_reaches_the_client_and_the_inbox_in_its_name,
    a_question_of_a_server_over_http_reaches_the_client_and_the_inbox_in_its_name,
    a_question_of_a_server_can_be_answered_in_the_inbox,
);

const EVERYTHING: &str = "node_modules/@modelcontextprotocol/server-everything/dist/index.js";
const TOOL: &str = "everything__trigger_elicitation_request";
const ASKS: &str = "Please provide inputs for the following fields:";

fn with_everything_over_stdio() -> Server {
    let server = Server::of(Path::new(PROGRAM), &[]);
    server.add_mcp_source("everything", &[], &toolbox().server(EVERYTHING, &["stdio"]));
    server
}

/// The one thing that waits for a person, as the inbox has it.
fn waiting(server: &Server) -> Value {
    server.until("something waits", |server| !server.pending().is_empty());
    let list = format!("{}/api/elicitation?status=pending", server.url());
    let list = asked("GET", &list, &server.token("admin"), None);
    let items = list["items"].as_array().unwrap();
    assert_eq!(items.len(), 1, "{list:#}");
    items[0].clone()
}

fn a_question_of_a_server_over_stdio_reaches_the_client_and_the_inbox_in_its_name(era: Era) {
    reaches_client_and_inbox(era, &with_everything_over_stdio());
}

fn a_question_of_a_server_over_http_reaches_the_client_and_the_inbox_in_its_name(era: Era) {
    let (upstream, server) = (Upstream::everything(), Server::of(Path::new(PROGRAM), &[]));
    server.add_mcp_source_at("everything", &[], &upstream.url);
    reaches_client_and_inbox(era, &server);
}

/// The gate asks first, whether the call may run at all, and then the server asks what it wants to know.
fn reaches_client_and_inbox(era: Era, server: &Server) {
    let mut client = server.client(era, Elicitation::Declared);
    let call = client.begin(TOOL, &json!({}));
    let gate = client.asked();
    assert!(!gate.message.contains(ASKS), "{}", gate.message);
    client.answer(&gate, &accept(&json!({ "decision": "approve" })));
    let question = client.asked();
    assert!(question.message.contains("everything asks: "), "{}", question.message);
    assert!(question.message.contains(ASKS), "{}", question.message);
    assert_eq!(question.schema["properties"]["check"]["type"], "boolean", "{}", question.schema);
    let item = waiting(server);
    assert_eq!(item["type"], "form", "{item:#}");
    assert_eq!(item["message"], format!("everything asks: {ASKS}"), "{item:#}");
    client.answer(&question, &accept(&json!({ "name": "Ada Lovelace", "check": true })));
    let result = client.result(call);
    assert!(text(&result).contains("Ada Lovelace"), "{result}");
}

fn a_question_of_a_server_can_be_answered_in_the_inbox(era: Era) {
    let server = with_everything_over_stdio();
    let mut client = server.client(era, Elicitation::Declared);
    let call = client.begin(TOOL, &json!({}));
    let gate = client.asked();
    client.answer(&gate, &accept(&json!({ "decision": "approve" })));
    let question = client.asked();
    let item = waiting(&server);
    let id = item["elicitationId"].as_str().or(item["id"].as_str()).unwrap_or_else(|| panic!("{item:#}"));
    let data = json!({ "name": "Grace Hopper", "check": false });
    let body = json!({ "executionId": item["executionId"], "approved": true, "data": data });
    let route = format!("{}/api/elicitation/{id}/resolve", server.url());
    asked("POST", &route, &server.token("admin"), Some(&body));
    // In the newer era the client learns of it when it comes back with the user's answer, whatever that is.
    match era {
        Era::June2025 | Era::November2025 => client.sees_withdrawn(&question),
        Era::July2026 => client.answer(&question, &json!({ "action": "decline" })),
    }
    let result = client.result(call);
    assert!(text(&result).contains("Grace Hopper"), "the first answer counts: {result}");
}

/// A server of the tests, behind the gate.
fn changing(era: changing::Era, flags: &[&str], tools: &Value) -> (Server, Changing) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let upstream = runtime.block_on(Changing::start(era, Transport::Stdio, tools));
    let server = Server::of(Path::new(PROGRAM), &[]);
    let mut command = upstream.command();
    command[0].clone_from(&toolbox().server("", &[])[0]);
    server.add_mcp_source("upstream", flags, &command);
    (server, upstream)
}

/// In the prompts of all eras, the message and what stands beside the fields.
#[test]
fn hostile_text_of_a_server_is_shown_as_the_letters_it_is() {
    const RAW: &str = "\u{1b}[31mred\u{1b}[0m \u{202e}gnp.exe";
    const SHOWN: &str = "⟦U+001B⟧[31mred⟦U+001B⟧[0m ⟦U+202E⟧gnp.exe";
    let flags = ["--protocol", "legacy", "--read-only", "ask"];
    let (server, upstream) = changing(changing::Era::Legacy, &flags, &json!([tool("ask", &json!({}))]));
    let field = json!({ "type": "string", "title": RAW, "description": RAW });
    let schema = json!({ "type": "object", "properties": { "word": field } });
    upstream.put("question.json", &json!({ "message": RAW, "requestedSchema": schema }));
    for era in [Era::June2025, Era::November2025, Era::July2026] {
        let mut client = server.client(era, Elicitation::Declared);
        let call = client.begin("upstream__ask", &json!({}));
        let question = client.asked();
        assert!(question.message.contains(SHOWN), "{era:?}: {:?}", question.message);
        let field = &question.schema["properties"]["word"];
        assert_eq!((&field["title"], &field["description"]), (&json!(SHOWN), &json!(SHOWN)), "{era:?}");
        assert!(!question.message.contains(['\u{1b}', '\u{202e}']), "{era:?}: {:?}", question.message);
        client.answer(&question, &accept(&json!({ "word": "yes" })));
        assert!(text(&client.result(call)).contains("yes"));
    }
}

/// Over HTTP only the 2025 era says that a call is given up; a connection that merely ends leaves it as it is.
#[test]
fn a_call_that_a_client_gives_up_is_cancelled_at_the_server() {
    for protocol in [changing::Era::Legacy, changing::Era::Modern] {
        let (server, upstream) =
            changing(protocol, &["--read-only", "wait"], &json!([tool("wait", &json!({}))]));
        let mut client: Client = server.client(Era::November2025, Elicitation::Declared);
        let call = client.begin("upstream__wait", &json!({}));
        server.until("the call is there", |_| upstream.ledger() == ["wait"]);
        client.abort(call);
        assert_eq!(client.outcome(call)["ok"], false);
        server.until("it is cancelled", |_| upstream.ledger() == ["wait", "cancelled"]);
    }
}
