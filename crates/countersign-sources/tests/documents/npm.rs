//! Published documents from npm: installed once for all tests, pinned by a lock file, without running any script.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

const LOCK: &str = include_str!("node/package-lock.json");
const FILES: [(&str, &str); 2] =
    [("package.json", include_str!("node/package.json")), ("package-lock.json", LOCK)];
/// Says which lock file is installed; written last.
const STAMP: &str = "installed.json";

/// The bytes of a file of an installed package.
pub(crate) fn read(path: &str) -> Vec<u8> {
    let path = folder().join("node_modules").join(path);
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Runs a program of ours under Node, with this text as its input, and returns what it prints.
pub(crate) fn node(program: &str, input: &str) -> String {
    // Tests share a process where they run without nextest.
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    let folder = folder();
    let run = format!("{}-{}", std::process::id(), RUNS.fetch_add(1, Ordering::Relaxed));
    let script = folder.join(format!("program-{run}.cjs"));
    let given = folder.join(format!("input-{run}.json"));
    fs::write(&script, program).unwrap();
    fs::write(&given, input).unwrap();
    let output =
        Command::new("node").arg(&script).current_dir(folder).stdin(File::open(&given).unwrap()).output();
    let output = output.expect("node can be started; install Node with npm, any version from 18");
    fs::remove_file(&script).unwrap();
    fs::remove_file(&given).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("target/tmp is in target");
        let folder = target.join("tests").join("source-documents");
        fs::create_dir_all(&folder).unwrap();
        // Every test is a process of its own, so the lock is a file's; it goes with the process.
        let lock = File::create(folder.join("lock")).unwrap();
        lock.lock().unwrap();
        install(&folder);
        folder
    })
}

fn install(folder: &Path) {
    if fs::read_to_string(folder.join(STAMP)).is_ok_and(|installed| installed == LOCK) {
        return;
    }
    for (name, text) in FILES {
        fs::write(folder.join(name), text).unwrap();
    }
    eprintln!("installing published documents into {} with npm ci", folder.display());
    let installed = Command::new("npm")
        .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel", "error"])
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("npm cannot be started ({error}); install Node with npm"));
    assert!(
        installed.status.success(),
        "npm ci failed in {}; is registry.npmjs.org reachable?\n{}{}",
        folder.display(),
        String::from_utf8_lossy(&installed.stdout),
        String::from_utf8_lossy(&installed.stderr),
    );
    // The package has every GitHub server's document twice, 390 MB; one is read.
    let generated = folder.join("node_modules/@octokit/openapi/generated");
    for entry in fs::read_dir(generated).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() && !path.ends_with("api.github.com.json") {
            fs::remove_file(path).unwrap();
        }
    }
    fs::write(folder.join(STAMP), LOCK).unwrap();
}
