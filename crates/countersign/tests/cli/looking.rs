//! Commands that only look: tools, policy, audit, doctor, and `--json` everywhere.

use serde_json::json;

use crate::shell::Shell;

#[test]
fn tools_are_listed_searched_and_shown_without_a_trace() {
    let shell = Shell::new();
    let all = shell.json(&["--demo", "tools"]);
    let paths: Vec<&str> =
        all["items"].as_array().unwrap().iter().map(|tool| tool["path"].as_str().unwrap()).collect();
    let table = [
        "bank.ledger",
        "bank.pay",
        "bank.transfer",
        "echo.say",
        "notes.add",
        "notes.delete",
        "notes.list",
        "notes.purge",
        "stock.check",
    ];
    assert_eq!(paths, table);
    let destructive: Vec<&str> = all["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|tool| tool["effects"]["destructive"] == json!(true))
        .map(|tool| tool["path"].as_str().unwrap())
        .collect();
    assert_eq!(destructive, ["bank.pay", "notes.delete", "notes.purge"]);
    let classes: Vec<&str> =
        all["items"].as_array().unwrap().iter().map(|tool| tool["effect"].as_str().unwrap()).collect();
    let expected =
        ["reads", "destroys", "writes", "reads", "writes", "destroys", "reads", "destroys", "reads"];
    assert_eq!(classes, expected, "of {table:?}");
    shell.run(&["--demo", "tools"]).printed(&["Reads", "Writes", "Destroys"]);
    shell.run(&["--demo", "tools", "show", "bank.transfer"]).printed(&["effects   Writes"]);
    shell.run(&["--demo", "tools", "delete", "note"]).printed(&["notes.delete"]);
    shell.run(&["--demo", "tools", "show", "bank.pay"]).printed(&["delayMs", "Destroys: a person is asked"]);
    shell.run(&["--demo", "tools", "show", "bank.pai"]).failed(1, &["Did you mean bank.pay"]);
    assert!(!shell.data().exists(), "looking at tools makes no data folder");
}

#[test]
fn tools_are_declared_for_scripts() {
    let shell = Shell::new();
    let all = shell.run(&["--quiet", "--demo", "tools", "show", "--types"]);
    assert_eq!((all.status, all.err.as_str()), (0, ""));
    insta::assert_snapshot!(all.out);
    assert!(all.out.lines().all(|line| line.chars().count() <= 110), "{}", all.out);
    let methods = |words: &[&str]| -> Vec<String> {
        let ran = shell.run(&[&["--demo", "tools", "show", "--types"], words].concat());
        ran.printed(&["declare const tools: {", "declare function sleep(ms: number): Promise<void>;"]);
        let methods = ran.out.lines().filter(|line| line.starts_with("    ") && line.contains("(input"));
        methods.filter_map(|line| Some(line.trim().split_once('(')?.0.to_owned())).collect()
    };
    assert_eq!(methods(&["notes"]), ["add", "delete", "list", "purge"], "a namespace");
    assert_eq!(methods(&["bank.pay"]), ["pay"], "a path");
    assert_eq!(methods(&["good"]), ["delete", "purge"], "a word of a description");
    assert_eq!(methods(&["delete", "one"]), ["delete"], "all the words");
    let json = shell.json(&["--demo", "tools", "show", "--types"]);
    assert_eq!(json["declarations"].as_str(), Some(all.out.as_str()));
    assert!(!shell.data().exists(), "looking at tools makes no data folder");
}

#[test]
fn types_of_nothing_are_an_error_that_says_what_to_do() {
    let shell = Shell::new();
    shell
        .run(&["--demo", "tools", "show", "--types", "bank.pai"])
        .failed(1, &["bank.pai", "Did you mean bank.pay"]);
    shell
        .run(&["--demo", "tools", "show", "--types", "zebra"])
        .failed(1, &["zebra", "tools` lists what there is"]);
    shell.run(&["tools", "show", "--types"]).failed(1, &["there are no tools", "--demo tools show --types"]);
    shell.run(&["tools", "show", "--types", "notes"]).failed(1, &["--demo"]);
    shell.run(&["--demo", "tools", "show"]).failed(2, &["--types"]);
    shell.run(&["--demo", "tools", "show", "bank.pay", "bank.ledger"]).failed(2, &["one tool", "--types"]);
    shell.run(&["tools", "show", "--help"]).printed(&["--types", "tools show --types notes"]);
}

#[test]
fn policy_is_checked_and_explained() {
    let shell = Shell::new();
    shell.write("good.toml", "[[rule]]\nmatch = \"bank.*\"\nwhen = 'args.amount > 100'\neffect = \"deny\"\n");
    shell.run(&["policy", "check", "good.toml"]).printed(&["sound", "1 rule,"]);
    shell.write(
        "bad.toml",
        "[approvals]\nexpires = \"soon\"\n[[rule]]\nmatch = \"bank.*\"\neffect = \"perhaps\"\n",
    );
    shell.run(&["policy", "check", "bad.toml"]).failed(1, &["bad.toml:2: ", "bad.toml:5: ", "no effect"]);
    shell.run(&["policy", "check", "none.toml"]).failed(1, &["none.toml", "cannot be read"]);
    let explain =
        |args: &str| shell.json(&["--demo", "--config", "good.toml", "policy", "explain", "bank.pay", args]);
    assert_eq!(explain(r#"{"to":"a","amount":101}"#)["effect"], "deny");
    let asked = explain(r#"{"to":"a","amount":99}"#);
    assert_eq!((&asked["effect"], &asked["rules"][0]["outcome"]), (&json!("ask"), &json!("when_is_false")));
}

#[test]
fn the_audit_is_shown_and_its_chain_verified() {
    let shell = Shell::new();
    shell.make_data();
    shell.run(&["audit", "tail"]).printed(&["TokenCreated", "admin.token", "agent.token"]);
    shell.paused("bank.pay", r#"{"to":"ann","amount":5}"#);
    shell.run(&["audit", "tail"]).printed(&["ConfigurationLoaded", "SessionOpened", "Asked"]);
    let two = shell.json(&["audit", "tail", "-n", "2"]);
    let seqs: Vec<u64> =
        two["items"].as_array().unwrap().iter().map(|r| r["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, [6, 7]);
    let whole = shell.json(&["audit", "verify"]);
    assert_eq!((&whole["ok"], &whole["records"]), (&json!(true), &json!(7)));
    let database = rusqlite::Connection::open(shell.data().join("countersign.db")).unwrap();
    database
        .execute("UPDATE audit SET entry = replace(entry, 'operator', 'nobody') WHERE seq = 1", [])
        .unwrap();
    drop(database);
    shell.run(&["audit", "verify"]).failed(1, &["broken at record 1"]);
    shell.run(&["doctor"]).failed(1, &[]);
}

#[test]
fn the_doctor_says_what_is_there_and_what_is_wrong() {
    let shell = Shell::new();
    shell.run(&["doctor"]).printed(&["built-in defaults", "not there yet", "there are none"]);
    assert!(!shell.data().exists());
    shell.paused("bank.pay", r#"{"to":"ann","amount":5}"#);
    shell.run(&["--demo", "doctor"]).printed(&[
        "schema version",
        "none runs",
        "1 waiting",
        "unbroken",
        "9 tools",
    ]);
    shell.configure("lissten = 1\n");
    let ran = shell.run(&["doctor"]);
    assert_eq!(ran.status, 1);
    assert!(ran.out.contains("countersign.toml:1: there is no key `lissten`"), "{}", ran.out);
    assert_eq!(shell.json(&["doctor"])["ok"], json!(false));
}

#[test]
fn every_command_prints_one_json_document() {
    let shell = Shell::new();
    let (execution, elicitation) = shell.paused("bank.pay", r#"{"to":"ann","amount":5}"#);
    let commands: [&[&str]; 13] = [
        &["inbox"],
        &["executions"],
        &["executions", &execution],
        &["--demo", "tools"],
        &["--demo", "tools", "show", "echo.say"],
        &["--demo", "tools", "show", "--types", "echo"],
        &["--demo", "policy", "explain", "echo.say"],
        &["audit", "verify"],
        &["audit", "tail"],
        &["doctor"],
        &["--demo", "call", "echo.say", r#"{"text":1}"#],
        &["approve", &elicitation],
        &["--demo", "deny", &elicitation],
    ];
    for words in commands {
        shell.json(words);
    }
    let refused = shell.json(&["--demo", "call", "echo.say", r#"{"text":1}"#]);
    assert_eq!(refused["error"]["code"], "invalid_input");
}

#[test]
fn a_reader_that_hangs_up_is_no_error() {
    let shell = Shell::new();
    let mut child = shell.start(&["--demo", "tools", "show", "bank.pay"]);
    drop(child.stdout.take());
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(0));
}
