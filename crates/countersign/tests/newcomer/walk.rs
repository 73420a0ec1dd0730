//! The README's commands, in its order.

use crate::browser::Browser;
use crate::desk::Waiting;
use crate::readme;
use crate::shell::{Shell, interrupt};
use crate::terminal::Terminal;

const PROMPT: &str = "[q] leave it waiting";
/// Where the client's own token is kept: in the data folder, not the demo's.
const CLIENT_TOKEN: &str = ".local/share/countersign/clients/claude-code.token";

#[tokio::test(flavor = "multi_thread")]
async fn a_newcomer_walks_through_the_readme() {
    let shell = Shell::new();
    let mut demo = Terminal::of(&shell, &["demo"]);
    let link = banner(&mut demo);
    deny_the_first(&mut demo);
    let browser = pay_in_the_browser(&mut demo, &link, &shell).await;
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

    log_in_again(&browser, &shell).await;
    invite_ann(&shell).await;
    install_a_client(&shell);
    run_a_script(&shell);
    let types = shell.shows(&["tools", "show", "--types", "notes", "--demo"]);
    assert!(types.contains("declare const tools: {") && types.contains("delete("), "{types}");

    shell.shows(&["call", "notes.purge", "--as", "agent", "--no-wait"]);
    interrupt(demo);
    the_next_run_tells_it_first(&shell);
    readme::was_walked(&shell);
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
async fn pay_in_the_browser(demo: &mut Terminal, link: &str, shell: &Shell) -> Browser {
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
    browser
}

/// The one link that a command's output has in it.
#[track_caller]
fn link(shown: &str) -> &str {
    let link = shown.split_whitespace().find(|word| word.contains("/login?code="));
    link.unwrap_or_else(|| panic!("no link in {shown}"))
}

async fn log_in_again(browser: &Browser, shell: &Shell) {
    let shown = shell.shows(&["login"]);
    assert!(shown.contains("Single use"), "{shown}");
    browser.visit(link(&shown)).await;
    browser.click("form[action='/login'] button").await;
    browser.until("the inbox is open", "document.body.dataset.page === 'inbox'").await;
}

/// A second person: in the console with a link, at a terminal with a token.
async fn invite_ann(shell: &Shell) {
    let added = shell.shows(&["user", "add", "ann", "--role", "approver"]);
    assert!(added.contains("user invite ann"), "{added}");
    let invited = shell.shows(&["user", "invite", "ann"]);
    let browser = Browser::open().await;
    browser.visit(link(&invited)).await;
    browser.click("form[action='/login'] button").await;
    browser.until("the inbox is open", "document.body.dataset.page === 'inbox'").await;
    let laptop =
        ["token", "create", "--role", "approver", "--user", "ann", "--name", "laptop", "--expires", "30d"];
    let created = shell.command(&laptop).output().unwrap();
    let secret = String::from_utf8(created.stdout).unwrap();
    let mut inbox = shell.command(&["inbox"]);
    let seen = inbox.env("COUNTERSIGN_TOKEN", secret.trim()).output().unwrap();
    assert!(seen.status.success(), "{seen:?}");
}

fn run_a_script(shell: &Shell) {
    shell.shows(&["call", "notes.add", r#"{"title":"Tidy me away"}"#]);
    std::fs::write(shell.home().join("tidy.ts"), readme::file("tidy.ts")).unwrap();
    let mut run = Terminal::of(shell, &["run", "tidy.ts", "--demo"]);
    run.read_until(PROMPT);
    assert!(run.seen.contains("Permanently delete note"), "{}", run.seen);
    run.answer(PROMPT, "o");
    let seen = run.ends_with(0);
    assert!(
        seen.contains("Approved.") && shell.shows(&["call", "notes.list"]).contains("\"notes\": []"),
        "{seen}"
    );
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
    if !shell.home().join(CLIENT_TOKEN).exists() {
        install.read_until("[y] yes, attended");
        assert!(install.seen.contains("answered by a person"), "{}", install.seen);
        install.answer("[y] yes, attended", "n");
        install.read_until("unattended agent token");
    }
    let seen = install.ends_with(0);
    assert!(seen.contains("\"mcpServers\""), "{seen}");
    assert!(shell.home().join(CLIENT_TOKEN).exists(), "it is kept for the next time");
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
