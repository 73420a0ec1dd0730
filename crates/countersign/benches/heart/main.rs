//! What the heart costs beside a floor, as the table of ratios that issue 14 asks for. Run by `cargo xtask bench --only heart`; nothing
//! here is asserted.
//!
//! The floor is the least that a program with the same promise could do: axum and SQLite, one row committed before the ask is
//! answered and one before the decision is, then the handler. For MCP it is rmcp with an echo tool. Floor and product run in
//! processes of their own (this program, started again with a part to play); the load comes from here, over loopback, in
//! alternating rounds. The product is used only through its public doors, so that the table survives a rebuilt kernel.
//!
//! `cargo bench -p countersign --bench heart -- cycles mcp` measures only these groups.
#![expect(clippy::disallowed_methods, reason = "a bench measures with the real clock and starts processes")]

#[path = "../shared/bare_rmcp.rs"]
mod bare_rmcp;
mod calls;
#[path = "../shared/connection.rs"]
mod connection;
mod cycles;
mod floor;
#[path = "../shared/load.rs"]
mod load;
mod million;
mod pending;
#[path = "../shared/probe.rs"]
mod probe;
#[path = "../shared/process.rs"]
mod process;
#[path = "../shared/product.rs"]
mod product;
mod reads;
mod report;
mod scripts;
#[path = "../shared/side.rs"]
#[expect(dead_code, reason = "other benches use the rest")]
mod side;

use std::path::PathBuf;
use std::time::Instant;

use report::Report;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The groups of rows, in the order of the table.
const GROUPS: [&str; 7] = ["cycles", "reads", "mcp", "call", "pending", "scripts", "million"];

fn main() -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    if let Ok(part) = std::env::var(process::PART) {
        process::end_with_the_parent();
        return runtime.block_on(play(&part));
    }
    // cargo adds flags of its own.
    let chosen: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    if let Some(unknown) = chosen.iter().find(|name| !GROUPS.contains(&name.as_str())) {
        return Err(format!("there is no group {unknown}; there are {}", GROUPS.join(", ")).into());
    }
    runtime.block_on(async { tokio::spawn(measure(chosen)).await? })
}

/// Plays a part until the process is killed.
async fn play(part: &str) -> Result<(), Failure> {
    let folder = PathBuf::from(std::env::var(process::FOLDER)?);
    match part {
        "floor" => floor::serve(&folder).await,
        "product" => product::serve(&folder, product::settings()).await,
        "product that parks" => product::serve(&folder, product::settings_that_park()).await,
        "bare rmcp" => bare_rmcp::serve(&folder).await,
        "fill" => million::fill_here(&folder).await,
        other => Err(format!("there is no part {other}").into()),
    }
}

async fn measure(chosen: Vec<String>) -> Result<(), Failure> {
    let begun = Instant::now();
    let mut report = Report::default();
    for group in GROUPS.into_iter().filter(|group| chosen.is_empty() || chosen.iter().any(|one| one == group))
    {
        let group_begun = Instant::now();
        match group {
            "cycles" => cycles::measure(&mut report).await?,
            "reads" => reads::measure(&mut report).await?,
            "mcp" => calls::over_mcp(&mut report).await?,
            "call" => calls::in_process(&mut report).await?,
            "pending" => pending::measure(&mut report).await?,
            "scripts" => scripts::measure(&mut report).await?,
            _ => million::measure(&mut report).await?,
        }
        eprintln!("measured {group} in {:.0?}", group_begun.elapsed());
    }
    report.print();
    println!("\nmeasured in {:.0?}", begun.elapsed());
    Ok(())
}
