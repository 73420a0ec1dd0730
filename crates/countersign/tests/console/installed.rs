//! What these tests need of the machine: Debian's Chromium and ChromeDriver, and axe-core from npm. What is missing is an error
//! that says how to get it, never a test that is skipped.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const CHROMIUM: [&str; 3] = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
const CHROMEDRIVER: [&str; 2] = ["/usr/bin/chromedriver", "/usr/local/bin/chromedriver"];
const MANIFEST: &str = include_str!("node/package.json");
const LOCK: &str = include_str!("node/package-lock.json");
/// Says which lock file is installed; written last.
const STAMP: &str = "installed.json";

/// The browser.
pub(crate) fn chromium() -> PathBuf {
    find(&CHROMIUM, "Chromium")
}

/// What drives it.
pub(crate) fn chromedriver() -> PathBuf {
    find(&CHROMEDRIVER, "ChromeDriver")
}

fn find(places: &[&str], what: &str) -> PathBuf {
    let found = places.iter().map(PathBuf::from).find(|place| place.is_file());
    found.unwrap_or_else(|| {
        panic!(
            "{what} is not installed (looked at {}). `cargo xtask ci` installs it on Debian, as this does: \
             apt-get install -y --no-install-recommends chromium chromium-driver fonts-dejavu-core",
            places.join(", ")
        )
    })
}

/// Where these tests leave what people look at.
pub(crate) fn folder(name: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("target/tmp is in target");
    let folder = target.join("tests").join("console").join(name);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// axe-core as one script. The first test that wants it installs it; the others wait.
pub(crate) fn axe() -> String {
    let folder = folder("node");
    // Every test is a process of its own, so the lock is a file's; it goes with the process.
    let lock = File::create(folder.join("lock")).unwrap();
    lock.lock().unwrap();
    if fs::read_to_string(folder.join(STAMP)).ok().as_deref() != Some(LOCK) {
        install(&folder);
    }
    fs::read_to_string(folder.join("node_modules/axe-core/axe.min.js")).unwrap()
}

fn install(folder: &Path) {
    eprintln!("installing axe-core into {} with npm ci", folder.display());
    fs::write(folder.join("package.json"), MANIFEST).unwrap();
    fs::write(folder.join("package-lock.json"), LOCK).unwrap();
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
    fs::write(folder.join(STAMP), LOCK).unwrap();
}
