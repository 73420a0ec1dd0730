//! Published servers and documents, with the commands of the README.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::ledger::node;
use crate::npm;
use crate::server::Home;
use crate::service::Service;
use crate::toolbox::node_folder;

impl Home {
    /// What a command says, as JSON. It succeeds.
    pub(crate) fn said(&self, words: &[&str]) -> Value {
        let output = self.run(words);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{words:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_str(&text).unwrap()
    }

    /// Adds a source with these words and accepts everything it offers; how many tools that are.
    pub(crate) fn added(&self, words: &[&str]) -> u64 {
        let added = self.said(&[&["--json", "source", "add"], words].concat());
        assert_eq!(added["callable"], 0, "nothing is callable before it is accepted: {added:#}");
        let (name, digest) = (added["name"].as_str().unwrap(), added["digest"].as_str().unwrap());
        let accepted = self.said(&["source", "accept", name, "--yes", "--digest", digest, "--json"]);
        accepted["callable"].as_u64().unwrap()
    }

    pub(crate) fn called(&self, path: &str, args: &Value) -> Value {
        self.said(&["call", path, &args.to_string(), "--json"])
    }

    /// Calls a tool that asks, and approves it.
    pub(crate) fn approved(&self, path: &str, args: &Value) -> Value {
        let waiting = self.called(path, args);
        assert_eq!(waiting["status"], "paused", "{waiting:#}");
        let [id, digest] =
            ["elicitationId", "digest"].map(|field| waiting["paused"][field].as_str().unwrap());
        self.said(&["approve", id, "--yes", "--digest", digest, "--json"])
    }
}

fn package(name: &str) -> String {
    let script = format!("node_modules/@modelcontextprotocol/{name}/dist/index.js");
    node_folder().join(script).display().to_string()
}

/// The everything server over streamable HTTP, on a free port; it ends with the test.
struct Everything {
    process: Child,
    url: String,
}

impl Everything {
    fn start() -> Self {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut process = Command::new(node())
            .args([package("server-everything").as_str(), "streamableHttp"])
            .env("PORT", port.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("listening")), "the server ended at once");
        std::thread::spawn(move || lines.for_each(drop));
        Self { process, url: format!("http://127.0.0.1:{port}/mcp") }
    }
}

impl Drop for Everything {
    fn drop(&mut self) {
        let _ = self.process.kill().and_then(|()| self.process.wait());
    }
}

#[test]
fn the_file_server_from_npm_reads_at_once_and_writes_once_a_person_approved() {
    let (home, folder) = (Home::served(), tempfile::tempdir().unwrap());
    let folder = folder.path().canonicalize().unwrap();
    let (node, script, shared) = (node().display().to_string(), package("server-filesystem"), text(&folder));
    home.added(&["mcp", "files", "--read-only", "read_text_file", "--", &node, &script, &shared]);
    let note = text(&folder.join("note.txt"));
    let end = home.approved("files.write_file", &json!({ "path": note, "content": "countersigned" }));
    assert_eq!(end["status"], "succeeded", "{end:#}");
    assert_eq!(std::fs::read_to_string(&note).unwrap(), "countersigned");
    let read = home.called("files.read_text_file", &json!({ "path": note }));
    assert_eq!(read["value"]["content"][0]["text"], "countersigned", "{read:#}");
}

#[test]
fn the_memory_server_from_npm_is_gated_with_the_annotations_it_was_trusted_for() {
    let (home, folder) = (Home::served(), tempfile::tempdir().unwrap());
    let (node, script) = (node().display().to_string(), package("server-memory"));
    let variable = format!("MEMORY_FILE_PATH={}", text(&folder.path().join("memory.json")));
    home.added(&["mcp", "memory", "--trust-annotations", "--", "/usr/bin/env", &variable, &node, &script]);
    let entity = json!({ "name": "Ada", "entityType": "person", "observations": ["wrote a note"] });
    let made = home.called("memory.create_entities", &json!({ "entities": [entity] }));
    assert_eq!(made["status"], "succeeded", "it says that it destroys nothing: {made:#}");
    let gone = home.approved("memory.delete_entities", &json!({ "entityNames": ["Ada"] }));
    assert_eq!(gone["status"], "succeeded", "{gone:#}");
    let graph = home.called("memory.read_graph", &json!({}));
    assert_eq!(graph["value"]["structuredContent"]["entities"], json!([]), "{graph:#}");
}

#[test]
fn the_everything_server_from_npm_answers_over_http() {
    let (home, server) = (Home::served(), Everything::start());
    home.added(&["mcp", "all", &server.url, "--allow-private", "--read-only", "echo"]);
    let said = home.called("all.echo", &json!({ "message": "hello" }));
    assert!(said["value"]["content"][0]["text"].as_str().unwrap().contains("hello"), "{said:#}");
    let sum = home.approved("all.get_sum", &json!({ "a": 2, "b": 3 }));
    assert!(sum["value"]["content"][0]["text"].as_str().unwrap().contains('5'), "{sum:#}");
}

#[test]
fn githubs_document_brings_more_than_500_tools_that_are_found_and_called() {
    let (home, service) = (Home::served(), Service::start());
    let document = home.data().join("github.json");
    std::fs::write(&document, npm::read("@octokit/openapi/generated/api.github.com.json")).unwrap();
    let flags = ["--server", &service.url, "--allow-private"];
    let tools = home.added(&[&["openapi", "github", &text(&document)][..], &flags].concat());
    assert!(tools > 500, "{tools}");
    let found = home.said(&["tools", "create an issue", "--json"]);
    assert!(found.to_string().contains("github.issues.create"), "{found:#}");
    let issue = json!({ "owner": "a", "repo": "b", "body": { "title": "a/b?c" } });
    let end = home.approved("github.issues.create", &issue);
    assert_eq!(end["status"], "succeeded", "{end:#}");
    assert_eq!(service.asked(), [r#"POST /repos/a/b/issues {"title":"a/b?c"}"#]);
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}
