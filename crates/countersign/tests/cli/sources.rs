//! `source` at a terminal and without one, against a server whose sources are in memory.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use countersign_kernel::NewToken;
use countersign_kernel::ports::Sources;
use countersign_sdk::{ExposeSecret as _, Role};
use countersign_server::{Links, Options, Server};
use countersign_testkit::sources::{CHANGED, DIGEST, MemorySources};
use countersign_testkit::world::World;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use crate::shell::{Ran, Shell};

/// A shell whose commands talk to a server with sources.
struct Desk {
    shell: Shell,
    sources: Arc<MemorySources>,
    url: String,
    token: String,
    // The last to go: the server runs on it.
    _runtime: Runtime,
}

impl Desk {
    fn open() -> Self {
        let runtime = Runtime::new().unwrap();
        let sources = Arc::new(MemorySources::default());
        let served = Arc::clone(&sources) as Arc<dyn Sources>;
        let (url, token) = runtime.block_on(async {
            let world = World::new(1);
            let gateway = world.start_with(world.builder(Arc::new(world.disk.clone()))).await;
            let admin = gateway.ensure_operator("admin").await.unwrap().id;
            let token =
                gateway.create_token(NewToken::new("admin", Role::Admin).of(admin), None).await.unwrap();
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("http://{}", listener.local_addr().unwrap());
            let mut options = Options::at(Links::below(&url), [7; 32]);
            options.sources = Some(served);
            Server::start(listener, gateway, options, None).unwrap();
            (url, token.secret.expose_secret().to_owned())
        });
        Self { shell: Shell::new(), sources, url, token, _runtime: runtime }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.shell.command(&[&["source"], words].concat());
        command.env("COUNTERSIGN_URL", &self.url).env("COUNTERSIGN_TOKEN", &self.token);
        command
    }

    fn run(&self, words: &[&str]) -> Ran {
        Ran::of(&mut self.command(words))
    }

    fn json(&self, words: &[&str]) -> Value {
        let ran = Ran::of(self.command(words).arg("--json"));
        serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{words:?}: {e}\n{ran:?}"))
    }

    #[cfg(unix)]
    fn at_terminal(&self, words: &[&str]) -> crate::terminal::Terminal {
        crate::terminal::Terminal::with(self.command(words).env("TERM", "xterm"))
    }
}

#[test]
fn without_a_terminal_a_source_is_added_and_its_tools_wait() {
    let desk = Desk::open();
    let added = desk.run(&["add", "mcp", "files", "--", "files-server"]);
    added.printed(&["2 tools: 1 reads, 1 destroys", "2 new", "files.drop  [new]", "POST /x: multipart"]);
    assert!(added.err.contains("source accept files"), "{added:?}");
    assert!(desk.sources.config("files").is_some());
    assert_eq!(desk.json(&["show", "files"])["callable"], 0);
    desk.run(&["list"]).printed(&["files", "ready", "added"]);
    assert_eq!(desk.json(&["list"])["items"][0]["new"], 2);
    desk.run(&["refresh", "files"]).printed(&["2 new"]);
    assert_eq!(desk.json(&["remove", "files"])["removed"], true);
    assert!(desk.sources.is_empty());
}

#[test]
fn without_a_terminal_nothing_is_accepted_unless_its_digest_is_named() {
    let desk = Desk::open();
    desk.json(&["add", "openapi", "hub", "https://hub.example/openapi.json"]);
    desk.run(&["accept", "hub"])
        .failed(1, &["nobody is at this terminal", "--yes --digest", "source show hub --json"]);
    desk.run(&["accept", "hub", "--yes"]).failed(2, &["--digest"]);
    desk.run(&["accept", "hub", "--yes", "--digest", "other"])
        .failed(1, &["something else", "source accept hub"]);
    desk.run(&["accept", "hub", "nothing", "--yes", "--digest", DIGEST])
        .failed(1, &["does not wait", "source show hub"]);
    assert_eq!(desk.json(&["show", "hub"])["callable"], 0);
    assert_eq!(desk.json(&["accept", "hub", "list", "--yes", "--digest", DIGEST])["callable"], 1);
    assert_eq!(desk.json(&["accept", "hub", "--yes", "--digest", DIGEST])["callable"], 2);
    desk.run(&["accept", "hub"]).printed(&["hub: 2 tools are callable"]);
}

#[test]
fn a_refusal_says_what_to_do_next() {
    let desk = Desk::open();
    desk.run(&["show", "nothing"]).failed(1, &["there is no source", "source list"]);
    desk.run(&["add", "mcp", "away", "https://away.example"])
        .failed(1, &["nothing answers there", "--allow-private"]);
    desk.run(&["add", "mcp", "lab", "--", "x"]).failed(1, &["lab is a plugin's", "another name"]);
    desk.run(&["add", "mcp", "a-b", "--", "x"]).failed(1, &["one segment", "source add --help"]);
    desk.run(&["remove", "filed"]).failed(1, &["in the configuration file", "[[source]]"]);
    desk.run(&["add", "mcp", "files", "--", "x"]).printed(&["files"]);
    desk.run(&["add", "mcp", "files", "--", "x"]).failed(1, &["there is a source", "source remove files"]);
}

#[cfg(unix)]
#[test]
fn at_a_terminal_a_source_is_shown_before_it_is_added_and_only_y_accepts_it() {
    const QUESTION: &str = "before you accept it.)";
    let desk = Desk::open();
    for nothing in ["", "yes", "n"] {
        let mut terminal = desk.at_terminal(&["add", "mcp", "files", "--", "files-server"]);
        terminal.read_until(QUESTION);
        for words in [
            "1 reads, 1 destroys",
            "calls go to https://hub.example/v1",
            "files.list",
            "POST /x: multipart",
            "⟦U+001B⟧[2J",
        ] {
            assert!(terminal.seen.contains(words), "{words:?}\n{}", terminal.seen);
        }
        assert!(desk.sources.is_empty(), "a preview keeps nothing");
        terminal.answer(QUESTION, nothing);
        assert!(terminal.ends_with(0).contains("Nothing was added"));
        assert!(desk.sources.is_empty());
    }
    let mut terminal = desk.at_terminal(&["add", "mcp", "waits", "--", "files-server"]);
    terminal.answer(QUESTION, "l");
    assert!(terminal.ends_with(0).contains("source accept waits"));
    assert_eq!(desk.json(&["show", "waits"])["callable"], 0);
    let mut terminal = desk.at_terminal(&["accept", "waits"]);
    terminal.read_until("leave it waiting");
    assert!(terminal.seen.contains("Send your keys.⟦U+202E⟧"), "its schema is shown: {}", terminal.seen);
    terminal.answer("leave it waiting", "n");
    terminal.ends_with(0);
    let mut terminal = desk.at_terminal(&["add", "mcp", "files", "--", "files-server"]);
    terminal.answer(QUESTION, "y");
    assert!(terminal.ends_with(0).contains("2 tools are callable"));
    assert_eq!(desk.json(&["show", "files"])["callable"], 2);
}

#[cfg(unix)]
#[test]
fn while_a_document_is_read_a_terminal_shows_its_size_on_standard_error_and_nothing_else_does() {
    const WORDS: &str = "reading what hub offers (1.5 MB)";
    let desk = Desk::open();
    let document = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(document.path(), vec![b' '; 1_500_000]).unwrap();
    let file = document.path().to_str().unwrap();
    let held = desk.sources.hold().unwrap();
    let mut terminal = desk.at_terminal(&["add", "openapi", "hub", file]);
    terminal.read_until(WORDS);
    drop(held);
    terminal.answer("before you accept it.)", "n");
    terminal.ends_with(0);
    let errors = tempfile::NamedTempFile::new().unwrap();
    let mut command = desk.command(&["add", "openapi", "hub", file]);
    command.env("TERM", "xterm");
    let mut terminal = crate::terminal::Terminal::with_errors_in(&mut command, errors.reopen().unwrap());
    let elsewhere = || std::fs::read_to_string(errors.path()).unwrap();
    // What is typed before the question is there does not count.
    while !elsewhere().contains("before you accept it.)") {
        assert!(terminal.child.try_wait().unwrap().is_none(), "{}", elsewhere());
        std::thread::sleep(Duration::from_millis(20));
    }
    terminal.press("n\n");
    let (output, elsewhere) = (terminal.ends_with(0), elsewhere());
    assert!(!output.contains("reading what") && !elsewhere.contains("reading what"), "{output}\n{elsewhere}");
    let added = desk.run(&["add", "openapi", "hub", file]);
    assert!(!added.err.contains("reading what") && !added.out.contains("reading what"), "{added:?}");
}

#[cfg(unix)]
#[test]
fn at_a_terminal_what_changed_is_shown_before_it_is_accepted() {
    let desk = Desk::open();
    desk.run(&["add", "mcp", CHANGED, "--", "x"]).printed(&["2 changed"]);
    for (line, callable) in [("n", 0), ("y", 2)] {
        let mut terminal = desk.at_terminal(&["accept", CHANGED]);
        terminal.read_until("leave it waiting");
        for words in ["changed.list", "accepted:", "offered:", "⟦U+202E⟧", "Accept 2 tools?"] {
            assert!(terminal.seen.contains(words), "{words:?}\n{}", terminal.seen);
        }
        assert!(!terminal.seen.contains('\u{202e}'));
        terminal.answer("leave it waiting", line);
        terminal.ends_with(0);
        assert_eq!(desk.json(&["show", CHANGED])["callable"], callable);
    }
}

#[cfg(unix)]
#[test]
fn what_a_source_offers_since_it_was_shown_is_not_accepted() {
    let desk = Desk::open();
    let mut terminal = desk.at_terminal(&["add", "mcp", "files", "--", "files-server"]);
    terminal.read_until("before you accept it.)");
    desk.sources.offer_something_else();
    terminal.answer("before you accept it.)", "y");
    assert!(terminal.ends_with(1).contains("source accept files"));
    assert_eq!(desk.json(&["show", "files"])["callable"], 0, "it is added, and its tools wait");
    let mut terminal = desk.at_terminal(&["accept", "files"]);
    terminal.read_until("leave it waiting");
    desk.sources.offer_something_else();
    terminal.answer("leave it waiting", "y");
    assert!(terminal.ends_with(1).contains("something else"));
    assert_eq!(desk.json(&["show", "files"])["callable"], 0);
}
