//! Durable chats of the agent crate, beside a gateway on SQLite: one process, two journals, killed at any moment.
//!
//! The process is this very test binary, told by its environment where to work. Everything destructive is written to a ledger
//! that is synced line by line; doubts are settled by whoever looks there, as a person would.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use countersign_agent::model::{Model, ModelError, ModelRequest, TurnSoFar};
use countersign_agent::providers::GatewayConfirmation;
use countersign_agent::toolset::GatewayToolset;
use countersign_agent::{
    Agent, AgentError, AgentTool, DurableSession, FileJournal, Message, ToolCtx, Toolset as _,
};
use countersign_core::canonical::Verbatim;
use countersign_core::event::Settlement;
use countersign_core::execution::Status;
use countersign_core::ids::CallNo;
use countersign_kernel::ports::{ExecutionFilter, Page};
use countersign_kernel::{Answer, Caller, Decide, Gateway, Patience, Target};
use countersign_sdk::{Approved, Ctx, Plugin, Principal, Remember, SessionId, Tool, ToolError};
use countersign_store::SqliteStore;
use countersign_testkit::chance::Chance;
use countersign_testkit::world::InTests as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::process::LONGEST_ANSWER;

/// The child's name among the tests.
const CHILD: &str = "chats::a_chat_beside_its_gateway_does_everything_once";
/// Where the child keeps everything.
const FOLDER: &str = "COUNTERSIGN_CHAT_FOLDER";
const KILLS: usize = 30;
/// The model makes turns until it finds this file; each calls one tool of the gateway and one of the agent's own.
const ENOUGH: &str = "enough";
/// How long the person thinks.
const THINKING: Duration = Duration::from_millis(3);

#[test]
fn chats_killed_again_and_again_beside_their_gateway_do_everything_once() {
    let (folder, mut chance) = (tempfile::tempdir().unwrap(), Chance::new(31));
    for life in 0..KILLS {
        let before = lines(folder.path(), "ledger").len();
        let mut process = child(folder.path());
        // Every other one is killed wherever it is, if need be before it has begun; the rest get something done first.
        if life % 2 == 0 {
            std::thread::sleep(Duration::from_millis(20 + chance.below(150)));
        } else {
            until("something takes effect", || lines(folder.path(), "ledger").len() > before);
            std::thread::sleep(Duration::from_millis(chance.below(60)));
        }
        // SIGKILL: neither the agent nor the gateway in it gets to say goodbye.
        process.kill().unwrap();
        process.wait().unwrap();
    }
    note(folder.path(), ENOUGH, "");
    ended(folder.path());
    let turns = check(folder.path(), KILLS);
    println!("{KILLS} kills, {turns} turns, {} doubts", lines(folder.path(), "doubts").len());
    assert!(turns >= KILLS / 4, "two effects a turn, and an effect in every other life");
}

/// A test of its own, and the process that the other test kills.
#[test]
fn a_chat_beside_its_gateway_does_everything_once() {
    let own = tempfile::tempdir().unwrap();
    let folder = std::env::var(FOLDER).map_or_else(|_| own.path().to_owned(), PathBuf::from);
    let alone = std::env::var(FOLDER).is_err();
    if alone {
        note(&folder, ENOUGH, "");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(chat(&folder));
    if alone {
        assert_eq!(check(&folder, 0), 1);
    }
}

fn child(folder: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([CHILD, "--exact"]).env(FOLDER, folder).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

/// Lets one more process come to the chat's end.
fn ended(folder: &Path) {
    let mut process = child(folder);
    until("it ends", || process.try_wait().unwrap().is_some());
    assert!(process.wait().unwrap().success());
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LONGEST_ANSWER, "{what}: not within {LONGEST_ANSWER:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Everything took effect once, and nothing that was recorded was asked for again. Returns how many turns there were.
fn check(folder: &Path, kills: usize) -> usize {
    let turns = lines(folder, "end")[0].parse().unwrap();
    let mut effects = lines(folder, "ledger");
    effects.sort();
    let mut each_once: Vec<String> =
        (0..turns).flat_map(|turn| [format!("agent {turn}"), format!("gateway {turn}")]).collect();
    each_once.sort();
    assert_eq!(effects, each_once, "after {kills} kills");
    let asked = lines(folder, "model").len();
    assert!(asked <= turns + 1 + kills, "{turns} turns were asked for {asked} times in {kills} kills");
    turns
}

fn lines(folder: &Path, file: &str) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join(file)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn note(folder: &Path, file: &str, line: &str) {
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(folder.join(file)).unwrap();
    file.write_all(format!("{line}\n").as_bytes()).unwrap();
    file.sync_all().unwrap();
}

/// Runs the chat to its end, settling on the way what is in doubt.
async fn chat(folder: &Path) {
    let gateway = Gateway::on(Arc::new(SqliteStore::open(folder).unwrap()))
        .plugin(GatewayConfirmation::plugin())
        .plugin(ledger(folder))
        .start()
        .await
        .unwrap();
    let caller = Caller::from(Principal::agent("chatting").unwrap());
    let session = SessionId::parse("ses_chat").unwrap();
    gateway.open_session(&caller, "chat", Some(session.clone())).await.unwrap();
    let person = tokio::spawn(approve_everything(gateway.clone()));
    let agent = Agent::builder()
        .model(Diligent(folder.to_owned()))
        .tool(stamp(folder))
        .toolset(
            GatewayToolset::new(&gateway, &caller, &session)
                .filtered(|tool: &AgentTool| tool.name() == "ledger__append"),
        )
        .confirmation(GatewayConfirmation::new(&gateway, &caller, &session).unwrap())
        .max_iterations(u32::MAX)
        .build()
        .unwrap();
    let reply = loop {
        settle_in_the_gateway(folder, &gateway).await;
        let journal = FileJournal::open(folder.join("chat")).unwrap();
        let conversation = DurableSession::begin(journal, "chat-1", "Go").await.unwrap();
        settle_in_the_chat(folder, &conversation).await;
        match agent.run_durable(conversation).await {
            Ok(reply) => break reply,
            Err(AgentError::InDoubt { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    };
    let turns = reply.messages.iter().filter(|m| matches!(m, Message::Assistant { .. })).count() - 1;
    note(folder, "end", &turns.to_string());
    person.abort();
    gateway.close(LONGEST_ANSWER).await;
}

/// Which line is to be written.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
struct Line {
    n: usize,
}

/// The gateway's tool.
fn ledger(folder: &Path) -> Plugin {
    let folder = folder.to_owned();
    let append = Tool::new("ledger.append")
        .name("Append")
        .describe("Appends a line.")
        .remember(Remember::Call)
        .destructive(|line: &Line| format!("Append {}?", line.n))
        .handler(move |_ctx: Ctx, line: Approved<Line>| {
            let folder = folder.clone();
            async move {
                note(&folder, "ledger", &format!("gateway {}", line.n));
                Ok::<_, ToolError>(Line { n: line.n })
            }
        });
    Plugin::new("ledger", "Ledger", "A file with one line for each time a handler got there.").tool(append)
}

/// The agent's own tool.
fn stamp(folder: &Path) -> AgentTool {
    let folder = folder.to_owned();
    AgentTool::new("stamp").describe("Appends a line.").destructive().handler(
        move |_ctx: ToolCtx, line: Line| {
            let folder = folder.clone();
            async move {
                note(&folder, "ledger", &format!("agent {}", line.n));
                Ok::<_, ToolError>("stamped")
            }
        },
    )
}

/// A model that makes the turn that follows what it is shown.
struct Diligent(PathBuf);

#[async_trait::async_trait]
impl Model for Diligent {
    async fn turn(&self, request: ModelRequest<'_>, turn: &mut TurnSoFar) -> Result<(), ModelError> {
        let made = request.messages.iter().filter(|m| matches!(m, Message::Assistant { .. })).count();
        note(&self.0, "model", &made.to_string());
        if made > 0 && self.0.join(ENOUGH).exists() {
            return turn.text("Done.");
        }
        for (slot, tool) in [(0, "ledger__append"), (1, "stamp")] {
            turn.call_started(slot, &format!("{tool}-{made}"), tool)?;
            turn.call_delta(slot, &json!({ "n": made }).to_string())?;
        }
        Ok(())
    }
}

/// A person who says yes to everything, after a little thought.
async fn approve_everything(gateway: Gateway) {
    loop {
        for row in gateway.open().await {
            tokio::time::sleep(THINKING).await;
            let decide = Decide {
                target: Target::Elicitation(row.elicitation.id),
                by: Principal::approver("ann").unwrap().into(),
                channel: "test".into(),
                answer: Answer::Approve { covers: None, data: None },
                comment: None,
            };
            gateway.decide(decide).await.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// What a person says of a call in doubt who looked into the ledger.
fn truth(folder: &Path, line: &str, value: &serde_json::Value) -> Settlement {
    note(folder, "doubts", line);
    if lines(folder, "ledger").iter().any(|written| written == line) {
        Settlement::Done { value: Verbatim::of(value).unwrap() }
    } else {
        Settlement::Retry
    }
}

async fn settle_in_the_gateway(folder: &Path, gateway: &Gateway) {
    let filter = ExecutionFilter { status: vec![Status::InDoubt], ..ExecutionFilter::default() };
    for row in gateway.executions(filter, Page::first(1_000)).await.unwrap().items {
        let result = gateway.wait(row.id, Patience::AtMost(Duration::ZERO)).await.unwrap().unwrap();
        let line: Line =
            serde_json::from_value(serde_json::to_value(&result.calls[0].args).unwrap()).unwrap();
        let settlement = truth(folder, &format!("gateway {}", line.n), &json!({ "n": line.n }));
        let by = Principal::approver("ann").unwrap().into();
        gateway.settle(row.id, CallNo(0), settlement, &by).await.unwrap();
    }
}

async fn settle_in_the_chat(folder: &Path, conversation: &DurableSession) {
    for doubt in conversation.in_doubt().await {
        let line: Line = serde_json::from_value(doubt.input).unwrap();
        let settlement = truth(folder, &format!("agent {}", line.n), &json!("stamped"));
        conversation.settle(doubt.call, settlement, "ann").await.unwrap();
    }
}
