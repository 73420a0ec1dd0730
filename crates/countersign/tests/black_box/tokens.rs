//! Tokens as people see them.

use serde_json::{Value, json};

use crate::server::{Client, Home};

/// A row of a table that names this token.
fn row(text: &str, between: &str, id: &str) -> String {
    text.split(between).find(|row| row.contains(id)).unwrap_or_else(|| panic!("no {id} in {text}")).to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_a_token_was_last_used_is_in_the_list_and_in_the_console() {
    let home = Home::served();
    let admin = home.client("admin");
    let made = admin.post("/api/tokens", &json!({ "name": "laptop", "role": "agent" })).await;
    let (id, secret) = (made["tokenId"].as_str().unwrap(), made["secret"].as_str().unwrap());
    let seen = async || {
        let page = row(&admin.page("/tokens").await, "<tr>", id);
        let output = home.run(&["token", "list"]);
        let list = row(&String::from_utf8(output.stdout).unwrap(), "\n", id);
        (page.matches("never").count(), list.matches("never").count())
    };
    assert_eq!(seen().await, (2, 1), "neither used nor with an end");
    Client::new(&home.url, secret).get("/api/whoami").await;
    assert_eq!(seen().await, (1, 0), "used, and without an end");
    let tokens = admin.get("/api/tokens").await;
    let token = tokens["items"].as_array().unwrap().iter().find(|token| token["tokenId"] == id).unwrap();
    assert_ne!(token["lastUsedAt"], Value::Null, "{token}");
}
