//! A gateway inside a program of your own, spoken to in JSON lines on standard input and output.
//!
//! ```text
//! cargo run --example embed -- /tmp/ledger
//! {"id":1,"op":"call","tool":"ledger.append","args":{"n":1},"key":"k1"}
//! {"id":2,"op":"decide","elicitation":"eli_…","approve":true,"as":"ann"}
//! {"id":3,"op":"wait","execution":"exec_…"}
//! ```
//!
//! Every line is handled at once, beside the others, and answered with its own `id`. The handlers append to `ledger.txt`,
//! one line for each time they got there, so that whoever kills this program in the middle can count.
//!
//! | op | fields | answer |
//! |---|---|---|
//! | `call` | `tool`, `args`, `key?` | `execution`, `status`, `pending`, and `value` or `error` once it ended |
//! | `run` | `script`, `key?` | like `call` |
//! | `decide` | `elicitation`, `approve`, `as` | `outcome` |
//! | `pending` | | `pending` |
//! | `executions` | | `executions: [{ id, status }]` |
//! | `settle` | `execution`, `call`, `as`: `done`, `failed` or `retry`, `value?` | like `call` |
//! | `wait` | `execution`, `timeoutMs?` | like `call` |
//! | `audit` | | `records`: the chain is unbroken |

use std::io::{BufRead as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use countersign::sdk::{Approval, Approved, Ctx, Plugin, Principal, Remember, SessionId, Tool, ToolError};
use countersign_core::audit::verify;
use countersign_core::canonical::Verbatim;
use countersign_core::digest::Digest;
use countersign_core::event::Settlement;
use countersign_core::execution::Status;
use countersign_core::ids::{CallNo, ElicitationId, ExecutionId};
use countersign_kernel::ports::{ElicitationFilter, ExecutionFilter, Page, Store};
use countersign_kernel::{
    Answer, CallRequest, Caller, Decide, ExecutionResult, Gateway, Patience, RunRequest, Settings, Target,
};
use countersign_sandbox::{ChildHost, ChildOptions, worker_main};
use countersign_store::SqliteStore;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// How long answers and handlers may take once the input has ended.
const LAST_ANSWERS: Duration = Duration::from_secs(60);

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The word by which this program knows that it is to be the child in which a script runs.
const SCRIPT_CHILD: &str = "script-child";

fn main() -> ExitCode {
    let first = std::env::args_os().nth(1);
    if first.as_ref().is_some_and(|word| word == SCRIPT_CHILD) {
        return worker_main();
    }
    let Some(folder) = first.map(PathBuf::from) else {
        eprintln!("usage: embed DATA_DIR");
        return ExitCode::from(2);
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    match runtime.map_err(Failure::from).and_then(|runtime| runtime.block_on(serve(&folder))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(folder: &Path) -> Result<(), Failure> {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(folder)?);
    let recovered = running(&*store).await?;
    let gateway = Gateway::on(store)
        .settings(Settings { park_after: Duration::from_millis(200), ..Settings::default() })
        .plugin(plugin(folder))
        .scripts(ChildHost::new(ChildOptions::new(std::env::current_exe()?, [SCRIPT_CHILD]))?)
        .start()
        .await?;
    let agent = Caller::from(Principal::agent("embedder")?);
    let session = gateway.open_session(&agent, "embed", Some(SessionId::parse("ses_embed")?)).await?;
    say(&json!({ "ready": true, "recovered": recovered }));
    let desk = Arc::new(Desk { gateway, agent, session });
    let (mut lines, mut handled) = (typed(), JoinSet::new());
    while let Some(line) = lines.recv().await {
        let desk = Arc::clone(&desk);
        handled.spawn(async move { say(&desk.handle(&line).await) });
        while handled.try_join_next().is_some() {}
    }
    // Nobody types any more. What was asked is answered, what runs comes to its end, what waits for people stays.
    let answered = async { while handled.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(LAST_ANSWERS, answered).await;
    desk.gateway.close(LAST_ANSWERS).await;
    Ok(())
}

/// How many executions the process before this one left running: the gateway takes them up when it starts.
async fn running(store: &dyn Store) -> Result<usize, Failure> {
    let filter = ExecutionFilter { status: vec![Status::Running], ..ExecutionFilter::default() };
    Ok(store.executions(filter, Page::first(1_000)).await?.items.len())
}

fn plugin(folder: &Path) -> Plugin {
    let ledger = Arc::new(folder.join("ledger.txt"));
    let looks = Arc::new(folder.join("looks.txt"));
    let to_append = Arc::clone(&ledger);
    Plugin::new("ledger", "Ledger", "A file with one line for each time a handler got there.")
        .tool(
            // Every call is asked about, and the handler cannot be entered without an answer.
            Tool::new("ledger.append")
                .name("Append")
                .describe("Appends a line.")
                .remember(Remember::Call)
                .destructive(|input: &Line| format!("Append {}?", input.n))
                .handler(move |ctx: Ctx, input: Approved<Line>| {
                    let ledger = Arc::clone(&to_append);
                    async move { append(&ledger, &ctx, &input).await }
                }),
        )
        .tool(
            // Safe: it may run again after a crash, and leaves a line each time so that somebody can count.
            Tool::new("ledger.look").name("Look").describe("Gives back what it gets.").handler(
                move |ctx: Ctx, input: Line| {
                    let looks = Arc::clone(&looks);
                    async move { append(&looks, &ctx, &input).await }
                },
            ),
        )
        .tool(
            // Declared safe: it asks by itself, before it changes anything.
            Tool::new("ledger.big")
                .name("Append, asking")
                .describe("Appends a line; asks first.")
                .remember(Remember::Call)
                .handler(move |ctx: Ctx, input: Line| {
                    let ledger = Arc::clone(&ledger);
                    async move {
                        let answer =
                            ctx.elicit(Approval::new(format!("Append {}, a big one?", input.n))).await?;
                        if !answer.approved {
                            return Err(ToolError::denied("Nobody wanted it appended."));
                        }
                        append(&ledger, &ctx, &input).await
                    }
                }),
        )
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Line {
    n: i64,
    /// How long to wait before the line is written, in milliseconds.
    delay_ms: Option<u64>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Appended {
    n: i64,
}

async fn append(ledger: &Arc<PathBuf>, ctx: &Ctx, line: &Line) -> Result<Appended, ToolError> {
    tokio::time::sleep(Duration::from_millis(line.delay_ms.unwrap_or(0))).await;
    let (ledger, text) = (Arc::clone(ledger), format!("{} {}\n", ctx.execution_id(), line.n));
    let written = tokio::task::spawn_blocking(move || {
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(&*ledger)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    written.await??;
    Ok(Appended { n: line.n })
}

/// One line of input.
#[derive(Deserialize)]
struct Request {
    #[serde(default)]
    id: Value,
    #[serde(flatten)]
    op: Op,
}

#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "lowercase")]
enum Op {
    Call {
        tool: String,
        #[serde(default)]
        args: Value,
        key: Option<String>,
    },
    Run {
        script: String,
        key: Option<String>,
    },
    Decide {
        elicitation: ElicitationId,
        approve: bool,
        #[serde(rename = "as")]
        by: String,
    },
    Pending,
    Executions,
    Settle {
        execution: ExecutionId,
        call: u32,
        #[serde(rename = "as")]
        how: How,
        #[serde(default)]
        value: Value,
    },
    Wait {
        execution: ExecutionId,
        #[serde(rename = "timeoutMs")]
        timeout_ms: Option<u64>,
    },
    Audit,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum How {
    Done,
    Failed,
    Retry,
}

/// An answer that says no: a stable code and words.
struct Refused(String, String);

struct Desk {
    gateway: Gateway,
    agent: Caller,
    session: SessionId,
}

impl Desk {
    async fn handle(&self, line: &str) -> Value {
        let request: Request = match serde_json::from_str(line) {
            Ok(request) => request,
            Err(error) => {
                return json!({ "id": null, "ok": false, "code": "bad_request", "error": error.to_string() });
            }
        };
        let mut answer = match self.perform(request.op).await {
            Ok(answer) => answer,
            Err(Refused(code, error)) => json!({ "ok": false, "code": code, "error": error }),
        };
        answer["id"] = request.id;
        answer
    }

    async fn perform(&self, op: Op) -> Result<Value, Refused> {
        match op {
            Op::Call { tool, args, key } => self.call(tool, args, key).await,
            Op::Run { script, key } => self.run(script, key).await,
            Op::Decide { elicitation, approve, by } => self.decide(elicitation, approve, &by).await,
            Op::Pending => self.pending().await,
            Op::Executions => self.executions().await,
            Op::Settle { execution, call, how, value } => {
                self.settle(execution, CallNo(call), how, &value).await
            }
            Op::Wait { execution, timeout_ms } => {
                let patience =
                    timeout_ms.map_or(Patience::Unlimited, |ms| Patience::AtMost(Duration::from_millis(ms)));
                let found = self.gateway.wait(execution, patience).await.map_err(failed)?;
                found
                    .as_ref()
                    .map(told)
                    .ok_or_else(|| Refused("not_found".into(), "there is no such execution".into()))
            }
            Op::Audit => self.audit().await,
        }
    }

    async fn call(&self, path: String, args: Value, key: Option<String>) -> Result<Value, Refused> {
        let (caller, session) = (self.agent.clone(), self.session.clone());
        let request = CallRequest { path, args, caller, session, key, patience: Patience::UntilPaused };
        match self.gateway.call(request).await {
            Ok(result) => Ok(told(&result)),
            Err(error) => Err(Refused(error.code().into(), error.to_string())),
        }
    }

    async fn run(&self, source: String, key: Option<String>) -> Result<Value, Refused> {
        let (caller, session) = (self.agent.clone(), self.session.clone());
        let request = RunRequest { source, caller, session, key, patience: Patience::UntilPaused };
        match self.gateway.run(request).await {
            Ok(result) => Ok(told(&result)),
            Err(error) => Err(Refused(error.code().into(), error.to_string())),
        }
    }

    async fn decide(&self, elicitation: ElicitationId, approve: bool, by: &str) -> Result<Value, Refused> {
        let by = Principal::approver(by).map_err(failed)?.into();
        let answer = if approve { Answer::Approve { covers: None, data: None } } else { Answer::Deny };
        let target = Target::Elicitation(elicitation);
        let decide = Decide { target, by, channel: "embed".into(), answer, comment: None };
        match self.gateway.decide(decide).await {
            Ok(receipt) => {
                Ok(json!({ "ok": true, "execution": receipt.execution, "outcome": receipt.decision.outcome }))
            }
            Err(error) => Err(Refused(error.code().into(), error.to_string())),
        }
    }

    async fn pending(&self) -> Result<Value, Refused> {
        let filter = ElicitationFilter { open_only: true, ..ElicitationFilter::default() };
        let mut page = Page::first(1_000);
        let mut all: Vec<Value> = Vec::new();
        loop {
            let part = self.gateway.elicitations(filter.clone(), page).await.map_err(failed)?;
            let rows = part.items.iter();
            all.extend(
                rows.map(|row| json!({ "elicitation": row.elicitation.id, "execution": row.execution })),
            );
            match part.next {
                Some(cursor) => page = Page { cursor: Some(cursor), limit: 1_000 },
                None => return Ok(json!({ "ok": true, "pending": all })),
            }
        }
    }

    async fn executions(&self) -> Result<Value, Refused> {
        let mut page = Page::first(1_000);
        let mut all: Vec<Value> = Vec::new();
        loop {
            let part = self.gateway.executions(ExecutionFilter::default(), page).await.map_err(failed)?;
            all.extend(part.items.iter().map(|row| json!({ "id": row.id, "status": row.status })));
            match part.next {
                Some(cursor) => page = Page { cursor: Some(cursor), limit: 1_000 },
                None => return Ok(json!({ "ok": true, "executions": all })),
            }
        }
    }

    async fn settle(
        &self,
        execution: ExecutionId,
        call: CallNo,
        how: How,
        value: &Value,
    ) -> Result<Value, Refused> {
        let settlement = match how {
            How::Done => Settlement::Done { value: Verbatim::of(value).map_err(failed)? },
            How::Failed => Settlement::Failed { message: "It took no effect.".into() },
            How::Retry => Settlement::Retry,
        };
        let by = Principal::approver("settler").map_err(failed)?.into();
        let result = self.gateway.settle(execution, call, settlement, &by).await.map_err(failed)?;
        Ok(told(&result))
    }

    async fn audit(&self) -> Result<Value, Refused> {
        let mut head = (0, Digest::ZERO);
        loop {
            let records = self.gateway.audit(head.0, 1_000).await.map_err(failed)?;
            if records.is_empty() {
                return Ok(json!({ "ok": true, "records": head.0 }));
            }
            head = verify(head, &records)
                .map_err(|broken| Refused("audit_broken".into(), broken.to_string()))?;
        }
    }
}

fn told(result: &ExecutionResult) -> Value {
    let pending: Vec<ElicitationId> = result.pending.iter().map(|pending| pending.elicitation.id).collect();
    json!({
        "ok": true,
        "execution": result.execution,
        "status": result.status,
        "pending": pending,
        "calls": result.calls.iter().map(|call| json!({ "status": call.status, "args": call.args })).collect::<Vec<_>>(),
        "value": result.value,
        "error": result.error,
    })
}

fn failed(error: impl std::fmt::Display) -> Refused {
    Refused("failed".into(), error.to_string())
}

/// Lines of standard input, read by a thread of their own: such a read cannot be called off.
fn typed() -> mpsc::UnboundedReceiver<String> {
    let (sender, receiver) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if !line.trim().is_empty() && sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// One line of output. Whole lines only: the lock is held until the line is out.
fn say(value: &Value) {
    let mut out = std::io::stdout().lock();
    let line = format!("{value}\n");
    // Nobody left to read is no reason to stop what runs.
    let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
}
