//! What sources leave in the log: a server's standard error, made harmless, and no credential of any source at any level (R12).

use std::path::PathBuf;
use std::process::Stdio;

use base64::Engine as _;
use serde_json::{Value, json};

use crate::ledger::{Ledger, Transport, eventually, node};
use crate::server::Home;
use crate::service::Service;
use crate::toolbox::node_folder;

const TRACE: (&str, &str) = ("COUNTERSIGN_LOG", "trace");
/// Variables of the server's environment: a credential of each kind.
const SECRETS: [(&str, &str); 5] = [
    ("BEARER", "canary-bearer-0451"),
    ("HEADER", "canary-header-0451"),
    ("QUERY", "canary-query-0451"),
    ("PASSWORD", "canary-password-0451"),
    ("VARIABLE", "canary-variable-0451"),
];

/// A server that logs everything into a file, and the file.
fn traced() -> (Home, PathBuf) {
    let mut home = Home::new();
    let file = home.folder().join("log");
    let log = std::fs::File::create(&file).unwrap();
    home.started_by(|command| command.envs([TRACE]).envs(SECRETS).stderr(Stdio::from(log)).spawn().unwrap());
    (home, file)
}

fn read(log: &PathBuf) -> String {
    String::from_utf8_lossy(&std::fs::read(log).unwrap()).into_owned()
}

/// Adds the server that prints on its standard error when it is called, its credential among it.
fn add_noisy(home: &Home) {
    let script = node_folder().join("hostile.mjs").display().to_string();
    let node = node().display().to_string();
    let variable = ["--variable", "SECRET=VARIABLE", "--protocol", "legacy", "--read-only", "**"];
    let command = ["--", node.as_str(), script.as_str(), "stderr"];
    home.added(&[&["mcp", "noisy"], &variable[..], &command[..]].concat());
}

#[test]
fn the_standard_error_of_a_server_is_in_the_log_within_bounds_without_controls_and_without_its_secret() {
    let (home, log) = traced();
    add_noisy(&home);
    let end = home.called("noisy.act", &json!({}));
    assert_eq!(end["status"], "succeeded", "{end:#}");
    eventually("the last line is logged", || read(&log).contains("the last line"));
    let logged = read(&log);
    let lines: Vec<&str> =
        logged.lines().filter(|line| line.contains("standard error of an MCP server")).collect();
    let line = |text: &str| {
        let found = lines.iter().find(|line| line.contains(text));
        *found.unwrap_or_else(|| panic!("{text} is not logged: {lines:#?}"))
    };
    assert!(line("the secret is").contains("the secret is [redacted]"), "{}", line("the secret is"));
    assert!(line("the secret is").contains("noisy"), "the source is named");
    let red = line("[31mred");
    assert!(red.contains("⟦U+001B⟧[31mred⟦U+001B⟧[0m⟦U+0007⟧"), "escapes are written out: {red}");
    assert!(lines.iter().all(|line| !line.chars().any(char::is_control)), "{lines:#?}");
    let longest = lines.iter().map(|line| line.len()).max().unwrap();
    assert!((2_000..3_000).contains(&longest), "{longest} bytes");
    assert!(!logged.contains("canary-variable"), "the credential is not logged");
}

#[test]
fn at_trace_level_no_credential_of_a_source_is_logged_told_or_stored() {
    let ((home, log), service, ledger) = (traced(), Service::start(), Ledger::new(Transport::Http));
    let document = home.data().join("shop.json");
    std::fs::write(&document, service.document().to_string()).unwrap();
    let document = document.to_str().unwrap().to_owned();
    let url = ledger.place()[0].clone();
    let by_bearer =
        ["--bearer-env", "BEARER", "--header", "X-Key=HEADER", "--query", "key=QUERY", "--allow-private"];
    let by_basic = ["--basic", "ann=PASSWORD", "--allow-private"];
    home.added(&[&["openapi", "shop", &document][..], &by_bearer].concat());
    home.added(&[&["openapi", "basic", &document][..], &by_basic].concat());
    home.added(&[&["mcp", "ledger", &url, "--read-only", "look"][..], &by_bearer].concat());
    add_noisy(&home);
    let mut told = String::new();
    for tool in ["shop.orders.list", "basic.orders.list", "ledger.look", "noisy.act"] {
        told.push_str(&home.called(tool, &json!({})).to_string());
    }
    let order = json!({ "body": { "what": "a bicycle" } });
    told.push_str(&home.approved("shop.orders.create", &order).to_string());
    told.push_str(&home.approved("ledger.append", &json!({ "line": "x" })).to_string());
    for words in [&["source", "list"][..], &["source", "show", "shop"], &["source", "refresh", "ledger"]] {
        told.push_str(&home.said(&[words, &["--json"]].concat()).to_string());
    }
    // A source that cannot be reached is told of with its reason.
    let away = [
        "source",
        "add",
        "mcp",
        "away",
        "http://127.0.0.1:9/mcp",
        "--allow-private",
        "--bearer-env",
        "BEARER",
    ];
    told.push_str(&String::from_utf8_lossy(&home.run(&away).stderr));
    let asked: Vec<Value> = service.asked().into_iter().map(Value::from).collect();
    assert!(asked[0].as_str().unwrap().contains("canary-query"), "the service was sent them: {asked:?}");

    let logged = read(&log);
    assert!(logged.contains("TRACE") || logged.contains("DEBUG"), "the log was on: {logged}");
    let stored: Vec<u8> = std::fs::read_dir(home.data())
        .unwrap()
        .filter_map(|entry| std::fs::read(entry.unwrap().path()).ok())
        .flatten()
        .collect();
    let stored = String::from_utf8_lossy(&stored).into_owned();
    let basic = base64::engine::general_purpose::STANDARD.encode("ann:canary-password-0451");
    for secret in SECRETS.map(|(_, secret)| secret).into_iter().chain([basic.as_str()]) {
        for (place, text) in [("the log", &logged), ("an answer", &told), ("the data folder", &stored)] {
            let line = text.lines().find(|line| line.contains(secret));
            assert!(line.is_none(), "{secret} is in {place}: {}", line.unwrap_or_default());
        }
    }
}
