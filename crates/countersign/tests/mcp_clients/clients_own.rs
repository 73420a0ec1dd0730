//! What is a client's own, its roots and its model, stays its own: no server behind the gate gets at it, unless the operator lets
//! it. Then it gets those of the client that calls, where that client has them.

use std::path::Path;

use serde_json::{Value, json};

use crate::client::{Belongings, Client, Elicitation, Era, in_every_era, text};
use crate::node::toolbox;
use crate::server::{PROGRAM, Server};
use crate::upstream::Upstream;

in_every_era!(
    a_clients_roots_never_reach_a_server_behind_the_gate,
    a_server_that_wants_a_model_is_refused_clearly,
    without_the_gate_a_server_gets_both,
    where_the_operator_lets_it_a_server_gets_those_of_the_client_that_calls,
    a_client_behind_the_bridge_is_asked_like_any_other,
    a_client_without_a_model_and_roots_is_not_asked,
    the_published_everything_server_uses_the_model_of_the_client_that_calls,
);

/// Both eras of the protocol between the gateway and a server.
const PROTOCOLS: [&str; 2] = ["legacy", "modern"];

fn gate(protocol: &str) -> Server {
    let server = Server::of(Path::new(PROGRAM), &[]);
    let flags = ["--trust-annotations", "--protocol", protocol];
    server.add_mcp_source("shows", &flags, &toolbox().server("shows.mjs", &[]));
    server
}

fn wish(client: &mut Client, what: &str) -> Value {
    client.call("shows__ask_the_client", &json!({ "wish": what }))
}

/// A server such as the published one for files takes the folders that it may touch from its client's roots. Those of an
/// agent's client would widen what the operator allowed (R18).
fn a_clients_roots_never_reach_a_server_behind_the_gate(era: Era) {
    for protocol in PROTOCOLS {
        let server = gate(protocol);
        let mut client = server.rich_client(era);
        let has: Value = serde_json::from_str(&text(&wish(&mut client, "capabilities"))).unwrap();
        assert!(has["elicitation"].is_object(), "the server sees the gateway: {has}");
        assert!(has.get("roots").is_none() && has.get("sampling").is_none(), "{protocol}: {has}");
        let roots = wish(&mut client, "roots").to_string();
        assert!(!roots.contains("file:///home/agent"), "{protocol}: {roots}");
        assert!(!client.was_used_for("roots"), "{protocol}: nobody asks the client");
    }
}

fn a_server_that_wants_a_model_is_refused_clearly(era: Era) {
    for protocol in PROTOCOLS {
        let server = gate(protocol);
        let mut client = server.rich_client(era);
        let refused = wish(&mut client, "sampling");
        assert_eq!(refused["isError"], true, "{protocol}: {refused}");
        assert!(text(&refused).contains("sampling"), "{protocol}: {refused}");
        assert!(!client.was_used_for("sampling"), "{protocol}: nobody asks the client");
    }
}

/// So that the tests above show something: this client gives its roots and its model to a server that it reaches itself.
fn without_the_gate_a_server_gets_both(era: Era) {
    let words = toolbox().server("shows.mjs", &[]);
    let mut client = Client::of_another(era, Elicitation::Absent, Belongings::Own, &words);
    for (what, given) in [("roots", "file:///home/agent"), ("sampling", "Hi")] {
        let result = client.call("ask-the-client", &json!({ "wish": what }));
        assert!(text(&result).contains(given), "{result}");
        assert!(client.was_used_for(what));
    }
}

/// The settings that let a server have both.
const PASSED_ON: [&str; 4] = ["--trust-annotations", "--sampling", "client", "--client-roots"];

/// The same server with both passed on, as a program and at a URL, in both eras of its own.
fn passing(protocol: &str, upstream: Option<&Upstream>) -> Server {
    let server = Server::of(Path::new(PROGRAM), &[]);
    let flags = [&PASSED_ON[..], &["--protocol", protocol]].concat();
    match upstream {
        Some(upstream) => server.add_mcp_source_at("shows", &flags, &upstream.url),
        None => server.add_mcp_source("shows", &flags, &toolbox().server("shows.mjs", &[])),
    }
    server
}

/// A client of the 2026-07-28 era takes no requests while its call is open.
fn where_the_operator_lets_it_a_server_gets_those_of_the_client_that_calls(era: Era) {
    let remote = Upstream::shows();
    // At a URL it keeps no sessions, which a server of the older era needs to ask its client; the published one below has them.
    for (protocol, upstream) in [("legacy", None), ("modern", None), ("modern", Some(&remote))] {
        let place = format!("{protocol} {}", upstream.map_or("started", |_| "at a URL"));
        let server = passing(protocol, upstream);
        let mut client = server.rich_client(era);
        let has: Value = serde_json::from_str(&text(&wish(&mut client, "capabilities"))).unwrap();
        assert!(has["roots"].is_object() && has["sampling"].is_object(), "{place}: {has}");
        for (what, given) in [("sampling", "Hi"), ("roots", "file:///home/agent")] {
            let result = wish(&mut client, what);
            if era == Era::July2026 {
                let refusal = format!("{what} is not available for this call");
                assert!(result["isError"] == true && text(&result).contains(&refusal), "{place}: {result}");
            } else {
                assert!(text(&result).contains(given), "{place}: {what}: {result}");
            }
            assert_eq!(client.was_used_for(what), era != Era::July2026, "{place}: {what}");
        }
    }
}

fn a_client_behind_the_bridge_is_asked_like_any_other(era: Era) {
    let server = passing("legacy", None);
    let mut client = server.rich_bridged_client(era);
    for what in ["sampling", "roots"] {
        wish(&mut client, what);
        assert_eq!(client.was_used_for(what), era != Era::July2026, "{what}");
    }
}

fn a_client_without_a_model_and_roots_is_not_asked(era: Era) {
    let server = passing("legacy", None);
    let mut client = server.client(era, Elicitation::Declared);
    for what in ["sampling", "roots"] {
        let refused = wish(&mut client, what);
        let refusal = format!("{what} is not available for this call");
        assert!(refused["isError"] == true && text(&refused).contains(&refusal), "{refused}");
    }
}

fn the_published_everything_server_uses_the_model_of_the_client_that_calls(era: Era) {
    if era == Era::July2026 {
        return;
    }
    let remote = Upstream::everything();
    for is_remote in [false, true] {
        let server = Server::of(Path::new(PROGRAM), &[]);
        if is_remote {
            server.add_mcp_source_at("everything", &PASSED_ON, &remote.url);
        } else {
            let script = "node_modules/@modelcontextprotocol/server-everything/dist/index.js";
            server.add_mcp_source("everything", &PASSED_ON, &toolbox().server(script, &["stdio"]));
        }
        let mut client = server.rich_client(era);
        let asked = json!({ "prompt": "Say hi.", "maxTokens": 10 });
        let result = client.call("everything__trigger_sampling_request", &asked);
        assert!(text(&result).contains("Hi"), "{is_remote}: {result}");
        assert!(client.was_used_for("sampling"));
        let result = client.call("everything__get_roots_list", &json!({}));
        assert!(text(&result).contains("file:///home/agent"), "{is_remote}: {result}");
    }
}
