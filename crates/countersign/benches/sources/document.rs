//! GitHub's OpenAPI document, 13 MB, from nothing to callable tools, in a process of its own.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use countersign_kernel::ports::{Acceptance, SourceConfig, Sources as _};
use serde_json::{Value, json};

use crate::Failure;
use crate::gateway::Opened;
use crate::process::{FOLDER, PART};
use crate::table::row;

const GITHUB: &str = "@octokit/openapi/generated/api.github.com.json";
const DOCUMENT: &str = "github.json";

/// Has a process load the document, and tells what that took.
pub(crate) fn measure() -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let document = crate::npm::read(GITHUB);
    let megabytes = document.len() / 1_000_000;
    std::fs::write(folder.path().join(DOCUMENT), document)?;
    let loaded = Command::new(std::env::current_exe()?)
        .env(PART, "document")
        .env(FOLDER, folder.path())
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()?;
    let seen: Value = serde_json::from_slice(&loaded.stdout)?;
    let what = format!("an OpenAPI document of {megabytes} MB and {} tools is read", seen["tools"]);
    row(&what, &format!("{} ms", seen["readMs"]), "≤ 1 s");
    row("  and accepted, recorded and in the catalog", &format!("{} ms", seen["acceptedMs"]), "");
    row("  resident memory grown by, at most and afterwards", &memory(&seen), "≤ 150 MB");
    Ok(())
}

fn memory(seen: &Value) -> String {
    let megabytes = |name: &str| seen[name].as_u64().unwrap_or_default() / 1_000;
    format!("{}, {} MB", megabytes("mostKb"), megabytes("afterwardsKb"))
}

/// Loads the document and says what it took.
pub(crate) async fn load() -> Result<(), Failure> {
    let folder = PathBuf::from(std::env::var(FOLDER)?);
    let opened = Opened::on(&folder).await?;
    let config = json!({
        "name": "github",
        "kind": "openapi",
        "document": folder.join(DOCUMENT),
        "server": "https://api.github.com",
    });
    let config = SourceConfig::read(&config)?;
    let before = memory_kb("VmRSS:")?;
    let begun = Instant::now();
    let detail = opened.registry.put(&opened.admin, config).await?;
    let read = begun.elapsed();
    let begun = Instant::now();
    opened.registry.accept(&opened.admin, "github", Acceptance::default()).await?;
    let accepted = begun.elapsed();
    let seen = json!({
        "tools": detail.tools.len(),
        "readMs": read.as_millis(),
        "acceptedMs": accepted.as_millis(),
        "mostKb": memory_kb("VmHWM:")?.saturating_sub(before),
        "afterwardsKb": memory_kb("VmRSS:")?.saturating_sub(before),
    });
    println!("{seen}");
    Ok(())
}

fn memory_kb(field: &str) -> Result<u64, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)).ok_or("the system does not say")?;
    Ok(line.trim().trim_end_matches(" kB").trim().parse()?)
}
