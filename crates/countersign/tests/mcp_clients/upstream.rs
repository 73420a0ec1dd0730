//! A server that runs by itself, over streamable HTTP.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use crate::node::toolbox;

/// The server; it ends with the test.
pub(crate) struct Upstream {
    pub(crate) url: String,
    process: Child,
}

impl Upstream {
    /// The everything server, on a free port.
    pub(crate) fn everything() -> Self {
        Self::of("node_modules/@modelcontextprotocol/server-everything/dist/index.js")
    }

    /// The server with everything else.
    pub(crate) fn shows() -> Self {
        Self::of("shows.mjs")
    }

    fn of(script: &str) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let words = toolbox().server(script, &["streamableHttp"]);
        let mut process = Command::new(&words[0])
            .args(&words[1..])
            .env_clear()
            .env("PORT", port.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the toolbox has Node");
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let listens = lines.any(|line| line.is_ok_and(|line| line.contains("listening")));
        assert!(listens, "the server ended at once");
        std::thread::spawn(move || lines.for_each(drop));
        Self { url: format!("http://127.0.0.1:{port}/mcp"), process }
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        let _ = self.process.kill().and_then(|()| self.process.wait());
    }
}
