//! The README's commands: each is run by the walk, or by a test that is named here.

use std::path::Path;

use crate::shell::Shell;

const README: &str = include_str!("../../../../README.md");

/// Who runs a command of the README.
#[derive(Debug, Clone, Copy)]
enum RunBy {
    /// The walk, at this place in its order.
    Walk,
    /// This test of this file: what it needs is not on a newcomer's machine.
    Test(&'static str, &'static str),
    /// The program that runs the tests.
    Itself,
}
use RunBy::{Itself, Test, Walk};

/// The README's commands in its order, without what is said beside them.
const COMMANDS: &[(&str, RunBy)] = &[
    ("cargo run -p countersign -- demo", Walk),
    ("countersign inbox", Walk),
    ("countersign call notes.purge --as agent --no-wait", Walk),
    ("countersign inbox", Walk),
    ("countersign approve eli_…", Walk),
    ("countersign executions", Walk),
    ("countersign mcp install claude-code", Walk),
    ("countersign doctor", Walk),
    (
        "countersign source add mcp files -- npx -y @modelcontextprotocol/server-filesystem ./docs",
        Test(
            "countersign/tests/sources/published.rs",
            "the_file_server_from_npm_reads_at_once_and_writes_once_a_person_approved",
        ),
    ),
    (
        "countersign source add openapi github ./github.json --server https://api.github.com --bearer-env GITHUB_TOKEN",
        Test(
            "countersign/tests/sources/published.rs",
            "githubs_document_brings_more_than_500_tools_that_are_found_and_called",
        ),
    ),
    (
        "countersign source add graphql shop https://shop.example.com/graphql",
        Test(
            "countersign/tests/cli/finding.rs",
            "what_keeps_something_new_makes_the_folder_as_the_server_would",
        ),
    ),
    (
        "countersign source accept files",
        Test("countersign/tests/cli/sources.rs", "at_a_terminal_what_changed_is_shown_before_it_is_accepted"),
    ),
    (
        "countersign source list",
        Test("countersign/tests/cli/sources.rs", "without_a_terminal_a_source_is_added_and_its_tools_wait"),
    ),
    ("countersign login", Walk),
    ("countersign user add ann --role approver", Walk),
    ("countersign user invite ann", Walk),
    ("countersign token create --role approver --user ann --name laptop --expires 30d", Walk),
    ("countersign mcp install claude-code", Walk),
    (
        "curl -H \"Authorization: Bearer $(cat DATA/agent.token)\" -H 'Content-Type: application/json' -d '{\"tool\":\"notes.purge\"}' http://127.0.0.1:7420/api/executions",
        Test("countersign-server/tests/rest/contract.rs", "a_call_that_asks_is_answered_with_the_question"),
    ),
    ("countersign run tidy.ts --demo", Walk),
    ("countersign tools show --types notes --demo", Walk),
    ("cargo xtask ci", Itself),
];

/// Every line of the README's shell blocks that starts a program.
fn commands() -> Vec<String> {
    let mut found = Vec::new();
    for block in blocks() {
        let (mut lines, mut here_document) = (block.lines(), false);
        while let Some(line) = lines.next() {
            if here_document || line.contains("<<'END'") {
                here_document = line != "END";
                continue;
            }
            let mut command = line.strip_prefix("$ ").unwrap_or(line).to_owned();
            while let Some(begun) = command.strip_suffix('\\') {
                command = format!("{begun} {}", lines.next().expect("a line that goes on"));
            }
            let command = command.split(" # ").next().unwrap_or_default();
            found.push(command.split_whitespace().collect::<Vec<_>>().join(" "));
        }
    }
    found
}

fn blocks() -> impl Iterator<Item = &'static str> {
    let fenced = README.split("\n```").skip(1).step_by(2);
    fenced.filter_map(|block| block.strip_prefix("console\n").or_else(|| block.strip_prefix("sh\n")))
}

/// The text that the README puts into a file.
pub(crate) fn file(name: &str) -> &'static str {
    let begins = format!("cat > {name} <<'END'\n");
    let text = README.split(&begins).nth(1).unwrap_or_else(|| panic!("the README makes no {name}"));
    text.split("\nEND\n").next().unwrap()
}

/// What the walk ran is all that the README has for it, in its order.
#[track_caller]
pub(crate) fn was_walked(shell: &Shell) {
    let ran = shell.ran();
    let mut rest = ran.iter();
    for (command, by) in COMMANDS {
        if !matches!(by, Walk) {
            continue;
        }
        let wanted = command.replace("cargo run -p countersign -- ", "countersign ");
        let is_it = |line: &String| match wanted.strip_suffix('…') {
            Some(begins) => line.starts_with(begins),
            None => *line == wanted,
        };
        assert!(rest.any(is_it), "the walk does not run {command:?} in its turn, but {ran:#?}");
    }
}

#[test]
fn every_command_of_the_readme_is_in_the_table_and_in_its_order() {
    let listed: Vec<&str> = COMMANDS.iter().map(|(command, _)| *command).collect();
    assert_eq!(commands(), listed, "a command of the README that no test runs, or one that is gone");
}

#[test]
fn every_test_that_the_table_names_is_there() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for (command, by) in COMMANDS {
        let Test(file, name) = by else { continue };
        let text = std::fs::read_to_string(crates.join(file)).unwrap_or_else(|e| panic!("{file}: {e}"));
        assert!(text.contains(&format!("fn {name}(")), "{command}: {file} has no test {name}");
    }
}
