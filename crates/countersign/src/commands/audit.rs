//! `audit`: the record of everything that happened. It only looks.

use std::sync::Arc;

use countersign_core::audit::{AuditRecord, BrokenChain, verify};
use countersign_core::digest::Digest;
use countersign_kernel::ports::Store as _;
use countersign_store::SqliteStore;
use serde_json::{Value, json};

use crate::args::AuditCommand;
use crate::data_folder::DataFolder;
use crate::exit::{Exit, Problem};
use crate::local::Setup;
use crate::screen::{Format, Screen};
use crate::{shown, wire};

const BATCH: usize = 1_000;

pub(super) async fn run(setup: &Setup, command: &AuditCommand) -> anyhow::Result<Exit> {
    let folder = DataFolder::open(&setup.config.data_dir)?;
    match command {
        AuditCommand::Verify => print_verified(&folder, setup.screen).await,
        AuditCommand::Tail { number } => tail(&folder, u64::from(*number), setup.screen).await,
    }
}

async fn print_verified(folder: &DataFolder, screen: Screen) -> anyhow::Result<Exit> {
    let (records, head) = match verified(&folder.store).await? {
        Ok(found) => found,
        Err(broken) => {
            let hint =
                "Somebody changed the database, or it is damaged. Keep a copy, and compare it with a backup.";
            return Err(Problem::new("audit_broken", broken.to_string()).hint(hint).into());
        }
    };
    match screen.format {
        Format::Json => screen.print_json(&json!({ "ok": true, "records": records, "head": head }))?,
        Format::Text => {
            screen.print(&format!("The chain of {records} records is unbroken. Its head is {head}."))?;
        }
    }
    Ok(Exit::Done)
}

/// How many records there are and the hash of the last, or where the chain is broken.
pub(super) async fn verified(store: &Arc<SqliteStore>) -> anyhow::Result<Result<(u64, Digest), BrokenChain>> {
    let mut head = (0, Digest::ZERO);
    loop {
        let records = store.audit(head.0, BATCH).await?;
        if records.is_empty() {
            return Ok(Ok(head));
        }
        head = match verify(head, &records) {
            Ok(head) => head,
            Err(broken) => return Ok(Err(broken)),
        };
    }
}

async fn tail(folder: &DataFolder, number: u64, screen: Screen) -> anyhow::Result<Exit> {
    let last = last_seq(&folder.store).await?;
    let records = folder.store.audit(last.saturating_sub(number), BATCH).await?;
    if screen.format == Format::Json {
        screen.print_json(&wire::list(records.iter().map(record_json).collect::<Result<_, _>>()?, None))?;
        return Ok(Exit::Done);
    }
    for record in &records {
        screen.print(&line(record)?)?;
    }
    if records.is_empty() {
        screen.print("Nothing has happened yet.")?;
    }
    Ok(Exit::Done)
}

/// The number of the last record, found by doubling and halving: a chain may be long, and only its end is wanted.
async fn last_seq(store: &Arc<SqliteStore>) -> anyhow::Result<u64> {
    let mut beyond = 1;
    while !store.audit(beyond - 1, 1).await?.is_empty() {
        beyond *= 2;
    }
    let (mut low, mut high) = (beyond / 2, beyond);
    while low + 1 < high {
        let middle = low + (high - low) / 2;
        if store.audit(middle - 1, 1).await?.is_empty() { high = middle } else { low = middle }
    }
    Ok(low)
}

fn record_json(record: &AuditRecord) -> anyhow::Result<Value> {
    let entry: Value = serde_json::from_str(&record.entry)?;
    Ok(json!({ "seq": record.seq, "entry": entry, "prev": record.prev, "hash": record.hash }))
}

fn line(record: &AuditRecord) -> anyhow::Result<String> {
    let entry = record.parse()?;
    let by = entry.by.map(|by| by.to_string()).unwrap_or_else(|| "gateway".into());
    let about = entry.execution.map(|id| format!(" {id}")).unwrap_or_default();
    let detail = shown::line(&entry.detail);
    Ok(format!("{:>6}  {}  {:<13} {by:<15}{about}  {detail}", record.seq, entry.at, entry.what))
}
