//! A Unix user of a test's own, with a home that the user database names. Making one takes root.

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use tempfile::TempDir;

/// Whoever changes the user database holds this.
const LOCK: &str = "countersign-test-users.lock";

/// A user, until it is dropped: then its processes and its entry go.
pub(crate) struct UnixUser {
    name: String,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    home: TempDir,
}

impl UnixUser {
    /// A new user. Nothing where this process may not make one, which is no reason to fail on somebody's own machine; in CI,
    /// which runs as root, it is.
    pub(crate) fn made() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            assert!(std::env::var_os("CI").is_none(), "CI runs these tests as root");
            eprintln!("not run: making a Unix user takes root. Run it as root, or see it run in CI.");
            return None;
        }
        static MADE: AtomicU32 = AtomicU32::new(0);
        let name = format!("cst{}x{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let home = tempfile::tempdir().unwrap();
        let path = home.path().to_str().unwrap();
        let words = ["--system", "--no-create-home", "--gid", "nogroup", "--home-dir", path, &name];
        changed("useradd", &words);
        let entry = fs::read_to_string("/etc/passwd").unwrap();
        let entry = entry.lines().find(|line| line.starts_with(&format!("{name}:"))).unwrap();
        let number = |field: usize| entry.split(':').nth(field).unwrap().parse().unwrap();
        let user = Self { uid: number(2), gid: number(3), name, home };
        user.own(user.home());
        Some(user)
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    /// Makes a folder of this user's.
    pub(crate) fn make_folder(&self, folder: &Path) {
        let mut missing: Vec<&Path> = folder.ancestors().take_while(|path| !path.exists()).collect();
        fs::create_dir_all(folder).unwrap();
        missing.reverse();
        missing.into_iter().for_each(|path| self.own(path));
    }

    /// Writes a file of this user's.
    pub(crate) fn write(&self, file: &Path, text: &str) {
        self.make_folder(file.parent().unwrap());
        fs::write(file, text).unwrap();
        self.own(file);
    }

    /// The operator's configuration.
    pub(crate) fn configure(&self, text: &str) {
        self.write(&self.home().join(".config/countersign/countersign.toml"), text);
    }

    /// Ends every process of this user's.
    pub(crate) fn end_processes(&self) {
        use rustix::process::{Pid, Signal, kill_process};
        use std::os::unix::fs::MetadataExt as _;
        loop {
            let mut found = 0;
            for process in fs::read_dir("/proc").unwrap().filter_map(Result::ok) {
                let number = process.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
                let is_ours = process.metadata().is_ok_and(|facts| facts.uid() == self.uid);
                let stat = fs::read_to_string(process.path().join("stat")).unwrap_or_default();
                // One that nobody waits for yet is dead all the same.
                let is_dead = stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('Z'));
                if let Some(pid) = number.filter(|_| is_ours && !is_dead).and_then(Pid::from_raw) {
                    found += 1;
                    let _ = kill_process(pid, Signal::KILL);
                }
            }
            if found == 0 {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }

    fn own(&self, path: &Path) {
        chown(path, Some(self.uid), Some(self.gid)).unwrap();
    }
}

impl Drop for UnixUser {
    fn drop(&mut self) {
        self.end_processes();
        changed("userdel", &[&self.name]);
    }
}

/// Changes the user database; one at a time, because its tools give up where another has it.
fn changed(tool: &str, words: &[&str]) {
    let lock = File::create(std::env::temp_dir().join(LOCK)).unwrap();
    lock.lock().unwrap();
    let output = Command::new(tool).args(words).output().unwrap_or_else(|e| panic!("{tool}: {e}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() || std::thread::panicking(), "{tool} {words:?}: {said}");
}

/// Our program, where everybody may run it.
pub(crate) fn program() -> PathBuf {
    let built = Path::new(env!("CARGO_BIN_EXE_countersign"));
    let open = |path: &Path| path.metadata().is_ok_and(|facts| facts.permissions().mode() & 0o001 != 0);
    if built.ancestors().all(open) {
        return built.to_owned();
    }
    let facts = built.metadata().unwrap();
    let made = facts.modified().unwrap().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos();
    let copy = std::env::temp_dir().join(format!("countersign-test-program-{made}"));
    let lock = File::create(std::env::temp_dir().join("countersign-test-program.lock")).unwrap();
    lock.lock().unwrap();
    if !copy.exists() {
        let beside = copy.with_extension("new");
        fs::copy(built, &beside).unwrap();
        fs::set_permissions(&beside, fs::Permissions::from_mode(0o755)).unwrap();
        fs::rename(&beside, &copy).unwrap();
    }
    copy
}
