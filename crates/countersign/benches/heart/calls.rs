//! Safe calls: over MCP beside bare rmcp, and in process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use countersign_core::policy::Policy;
use countersign_kernel::Gateway;
use countersign_store::SqliteStore;
use countersign_testkit::world::{InTests as _, agent, session};
use nix::sys::resource::{UsageWho, getrusage};
use serde_json::json;

use crate::load::{SPELL, TURNS, mcp_call, middle, rate};
use crate::report::{Bound, Report, Row};
use crate::side::Side;
use crate::{Failure, product};

const BATCHES: usize = 20;
const BATCH: u32 = 500;
/// Records of reads are queued; between batches the queue is given time to empty, so that nothing is refused.
const REST: Duration = Duration::from_millis(100);
const RULES: usize = 50;

pub(crate) async fn over_mcp(report: &mut Report) -> Result<(), Failure> {
    let (bare, product) = (Side::start("bare rmcp").await?, Side::start("product").await?);
    let (mut of_bare, mut of_product) = (Vec::new(), Vec::new());
    let mut cpu = [Duration::ZERO; 2];
    for _ in 0..TURNS {
        let before = bare.server.cpu()?;
        of_bare.push(rate(bare.address(), || mcp_call("none", "bench__say")).await?);
        cpu[0] += bare.server.cpu()? - before;
        let before = product.server.cpu()?;
        of_product.push(rate(product.address(), || mcp_call(&product.tokens.agent, "bench__say")).await?);
        cpu[1] += product.server.cpu()? - before;
    }
    let per_call =
        |cpu: Duration, rates: &[f64]| cpu.div_f64(rates.iter().sum::<f64>() * SPELL.as_secs_f64());
    report.note(format!(
        "MCP safe call: {:.1?} of CPU bare, {:.1?} in the product",
        per_call(cpu[0], &of_bare),
        per_call(cpu[1], &of_product)
    ));
    let (bare, product) = (middle(of_bare), middle(of_product));
    report.add(Row {
        work: "MCP safe call, 32 connections (floor: bare rmcp)",
        floor: format!("{bare:.0}/s"),
        product: format!("{product:.0}/s"),
        figure: product / bare,
        unit: " ×",
        bound: Bound::AtLeast { must: 0.55, reach: 0.7 },
    });
    Ok(())
}

pub(crate) async fn in_process(report: &mut Report) -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let store = Arc::new(SqliteStore::open(folder.path())?);
    let gateway = Gateway::on(store).plugin(product::plugin()).policy(rules()?).settings(product::settings());
    let gateway = gateway.start().await?;
    gateway.open_session(&agent(), "bench", Some(session())).await?;
    let mut samples = Vec::new();
    let cpu = cpu_micros()?;
    for _ in 0..BATCHES {
        let begun = Instant::now();
        for _ in 0..BATCH {
            let answer = gateway.ask("bench.say", json!({ "text": "x" })).await?;
            if !answer.success() {
                return Err(format!("{answer:?}").into());
            }
        }
        samples.push((begun.elapsed() / BATCH).as_secs_f64() * 1e6);
        tokio::time::sleep(REST).await;
    }
    #[expect(clippy::cast_precision_loss, reason = "some ten thousand")]
    let cpu = (cpu_micros()? - cpu) / (BATCHES * BATCH as usize) as f64;
    report.note(format!("safe call in process: {cpu:.0} µs of CPU, the writing of its record included"));
    let micros = middle(samples);
    report.add(Row {
        work: "safe call in process, 50 rules, recorded in SQLite",
        floor: String::new(),
        product: format!("{micros:.1} µs"),
        figure: micros,
        unit: " µs",
        bound: Bound::AtMost { must: 20.0, reach: 12.0 },
    });
    Ok(())
}

/// Rules of which the last is the one that fits.
fn rules() -> Result<Policy, Failure> {
    let others = (1..RULES).map(|n| format!("[[rule]]\nmatch = \"other.area_{n}.*\"\neffect = \"ask\"\n"));
    let mut text: String = others.collect();
    text.push_str("[[rule]]\nmatch = \"bench.*\"\nwhen = 'args.text == \"x\"'\neffect = \"allow\"\n");
    Ok(Policy::from_toml(&text)?)
}

#[expect(clippy::cast_precision_loss, reason = "some seconds")]
fn cpu_micros() -> Result<f64, Failure> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let micros =
        [usage.user_time(), usage.system_time()].map(|time| time.tv_sec() * 1_000_000 + time.tv_usec());
    Ok((micros[0] + micros[1]) as f64)
}
