//! Scripts over REST, one at a time.

use std::time::Instant;

use countersign_core::time::Timestamp;
use countersign_kernel::ports::{Program, ScriptHost as _, Stripped};
use countersign_sandbox::{InProcessHost, Limits};
use serde_json::json;

use crate::Failure;
use crate::connection::{Connection, Prepared};
use crate::load::middle;
use crate::report::{Bound, Report, Row};
use crate::side::Side;

struct Script {
    work: &'static str,
    source: &'static str,
    runs: usize,
    must: f64,
    reach: f64,
}

const SCRIPTS: [Script; 4] = [
    Script {
        work: "script over REST, p50: no call (floor: bare VM)",
        source: "return 1 + 1",
        runs: 60,
        must: 3.0,
        reach: 2.0,
    },
    Script {
        work: "  100 calls in sequence",
        source: "for (let i = 0; i < 100; i++) await tools.bench.say({ text: 'x' }); return 1",
        runs: 40,
        must: 10.0,
        reach: 6.0,
    },
    Script {
        work: "  100 calls at once",
        source: "return (await Promise.all(Array.from({ length: 100 }, () => tools.bench.say({ text: 'x' })))).length",
        runs: 40,
        must: 8.0,
        reach: 5.0,
    },
    Script {
        work: "  1,000 calls in sequence",
        source: "for (let i = 0; i < 1000; i++) await tools.bench.say({ text: 'x' }); return 1",
        runs: 11,
        must: 100.0,
        reach: 50.0,
    },
];

pub(crate) async fn measure(report: &mut Report) -> Result<(), Failure> {
    let product = Side::start("product").await?;
    let mut floor = format!("{:.2} ms", bare_vm().await?);
    for script in SCRIPTS {
        let millis = over_rest(&product, &script).await?;
        report.add(Row {
            work: script.work,
            floor: std::mem::take(&mut floor),
            product: format!("{millis:.1} ms"),
            figure: millis,
            unit: " ms",
            bound: Bound::AtMost { must: script.must, reach: script.reach },
        });
    }
    Ok(())
}

async fn over_rest(side: &Side, script: &Script) -> Result<f64, Failure> {
    let request =
        Prepared::post("/api/executions", &side.tokens.agent, &[], &json!({ "code": script.source }));
    let mut connection = Connection::open(side.address()).await?;
    let mut samples = Vec::with_capacity(script.runs);
    for _ in 0..script.runs {
        let begun = Instant::now();
        let answer = connection.json(&request).await?;
        samples.push(begun.elapsed().as_secs_f64() * 1e3);
        if answer["status"] != "succeeded" {
            return Err(format!("the script ended with {answer}").into());
        }
    }
    Ok(middle(samples))
}

/// A fresh VM in this process, and nothing else.
async fn bare_vm() -> Result<f64, Failure> {
    let host = InProcessHost::new(Limits::default());
    let program = Program {
        stripped: Stripped { code: "return 1 + 1".into(), mappings: String::new() },
        seed: [1; 32],
        now: Timestamp::from_millis(1_700_000_000_000),
    };
    let mut samples = Vec::new();
    for _ in 0..100 {
        let begun = Instant::now();
        host.open().await?.start(program.clone()).await?;
        samples.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    Ok(middle(samples))
}
