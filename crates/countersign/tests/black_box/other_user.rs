//! The server as a Unix user of its own, as `docs/security.md` sets it up, and what a shell of another user can do then.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use crate::unix_user::{UnixUser, program};

const UNIT: &str = include_str!("../../../../docs/systemd/countersign.service");
const PAY: &str = r#"{"to":"ann","amount":5}"#;

/// A server of one user, and another user at a shell.
struct Machine {
    server: UnixUser,
    other: UnixUser,
    data: PathBuf,
    url: String,
}

impl Machine {
    fn served() -> Option<Self> {
        let (server, other) = (UnixUser::made()?, UnixUser::made()?);
        // The folder protects itself, whatever it lies in.
        fs::set_permissions(server.home(), fs::Permissions::from_mode(0o755)).unwrap();
        let data = server.data();
        server.make_folder(data.parent().unwrap());
        server.configure("listen = \"127.0.0.1:0\"\n");
        let mut serve = server.command(&["--demo", "serve"]);
        serve.env("HOME", server.home());
        let (_, url) = started(serve);
        Some(Self { server, other, data, url })
    }

    /// A command of the server's own user, on its folder.
    fn operator(&self, words: &[&str]) -> String {
        let words = [&["--data-dir", self.data.to_str().unwrap()], words].concat();
        let output = self.server.command(&words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// A command at the other user's shell, on the server's folder.
    fn at_the_folder(&self, words: &[&str]) -> Output {
        let words = [&["--data-dir", self.data.to_str().unwrap()], words].concat();
        self.other.command(&words).env("HOME", self.other.home()).output().unwrap()
    }

    /// A command at the other user's shell, with the server's address.
    fn at_the_address(&self, token: Option<&str>, words: &[&str]) -> Output {
        let mut command = self.other.command(words);
        command.env("HOME", self.other.home()).env("COUNTERSIGN_URL", &self.url);
        command.envs(token.map(|token| ("COUNTERSIGN_TOKEN", token))).output().unwrap()
    }
}

/// Starts a server and waits until it says where it listens. Its user's end is its end.
fn started(mut command: Command) -> (Child, String) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
    let url = said.split_whitespace().find(|word| word.starts_with("http://"));
    let url = url.unwrap_or_else(|| panic!("no address in {said:?}")).to_owned();
    (child, url)
}

fn said(output: &Output) -> String {
    [&output.stdout[..], &output.stderr].iter().map(|bytes| String::from_utf8_lossy(bytes)).collect()
}

#[test]
fn another_unix_user_reads_nothing_and_decides_only_with_a_token_of_its_own() {
    let Some(machine) = Machine::served() else { return };
    let result: Value =
        serde_json::from_str(&machine.operator(&["call", "bank.pay", PAY, "--json", "--quiet"])).unwrap();
    let question = result["paused"]["elicitationId"].as_str().unwrap();

    // The files.
    assert_eq!(machine.data.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    let files: Vec<PathBuf> = fs::read_dir(&machine.data).unwrap().map(|file| file.unwrap().path()).collect();
    assert!(files.iter().any(|file| file.ends_with("admin.token")), "{files:?}");
    for path in files.iter().chain([&machine.data]) {
        let tool = if path.is_dir() { "ls" } else { "cat" };
        let read =
            Command::new(tool).arg(path).uid(machine.other.uid).gid(machine.other.gid).output().unwrap();
        assert!(!read.status.success() && read.stdout.is_empty(), "{} can be read", path.display());
    }

    // The commands, on the folder and at the address.
    let words: [&[&str]; 5] =
        [&["inbox"], &["approve", question], &["deny", question], &["token", "list"], &["login"]];
    let agent = machine.operator(&["token", "create", "--role", "agent", "--name", "agent"]);
    for words in words {
        let on_folder = machine.at_the_folder(words);
        assert!(!on_folder.status.success(), "{words:?}: {on_folder:?}");
        let without = machine.at_the_address(None, words);
        assert!(
            !without.status.success() && said(&without).contains("COUNTERSIGN_TOKEN"),
            "{words:?}: {without:?}"
        );
        let as_agent = machine.at_the_address(Some(&agent), words);
        assert!(words[0] == "inbox" || !as_agent.status.success(), "{words:?}: {as_agent:?}");
    }
    let folder = said(&machine.at_the_folder(&["inbox"]));
    assert!(
        folder.contains("belongs to another Unix user") && folder.contains("COUNTERSIGN_URL"),
        "{folder}"
    );
    let ledger = || machine.operator(&["call", "bank.ledger", "--json"]);
    assert!(!ledger().contains("\"ann\""), "nothing ran: {}", ledger());

    // A person's token.
    let approver = machine.operator(&["token", "create", "--role", "approver", "--name", "ann"]);
    let inbox = machine.at_the_address(Some(&approver), &["inbox"]);
    assert!(inbox.status.success() && said(&inbox).contains(question), "{inbox:?}");
    let listed = machine.at_the_address(Some(&approver), &["inbox", "--json"]);
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    let digest = listed["items"][0]["digest"].as_str().unwrap();
    let approved =
        machine.at_the_address(Some(&approver), &["approve", question, "--yes", "--digest", digest]);
    assert!(approved.status.success(), "{approved:?}");
    assert_eq!(ledger().matches("\"ann\"").count(), 1, "it ran once: {}", ledger());

    let admin = machine.operator(&["token", "create", "--role", "admin", "--name", "root"]);
    let doctor = said(&machine.at_the_address(Some(&admin), &["doctor"]));
    let line = format!("the server runs as another Unix user (uid {}", machine.server.uid);
    assert!(doctor.contains(&line), "{doctor}");
}

/// The value of a key of the unit.
fn of_unit(key: &str) -> &'static str {
    let start = format!("{key}=");
    let found = UNIT.lines().find_map(|line| line.strip_prefix(&start));
    found.unwrap_or_else(|| panic!("the unit has no {key}"))
}

#[test]
fn the_systemd_unit_is_valid_and_its_command_line_starts_the_server() {
    for (key, value) in [
        ("User", "countersign"),
        ("StateDirectory", "countersign"),
        ("StateDirectoryMode", "0700"),
        ("NoNewPrivileges", "yes"),
        ("ProtectSystem", "strict"),
        ("ProtectHome", "yes"),
        ("CapabilityBoundingSet", ""),
    ] {
        assert_eq!(of_unit(key), value, "{key}");
    }
    for (number, line) in UNIT.lines().enumerate() {
        let is_fine = line.is_empty()
            || line.starts_with(['#', '['])
            || line.split_once('=').is_some_and(|(key, _)| key.chars().all(|c| c.is_ascii_alphanumeric()));
        assert!(is_fine, "line {}: {line}", number + 1);
    }
    verified_by_systemd();

    let Some(user) = UnixUser::made() else { return };
    let config = user.home().join("etc.toml");
    user.write(&config, "listen = \"127.0.0.1:0\"\n");
    let data = user.home().join("data");
    let line = of_unit("ExecStart")
        .replace("/etc/countersign/countersign.toml", config.to_str().unwrap())
        .replace("/var/lib/countersign", data.to_str().unwrap());
    let words: Vec<&str> = line.split(' ').collect();
    assert_eq!(words[0], "/usr/local/bin/countersign");
    let (mut child, url) = started(user.command(&words[1..]));
    let told = user.command(&["--data-dir", data.to_str().unwrap(), "doctor"]).output().unwrap();
    assert!(said(&told).contains(&url) && said(&told).contains(config.to_str().unwrap()), "{}", said(&told));
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM)
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "it stops as systemd stops it");
}

/// Has systemd read the unit, where it is installed. It wants the program to be there, so it is given ours.
fn verified_by_systemd() {
    let analyze = Path::new("/usr/bin/systemd-analyze");
    if !analyze.exists() {
        eprintln!("systemd is not installed here; the unit was checked line by line instead");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let unit = folder.path().join("countersign.service");
    fs::write(&unit, UNIT.replace("/usr/local/bin/countersign", program().to_str().unwrap())).unwrap();
    let verified = Command::new(analyze).arg("verify").arg(&unit).output().unwrap();
    let words = String::from_utf8_lossy(&verified.stderr).into_owned();
    let about_it: Vec<&str> = words.lines().filter(|line| line.contains("countersign")).collect();
    assert!(verified.status.success() && about_it.is_empty(), "{words}");
}
