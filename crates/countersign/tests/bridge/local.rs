//! The server of a data folder that does not come up: what the client is told, and what happens once it does.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use axum::http::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::carrying::polite;
use crate::client::{Client, legacy, modern, until};
use crate::server::{End, KEY, Received, Reply, Server};
use crate::unix_user::UnixUser;

/// What must not leave the server's log.
const SECRET: &str = "sk_canary";

/// A data folder that no server can be started on.
struct Folder(TempDir);

impl Folder {
    fn broken() -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        fs::create_dir_all(folder.path()).unwrap();
        fs::create_dir(folder.path().join("countersign.db")).unwrap();
        folder
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("data")
    }

    fn client(&self) -> Client {
        Client::with(&["--data-dir", self.path().to_str().unwrap(), "mcp"])
    }

    /// Says that this server is the folder's. Its process is the test's.
    fn announce(&self, server: &Server) {
        let notice = json!({ "url": server.url, "pid": std::process::id(), "version": "1" });
        fs::write(self.path().join("seal.key"), KEY).unwrap();
        fs::write(self.path().join("server.json"), notice.to_string()).unwrap();
    }
}

impl Drop for Folder {
    /// A server that was started goes with its folder.
    fn drop(&mut self) {
        let notice = fs::read(self.path().join("server.json")).unwrap_or_default();
        let notice: Value = serde_json::from_slice(&notice).unwrap_or_default();
        let pid = notice["pid"].as_i64().filter(|pid| *pid != i64::from(std::process::id()));
        let pid = pid.and_then(|pid| i32::try_from(pid).ok()).and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}

#[test]
fn a_server_that_does_not_start_is_said_by_the_name_of_its_log_and_not_in_its_words() {
    let Some(user) = UnixUser::made() else { return };
    // No server can be started where the database is a folder.
    user.make_folder(&user.data().join("countersign.db"));
    user.write(&user.data().join("serve.log"), &format!("{SECRET}\n"));
    let mut client = Client::started(&mut user.command(&["mcp"]));
    client.send(&modern(1, "tools/list", json!({})));
    let answer = client.next();
    let words = answer["error"]["message"].as_str().unwrap();
    assert_eq!(answer["error"]["data"]["code"], "server_unreachable", "{answer}");
    assert!(words.contains(user.data().join("serve.log").to_str().unwrap()), "{words}");
    assert!(!words.contains(SECRET) && !words.contains("countersign.db"), "the model reads this: {words}");
}

#[test]
fn the_folder_that_a_bridge_makes_is_its_owners_alone() {
    let Some(user) = UnixUser::made() else { return };
    let mut client = Client::started(&mut user.command(&["mcp"]));
    client.send(&modern(1, "tools/list", json!({})));
    client.next();
    let made = fs::metadata(user.data()).unwrap();
    assert_eq!(made.permissions().mode() & 0o777, 0o700);
}

#[test]
fn a_server_that_does_not_know_the_folders_key_is_told_nothing_though_its_process_lives() {
    let folder = Folder::broken();
    let stranger = Server::that(|request, _| polite(request));
    folder.announce(&stranger);
    fs::write(folder.path().join("seal.key"), [8; 32]).unwrap();
    fs::write(folder.path().join("agent.token"), SECRET).unwrap();
    let mut client = folder.client();
    client.send(&modern(1, "tools/list", json!({})));
    assert_eq!(client.next()["error"]["data"]["code"], "server_unreachable");
    assert!(stranger.with_method(&Method::POST).is_empty(), "nothing was sent there, and no token");
}

#[test]
fn a_server_whose_notice_is_gone_is_not_trusted_at_its_old_address() {
    let folder = Folder::broken();
    let server = Server::that(|request, _| polite(request));
    folder.announce(&server);
    let mut client = folder.client();
    client.send(&modern(1, "tools/list", json!({})));
    assert!(client.next()["error"].is_null());
    let before = server.with_method(&Method::POST).len();
    fs::remove_file(folder.path().join("server.json")).unwrap();
    client.send(&modern(2, "tools/list", json!({})));
    assert_eq!(client.next()["error"]["data"]["code"], "server_unreachable");
    assert_eq!(server.with_method(&Method::POST).len(), before);
}

/// A server whose own stream stays open.
fn listening(request: &Received) -> Reply {
    match () {
        () if request.method == Method::GET => Reply::Events(Vec::new(), End::Hold(Default::default())),
        () => polite(request),
    }
}

#[test]
fn a_server_that_could_not_be_found_once_is_still_listened_to_when_it_is_back() {
    let folder = Folder::broken();
    let server = Server::that(|request, _| listening(request));
    folder.announce(&server);
    let mut client = folder.client();
    client.initialise();
    until("it listens", || server.with_method(&Method::GET).len() == 1);
    let address = server.address();
    drop(server);
    client.send(&legacy(1, "tools/list", &json!({})));
    assert_eq!(client.next()["error"]["data"]["code"], "server_unreachable", "it was looked for in vain");
    client.hears_nothing();
    let server = Server::at(&address, |request, _| listening(request));
    until("it listens again", || server.with_method(&Method::GET).len() == 1);
}
