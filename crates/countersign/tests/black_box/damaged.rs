//! Records of people, tokens and sessions that are damaged: each is named where it should be listed and counts for nothing;
//! everything else goes on, the start and the inbox first of all.

use serde_json::{Value, json};

use crate::server::{Client, Home, PATIENCE};

/// Adds a user with a token, or a token of the operator's; gives the token's id and a client that holds it.
async fn token(home: &Home, name: &str, role: &str, user: Option<&str>) -> (String, Client) {
    let body = json!({ "name": name, "role": role, "user": user });
    let made = home.client("admin").post("/api/tokens", &body).await;
    (
        made["tokenId"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned(),
        Client::new(&home.url, made["secret"].as_str().unwrap()),
    )
}

async fn user(home: &Home, name: &str, role: &str) -> String {
    let made = home.client("admin").post("/api/users", &json!({ "name": name, "roles": [role] })).await;
    made["userId"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned()
}

async fn asks(client: &Client) -> String {
    let body = json!({ "tool": "bank.pay", "args": { "to": "ann", "amount": 5 } });
    let result = client.post("/api/executions", &body).await;
    assert_eq!(result["status"], "paused", "{result}");
    result["executionId"].as_str().unwrap().to_owned()
}

/// Changes what is on the disk while nothing runs, and starts again.
fn damage(home: &mut Home, sql: &str) {
    home.kill();
    let database = rusqlite::Connection::open(home.data().join("countersign.db")).unwrap();
    assert_eq!(database.execute(sql, []).unwrap(), 1, "{sql}");
    drop(database);
    home.start();
}

/// The ledger, once something is in it.
async fn paid(agent: &Client) -> Vec<String> {
    let begun = std::time::Instant::now();
    loop {
        let ledger = agent.ledger().await;
        if !ledger.is_empty() {
            return ledger;
        }
        assert!(begun.elapsed() < PATIENCE, "nothing was paid");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

fn ids(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(|row| row["id"].as_str()).collect()
}

fn is_named(home: &Home, words: &[&str], id: &str) {
    let output = home.run(words);
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains(id) && said.contains("damaged"), "{words:?}: {said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_token_counts_for_nothing_and_stops_neither_the_start_nor_the_inbox() {
    for is_revoked in [true, false] {
        let mut home = Home::served();
        let (id, old) = token(&home, "old laptop", "agent", None).await;
        let (asked, also) = (asks(&old).await, asks(&home.client("agent")).await);
        if is_revoked {
            let output = home.run(&["token", "revoke", &id]);
            assert!(output.status.success(), "{output:?}");
        }
        damage(
            &mut home,
            "UPDATE tokens SET body = replace(body, 'old laptop', 'new laptop') WHERE body LIKE '%old laptop%'",
        );

        let admin = home.client("admin");
        let list = admin.get("/api/elicitation?status=pending").await;
        let named: Vec<(&Value, &Value)> = list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| (&item["executionId"], &item["requesterName"]))
            .collect();
        assert_eq!(named, [(&json!(asked), &Value::Null), (&json!(also), &json!("agent.token"))], "{list}");
        let tokens = admin.get("/api/tokens").await;
        assert_eq!(ids(&tokens["damaged"]), [id.as_str()], "{tokens}");
        assert_eq!(tokens["items"].as_array().unwrap().len(), 2, "{tokens}");

        let (status, _) = old.at(&home.url).status("/api/whoami").await;
        assert!(matches!(status, 401 | 500), "it lets nobody in: {status}");
        admin.decide(&asked, true).await.unwrap();
        let (status, answer) = admin.decide(&also, true).await.unwrap();
        assert_eq!(status, 200, "{answer}");
        let paid = paid(&home.client("agent")).await;
        assert_eq!(paid, [also], "nothing runs for a token whose record is damaged");

        is_named(&home, &["token", "list"], &id);
        is_named(&home, &["doctor"], &id);
        let page = admin.page("/tokens").await;
        assert!(page.contains(&format!("data-damaged=\"{id}\"")), "{page}");
        let output = home.run(&["token", "revoke", &id[..20]]);
        assert!(output.status.success(), "{output:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_user_decides_nothing_and_the_inbox_goes_on() {
    let mut home = Home::served();
    let id = user(&home, "bob", "approver").await;
    let (_, bob) = token(&home, "bob at home", "approver", Some("bob")).await;
    let asked = asks(&home.client("agent")).await;
    damage(&mut home, "UPDATE users SET body = replace(body, '\"bob\"', '\"rob\"') WHERE name = 'bob'");

    let (admin, bob) = (home.client("admin"), bob.at(&home.url));
    let (status, answer) = bob.decide(&asked, true).await.unwrap();
    assert_eq!(status, 401, "{answer}");
    let users = admin.get("/api/users").await;
    assert_eq!(ids(&users["damaged"]), [id.as_str()], "{users}");
    let list = admin.get("/api/elicitation?status=pending").await;
    assert_eq!(list["items"][0]["executionId"], json!(asked), "{list}");
    is_named(&home, &["user", "list"], &id);
    is_named(&home, &["doctor"], &id);
    let page = admin.page("/users").await;
    assert!(page.contains(&format!("data-damaged=\"{id}\"")), "{page}");
    let (status, answer) = admin.decide(&asked, true).await.unwrap();
    assert_eq!(status, 200, "{answer}");
    assert_eq!(paid(&home.client("agent")).await, [asked]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_takes_the_place_of_an_operator_whose_record_is_damaged() {
    let mut home = Home::served();
    user(&home, "ann", "admin").await;
    let (_, ann) = token(&home, "ann at home", "admin", Some("ann")).await;
    let (_, of_ann) = token(&home, "agent of ann", "agent", Some("ann")).await;
    let asked = asks(&of_ann).await;
    damage(
        &mut home,
        "UPDATE users SET body = replace(body, '\"operator\"', '\"0perator\"') WHERE name = 'operator'",
    );

    let (status, text) = home.client("admin").status("/api/elicitation").await;
    assert_eq!(status, 401, "the operator's tokens count for nothing: {text}");
    let (status, text) = home.client("agent").status("/api/whoami").await;
    assert_eq!(status, 401, "nor do those of the operator's agents: {text}");
    let (ann, of_ann) = (ann.at(&home.url), of_ann.at(&home.url));
    let (status, answer) = ann.decide(&asked, true).await.unwrap();
    assert_eq!(status, 200, "{answer}");
    assert_eq!(paid(&of_ann).await, [asked]);
    let users = ann.get("/api/users").await;
    assert_eq!(users["items"].as_array().unwrap().len(), 1, "no other operator is made: {users}");
    assert_eq!(ids(&users["damaged"]).len(), 1, "{users}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_session_is_named_in_the_list_and_nothing_runs_in_it() {
    let mut home = Home::served();
    let agent = home.client("agent");
    let call = |session: &str| json!({ "tool": "notes.list", "sessionId": session });
    agent.post("/api/executions", &call("ses_one")).await;
    agent.post("/api/executions", &call("ses_two")).await;
    damage(&mut home, "UPDATE sessions SET client = 'mcp' WHERE id = 'ses_one'");

    let (admin, agent) = (home.client("admin"), home.client("agent"));
    let sessions = admin.get("/api/sessions").await;
    assert_eq!(ids(&sessions["damaged"]), ["ses_one"], "{sessions}");
    assert!(
        sessions["items"].as_array().unwrap().iter().any(|it| it["sessionId"] == "ses_two"),
        "{sessions}"
    );
    let page = admin.page("/sessions").await;
    assert!(page.contains("data-damaged=\"ses_one\"") && page.contains("ses_two"), "{page}");
    let (status, problem) = agent.try_post("/api/executions", &call("ses_one")).await.unwrap();
    assert_eq!((status, &problem["code"]), (500, &json!("damaged")), "{problem}");
    agent.post("/api/executions", &call("ses_two")).await;
}
