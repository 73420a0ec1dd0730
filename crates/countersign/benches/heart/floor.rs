//! The floor: the least that keeps the promise of a durable approval. It has the two routes that the load uses, and answers in the
//! product's form.
//!
//! One thread writes. It takes everything that waits for it into one transaction (WAL, `synchronous=FULL`), so that requests
//! which come together share one wait for the disk.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use axum::extract::{Path as InPath, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::serve::ListenerExt as _;
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::process::ADDRESS;
use crate::{Failure, probe};

const SCHEMA: &str = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
    CREATE TABLE asked (id INTEGER PRIMARY KEY, tool TEXT NOT NULL, args TEXT NOT NULL) STRICT;
    CREATE TABLE decided (id INTEGER PRIMARY KEY, approved INTEGER NOT NULL) STRICT;";

/// One row, and whom to tell that it is on the disk.
struct Write {
    row: NewRow,
    committed: oneshot::Sender<()>,
}

enum NewRow {
    Asked { id: u64, tool: String, args: String },
    Decided { id: u64, approved: bool },
}

struct Floor {
    writer: mpsc::Sender<Write>,
    pending: Mutex<HashMap<u64, Value>>,
    last_id: AtomicU64,
    commits: Arc<AtomicU64>,
}

#[derive(Deserialize)]
struct Ask {
    tool: String,
    args: Value,
}

#[derive(Deserialize)]
struct Decision {
    approved: bool,
}

/// Serves it until the process is killed.
pub(crate) async fn serve(folder: &Path) -> Result<(), Failure> {
    let database = rusqlite::Connection::open(folder.join("floor.db"))?;
    database.execute_batch(SCHEMA)?;
    let (writer, writes) = mpsc::channel();
    let commits = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&commits);
    std::thread::spawn(move || {
        if let Err(error) = write_all(&database, &writes, &counted) {
            eprintln!("the floor cannot write: {error}");
        }
    });
    let floor = Floor { writer, pending: Mutex::default(), last_id: AtomicU64::new(0), commits };
    let router = Router::new()
        .route("/readyz", get(async || "ready"))
        .route("/metrics", get(metrics))
        .route("/api/executions", post(ask))
        .route("/api/elicitation/{id}/resolve", post(decide))
        .with_state(Arc::new(floor));
    probe::answer(folder)?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    std::fs::write(folder.join(ADDRESS), listener.local_addr()?.to_string())?;
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    Ok(axum::serve(listener, router).await?)
}

fn write_all(
    database: &rusqlite::Connection,
    writes: &mpsc::Receiver<Write>,
    commits: &AtomicU64,
) -> rusqlite::Result<()> {
    let mut asked = database.prepare("INSERT INTO asked (id, tool, args) VALUES (?, ?, ?)")?;
    let mut decided = database.prepare("INSERT INTO decided (id, approved) VALUES (?, ?)")?;
    while let Ok(first) = writes.recv() {
        let mut group = vec![first];
        group.extend(writes.try_iter());
        let transaction = database.unchecked_transaction()?;
        for Write { row, .. } in &group {
            match row {
                NewRow::Asked { id, tool, args } => asked.execute((id.cast_signed(), tool, args))?,
                NewRow::Decided { id, approved } => decided.execute((id.cast_signed(), approved))?,
            };
        }
        transaction.commit()?;
        commits.fetch_add(1, Ordering::Relaxed);
        for write in group {
            // A client that hung up needs no answer.
            let _ = write.committed.send(());
        }
    }
    Ok(())
}

impl Floor {
    async fn commit(&self, row: NewRow) -> Result<(), StatusCode> {
        let (committed, done) = oneshot::channel();
        let gone = StatusCode::INTERNAL_SERVER_ERROR;
        self.writer.send(Write { row, committed }).map_err(|_| gone)?;
        done.await.map_err(|_| gone)
    }
}

async fn ask(State(floor): State<Arc<Floor>>, Json(ask): Json<Ask>) -> Result<Json<Value>, StatusCode> {
    let id = floor.last_id.fetch_add(1, Ordering::Relaxed) + 1;
    let args = ask.args.to_string();
    floor.pending.lock().unwrap_or_else(PoisonError::into_inner).insert(id, ask.args);
    floor.commit(NewRow::Asked { id, tool: ask.tool, args }).await?;
    Ok(Json(json!({
        "executionId": id.to_string(),
        "status": "paused",
        "paused": { "elicitationId": id.to_string() },
    })))
}

async fn decide(
    State(floor): State<Arc<Floor>>,
    InPath(id): InPath<u64>,
    Json(decision): Json<Decision>,
) -> Result<Json<Value>, StatusCode> {
    let pending = floor.pending.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
    let args = pending.ok_or(StatusCode::NOT_FOUND)?;
    floor.commit(NewRow::Decided { id, approved: decision.approved }).await?;
    if decision.approved {
        std::hint::black_box(args);
        probe::handler_runs();
    }
    Ok(Json(json!({ "elicitationId": id.to_string(), "approved": decision.approved })))
}

/// Its transactions, under the name that the product counts them by.
async fn metrics(State(floor): State<Arc<Floor>>) -> String {
    format!("countersign_store_commits_total {}\n", floor.commits.load(Ordering::Relaxed))
}
