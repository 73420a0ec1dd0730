//! `audit`: reads the record of everything that happened.

use std::time::Duration;

use countersign_core::audit::{AuditRecord, BrokenChain, verify};
use countersign_core::digest::Digest;
use serde_json::{Value, json};

use crate::args::AuditCommand;
use crate::client::Client;
use crate::contact::{Contact, Purpose, Ready, Serves};
use crate::exit::{Exit, Problem};
use crate::names::Names;
use crate::screen::{Format, Reader, Screen};
use crate::shown;
use crate::table::Table;

/// How many records are asked for at once.
const BATCH: usize = 200;
/// How often to look for new records.
const LOOK_EVERY: Duration = Duration::from_millis(500);

pub(super) async fn run(ready: Ready, command: AuditCommand) -> anyhow::Result<Exit> {
    ready
        .with_server(Purpose::Look, async |contact| {
            let (client, screen) = (&contact.operator, contact.screen);
            match command {
                AuditCommand::Verify => print_verified(client, screen).await,
                AuditCommand::Tail { lines, no_follow } => {
                    let last = tail(client, u64::from(lines), contact.names().await, screen).await?;
                    match (screen.format, contact.serves) {
                        _ if no_follow => {}
                        // One document has an end.
                        (Format::Json, _) => {}
                        (Format::Text, Serves::Here) => {
                            screen.note("No server runs, so there is nothing to follow.");
                        }
                        (Format::Text, Serves::Elsewhere) => follow(contact, last).await?,
                    }
                    Ok(Exit::Done)
                }
                AuditCommand::Export { after } => export(client, after, screen).await,
            }
        })
        .await
}

async fn print_verified(client: &Client, screen: Screen) -> anyhow::Result<Exit> {
    let (records, head) = match verified(client).await? {
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

/// How many records there are and the hash of the last, or where the chain is broken. The chain is followed here: a
/// server need not be believed.
pub(super) async fn verified(client: &Client) -> Result<Result<(u64, Digest), BrokenChain>, Problem> {
    let mut head = (0, Digest::ZERO);
    loop {
        let records = client.audit(head.0, BATCH).await?;
        if records.is_empty() {
            return Ok(Ok(head));
        }
        head = match verify(head, &records) {
            Ok(head) => head,
            Err(broken) => return Ok(Err(broken)),
        };
    }
}

/// Prints the last records, and gives the number of the newest.
async fn tail(client: &Client, number: u64, names: &Names, screen: Screen) -> anyhow::Result<u64> {
    let last = last_seq(client).await?;
    let records = gathered(client, last.saturating_sub(number), number).await?;
    let last = records.last().map_or(last, |record| record.seq);
    if screen.format == Format::Json {
        let items: Vec<Value> = records.iter().map(record_json).collect::<Result<_, _>>()?;
        screen.print_json(&json!({ "items": items, "nextCursor": null }))?;
        return Ok(last);
    }
    let nothing = "Nothing has happened yet.".to_owned();
    screen.print(&if records.is_empty() { nothing } else { table(&records, names, screen)?.render() })?;
    Ok(last)
}

/// Prints each new record until somebody presses Ctrl-C, or nobody reads any more.
async fn follow(contact: &Contact, mut last: u64) -> anyhow::Result<()> {
    let screen = contact.screen;
    let pressed = tokio::signal::ctrl_c();
    tokio::pin!(pressed);
    loop {
        tokio::select! {
            pressed = &mut pressed => return pressed.map_err(Into::into),
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        let records = contact.operator.audit(last, BATCH).await?;
        let Some(newest) = records.last() else { continue };
        last = newest.seq;
        // Made anew: whoever acted may have been given a name meanwhile.
        let names = Names::known_to(&contact.operator).await;
        for line in table(&records, &names, screen)?.render().lines().skip(1) {
            if screen.print_to(line)? == Reader::Gone {
                return Ok(());
            }
        }
    }
}

/// A line for each transition, with the number of its record.
fn table(records: &[AuditRecord], names: &Names, screen: Screen) -> anyhow::Result<Table> {
    let mut table = Table::new(screen, &["NO", "WHEN", "WHAT", "BY", "EXECUTION", "DETAIL"]);
    for record in records {
        for transition in record.parse()? {
            table.row([
                record.seq.to_string().into(),
                to_the_second(&transition.at.to_string()).into(),
                shown::line(&transition.what).into(),
                transition.by.map_or_else(|| "gateway".to_owned(), |by| names.of(by.as_str())).into(),
                transition.execution.map(|id| id.to_string()).unwrap_or_default().into(),
                shown::line(&transition.detail).into(),
            ]);
        }
    }
    Ok(table)
}

/// Every record as a line of JSON, in the text that was hashed; with `--json` as one document.
async fn export(client: &Client, after: u64, screen: Screen) -> anyhow::Result<Exit> {
    let (mut last, mut document) = (after, Vec::new());
    loop {
        let records = client.audit(last, BATCH).await?;
        let Some(newest) = records.last() else { break };
        last = newest.seq;
        for record in &records {
            match screen.format {
                Format::Json => document.push(serde_json::to_value(record)?),
                Format::Text => screen.print(&serde_json::to_string(record)?)?,
            }
        }
    }
    if screen.format == Format::Json {
        screen.print_json(&json!({ "items": document, "nextCursor": null }))?;
    }
    Ok(Exit::Done)
}

async fn gathered(client: &Client, after: u64, number: u64) -> Result<Vec<AuditRecord>, Problem> {
    let mut all: Vec<AuditRecord> = Vec::new();
    loop {
        let last = all.last().map_or(after, |record| record.seq);
        let left = number.saturating_sub(all.len() as u64);
        let limit = usize::try_from(left).unwrap_or(BATCH).min(BATCH);
        let records = if limit == 0 { Vec::new() } else { client.audit(last, limit).await? };
        if records.is_empty() {
            return Ok(all);
        }
        all.extend(records);
    }
}

/// The number of the last record, found by doubling and halving: a chain may be long, and only its end is wanted.
async fn last_seq(client: &Client) -> Result<u64, Problem> {
    let mut beyond = 1;
    while !client.audit(beyond - 1, 1).await?.is_empty() {
        beyond *= 2;
    }
    let (mut low, mut high) = (beyond / 2, beyond);
    while low + 1 < high {
        let middle = low + (high - low) / 2;
        if client.audit(middle - 1, 1).await?.is_empty() { high = middle } else { low = middle }
    }
    Ok(low)
}

/// A moment without its fraction: a line has little room, and the export has it whole.
fn to_the_second(moment: &str) -> String {
    moment.split('.').next().unwrap_or(moment).replace('T', " ")
}

fn record_json(record: &AuditRecord) -> anyhow::Result<Value> {
    let entry: Value = serde_json::from_str(&record.entry)?;
    Ok(json!({ "seq": record.seq, "entry": entry, "prev": record.prev, "hash": record.hash }))
}
