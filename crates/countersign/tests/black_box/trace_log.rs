//! R12 with the log turned up all the way: the built program, its dependencies' lines included, names no secret.

use std::io::Write as _;
use std::process::{Command, Stdio};

use base64::Engine as _;
use serde_json::{Value, json};

use crate::server::{Client, Home, INITIALIZE, INITIALIZED, read_token};

const TRACE: (&str, &str) = ("COUNTERSIGN_LOG", "trace");
const WRONG_TOKEN: &str = "cs_wrong0123456789abcdefghijklmnopqrstuvwxyz";
const PAY: &str = r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"bank__pay","arguments":{"to":"ann","amount":6},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}}}"#;
const CALL: &str = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo__say","arguments":{"text":"hi"}}}"#;

/// Something that must not be in a log, and what it is.
type Canary = (&'static str, String);

/// Logs in through a link, as a browser does, and changes something with the cookie; gives what must stay secret of it.
async fn with_a_browser(home: &Home, admin: &str) -> Vec<Canary> {
    let browser = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = |path: &str| format!("{}{path}", home.url);
    let link = browser.post(url("/api/login-links")).bearer_auth(admin).send().await.unwrap();
    let link: Value = link.json().await.unwrap();
    let code = link["url"].as_str().unwrap().rsplit('=').next().unwrap().to_owned();
    let page = browser.get(url(&format!("/login?code={code}"))).send().await.unwrap();
    assert!(page.status().is_success(), "{page:?}");
    let form = browser.post(url("/login")).header("content-type", "application/x-www-form-urlencoded");
    let entered = form.header("origin", &home.url).body(format!("code={code}")).send().await.unwrap();
    let cookie = entered.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let page = entered.text().await.unwrap();
    let csrf = page.split("data-csrf=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let body = json!({ "tool": "bank.pay" });
    let change = browser.post(url("/api/policy/explain")).header("cookie", &cookie).json(&body);
    let changed = change.header("x-csrf-token", &csrf).header("origin", &home.url).send().await.unwrap();
    assert!(changed.status().is_success(), "{changed:?}");
    let read = browser.get(url("/api/elicitation")).header("cookie", &cookie).header("x-csrf-token", &csrf);
    let read = read.send().await.unwrap();
    assert!(read.status().is_success(), "{read:?}");
    let value = cookie.split_once('=').unwrap().1.to_owned();
    vec![("login code", code), ("CSRF token", csrf), ("cookie", value)]
}

/// Calls in both eras of MCP; gives the sealed state of the later one's question.
async fn over_mcp(home: &Home, admin: &str) -> Vec<Canary> {
    let new = json!({ "name": "client", "role": "agent", "attended": true });
    let made = Client::new(&home.url, admin).post("/api/tokens", &new).await;
    let secret = made["secret"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned();
    let agent = Client::new(&home.url, &secret);
    let said = agent.over_mcp(&[INITIALIZE, INITIALIZED, CALL]).await;
    assert!(said[0].contains("serverInfo") && said[2].contains("hi"), "{said:?}");
    let said = agent.over_later_mcp("tools/call", "bank__pay", PAY).await;
    let state = said["result"]["requestState"].as_str().unwrap_or_else(|| panic!("{said}"));
    vec![("request state", state.to_owned()), ("client's token", secret)]
}

/// What a command writes beside its output.
fn errors_of(mut command: Command, input: &str) -> String {
    let command = command.envs([TRACE]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    String::from_utf8_lossy(&child.wait_with_output().unwrap().stderr).into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_trace_level_no_token_cookie_login_code_or_key_is_logged_by_server_or_commands() {
    let mut home = Home::new();
    let file = home.folder().join("log");
    let log = std::fs::File::create(&file).unwrap();
    home.started_by(|command| command.envs([TRACE]).stderr(Stdio::from(log)).spawn().unwrap());
    let (admin, agent) = (read_token(&home.data(), "admin"), read_token(&home.data(), "agent"));
    home.client("agent")
        .post("/api/executions", &json!({ "tool": "echo.say", "args": { "text": "hi" } }))
        .await;
    home.client("admin").get("/api/tokens").await;
    let wrong = Client::new(&home.url, WRONG_TOKEN);
    assert_eq!(wrong.try_post("/api/executions", &json!({})).await.unwrap().0, 401);
    let mut canaries = with_a_browser(&home, &admin).await;
    canaries.extend(over_mcp(&home, &admin).await);

    let mut logged = String::new();
    for words in [
        &["inbox"][..],
        &["token", "list"],
        &["login"],
        &["doctor"],
        &["call", "echo.say", "{\"text\":\"hi\"}"],
    ] {
        logged.push_str(&errors_of(home.command(words), ""));
    }
    logged.push_str(&errors_of(
        home.command(&["--data-dir", home.data().to_str().unwrap(), "mcp"]),
        &format!("{INITIALIZE}\n{INITIALIZED}\n{CALL}\n"),
    ));
    assert!(home.terminate().success());
    logged.push_str(&std::fs::read_to_string(&file).unwrap());
    assert!(logged.contains("DEBUG") && logged.contains("/api/executions"), "the log was on: {logged}");

    let key = std::fs::read(home.data().join("seal.key")).unwrap();
    let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    let engine = base64::engine::general_purpose::STANDARD_NO_PAD;
    canaries.extend([
        ("admin's token", admin),
        ("agent's token", agent),
        ("wrong token", WRONG_TOKEN.to_owned()),
        ("seal key", hex),
        ("seal key", engine.encode(&key)),
        ("seal key", format!("{key:?}").trim_matches(['[', ']']).to_owned()),
    ]);
    for (what, canary) in canaries {
        let line = logged.lines().find(|line| line.contains(&canary));
        assert!(line.is_none(), "a {what} was logged: {}", line.unwrap_or_default());
    }
}
