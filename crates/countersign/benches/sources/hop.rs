//! The hop through the gateway, beside the hop through a bare proxy to the same kind of upstream, in turns.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::Failure;
use crate::connection::Connection;
use crate::gateway::{AGENT, SOURCE};
use crate::load::{TURNS, mcp_call, middle, rate};
use crate::process::{PART, Server};
use crate::rmcp_parts::UPSTREAM;
use crate::table::row;

/// The tool of the source, as MCP clients of the gateway name it.
const TOOL: &str = "echo__say";

pub(crate) async fn measure() -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let echo = Server::start("echo", folder.path()).await?;
    let url = format!("http://{}/mcp", echo.address);
    let over_http = json!({ "name": "echo", "kind": "mcp", "url": url, "allowPrivate": true });
    beside("over streamable HTTP", &url, over_http).await?;
    let program = std::env::current_exe()?;
    // Sources get a clean environment, so the part is named on the command line.
    let command = json!(["/usr/bin/env", format!("{PART}=echo over stdio"), program]);
    beside("over stdio", "", json!({ "name": "echo", "kind": "mcp", "command": command })).await
}

/// One kind of upstream: through the bare proxy, through the gateway as a read, and as a write, whose definition is looked at
/// again before it is sent.
async fn beside(how: &str, upstream: &str, mut source: Value) -> Result<(), Failure> {
    let (theirs, ours, writing) = (tempfile::tempdir()?, tempfile::tempdir()?, tempfile::tempdir()?);
    std::fs::write(theirs.path().join(UPSTREAM), upstream)?;
    let proxy = Server::start("proxy", theirs.path()).await?;
    source["tools"] = json!({ "readOnly": ["say"] });
    let reads = gateway(ours.path(), &source).await?;
    source["tools"] = json!({ "writes": ["say"] });
    let writes = gateway(writing.path(), &source).await?;
    let (reader, writer) = (agent(ours.path())?, agent(writing.path())?);
    for (server, token, tool) in
        [(&proxy, "none", "say"), (&reads, reader.as_str(), TOOL), (&writes, writer.as_str(), TOOL)]
    {
        answers(server, token, tool).await?;
    }
    let mut rates: [Vec<f64>; 3] = Default::default();
    let mut cpu = [Duration::ZERO; 2];
    for _ in 0..TURNS {
        let before = proxy.cpu()?;
        rates[0].push(rate(proxy.address, || mcp_call("none", "say")).await?);
        cpu[0] += proxy.cpu()? - before;
        let before = reads.cpu()?;
        rates[1].push(rate(reads.address, || mcp_call(&reader, TOOL)).await?);
        cpu[1] += reads.cpu()? - before;
        rates[2].push(rate(writes.address, || mcp_call(&writer, TOOL)).await?);
    }
    let per_call = |which: usize| cpu[which].div_f64(rates[which].iter().sum::<f64>() * 2.0);
    let (proxy_cpu, gateway_cpu) = (per_call(0), per_call(1));
    let [proxy, reads, writes] = rates.map(middle);
    row(&format!("bare rmcp proxy, echo {how}, 32 connections"), &format!("{proxy:.0}/s"), "");
    row(
        &format!("gateway, the same echo {how}"),
        &format!("{reads:.0}/s = {:.2}x", reads / proxy),
        "≥ 0.6x of the proxy",
    );
    row(
        &format!("gateway, a tool that writes {how}"),
        &format!("{writes:.0}/s = {:.2}x", writes / proxy),
        "",
    );
    row("  CPU a call: proxy, gateway", &format!("{proxy_cpu:.0?}, {gateway_cpu:.0?}"), "");
    Ok(())
}

async fn gateway(folder: &Path, source: &Value) -> Result<Server, Failure> {
    std::fs::write(folder.join(SOURCE), source.to_string())?;
    Server::start("gateway", folder).await
}

fn agent(folder: &Path) -> Result<String, Failure> {
    Ok(std::fs::read_to_string(folder.join(AGENT))?)
}

/// A rate of refusals would look splendid: one call is looked at first.
async fn answers(server: &Server, token: &str, tool: &str) -> Result<(), Failure> {
    let answer = Connection::open(server.address).await?.json(&mcp_call(token, tool)).await?;
    let is_error = answer["result"]["isError"].as_bool().unwrap_or(false);
    match answer.to_string().contains("hello") && !is_error && answer.get("error").is_none() {
        true => Ok(()),
        false => Err(format!("{tool} answered {answer}").into()),
    }
}
