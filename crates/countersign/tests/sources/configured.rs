//! Sources of the configuration file: the operator writes them, a person accepts what they bring, and then they are called.

use std::path::PathBuf;
use std::process::Child;

use serde_json::{Value, json};

use crate::ledger::{Ledger, Transport, eventually, node};
use crate::server::Home;
use crate::service::Service;

impl Home {
    /// Starts a server with this configuration file.
    fn start_configured(&mut self, text: &str) {
        let file = self.folder().join("countersign.toml");
        std::fs::write(&file, text).unwrap();
        self.started_by(|command| -> Child { command.arg("--config").arg(&file).spawn().unwrap() });
    }

    /// A source once it was read.
    fn ready(&self, name: &str) -> Value {
        let mut shown = Value::Null;
        eventually(&format!("{name} is read"), || {
            shown = self.said(&["source", "show", name, "--json"]);
            shown["health"] == "ready"
        });
        shown
    }
}

/// The file: an MCP server and a service, whose document lies beside the file.
fn configuration(ledger: &Ledger, more: &str) -> String {
    let command = json!(ledger.command());
    format!(
        r#"
[[source]]
name = "ledger"
kind = "mcp"
command = {command}
tools = {{ read_only = ["look"] }}

[[source]]
name = "shop"
kind = "openapi"
document = "shop.json"
allow_private = true
{more}
"#
    )
}

#[test]
fn sources_of_the_file_are_accepted_by_a_person_called_and_kept_over_a_restart() {
    let (mut home, ledger, service) = (Home::new(), Ledger::new(Transport::Stdio), Service::start());
    std::fs::write(home.folder().join("shop.json"), service.document().to_string()).unwrap();
    let file = configuration(&ledger, "");
    home.start_configured(&file);
    for (name, kind, new) in [("ledger", "mcp", 2), ("shop", "openapi", 2)] {
        let shown = home.ready(name);
        let (found, origin) = (&shown["kind"], &shown["origin"]);
        assert_eq!((found, origin), (&json!(kind), &json!("file")), "{shown:#}");
        assert_eq!((&shown["new"], &shown["callable"]), (&json!(new), &json!(0)), "{shown:#}");
        let digest = shown["digest"].as_str().unwrap();
        let accepted = home.said(&["source", "accept", name, "--yes", "--digest", digest, "--json"]);
        assert_eq!(accepted["callable"], json!(new), "{accepted:#}");
    }
    let early = home.run(&["call", "ledger.nothing", "{}"]);
    assert!(!early.status.success());

    let end = home.approved("ledger.append", &json!({ "line": "once" }));
    assert_eq!((end["status"].as_str(), ledger.count("once")), (Some("succeeded"), 1), "{end:#}");
    let looked = home.called("ledger.look", &json!({}));
    assert_eq!(looked["value"]["content"][0]["text"], "1", "it only reads, the operator says: {looked:#}");
    let read = home.called("shop.orders.list", &json!({}));
    assert_eq!(read["value"], json!({ "ok": true }), "{read:#}");
    let made = home.approved("shop.orders.create", &json!({ "body": { "what": "a bicycle" } }));
    assert_eq!(made["status"], "succeeded", "{made:#}");
    assert_eq!(service.asked(), ["GET /orders", r#"POST /orders {"what":"a bicycle"}"#]);

    home.kill();
    home.start_configured(&file);
    assert_eq!(home.ready("shop")["callable"], 2, "what was accepted stays accepted");
    assert_eq!(home.ready("ledger")["callable"], 2);
    assert_eq!(home.called("shop.orders.list", &json!({}))["value"], json!({ "ok": true }));
    let refused = home.run(&["source", "remove", "shop"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("configuration file"), "{said}");
}

#[test]
fn a_source_of_the_file_whose_changes_are_trusted_is_callable_at_once_and_after_each_change() {
    let (mut home, ledger, service) = (Home::new(), Ledger::new(Transport::Stdio), Service::start());
    let mut document = service.document();
    let place: PathBuf = home.folder().join("shop.json");
    std::fs::write(&place, document.to_string()).unwrap();
    home.start_configured(&configuration(&ledger, "trust_changes = true"));
    assert_eq!(
        (home.ready("shop")["callable"].clone(), home.ready("ledger")["callable"].clone()),
        (json!(2), json!(0))
    );
    document["paths"]["/orders"]["get"]["description"] = json!("Lists every order.");
    document["paths"]["/more"]["get"] = json!({ "operationId": "more/list", "responses": {} });
    std::fs::write(&place, document.to_string()).unwrap();
    let refreshed = home.said(&["source", "refresh", "shop", "--json"]);
    assert_eq!((&refreshed["callable"], &refreshed["changed"]), (&json!(3), &json!(0)), "{refreshed:#}");
    for tool in ["shop.orders.list", "shop.more.list"] {
        assert_eq!(home.called(tool, &json!({}))["status"], "succeeded");
    }
}

#[test]
fn a_source_that_is_added_with_trust_changes_needs_no_acceptance() {
    let (home, ledger) = (Home::served(), Ledger::new(Transport::Stdio));
    let (node, command) = (node().display().to_string(), ledger.command());
    let flags = ["source", "add", "mcp", "ledger", "--trust-changes", "--json", "--", &node];
    let words: Vec<&str> = flags.into_iter().chain(command[1..].iter().map(String::as_str)).collect();
    let added = home.said(&words);
    assert_eq!((&added["callable"], &added["new"]), (&json!(2), &json!(0)), "{added:#}");
    let end = home.approved("ledger.append", &json!({ "line": "once" }));
    assert_eq!((end["status"].as_str(), ledger.count("once")), (Some("succeeded"), 1), "{end:#}");
}
