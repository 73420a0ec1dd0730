//! The built program with its demo tools, killed without warning and started again on the same port and folder.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::json;
use tempfile::TempDir;

use crate::desk::{Desk, Secrets, Who};

/// The program, running.
pub(crate) struct Program {
    pub(crate) desk: Desk,
    child: Child,
    /// What it says goes somewhere for as long as it lives.
    _said: BufReader<ChildStdout>,
    folder: TempDir,
}

impl Program {
    pub(crate) async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (child, said, url) = spawn(&folder, "127.0.0.1:0");
        let token = |name: &str| {
            let place: PathBuf = folder.path().join("data").join(format!("{name}.token"));
            std::fs::read_to_string(place).unwrap().trim().to_owned()
        };
        let (agent, admin) = (token("agent"), token("admin"));
        let known = Secrets { agent, approver: String::new(), admin };
        let desk = Desk::new(&url, known.clone());
        let bob = desk.post(Who::Admin, "/api/tokens", &json!({ "name": "bob", "role": "approver" })).await;
        let approver = bob["secret"].as_str().unwrap().to_owned();
        Self { desk: Desk::new(&url, Secrets { approver, ..known }), child, _said: said, folder }
    }

    /// SIGKILL: no goodbye.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// The same again, where it was.
    pub(crate) fn start_again(&mut self) {
        let address = self.desk.url.trim_start_matches("http://").to_owned();
        let (child, said, url) = spawn(&self.folder, &address);
        assert_eq!(url, self.desk.url);
        (self.child, self._said) = (child, said);
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(folder: &TempDir, address: &str) -> (Child, BufReader<ChildStdout>, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_countersign"))
        .args(["--demo", "serve", "--listen", address])
        .current_dir(folder.path())
        .env_clear()
        .env("HOME", folder.path())
        .env("COUNTERSIGN_DATA_DIR", folder.path().join("data"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let url = line.split_whitespace().find(|word| word.starts_with("http://"));
    let url = url.unwrap_or_else(|| panic!("no address in {line:?}")).to_owned();
    (child, said, url)
}
