//! The README's commands, in its order.

use crate::browser::Browser;
use crate::desk::Waiting;
use crate::shell::{Shell, interrupt};
use crate::terminal::Terminal;

const README: &str = include_str!("../../../../README.md");
/// What a newcomer runs, as the README has it.
const COMMANDS: [&str; 8] = [
    "cargo run -p countersign -- demo",
    "$ countersign inbox",
    "$ countersign call notes.purge --as agent --no-wait",
    "$ countersign inbox",
    "$ countersign approve eli_…",
    "$ countersign executions",
    "$ countersign mcp install claude-code",
    "$ countersign doctor",
];
const PROMPT: &str = "[q] leave it waiting";

#[test]
fn the_walk_is_the_readmes() {
    let mut rest = README;
    for command in COMMANDS {
        let at =
            rest.find(command).unwrap_or_else(|| panic!("{command:?} comes next in no line of the README"));
        rest = &rest[at + command.len()..];
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newcomer_walks_through_the_readme() {
    let shell = Shell::new();
    let mut demo = Terminal::of(&shell, &["demo"]);
    let link = banner(&mut demo);
    deny_the_first(&mut demo);
    pay_in_the_browser(&mut demo, &link, &shell).await;
    fill_in_the_form(&mut demo);
    demo.read_until("That was the demo.");

    assert!(shell.shows(&["inbox"]).contains("Nothing waits for a person."));
    let paused = shell.shows(&["call", "notes.purge", "--as", "agent", "--no-wait"]);
    let question = shell.only_question();
    assert!(paused.contains(&format!("approve {question}")), "{paused}");
    let inbox = shell.shows(&["inbox"]);
    assert!(inbox.contains(&question) && inbox.contains("1 waits for a person."), "{inbox}");
    approve_at_the_terminal(&shell, &question);
    let executions = shell.shows(&["executions"]);
    for tool in ["notes.delete", "bank.pay", "stock.check", "notes.purge"] {
        assert!(executions.contains(tool), "{tool}\n{executions}");
    }
    install_a_client(&shell);
    let doctor = shell.shows(&["doctor"]);
    assert!(doctor.contains("is the demo's server") && doctor.contains("unbroken"), "{doctor}");

    shell.shows(&["call", "notes.purge", "--as", "agent", "--no-wait"]);
    interrupt(demo);
    the_next_run_tells_it_first(&shell);
}

/// What the demo says of itself; gives the console's link.
fn banner(demo: &mut Terminal) -> String {
    demo.read_until(PROMPT);
    let seen = &demo.seen;
    let words = seen.split_whitespace();
    let link = words.clone().find(|word| word.contains("/login?code=")).unwrap_or_else(|| panic!("{seen}"));
    assert!(link.starts_with("http://countersign.localhost:"), "{link}");
    let address = words.clone().find(|word| word.starts_with("http://127.0.0.1:")).unwrap();
    assert!(seen.contains(&format!("does not find countersign.localhost, {address} works too")), "{seen}");
    let data = seen.lines().find_map(|line| line.trim().strip_prefix("data ")).unwrap().trim();
    let command = format!("`countersign --demo --data-dir {data} inbox --watch` in another terminal");
    assert!(seen.contains(&command), "{command}\n{seen}");
    link.to_owned()
}

fn deny_the_first(demo: &mut Terminal) {
    assert!(demo.seen.contains("notes.delete asks for approval"), "{}", demo.seen);
    demo.answer(PROMPT, "yes");
    demo.answer("Type one of the letters and press Enter.", "d");
    demo.answer("Reason, sent to the agent", "I still need it");
    demo.read_until("Reason: I still need it");
}

/// Logs in with the printed link, reads what waits and approves it there; the terminal goes on by itself.
async fn pay_in_the_browser(demo: &mut Terminal, link: &str, shell: &Shell) {
    demo.read_until("bank.pay asks for approval");
    demo.read_until(PROMPT);
    let asked = shell.waiting().remove(0);
    let id = |name: &str| asked[name].as_str().unwrap().to_owned();
    let browser = Browser::open().await;
    browser.visit(link).await;
    browser.click("form[action='/login'] button").await;
    browser.has_settled(&Waiting { execution: id("executionId"), elicitation: id("elicitationId") }).await;
    assert!(browser.text("#request").await.contains("Ann's Printing Ltd"));
    browser.press("a").await;
    demo.read_until("Decided elsewhere: approved by");
    demo.read_until("through console");
    demo.read_until("\"to\":\"Ann's Printing Ltd\"");
}

fn fill_in_the_form(demo: &mut Terminal) {
    demo.read_until("stock.check asks for an answer");
    demo.answer(PROMPT, "f");
    demo.answer("warehouseId", "WH-7");
    demo.answer("[y] send it", "y");
    demo.read_until("\"warehouseId\":\"WH-7\"");
}

fn approve_at_the_terminal(shell: &Shell, question: &str) {
    let mut approve = Terminal::of(shell, &["approve", question]);
    approve.read_until(PROMPT);
    assert!(approve.seen.contains("Permanently delete all notes?"), "{}", approve.seen);
    approve.answer(PROMPT, "a");
    let seen = approve.ends_with(0);
    assert!(seen.contains("Approved.") && seen.contains("\"deleted\": 1"), "{seen}");
}

fn install_a_client(shell: &Shell) {
    let mut install = Terminal::of(shell, &["mcp", "install", "claude-code"]);
    install.answer("[y] yes, attended", "n");
    let seen = install.ends_with(0);
    assert!(seen.contains("unattended agent token") && seen.contains("\"mcpServers\""), "{seen}");
    assert!(!shell.home().join(".mcp.json").exists(), "it was shown, not written");
}

fn the_next_run_tells_it_first(shell: &Shell) {
    let mut demo = Terminal::of(shell, &["demo"]);
    demo.read_until(PROMPT);
    let told = demo.seen.find("1 request is still waiting from an earlier run.");
    let asked = demo.seen.find("notes.purge asks for approval");
    assert!(told.is_some() && told < asked, "{}", demo.seen);
    assert!(!demo.seen.contains("A scripted agent begins."), "it waits its turn:\n{}", demo.seen);
    demo.answer(PROMPT, "a");
    demo.read_until("Approved.");
    demo.read_until("A scripted agent begins.");
    demo.read_until("notes.delete asks for approval");
    demo.answer(PROMPT, "a");
    demo.read_until("{\"deleted\":true}");
    demo.read_until("bank.pay asks for approval");
    interrupt(demo);
}
