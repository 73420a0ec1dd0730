//! A data folder that changes under the server: files that go away, and records that are damaged.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::server::{Client, Home};

async fn asked(agent: &Client, to: &str) -> String {
    let body = json!({ "tool": "bank.pay", "args": { "to": to, "amount": 5 } });
    let result = agent.post("/api/executions", &body).await;
    assert_eq!(result["status"], "paused", "{result}");
    result["executionId"].as_str().unwrap().to_owned()
}

/// Where a file, or the whole folder, is put out of the way.
fn aside(path: &Path) -> PathBuf {
    path.with_extension("aside")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decision_is_never_confirmed_once_a_file_of_the_data_folder_is_gone() {
    for gone in ["countersign.db", "countersign.lock", ""] {
        let mut home = Home::served();
        let (admin, agent) = (home.client("admin"), home.client("agent"));
        let execution = asked(&agent, "ann").await;
        let path = if gone.is_empty() { home.data() } else { home.data().join(gone) };
        fs::rename(&path, aside(&path)).unwrap();

        let (status, problem) = admin.decide(&execution, true).await.unwrap();
        assert_eq!((status, &problem["code"]), (503, &json!("unavailable")), "{gone:?}: {problem}");
        let (status, _) = admin.status("/readyz").await;
        assert_eq!(status, 503, "{gone:?}");
        // Putting it back does not make a process trustworthy that saw it gone.
        fs::rename(aside(&path), &path).unwrap();
        let (status, problem) = admin.decide(&execution, true).await.unwrap();
        assert_eq!(status, 503, "{gone:?}: {problem}");

        home.kill();
        home.start();
        let (admin, agent) = (home.client("admin"), home.client("agent"));
        assert_eq!(agent.ledger().await, Vec::<String>::new(), "{gone:?}");
        let (status, answer) = admin.decide(&execution, true).await.unwrap();
        assert_eq!(status, 200, "{gone:?}: {answer}");
        admin.until_at_rest().await;
        assert_eq!(agent.ledger().await, [execution], "{gone:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_damaged_question_is_shown_as_damaged_and_the_others_are_decided() {
    let mut home = Home::served();
    let agent = home.client("agent");
    let mut executions = Vec::new();
    for to in ["ann", "bob", "cat"] {
        executions.push(asked(&agent, to).await);
    }
    home.kill();
    let database = rusqlite::Connection::open(home.data().join("countersign.db")).unwrap();
    let changed = database
        .execute(
            "UPDATE journal SET body = replace(body, '\"amount\":5', '\"amount\":9')
             WHERE no = (SELECT asked FROM elicitations WHERE no = 2)",
            [],
        )
        .unwrap();
    assert_eq!(changed, 1);
    drop(database);
    home.start();

    let (admin, agent) = (home.client("admin"), home.client("agent"));
    let list = admin.get("/api/elicitation?status=pending").await;
    let of = |items: &Value| -> Vec<String> {
        let items = items.as_array().unwrap().iter();
        items.map(|item| item["executionId"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(of(&list["items"]), [executions[0].clone(), executions[2].clone()]);
    assert_eq!(of(&list["damaged"]), [executions[1].clone()]);
    let damaged = &list["damaged"][0];
    assert_eq!(damaged["code"], "damaged");
    let id = damaged["id"].as_str().unwrap();

    let body = json!({ "approved": true });
    let (status, problem) = admin.try_post(&format!("/api/elicitation/{id}/resolve"), &body).await.unwrap();
    assert_eq!((status, &problem["code"]), (500, &json!("damaged")), "{problem}");
    let (status, problem) = admin.decide(&executions[1], true).await.unwrap();
    assert_eq!((status, &problem["code"]), (500, &json!("damaged")), "by its execution's id: {problem}");
    for execution in [&executions[0], &executions[2]] {
        let (status, answer) = admin.decide(execution, true).await.unwrap();
        assert_eq!(status, 200, "{answer}");
    }
    for words in [&["inbox"][..], &["doctor"]] {
        let output = home.run(words);
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(said.contains(id) && said.contains("damaged"), "{words:?}: {said}");
    }
    let inbox: Value = serde_json::from_slice(&home.run(&["inbox", "--json"]).stdout).unwrap();
    assert_eq!(inbox["damaged"][0]["id"], json!(id), "{inbox}");
    let mut paid = agent.ledger().await;
    paid.sort();
    let mut expected = vec![executions[0].clone(), executions[2].clone()];
    expected.sort();
    assert_eq!(paid, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_execution_whose_record_is_damaged_is_named_wherever_executions_are_listed() {
    let mut home = Home::served();
    let execution = asked(&home.client("agent"), "ann").await;
    home.kill();
    let database = rusqlite::Connection::open(home.data().join("countersign.db")).unwrap();
    let changed = database.execute("UPDATE executions SET session = requester", []).unwrap();
    assert_eq!(changed, 1);
    drop(database);
    home.start();
    let list = home.client("admin").get("/api/executions").await;
    assert_eq!(list["damaged"][0]["id"], json!(execution));
    for words in [&["executions"][..], &["doctor"]] {
        let output = home.run(words);
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(said.contains(&execution) && said.contains("damaged"), "{words:?}: {said}");
    }
}
