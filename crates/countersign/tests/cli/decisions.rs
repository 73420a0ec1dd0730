//! `inbox`, `approve`, `deny`: a person's word from another shell.

use serde_json::json;

use crate::shell::{Shell, with_and_without_a_server};
use crate::terminal::Terminal;

with_and_without_a_server! {
    approve_runs_it_once_and_the_timeline_tells_the_story,
    deny_runs_nothing_and_tells_the_caller_why,
    a_form_takes_data_that_fits,
    what_says_each_call_cannot_be_remembered,
    a_remembered_approval_is_shown_and_can_be_forgotten,
    several_questions_of_one_script_are_decided_one_by_one,
    a15_what_was_denied_before_says_so_when_it_is_asked_again,
}

fn approve_runs_it_once_and_the_timeline_tells_the_story(shell: &Shell) {
    shell.run(&["--demo", "call", "notes.add", r#"{"title":"Milk"}"#]).printed(&["Milk"]);
    let (execution, elicitation) = shell.paused("notes.delete", r#"{"id":1}"#);
    shell.run(&["inbox"]).printed(&[
        &elicitation,
        "notes.delete",
        "This cannot be undone.",
        "1 waits for a person",
    ]);
    let inbox = shell.json(&["inbox"]);
    assert_eq!(inbox["items"][0]["elicitationId"], json!(elicitation));
    assert!(inbox["items"][0]["requester"].as_str().unwrap().starts_with("usr_"), "{inbox}");
    shell.run(&["inbox"]).printed(&["by operator (usr_"]);

    let ran = shell.approve(&elicitation, &["--comment", "go on"]);
    ran.printed(&["\"deleted\": true"]);
    assert!(
        ran.err.contains("Approved. notes.delete") && ran.err.contains("Permanently delete note"),
        "{}",
        ran.err
    );
    shell.run(&["inbox"]).printed(&["Nothing waits"]);
    shell.run(&["executions"]).printed(&[&execution[..21], "succeeded", "notes.delete"]);
    shell.run(&["executions", &execution[..21]]).printed(&[&execution]);
    let story = [
        "the gate asked",
        "approved by operator (usr_",
        "through cli, saying \"go on\"",
        "let run",
        "succeeded",
    ];
    shell.run(&["executions", &execution]).printed(&story);
    let told = shell.json(&["executions", &execution]);
    assert_eq!((&told["status"], told["journal"].as_array().unwrap().len()), (&json!("succeeded"), 7));
    shell.approve(&elicitation, &[]).printed(&["\"deleted\": true"]);
    shell.run(&["--demo", "deny", &elicitation]).failed(1, &["decided already: approved by operator (usr_"]);
}

fn deny_runs_nothing_and_tells_the_caller_why(shell: &Shell) {
    let (execution, _) = shell.paused("bank.pay", r#"{"to":"ann","amount":5}"#);
    let ran = shell.run(&["--demo", "deny", &execution, "--reason", "not today"]);
    assert_eq!(ran.status, 0, "{ran:?}");
    assert!(ran.err.contains("Denied. bank.pay"), "{}", ran.err);
    let told = shell.json(&["executions", &execution]);
    assert_eq!(told["error"]["code"], "denied");
    assert!(told["error"]["message"].as_str().unwrap().contains("not today"));
    assert_eq!(shell.json(&["--demo", "call", "bank.ledger"])["value"]["transfers"], json!([]));
    shell.approve(&execution, &[]).failed(1, &["decided already: denied"]);
}

fn a_form_takes_data_that_fits(shell: &Shell) {
    let (_, elicitation) = shell.paused("stock.check", "{}");
    shell.run(&["inbox"]).printed(&["Which warehouse should I check?", "warehouseId", "--data"]);
    let approve = |data: &str| shell.approve(&elicitation, &["--data", data]);
    shell.approve(&elicitation, &[]).failed(1, &["warehouseId", "--data"]);
    approve(r#"{"warehouseId":7}"#).failed(1, &["7 is not of type \"string\""]);
    approve("{").failed(2, &["--data is not valid JSON"]);
    approve(r#"{"warehouseId":"WH-7"}"#).printed(&["\"warehouseId\": \"WH-7\"", "\"units\""]);
    let (_, elicitation) = shell.paused("stock.check", "{}");
    shell.run(&["--demo", "deny", &elicitation]).printed(&["\"cancelled\": true"]);
}

fn what_says_each_call_cannot_be_remembered(shell: &Shell) {
    let (_, elicitation) = shell.paused("bank.pay", r#"{"to":"ann","amount":5}"#);
    shell.approve(&elicitation, &["--remember", "session"]).failed(1, &["cannot be remembered"]);
    shell.approve(&elicitation, &[]).printed(&["\"to\": \"ann\""]);
    shell.paused("bank.pay", r#"{"to":"ann","amount":5}"#);
}

fn a_remembered_approval_is_shown_and_can_be_forgotten(shell: &Shell) {
    shell.make_data();
    shell.run(&["grants", "list"]).failed(0, &["Nothing is remembered in ses_of_usr_"]);
    let (_, elicitation) = shell.paused("notes.delete", r#"{"id":1}"#);
    let ran = shell.approve(&elicitation, &["--remember", "session"]);
    ran.failed(1, &["run without asking", "There is no note 1"]);
    shell.run(&["grants", "list"]).printed(&["notes.delete", "operator (usr_", "in 11 h 59 min"]);
    let grant = shell.json(&["grants", "list"])["items"][0]["grantId"].as_str().unwrap().to_owned();
    shell.run(&["--demo", "call", "notes.delete", r#"{"id":2}"#]).failed(1, &["There is no note 2"]);
    shell.run(&["grants", "clear", "gra_00000000000000000000000000000000"]).failed(1, &["grants list"]);
    shell.run(&["grants", "clear", &grant]).failed(0, &["forgotten"]);
    let (_, elicitation) = shell.paused("notes.delete", r#"{"id":2}"#);
    shell.approve(&elicitation, &["--remember", "session"]).failed(1, &["run without asking"]);
    shell.run(&["grants", "clear"]).failed(0, &["Nothing is remembered in ses_of_usr_", "any more"]);
    shell.paused("notes.delete", r#"{"id":3}"#);
}

fn a15_what_was_denied_before_says_so_when_it_is_asked_again(shell: &Shell) {
    let (first, _) = shell.paused("bank.pay", r#"{"to":"ann","amount":5}"#);
    shell.run(&["inbox"]).printed(&["1 waits"]);
    assert!(!shell.run(&["inbox"]).out.contains("before"), "nothing was");
    shell.run(&["--demo", "deny", &first, "--reason", "not ann"]).failed(0, &["Denied."]);
    shell.paused("bank.pay", r#"{"to":"bob","amount":5}"#);
    assert!(!shell.run(&["inbox"]).out.contains("before"), "that was something else");
    shell.paused("bank.pay", r#"{"to":"ann","amount":5}"#);
    shell.run(&["inbox"]).printed(&["before    denied by operator (usr_", "saying \"not ann\", at 20"]);
}

fn several_questions_of_one_script_are_decided_one_by_one(shell: &Shell) {
    shell.write(
        "pay.ts",
        "const pay = (to) => tools.bank.pay({ to, amount: 5 }).then((paid) => paid.to, (e) => e.code);\n\
         return await Promise.all(['ann', 'bob'].map(pay));",
    );
    let paused = shell.json(&["--demo", "run", "pay.ts"]);
    let execution = paused["executionId"].as_str().unwrap();
    let open: Vec<&str> =
        paused["pending"].as_array().unwrap().iter().map(|p| p["elicitationId"].as_str().unwrap()).collect();
    assert_eq!(open.len(), 2, "{paused}");
    shell.approve(execution, &[]).failed(1, &["waits for 2 decisions", open[0], open[1], "inbox"]);
    shell.approve(open[1], &[]).failed(0, &["Approved. bank.pay", "waits for a person"]);
    let done = shell.json(&["--demo", "deny", open[0]]);
    assert_eq!(done["value"], json!(["denied", "bob"]), "{done}");
}

#[test]
fn without_a_terminal_nothing_is_approved_and_the_question_is_shown_before_its_digest() {
    let shell = Shell::served();
    let (execution, elicitation) = shell.paused("bank.pay", r#"{"to":"ann","amount":5}"#);
    let inbox = shell.json(&["inbox"]);
    let digest = inbox["items"][0]["digest"].as_str().unwrap();
    for id in [&elicitation, &execution] {
        let json = shell.run(&["approve", id, "--json"]);
        json.failed(1, &["Pay $5 to", "nobody is at this terminal"]);
        assert!(json.out.contains("inbox --json") && !json.out.contains(digest), "{json:?}");
        for more in [&[][..], &["--remember", "call"], &["--comment", "fine"]] {
            let ran = shell.run(&[&["approve", id], more].concat());
            ran.failed(1, &[]);
            let said = [ran.out, ran.err].concat();
            assert!(said.contains("nobody is at this terminal"), "{said}");
            let named = said.find(&format!("--yes --digest {digest}")).expect("how a script approves it");
            for part in ["Pay $5 to", "\"amount\": 5", "covers    this call only", "expires"] {
                let shown = said.find(part).unwrap_or_else(|| panic!("{part:?} is not shown:\n{said}"));
                assert!(shown < named, "it invites a yes that nobody has read: {said}");
            }
        }
        shell.run(&["approve", id, "--yes"]).failed(2, &["--digest"]);
        let wrong = "0".repeat(64);
        shell.run(&["approve", id, "--yes", "--digest", &wrong]).failed(1, &["this is not the question"]);
    }
    assert_eq!(shell.json(&["executions", &execution])["status"], "paused");
    shell.run(&["approve", &elicitation, "--yes", "--digest", digest]).printed(&["\"to\": \"ann\""]);
}

/// What a yes without a word covers where the tool says that it counts for the session.
const FOR_SESSION: &str = "this call and later calls of notes.delete in this session, with any arguments, for 12 h or until revoked";

#[test]
fn what_a_yes_covers_is_said_in_the_same_words_before_it_and_holds_on_every_surface() {
    let shell = Shell::served();
    let yes = |more: &[&str], covers: &str| {
        let (_, elicitation) = shell.paused("notes.delete", r#"{"id":1}"#);
        let shown = shell.run(&[&["approve", &elicitation], more].concat());
        shown.failed(1, &[&format!("covers    {covers}\n"), "nobody is at this terminal"]);
        assert!(
            shown.err.contains(&more.join(" ")),
            "the command that it names says the same: {}",
            shown.err
        );
        shell.approve(&elicitation, more)
    };
    yes(&["--remember", "call"], "this call only");
    let same = "this call and 1 later call of notes.delete in this session, with exactly these arguments";
    let same = format!("{same}, for 12 h or until revoked");
    yes(&["--remember", "session", "--same-arguments", "--uses", "1"], &same);
    let again = shell.json(&["--demo", "call", "notes.delete", r#"{"id":1}"#]);
    assert_eq!(again["status"], "failed", "there is no note 1, and nobody was asked: {again}");
    yes(&[], FOR_SESSION).failed(1, &["run without asking"]);
    let other = shell.json(&["--demo", "call", "notes.delete", r#"{"id":2}"#]);
    assert_eq!(other["status"], "failed", "other arguments are covered, as it said: {other}");
}

#[test]
fn at_a_terminal_the_flags_of_an_approval_are_said_before_the_yes() {
    let shell = Shell::served();
    let (_, elicitation) = shell.paused("notes.delete", r#"{"id":1}"#);
    let approve = |more: &[&str]| Terminal::of(&shell, &[&["approve", &elicitation], more].concat());
    for (more, covers) in [
        (&["--remember", "session"][..], FOR_SESSION),
        (&["--remember", "call"], "this call only"),
        (
            &["--remember", "session", "--same-arguments", "--uses", "3"],
            "this call and at most 3 later calls of notes.delete in this session, with exactly these arguments, for 12 h",
        ),
    ] {
        let mut terminal = approve(more);
        terminal.read_until("[y] yes");
        let said = terminal.seen.replace("\r\n", "\n");
        assert!(said.contains(&format!("Approval covers: {covers}")), "{more:?}\n{said}");
        assert!(said.contains("Permanently delete note"), "{said}");
        terminal.answer("[y] yes", "n");
        assert!(terminal.ends_with(0).contains("It was left waiting."));
    }
    let mut terminal = approve(&[]);
    terminal.read_until("[q] leave it waiting");
    assert!(terminal.seen.contains(&format!("covers    {FOR_SESSION}")), "{}", terminal.seen);
    assert!(
        terminal.seen.contains("[a] approve for the session   [o] approve this call only"),
        "{}",
        terminal.seen
    );
    terminal.answer("[q] leave it waiting", "o");
    terminal.ends_with(1);
    shell.paused("notes.delete", r#"{"id":1}"#);
    let mut refused = Terminal::of(
        &shell,
        &["approve", &shell.paused("bank.pay", r#"{"to":"ann","amount":5}"#).1, "--uses", "2"],
    );
    assert!(refused.ends_with(1).contains("this approval cannot be remembered"));
}

#[test]
fn without_the_tool_nothing_is_decided() {
    let shell = Shell::new();
    let (execution, elicitation) = shell.paused("bank.pay", r#"{"to":"ann","amount":5}"#);
    let again = format!("countersign --demo approve {elicitation}");
    shell.run(&["approve", &elicitation]).failed(1, &["bank.pay is not here", &again]);
    shell.run(&["deny", &execution]).failed(1, &["bank.pay is not here"]);
    assert_eq!(shell.json(&["executions", &execution])["status"], "paused");
    shell.approve(&elicitation, &[]).printed(&["\"to\": \"ann\""]);
}

#[test]
fn under_other_rules_what_still_asks_stays_and_the_rest_is_withdrawn() {
    let shell = Shell::new();
    let (_, kept) = shell.paused("bank.pay", r#"{"to":"ann","amount":5}"#);
    let (withdrawn, _) = shell.paused("notes.delete", r#"{"id":1}"#);
    shell.configure("[[rule]]\nmatch = \"notes.*\"\neffect = \"deny\"\n");
    shell.approve(&kept, &[]).printed(&["\"to\": \"ann\""]);
    let told = shell.json(&["executions", &withdrawn]);
    assert_eq!(told["error"]["code"], "cancelled", "{told:#}");
    assert!(told["error"]["message"].as_str().unwrap().contains("policy changed"), "{told:#}");
    shell.run(&["inbox"]).printed(&["Nothing waits"]);
}

#[test]
fn what_nobody_decides_expires() {
    let shell = Shell::new();
    shell.configure("[approvals]\nexpires = \"1s\"\n");
    let (execution, elicitation) = shell.paused("bank.pay", r#"{"to":"ann","amount":5}"#);
    std::thread::sleep(std::time::Duration::from_millis(1_200));
    shell.run(&["inbox"]).printed(&["Nothing waits", "1 more expired"]);
    assert_eq!(shell.json(&["inbox"])["items"], json!([]));
    shell.approve(&elicitation, &[]).failed(3, &["expired"]);
    assert_eq!(shell.json(&["executions", &execution])["error"]["code"], "expired");
    assert_eq!(shell.json(&["--demo", "call", "bank.ledger"])["value"]["transfers"], json!([]));
}
