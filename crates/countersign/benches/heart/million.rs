//! Opening a store with 1,000,000 pending questions, up to the answer of the first decision.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use countersign_kernel::{Gateway, Settings};
use countersign_store::{SqliteOptions, SqliteStore, Synchronous};
use countersign_testkit::world::{InTests as _, agent, session};
use nix::sys::statvfs::statvfs;
use serde_json::json;

use crate::connection::{Connection, Prepared};
use crate::load::{TURNS, middle};
use crate::process::{FOLDER, PART, Server};
use crate::report::{Bound, Report, Row};
use crate::{Failure, product};

const PENDING: usize = 1_000_000;
const AT_ONCE: usize = 500;
/// What the questions may take on the disk, and some room for others.
const GIGABYTES: u64 = 6;

pub(crate) async fn measure(report: &mut Report) -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let disk = statvfs(folder.path())?;
    if disk.blocks_available() * disk.fragment_size() < GIGABYTES * 1_000_000_000 {
        report
            .note(format!("1,000,000 pending: NOT MEASURED, there are less than {GIGABYTES} GB on the disk"));
        return Ok(());
    }
    let begun = Instant::now();
    fill(folder.path())?;
    report.note(format!("1,000,000 pending: asked in {:.0?}, nothing synced", begun.elapsed()));
    let mut samples = Vec::new();
    for _ in 0..TURNS {
        samples.push(first_decision(folder.path()).await?.as_secs_f64());
    }
    let seconds = middle(samples);
    report.add(Row {
        work: "open with 1,000,000 pending, first decision answered",
        floor: String::new(),
        product: format!("{seconds:.2} s"),
        figure: seconds,
        unit: " s",
        bound: Bound::AtMost { must: 2.0, reach: 1.0 },
    });
    Ok(())
}

/// From the start of the process to the answer. The process is killed afterwards.
async fn first_decision(folder: &Path) -> Result<Duration, Failure> {
    let server = Server::start("product", folder).await?;
    let admin = std::fs::read_to_string(folder.join(product::ADMIN))?;
    let begun = Instant::now();
    let mut connection = Connection::open(server.address).await?;
    let list = connection.json(&Prepared::get("/api/elicitation?status=pending&limit=1", &admin)).await?;
    let id = list["items"][0]["elicitationId"].as_str().ok_or("nothing is pending")?;
    let body = json!({ "approved": true, "remember": "call" });
    let decide = Prepared::post(&format!("/api/elicitation/{id}/resolve"), &admin, &[], &body);
    connection.ask(&decide).await?;
    let took = server.ready_after + begun.elapsed();
    server.kill()?;
    Ok(took)
}

/// Fills the folder in a process of its own, so that its memory is not this one's.
fn fill(folder: &Path) -> Result<(), Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    let mut child = command.env(PART, "fill").env(FOLDER, folder).stdin(Stdio::piped()).spawn()?;
    // Not `Child::wait` alone: it would close the pipe whose end tells the child that this process is gone.
    let _pipe = child.stdin.take();
    if child.wait()?.success() { Ok(()) } else { Err("the store could not be filled".into()) }
}

/// Asks all of them. Nothing is synced: a power cut would only cost the bench's own time.
pub(crate) async fn fill_here(folder: &Path) -> Result<(), Failure> {
    let options = SqliteOptions { synchronous: Synchronous::Off, ..SqliteOptions::default() };
    let settings = Settings { park_after: Duration::from_millis(1), ..product::settings() };
    let store = Arc::new(SqliteStore::open_with(folder, &options)?);
    let gateway = Gateway::on(store).plugin(product::plugin()).settings(settings).start().await?;
    gateway.open_session(&agent(), "bench", Some(session())).await?;
    for _ in 0..PENDING / AT_ONCE {
        let calls = (0..AT_ONCE).map(|_| {
            let gateway = gateway.clone();
            tokio::spawn(async move { gateway.ask("bench.pay", json!({ "amount": 5 })).await })
        });
        for asked in futures_util::future::join_all(calls).await {
            asked??;
        }
    }
    while gateway.live() > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    gateway.close(Duration::from_secs(60)).await;
    Ok(())
}
