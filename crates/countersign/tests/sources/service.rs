//! A service of somebody else behind the gate, with the built program and real kills.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::server::Home;

/// A service that takes orders, and what it was asked.
pub(crate) struct Service {
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Service {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let told = Arc::clone(&asked);
        // Detached: it ends with the test's process.
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                answer(stream, &told);
            }
        });
        Self { url, asked }
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    pub(crate) fn document(&self) -> Value {
        let order = json!({ "schema": { "type": "object", "properties": { "what": { "type": "string" } } } });
        let ok = json!({ "200": { "description": "ok" } });
        json!({
            "openapi": "3.1.0",
            "info": { "title": "Shop", "version": "1" },
            "servers": [{ "url": self.url }],
            "paths": { "/orders": {
                "get": { "operationId": "orders/list", "responses": ok },
                "post": {
                    "operationId": "orders/create",
                    "requestBody": { "required": true, "content": { "application/json": order } },
                    "responses": ok,
                },
            } },
        })
    }
}

/// One request a connection.
fn answer(mut stream: TcpStream, asked: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 || line == "\r\n" {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap();
        }
        if head.is_empty() {
            head = line.trim().replace(" HTTP/1.1", "");
        }
    }
    let mut body = vec![0; length];
    if reader.read_exact(&mut body).is_err() {
        return;
    }
    asked.lock().unwrap().push(format!("{head} {}", String::from_utf8_lossy(&body)).trim().to_owned());
    let _ = stream.write_all(
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: 11\r\n\r\n{\"ok\":true}",
    );
}

#[test]
fn a_source_is_added_accepted_and_called_and_an_approved_call_is_sent_once_across_a_kill() {
    let (service, mut home) = (Service::start(), Home::served());
    let document = home.data().join("shop.json");
    std::fs::write(&document, service.document().to_string()).unwrap();
    let document = document.display().to_string();
    let added = home.said(&["source", "add", "openapi", "shop", &document, "--allow-private", "--json"]);
    assert_eq!((&added["new"], &added["callable"]), (&json!(2), &json!(0)), "{added:#}");
    let early = home.run(&["call", "shop.orders.list", "{}"]);
    assert!(!early.status.success(), "nothing is callable before it is accepted");
    let digest = added["digest"].as_str().unwrap();
    home.said(&["source", "accept", "shop", "--yes", "--digest", digest, "--json"]);
    let read = home.said(&["call", "shop.orders.list", "{}", "--json"]);
    assert_eq!((&read["status"], &read["value"]), (&json!("succeeded"), &json!({ "ok": true })));

    let order = r#"{"body":{"what":"a bicycle"}}"#;
    let waiting = home.said(&["call", "shop.orders.create", order, "--json"]);
    assert_eq!(waiting["status"], "paused", "{waiting:#}");
    home.kill();
    home.start();
    let paused = |field: &str| waiting["paused"][field].as_str().unwrap().to_owned();
    let (id, digest) = (paused("elicitationId"), paused("digest"));
    let end = home.said(&["approve", &id, "--yes", "--digest", &digest, "--json"]);
    assert_eq!(end["status"], "succeeded", "{end:#}");
    assert_eq!(service.asked(), ["GET /orders", r#"POST /orders {"what":"a bicycle"}"#]);

    home.said(&["source", "remove", "shop", "--json"]);
    assert_eq!(home.said(&["source", "list", "--json"])["items"], json!([]));
}
