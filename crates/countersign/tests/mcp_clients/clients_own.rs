//! What is a client's own, its roots and its model, stays its own: no server behind the gate gets at it.

use std::path::Path;

use serde_json::{Value, json};

use crate::client::{Belongings, Client, Elicitation, Era, in_every_era, text};
use crate::node::toolbox;
use crate::server::{PROGRAM, Server};

in_every_era!(
    a_clients_roots_never_reach_a_server_behind_the_gate,
    a_server_that_wants_a_model_is_refused_clearly,
    without_the_gate_a_server_gets_both,
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
