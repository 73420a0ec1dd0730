//! An MCP server whose tools a test changes while it runs, in each era and over each transport.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use countersign_kernel::ports::SourceConfig;
use serde_json::{Value, json};

/// The revision of the protocol that the server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    Legacy,
    Modern,
}

/// How the gateway reaches it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    /// The gateway starts it.
    Stdio,
    /// It runs by itself.
    Http,
}

/// The server; over HTTP its process ends with the test.
pub(crate) struct Changing {
    folder: tempfile::TempDir,
    era: Era,
    transport: Transport,
    process: Option<Child>,
}

impl Changing {
    pub(crate) async fn start(era: Era, transport: Transport, tools: &Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("changing.mjs"), include_str!("changing.mjs")).unwrap();
        let mut server = Self { folder, era, transport, process: None };
        server.offers(tools);
        if transport == Transport::Http {
            let [program, arguments @ ..] = &server.command()[..] else { panic!("no program") };
            let child = Command::new(program).args(arguments).arg("0").stdin(Stdio::null()).spawn();
            server.process = Some(child.expect("node can be started; install Node, any version from 18"));
            eventually(|| server.file("port").exists()).await;
        }
        server
    }

    /// The source `upstream`.
    pub(crate) fn config(&self) -> SourceConfig {
        self.config_with(&json!({}))
    }

    /// The same, with these fields.
    pub(crate) fn config_with(&self, fields: &Value) -> SourceConfig {
        let mut config = json!({ "name": "upstream", "kind": "mcp" });
        config["protocol"] = json!(self.era_name());
        match self.transport {
            Transport::Stdio => config["command"] = json!(self.command()),
            Transport::Http => {
                let port = std::fs::read_to_string(self.file("port")).unwrap();
                config["url"] = json!(format!("http://127.0.0.1:{port}/mcp"));
                config["allowPrivate"] = json!(true);
            }
        }
        config.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        SourceConfig::read(&config).unwrap()
    }

    /// Offers these from now on, and tells it.
    pub(crate) fn offers(&self, tools: &Value) {
        self.put("tools.json", tools);
    }

    /// Writes a file that the server reads: `question.json` or `answer.json`.
    pub(crate) fn put(&self, name: &str, value: &Value) {
        let fresh = self.file(&format!("{name}.new"));
        std::fs::write(&fresh, value.to_string()).unwrap();
        std::fs::rename(fresh, self.file(name)).unwrap();
    }

    /// Offers these from now on, and tells nobody.
    pub(crate) fn offers_quietly(&self, tools: &Value) {
        std::fs::write(self.file("quiet"), "").unwrap();
        self.offers(tools);
    }

    /// Waits until the gateway hears what nobody asked for. What changes before is not told.
    pub(crate) async fn is_heard(&self) {
        eventually(|| self.file("listening").exists()).await;
    }

    /// The names of the tools that were called, and what was cancelled, in order.
    pub(crate) fn ledger(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.file("ledger")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// The command that starts it over stdio.
    pub(crate) fn command(&self) -> Vec<String> {
        let path = |path: PathBuf| path.display().to_string();
        let (script, folder) = (path(self.file("changing.mjs")), path(self.folder.path().to_owned()));
        vec!["node".to_owned(), script, folder, self.era_name().to_owned()]
    }

    fn era_name(&self) -> &'static str {
        match self.era {
            Era::Legacy => "legacy",
            Era::Modern => "modern",
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl Drop for Changing {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill().and_then(|()| process.wait());
        }
    }
}

/// A tool without arguments, of which the server says this.
pub(crate) fn tool(name: &str, annotations: &Value) -> Value {
    let (description, schema) = (format!("Does {name}"), json!({ "type": "object" }));
    json!({ "name": name, "description": description, "inputSchema": schema, "annotations": annotations })
}

/// Waits until something is so. The bound only ends a test that would wait for ever.
pub(crate) async fn eventually(mut is_so: impl FnMut() -> bool) {
    for _ in 0..3_000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("it never became so");
}
