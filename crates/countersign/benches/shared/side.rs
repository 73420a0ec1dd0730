//! One side of a comparison: a server in its own process, with the requests that the load sends to it.

use std::net::SocketAddr;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::Failure;
use crate::connection::{Connection, Prepared};
use crate::probe::Probe;
use crate::process::Server;
use crate::product::{ADMIN, AGENT};

/// How many questions are asked at once where only their number matters.
const ASKING: usize = 64;

/// Whom a request comes from. The floor does not look at it.
#[derive(Clone)]
pub(crate) struct Tokens {
    pub(crate) agent: String,
    pub(crate) admin: String,
}

impl Tokens {
    fn read(folder: &Path) -> Self {
        let read = |name| std::fs::read_to_string(folder.join(name)).unwrap_or_else(|_| "none".to_owned());
        Self { agent: read(AGENT), admin: read(ADMIN) }
    }

    /// Calls the destructive tool and returns when it waits for a person.
    pub(crate) fn ask(&self) -> Prepared {
        Prepared::post(
            "/api/executions",
            &self.agent,
            &[],
            &json!({ "tool": "bench.pay", "args": { "amount": 5 } }),
        )
    }

    pub(crate) fn approve(&self, elicitation: &str) -> Prepared {
        let body = json!({ "approved": true, "remember": "call" });
        Prepared::post(&format!("/api/elicitation/{elicitation}/resolve"), &self.admin, &[], &body)
    }
}

/// A server that is measured. Its folder goes with it.
pub(crate) struct Side {
    pub(crate) server: Server,
    pub(crate) tokens: Tokens,
    pub(crate) folder: TempDir,
}

impl Side {
    pub(crate) async fn start(part: &str) -> Result<Self, Failure> {
        let folder = tempfile::tempdir()?;
        let server = Server::start(part, folder.path()).await?;
        let tokens = Tokens::read(folder.path());
        Ok(Self { server, tokens, folder })
    }

    /// Ends the process and starts it again on the same folder.
    pub(crate) async fn restart(self, part: &str) -> Result<Self, Failure> {
        self.server.terminate()?;
        let server = Server::start(part, self.folder.path()).await?;
        Ok(Self { server, ..self })
    }

    /// The same, ended as a power cut would end it.
    pub(crate) async fn kill_and_restart(self, part: &str) -> Result<Self, Failure> {
        self.server.kill()?;
        let server = Server::start(part, self.folder.path()).await?;
        Ok(Self { server, ..self })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.address
    }

    pub(crate) fn probe(&self) -> Result<Probe, Failure> {
        Probe::open(self.folder.path())
    }

    /// How many transactions the store has committed, as the server counts them. Nothing before the first.
    pub(crate) async fn commits(&self) -> Result<Option<f64>, Failure> {
        let mut connection = Connection::open(self.address()).await?;
        let figures = String::from_utf8(connection.ask(&Prepared::get("/metrics", "none")).await?)?;
        let line = figures.lines().find_map(|line| line.strip_prefix("countersign_store_commits_total "));
        Ok(line.map(|line| line.trim().parse()).transpose()?)
    }

    /// Asks so many questions, many at a time, and gives their ids.
    pub(crate) async fn ask_many(&self, count: usize) -> Result<Vec<String>, Failure> {
        let mut asking = JoinSet::new();
        for lane in 0..ASKING.min(count) {
            let (tokens, address) = (self.tokens.clone(), self.address());
            let share = count / ASKING + usize::from(lane < count % ASKING);
            asking.spawn(async move {
                let mut connection = Connection::open(address).await?;
                let (request, mut ids) = (tokens.ask(), Vec::with_capacity(share));
                for _ in 0..share {
                    ids.push(pending_id(&connection.json(&request).await?)?);
                }
                Ok::<_, Failure>(ids)
            });
        }
        let mut all = Vec::with_capacity(count);
        while let Some(ids) = asking.join_next().await {
            all.extend(ids??);
        }
        Ok(all)
    }
}

/// The question that an ask's answer names.
pub(crate) fn pending_id(answer: &Value) -> Result<String, Failure> {
    let id = answer["paused"]["elicitationId"].as_str();
    Ok(id.ok_or_else(|| format!("nothing is pending in {answer}"))?.to_owned())
}
