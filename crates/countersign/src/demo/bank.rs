//! `bank.*`: a ledger with one row for each time a handler got there, so that a call that ran twice would show.

use std::sync::Arc;
use std::time::Duration;

use countersign_sdk::{Approval, Approved, Ctx, Remember, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Number;

use super::Nothing;
use super::database::Database;

/// Above this, `bank.transfer` asks.
const LARGE: f64 = 10_000.0;
/// The longest `delayMs`.
const MAX_DELAY_MS: u64 = 600_000;

#[derive(Debug, Deserialize, JsonSchema)]
struct TransferInput {
    /// Who gets it.
    #[schemars(length(min = 1, max = 200))]
    to: String,
    /// How much, in dollars.
    #[schemars(extend("exclusiveMinimum" = 0))]
    amount: Number,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct PayInput {
    /// Who gets it.
    #[schemars(length(min = 1, max = 200))]
    to: String,
    /// How much, in dollars.
    #[schemars(extend("exclusiveMinimum" = 0))]
    amount: Number,
    /// How long the bank takes between start and booking, in milliseconds.
    #[schemars(range(max = 600_000))]
    delay_ms: Option<u64>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Transfer {
    id: i64,
    to: String,
    amount: Number,
    /// The execution that made it.
    execution_id: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Ledger {
    transfers: Vec<Transfer>,
}

pub(super) fn tools(database: &Arc<Database>) -> [Tool; 3] {
    [ledger(Arc::clone(database)), transfer(Arc::clone(database)), pay(Arc::clone(database))]
}

fn ledger(database: Arc<Database>) -> Tool {
    Tool::new("bank.ledger")
        .name("Ledger")
        .describe("Gives every transfer that took effect, oldest first.")
        .read_only()
        .handler(move |_: Ctx, _: Nothing| {
            let database = Arc::clone(&database);
            async move { Ok::<_, ToolError>(Ledger { transfers: booked(&database)? }) }
        })
}

fn transfer(database: Arc<Database>) -> Tool {
    Tool::new("bank.transfer")
        .name("Transfer")
        .describe("Transfers money; asks a person above $10,000.")
        .handler(move |ctx: Ctx, input: TransferInput| {
            let database = Arc::clone(&database);
            async move {
                if input.amount.as_f64().is_none_or(|amount| amount > LARGE) {
                    let answer = ctx.elicit(Approval::new("Large transfer exceeding $10,000")).await?;
                    if !answer.approved {
                        return Err(ToolError::denied(
                            "The transfer was not approved; nothing was transferred.",
                        ));
                    }
                }
                book(&database, &ctx, input.to, input.amount)
            }
        })
}

fn pay(database: Arc<Database>) -> Tool {
    Tool::new("bank.pay")
        .name("Pay")
        .describe("Pays somebody; every payment is asked about.")
        .remember(Remember::Call)
        .destructive(|input: &PayInput| format!("Pay ${} to \"{}\"?", input.amount, input.to))
        .handler(move |ctx: Ctx, input: Approved<PayInput>| {
            let database = Arc::clone(&database);
            async move {
                let PayInput { to, amount, delay_ms } = input.into_inner();
                tokio::time::sleep(Duration::from_millis(delay_ms.unwrap_or(0).min(MAX_DELAY_MS))).await;
                book(&database, &ctx, to, amount)
            }
        })
}

fn book(database: &Database, ctx: &Ctx, to: String, amount: Number) -> Result<Transfer, ToolError> {
    let execution_id = ctx.execution_id().to_owned();
    let id = database.with(|db| {
        let row = (&to, amount.to_string(), &execution_id);
        db.execute("INSERT INTO transfers (recipient, amount, execution) VALUES (?1, ?2, ?3)", row)?;
        Ok(db.last_insert_rowid())
    })?;
    Ok(Transfer { id, to, amount, execution_id })
}

fn booked(database: &Database) -> Result<Vec<Transfer>, ToolError> {
    let rows: Vec<(i64, String, String, String)> = database.with(|db| {
        let mut all = db.prepare("SELECT id, recipient, amount, execution FROM transfers ORDER BY id")?;
        let rows = all.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
        rows.collect()
    })?;
    // Amounts are kept as the text they came in: a bank that rounds is no demo.
    let read = |(id, to, amount, execution_id): (i64, String, String, String)| {
        Ok(Transfer { id, to, amount: serde_json::from_str(&amount)?, execution_id })
    };
    rows.into_iter().map(read).collect()
}
