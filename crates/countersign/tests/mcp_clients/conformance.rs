//! The official conformance suite against the product's own server, with the fixtures of `examples/conformance`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::node::toolbox;
use crate::server::Server;

/// What one run of the suite found.
#[derive(Debug, Default)]
struct Findings {
    scenarios: usize,
    by_status: BTreeMap<String, usize>,
    failures: Vec<String>,
    warnings: Vec<String>,
}

#[test]
fn no_check_of_2025_11_25_fails() {
    judged("2025-11-25", 33, 80);
}

#[test]
fn no_check_of_2026_07_28_fails() {
    judged("2026-07-28", 50, 190);
}

/// Runs a revision's whole set. The least that must have run and succeeded keeps a suite that runs nothing from passing.
fn judged(revision: &str, scenarios: usize, successes: usize) {
    let server = Server::of(&fixtures(), &[]);
    let output = tempfile::tempdir().unwrap();
    let ran = toolbox()
        .conformance(&server.token("agent"))
        .args(["server", "--url", &format!("{}/mcp", server.url()), "--requirements", revision, "-o"])
        .arg(output.path())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&ran.stdout).into_owned();
    let findings = Findings::read(output.path());
    println!("{revision}: {} scenarios, checks {:?}", findings.scenarios, findings.by_status);
    for warning in &findings.warnings {
        println!("warning: {warning}");
    }
    assert!(findings.failures.is_empty(), "failed checks:\n{}", findings.failures.join("\n"));
    assert!(ran.status.success(), "the suite itself says that it failed:\n{told}");
    assert!(findings.scenarios >= scenarios, "only {} scenarios ran:\n{told}", findings.scenarios);
    let succeeded = findings.by_status.get("SUCCESS").copied().unwrap_or_default();
    assert!(succeeded >= successes, "only {succeeded} checks succeeded");
}

impl Findings {
    /// Every scenario has a folder, with what it checked in `checks.json`.
    fn read(folder: &Path) -> Self {
        let mut findings = Self::default();
        for scenario in fs::read_dir(folder).unwrap() {
            let scenario = scenario.unwrap().path();
            let Ok(checks) = fs::read_to_string(scenario.join("checks.json")) else { continue };
            let checks: Vec<Value> = serde_json::from_str(&checks).unwrap();
            findings.scenarios += 1;
            let name = scenario.file_name().unwrap_or_default().to_string_lossy().into_owned();
            for check in &checks {
                findings.take(&name, check);
            }
        }
        findings
    }

    fn take(&mut self, scenario: &str, check: &Value) {
        let status = check["status"].as_str().unwrap_or("none");
        *self.by_status.entry(status.to_owned()).or_default() += 1;
        let line = format!("{scenario}: {}: {}", check["id"], check["errorMessage"]);
        match status {
            "FAILURE" => self.failures.push(line),
            "WARNING" => self.warnings.push(line),
            _ => {}
        }
    }
}

/// Examples are built beside the tests: `target/debug/deps/mcp_clients-…` and `target/debug/examples/conformance`.
pub(crate) fn fixtures() -> PathBuf {
    let this = std::env::current_exe().unwrap();
    let program = this.ancestors().nth(2).unwrap().join("examples").join("conformance");
    assert!(program.is_file(), "build the fixtures: cargo build -p countersign --example conformance");
    program
}
