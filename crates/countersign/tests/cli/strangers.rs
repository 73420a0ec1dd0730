//! Whoever listens on this machine and is not our server learns no token.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use crate::shell::{Ran, Shell};

/// Every command that talks to a server, with an id where it takes one.
const COMMANDS: &[&[&str]] = &[
    &["inbox"],
    &["executions"],
    &["executions", "exec_1"],
    &["tools"],
    &["--demo", "call", "echo.say", "{\"text\":\"x\"}"],
    &["approve", "eli_1"],
    &["deny", "eli_1"],
    &["cancel", "exec_1"],
    &["audit", "tail"],
    &["audit", "verify"],
    &["token", "list"],
    &["token", "create", "--role", "admin", "--name", "x"],
    &["grants", "list"],
    &["source", "list"],
    &["source", "add", "mcp", "x", "--", "y"],
    &["source", "accept", "x"],
    &["login"],
    &["doctor"],
    &["policy", "explain", "echo.say"],
];

/// Somebody who takes connections and remembers every byte that they are sent.
struct Stranger {
    url: String,
    heard: Arc<Mutex<String>>,
}

impl Stranger {
    fn listening() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let heard = Arc::new(Mutex::new(String::new()));
        let remembers = Arc::clone(&heard);
        std::thread::spawn(move || {
            for mut connection in listener.incoming().map_while(Result::ok) {
                let mut bytes = [0; 8192];
                let count = connection.read(&mut bytes).unwrap_or_default();
                remembers.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..count]));
                let _ = connection
                    .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}");
            }
        });
        Self { url, heard }
    }

    fn heard(&self) -> String {
        self.heard.lock().unwrap().clone()
    }
}

fn secret(shell: &Shell, name: &str) -> String {
    std::fs::read_to_string(shell.data().join(name)).unwrap().trim().to_owned()
}

#[test]
fn an_address_without_a_token_is_an_error_that_says_what_to_set_and_nothing_is_sent_there() {
    let shell = Shell::new();
    shell.make_data();
    let stranger = Stranger::listening();
    for words in COMMANDS {
        let ran = Ran::of(shell.command(words).env("COUNTERSIGN_URL", &stranger.url));
        let said = format!("{}{}", ran.out, ran.err);
        assert_eq!(ran.status, 1, "{words:?}: {ran:?}");
        for word in ["COUNTERSIGN_TOKEN", "--token-file", &stranger.url] {
            assert!(said.contains(word), "{words:?} does not say {word}: {said}");
        }
    }
    assert_eq!(stranger.heard(), "", "not even a knock");
}

#[test]
fn an_address_with_a_token_is_shown_that_token_and_no_other() {
    let shell = Shell::new();
    shell.make_data();
    shell.write("mine.token", "tok_from_a_file\n");
    let stranger = Stranger::listening();
    for words in COMMANDS {
        let mut command = shell.command(words);
        Ran::of(command.env("COUNTERSIGN_URL", &stranger.url).env("COUNTERSIGN_TOKEN", "tok_given"));
        let words = [&["--token-file", "mine.token"], *words].concat();
        Ran::of(shell.command(&words).env("COUNTERSIGN_URL", &stranger.url));
    }
    let heard = stranger.heard();
    assert!(heard.contains("Bearer tok_given") && heard.contains("Bearer tok_from_a_file"), "{heard}");
    for name in ["admin.token", "agent.token"] {
        assert!(!heard.contains(&secret(&shell, name)), "{name} was shown to a stranger");
    }
}

#[test]
fn a_stranger_at_the_address_of_a_server_that_was_killed_is_sent_no_token() {
    let mut shell = Shell::served();
    shell.kill_server();
    let stranger = Stranger::listening();
    let notice = shell.data().join("server.json");
    let old = std::fs::read_to_string(&notice).unwrap();
    std::fs::write(&notice, old.replace(&shell.url(), &stranger.url)).unwrap();
    shell.run(&["inbox"]).failed(0, &["Working directly on the data folder"]);
    let heard = stranger.heard();
    assert!(heard.contains("countersign-challenge"), "it was asked to prove itself: {heard}");
    assert!(!heard.to_lowercase().contains("authorization"), "{heard}");
}

#[test]
fn a_token_file_that_cannot_be_read_is_named() {
    let shell = Shell::new();
    shell.run(&["--token-file", "none.token", "tools"]).failed(2, &["none.token", "cannot be read"]);
}
