//! Real processes, killed with SIGKILL. The child is this very test binary, told by its environment where to stop.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use countersign_agent::model::{Model, ModelError, ModelRequest, TurnSoFar};
use countersign_agent::{
    Agent, AgentError, AgentTool, ConfirmationRequest, DurableSession, FileJournal, ProviderError, ToolCtx,
    Verdict, request_confirmation,
};
use countersign_core::canonical::Verbatim;
use countersign_core::event::Settlement;
use countersign_sdk::ToolError;
use serde_json::json;

use crate::disk::Rehearsed;
use crate::shop::{Nothing, SOON};

/// The child's name among the tests.
const CHILD: &str = "killed::a_chat_in_a_process_of_its_own_does_everything_once";
/// Where the child keeps everything.
const FOLDER: &str = "COUNTERSIGN_AGENT_FOLDER";
/// Where the child stops and waits to be killed.
const STOP: &str = "COUNTERSIGN_AGENT_STOP";

/// What a process leaves behind, and where it stops.
#[derive(Clone)]
struct Place {
    folder: PathBuf,
    stop: String,
}

impl Place {
    /// Writes down that something happened, durably enough for a process that is killed.
    fn note(&self, what: &str) {
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(self.log()).unwrap();
        file.write_all(format!("{what}\n").as_bytes()).unwrap();
    }

    fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// Stops here, if this is where to stop, until somebody kills the process.
    async fn pass(&self, point: &str) {
        if self.stop == point {
            std::fs::write(self.folder.join("stopped"), point).unwrap();
            std::future::pending::<()>().await;
        }
    }

    fn tool(&self, name: &'static str) -> AgentTool {
        let place = self.clone();
        let builder = AgentTool::new(name).describe("For a test.");
        let builder = if name == "destroy" { builder.destructive() } else { builder };
        builder.handler(move |ctx: ToolCtx, _: Nothing| {
            let place = place.clone();
            async move {
                place.pass(&format!("{name} before")).await;
                if name == "ask" {
                    request_confirmation(&ctx, "Really?", json!(null)).await?;
                }
                place.note(name);
                place.pass(&format!("{name} after")).await;
                Ok::<_, ToolError>(name)
            }
        })
    }
}

/// A model whose turns are written down.
struct Logged(Rehearsed, Place);

#[async_trait::async_trait]
impl Model for Logged {
    async fn turn(&self, request: ModelRequest<'_>, turn: &mut TurnSoFar) -> Result<(), ModelError> {
        self.0.turn(request, turn).await?;
        let number = self.0.asked()[self.0.asked().len() - 1];
        self.1.note(&format!("model {number}"));
        self.1.pass(&format!("model {number}")).await;
        Ok(())
    }
}

async fn chat(place: &Place) -> Result<String, AgentError> {
    let turns =
        vec![vec![("a", "read", json!({})), ("b", "destroy", json!({}))], vec![("c", "ask", json!({}))]];
    let person = place.clone();
    let provider = move |request: ConfirmationRequest| {
        let person = person.clone();
        async move {
            person.pass(&format!("asked {}", request.tool_name)).await;
            person.note(&format!("approved {}", request.tool_name));
            Ok::<_, ProviderError>(Verdict::Approve)
        }
    };
    let agent = Agent::builder()
        .model(Logged(Rehearsed::new(turns), place.clone()))
        .tool(place.tool("read"))
        .tool(place.tool("destroy"))
        .tool(place.tool("ask"))
        .sequential_tools()
        .confirmation(provider)
        .build()
        .unwrap();
    let session =
        DurableSession::begin(FileJournal::open(place.folder.join("chat"))?, "killed", "Go").await?;
    Ok(agent.run_durable(session).await?.text)
}

/// A test of its own, and the process that the other test kills.
#[tokio::test]
async fn a_chat_in_a_process_of_its_own_does_everything_once() {
    let own = tempfile::tempdir().unwrap();
    let folder = std::env::var(FOLDER).map_or_else(|_| own.path().to_owned(), PathBuf::from);
    let place = Place { folder, stop: std::env::var(STOP).unwrap_or_default() };
    match chat(&place).await {
        Ok(text) => place.note(&text),
        Err(error) => place.note(error.code()),
    }
    if std::env::var(FOLDER).is_err() {
        let everything =
            "model 0\nread\napproved destroy\ndestroy\nmodel 1\napproved ask\nask\nmodel 2\nDone.\n";
        assert_eq!(std::fs::read_to_string(place.log()).unwrap(), everything);
    }
}

fn child(folder: &Path, stop: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([CHILD, "--exact"])
        .env(FOLDER, folder)
        .env(STOP, stop)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// A process that is killed where it stops.
fn killed_at(folder: &Path, stop: &str) {
    let mut process = child(folder, stop);
    let begun = Instant::now();
    while !folder.join("stopped").exists() {
        assert!(begun.elapsed() < SOON, "it never came to {stop}");
        assert!(process.try_wait().unwrap().is_none(), "it ended before {stop}");
        std::thread::sleep(Duration::from_millis(2));
    }
    // SIGKILL: nothing of the process gets to say goodbye.
    process.kill().unwrap();
    process.wait().unwrap();
}

/// Lets a process run to its end, and returns everything that happened in the folder since it was made.
fn ended(folder: &Path) -> Vec<String> {
    assert!(child(folder, "").wait().unwrap().success());
    let log = std::fs::read_to_string(folder.join("log")).unwrap();
    log.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn killed_with_sigkill_it_goes_on_and_repeats_nothing_that_was_recorded() {
    for (stop, again) in [
        // What may happen twice: the turn whose answer was lost, the reading tool that was cut short.
        ("model 0", Some("model 0")),
        ("read before", None),
        ("read after", Some("read")),
        ("asked destroy", None),
        ("model 1", Some("model 1")),
        ("asked ask", None),
        ("model 2", Some("model 2")),
    ] {
        let folder = tempfile::tempdir().unwrap();
        killed_at(folder.path(), stop);
        let log = ended(folder.path());
        for what in [
            "model 0",
            "read",
            "approved destroy",
            "destroy",
            "model 1",
            "approved ask",
            "ask",
            "model 2",
            "Done.",
        ] {
            let times = log.iter().filter(|line| *line == what).count();
            assert_eq!(times, if again == Some(what) { 2 } else { 1 }, "{stop}: {what} in {log:?}");
        }
    }
}

#[tokio::test]
async fn killed_with_sigkill_inside_a_destructive_tool_it_stops_until_a_person_settles_it() {
    for (stop, tool, took_effect) in
        [("destroy before", "destroy", 0), ("destroy after", "destroy", 1), ("ask after", "ask", 1)]
    {
        let folder = tempfile::tempdir().unwrap();
        killed_at(folder.path(), stop);
        let log = ended(folder.path());
        assert_eq!(log.last().unwrap(), "in_doubt", "{stop}: {log:?}");
        let session =
            DurableSession::open(FileJournal::open(folder.path().join("chat")).unwrap()).await.unwrap();
        let doubts = session.in_doubt().await;
        assert_eq!(doubts.iter().map(|doubt| doubt.tool.as_str()).collect::<Vec<_>>(), [tool], "{stop}");
        let done = Settlement::Done { value: Verbatim::of(&json!("done")).unwrap() };
        session.settle(doubts[0].call, done, "ann").await.unwrap();
        drop(session);
        let log = ended(folder.path());
        assert_eq!(log.last().unwrap(), "Done.", "{stop}: {log:?}");
        assert_eq!(log.iter().filter(|line| *line == tool).count(), took_effect, "{stop}: {log:?}");
    }
}
