//! `mcp install`: what a client is to be told, and telling it.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

/// A home and a project, and nothing in them.
struct Desk(TempDir);

struct Ran {
    status: i32,
    out: String,
    err: String,
}

impl Desk {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn run(&self, words: &[&str]) -> Ran {
        let mut command = Command::new(env!("CARGO_BIN_EXE_countersign"));
        let output = command
            .args(words)
            .current_dir(self.path())
            .env_clear()
            .env("HOME", self.path())
            .output()
            .unwrap();
        Ran {
            status: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.path().join(file)).unwrap_or_else(|e| panic!("{file}: {e}"))
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

#[test]
fn without_write_it_only_shows() {
    let desk = Desk::new();
    let ran = desk.run(&["--demo", "mcp", "install", "claude-code"]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    for shown in [".mcp.json", "\"mcpServers\"", "\"--demo\"", "claude mcp add --scope user countersign -- "]
    {
        assert!(ran.out.contains(shown), "{shown} is not in\n{}", ran.out);
    }
    assert!(!desk.path().join(".mcp.json").exists(), "nothing is written for the client");
}

/// The entry that a client reads in a file.
fn entry(desk: &Desk, file: &str, servers: &str) -> Value {
    let told: Value = serde_json::from_str(&desk.read(file)).unwrap();
    told.pointer(servers).unwrap()["countersign"].clone()
}

fn words(entry: &Value) -> Vec<&str> {
    entry["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect()
}

#[test]
fn each_client_is_told_in_its_own_file_and_words() {
    let desk = Desk::new();
    let ran = desk.run(&["--data-dir", "data", "mcp", "install", "cursor", "--write"]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    let entry = entry(&desk, ".cursor/mcp.json", "/mcpServers");
    assert_eq!(entry["command"], env!("CARGO_BIN_EXE_countersign"));
    let folder = desk.path().canonicalize().unwrap().join("data");
    assert_eq!(
        words(&entry),
        ["--data-dir", folder.to_str().unwrap(), "mcp", "--client", "cursor"],
        "whatever folder the client runs in"
    );
    assert!(ran.err.contains("starts no server for"), "it says what the person has to do: {}", ran.err);
    let ran = desk.run(&["mcp", "--connect", "https://gate.example.com", "install", "codex", "--write"]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    let told: toml::Table = desk.read(".codex/config.toml").parse().unwrap();
    let words = told["mcp_servers"]["countersign"]["args"].as_array().unwrap();
    assert_eq!(
        words.iter().map(|w| w.as_str().unwrap()).collect::<Vec<_>>(),
        ["mcp", "--connect", "https://gate.example.com"]
    );
}

#[test]
fn a_file_that_a_repository_commits_gets_no_path_of_this_machine_and_no_secret() {
    for (client, file, servers) in
        [("claude-code", ".mcp.json", "/mcpServers"), ("vscode", ".vscode/mcp.json", "/servers")]
    {
        let desk = Desk::new();
        desk.write("own.toml", "");
        let shared =
            ["--demo", "--data-dir", "data", "--config", "own.toml", "mcp", "install", client, "--write"];
        let ran = desk.run(&shared);
        assert_eq!(ran.status, 0, "{}", ran.err);
        let entry = entry(&desk, file, servers);
        assert_eq!(
            (&entry["command"], words(&entry)),
            (&"countersign".into(), vec!["--demo", "mcp", "--client", client]),
            "{client}"
        );
        let text = desk.read(file);
        for path in
            [desk.path().to_str().unwrap(), env!("CARGO_BIN_EXE_countersign"), "/", "token", "cs_", "env"]
        {
            assert!(!text.contains(path), "{path} is in {text}");
        }
        for said in ["PATH", "does not name your data folder", "takes no --config"] {
            assert!(ran.err.contains(said), "{said} is not in {}", ran.err);
        }
    }
}

#[test]
fn an_address_with_a_password_is_written_nowhere() {
    let desk = Desk::new();
    for client in ["claude-code", "codex"] {
        let ran = desk.run(&[
            "mcp",
            "--connect",
            "https://ann:hunter2@gate.example.com",
            "install",
            client,
            "--write",
        ]);
        assert_eq!(ran.status, 2, "{}", ran.err);
        assert!(ran.err.contains("COUNTERSIGN_TOKEN") && !ran.err.contains("hunter2"), "{}", ran.err);
    }
    assert_eq!(fs::read_dir(desk.path()).unwrap().count(), 0, "nothing is written");
}

#[test]
fn what_was_there_is_kept_and_backed_up_and_twice_is_once() {
    let desk = Desk::new();
    let before = "{\n  \"theme\": \"dark\",\n  \"mcpServers\": { \"other\": { \"command\": \"x\" } }\n}\n";
    desk.write(".cursor/mcp.json", before);
    assert_eq!(desk.run(&["mcp", "install", "cursor", "--write"]).status, 0);
    let after: Value = serde_json::from_str(&desk.read(".cursor/mcp.json")).unwrap();
    assert_eq!((&after["theme"], &after["mcpServers"]["other"]["command"]), (&"dark".into(), &"x".into()));
    assert!(after["mcpServers"]["countersign"].is_object(), "{after}");
    assert_eq!(desk.read(".cursor/mcp.json.before-countersign"), before);
    let again = desk.run(&["mcp", "install", "cursor", "--write"]);
    assert!(again.out.contains("has it already"), "{}", again.out);
    assert_eq!(
        desk.read(".cursor/mcp.json.before-countersign"),
        before,
        "the backup is still the one from before"
    );
}

#[test]
fn a_file_that_cannot_be_read_is_left_alone() {
    let desk = Desk::new();
    let theirs = "{\n  // servers I use\n  \"servers\": {}\n}\n";
    desk.write(".vscode/mcp.json", theirs);
    let ran = desk.run(&["mcp", "install", "vscode", "--write"]);
    assert_eq!(ran.status, 1);
    assert!(ran.err.contains("was not changed") && ran.err.contains("by hand"), "{}", ran.err);
    assert_eq!(desk.read(".vscode/mcp.json"), theirs);
    assert_eq!(fs::read_dir(desk.path().join(".vscode")).unwrap().count(), 1, "no leftovers");
}

#[test]
fn programs_are_told_in_json() {
    let desk = Desk::new();
    let ran = desk.run(&["--json", "mcp", "install", "codex"]);
    let told: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&told["state"], &told["name"]), (&"shown".into(), &"countersign".into()), "{told}");
}

#[test]
fn each_client_gets_a_token_of_its_own_and_is_attended_only_where_the_person_says_so() {
    use std::os::unix::fs::PermissionsExt as _;
    let desk = Desk::new();
    let tokens = |desk: &Desk| -> Vec<Value> {
        let list: Value =
            serde_json::from_str(&desk.run(&["--data-dir", "data", "token", "list", "--json"]).out).unwrap();
        list["items"].as_array().unwrap().clone()
    };
    let install = |words: &[&str]| {
        let ran = desk.run(&[&["--data-dir", "data", "mcp", "install"], words].concat());
        assert_eq!(ran.status, 0, "{}", ran.err);
        ran
    };
    install(&["claude-code"]);
    install(&["cursor", "--attended"]);
    let secrets = ["claude-code", "cursor"].map(|client| desk.read(&format!("data/clients/{client}.token")));
    assert_ne!(secrets[0], secrets[1], "no two clients share a principal");
    let file = desk.path().join("data/clients/cursor.token");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let of = |desk: &Desk, name: &str| tokens(desk).into_iter().rfind(|token| token["name"] == name).unwrap();
    assert_eq!(of(&desk, "Claude Code")["attended"], false, "nobody was there to say yes");
    assert_eq!(of(&desk, "Cursor")["attended"], true);
    assert_eq!(of(&desk, "agent.token")["attended"], false);

    install(&["cursor"]);
    assert_eq!(desk.read("data/clients/cursor.token"), secrets[1], "what is there is kept");
    install(&["cursor", "--unattended"]);
    assert_ne!(desk.read("data/clients/cursor.token"), secrets[1]);
    let revoked = tokens(&desk).iter().filter(|token| !token["revokedAt"].is_null()).count();
    assert_eq!(
        (of(&desk, "Cursor")["attended"].clone(), revoked),
        (false.into(), 1),
        "the old one is revoked"
    );
}
