//! Published MCP servers, installed once for all tests: from npm with a lock file, from PyPI at a pinned version.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use countersign_sources::mcp::{CommandConfig, Endpoint, UpstreamConfig};

const FILES: [(&str, &str); 5] = [
    ("package.json", include_str!("node/package.json")),
    ("package-lock.json", include_str!("node/package-lock.json")),
    ("asks.mjs", include_str!("node/asks.mjs")),
    ("hostile.mjs", include_str!("node/hostile.mjs")),
    ("orders.mjs", include_str!("node/orders.mjs")),
];
const TIME_SERVER: &str = "mcp-server-time==2026.10.19";

/// The folder with everything that npm installed. The first test that wants it installs it; the others wait.
pub(crate) fn node_folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = tests_folder("upstream-node");
        let _lock = locked(&folder);
        for (name, text) in FILES {
            write_if_other(&folder.join(name), text);
        }
        install_once(&folder, include_str!("node/package-lock.json"), || {
            let mut npm = Command::new("npm");
            npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel", "error"]);
            npm.current_dir(&folder);
            vec![npm]
        });
        folder
    })
}

/// The Python in whose environment `mcp-server-time` is installed.
pub(crate) fn python() -> PathBuf {
    let folder = tests_folder("upstream-python");
    let _lock = locked(&folder);
    let python = folder.join("venv/bin/python");
    install_once(&folder, TIME_SERVER, || {
        let mut venv = Command::new("python3");
        venv.args(["-m", "venv"]).arg(folder.join("venv"));
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", TIME_SERVER]);
        vec![venv, pip]
    });
    python
}

/// A published server from npm, over stdio.
pub(crate) fn published(package: &str, arguments: &[&str]) -> UpstreamConfig {
    let script = format!("node_modules/@modelcontextprotocol/{package}/dist/index.js");
    script_server(&script, arguments, &[])
}

/// A script of ours, over stdio.
pub(crate) fn script_server(script: &str, arguments: &[&str], variables: &[(&str, &str)]) -> UpstreamConfig {
    let script = node_folder().join(script).display().to_string();
    let arguments = std::iter::once(script.as_str()).chain(arguments.iter().copied()).collect::<Vec<_>>();
    command("node", &arguments, variables)
}

pub(crate) fn command(program: &str, arguments: &[&str], variables: &[(&str, &str)]) -> UpstreamConfig {
    let path = std::env::var_os("PATH").unwrap().into_string().unwrap();
    let home = std::env::var_os("HOME").unwrap().into_string().unwrap();
    let all = [("PATH", path.as_str()), ("HOME", home.as_str())].into_iter().chain(variables.iter().copied());
    let config = CommandConfig {
        program: program.to_owned(),
        arguments: arguments.iter().map(|text| (*text).to_owned()).collect(),
        variables: all.map(|(name, value)| (name.to_owned(), value.into())).collect(),
        folder: None,
    };
    UpstreamConfig::new("upstream", Endpoint::Command(config))
}

fn tests_folder(name: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("target/tmp is in target");
    let folder = target.join("tests").join(name);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Every test is a process of its own, so the lock is a file's; it goes with the handle.
fn locked(folder: &Path) -> File {
    let lock = File::create(folder.join("lock")).unwrap();
    lock.lock().unwrap();
    lock
}

/// Runs the commands unless the stamp says that this is installed already.
fn install_once(folder: &Path, wanted: &str, commands: impl FnOnce() -> Vec<Command>) {
    let stamp = folder.join("installed");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return;
    }
    eprintln!("installing MCP servers into {}", folder.display());
    for mut command in commands() {
        let output = command.stdin(Stdio::null()).output();
        let output = output.unwrap_or_else(|error| panic!("{command:?} cannot be started: {error}"));
        assert!(output.status.success(), "{command:?} failed; is the registry reachable?\n{output:?}");
    }
    fs::write(stamp, wanted).unwrap();
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
