//! `docs/security.md` makes promises; each of them names a test that keeps it, and the test is there.
//!
//! In every table whose last column is called `test`, each row names at least one, in backticks: `package::binary function` for
//! a test in `tests/`, `package function` for one beside the code. A name that nothing has any more is a promise that nobody keeps.

use crate::tidy::source::SourceFile;
use crate::tidy::tokens::{each_level, is_ident};
use crate::tidy::violation::Violation;

const RULE: &str = "security";
const FILE: &str = "docs/security.md";
const COLUMN: &str = "test";

pub(super) fn check(text: Option<&str>, sources: &[SourceFile]) -> Vec<Violation> {
    let Some(text) = text else {
        return vec![violation(1, "the file is missing".to_owned())];
    };
    let cells = last_cells(text);
    if cells.is_empty() {
        return vec![violation(1, format!("no table has a last column called `{COLUMN}`"))];
    }
    cells.into_iter().flat_map(|(line, cell)| check_cell(line, cell, sources)).collect()
}

fn check_cell(line: usize, cell: &str, sources: &[SourceFile]) -> Vec<Violation> {
    let mut named = cell.split('`').skip(1).step_by(2).peekable();
    if named.peek().is_none() {
        return vec![violation(line, "the promise names no test".to_owned())];
    }
    let absent = named.filter(|name| !exists(name, sources));
    absent.map(|name| violation(line, format!("there is no test `{name}`"))).collect()
}

/// The last cell of each row, with its line, of the tables that are looked at.
fn last_cells(text: &str) -> Vec<(usize, &str)> {
    let mut cells = Vec::new();
    let mut table = Table::None;
    for (number, content) in (1..).zip(text.lines()) {
        let Some(cell) = last_cell(content) else {
            table = Table::None;
            continue;
        };
        match table {
            Table::None if cell == COLUMN => table = Table::Promises,
            Table::None => table = Table::Other,
            Table::Promises if !cell.starts_with("---") => cells.push((number, cell)),
            Table::Promises | Table::Other => {}
        }
    }
    cells
}

/// The kind of table that a line is in.
enum Table {
    None,
    Promises,
    Other,
}

fn last_cell(line: &str) -> Option<&str> {
    let row = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    row.rsplit('|').next().map(str::trim)
}

fn exists(name: &str, sources: &[SourceFile]) -> bool {
    let Some((place, function)) = name.split_once(' ') else { return false };
    let is_there = |path: &str| match place.split_once("::") {
        Some((package, binary)) => {
            let tests = format!("crates/{package}/tests/{binary}");
            path.strip_prefix(&tests).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        }
        None => path.starts_with(&format!("crates/{place}/src/")),
    };
    sources.iter().filter(|source| is_there(&source.path)).any(|source| has_function(source, function))
}

/// Tests that a macro makes of functions count, so that no attribute is looked for.
fn has_function(source: &SourceFile, name: &str) -> bool {
    let mut found = false;
    each_level(&source.tokens, &mut |siblings| {
        found |= siblings.windows(2).any(|pair| is_ident(&pair[0], "fn") && pair[1].to_string() == name);
    });
    found
}

fn violation(line: usize, message: String) -> Violation {
    Violation { file: FILE.to_owned(), line, rule: RULE, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(text: Option<&str>) -> Vec<String> {
        let sources = [
            ("crates/gate/src/seal.rs", "fn a_seal_holds() {}"),
            ("crates/gate/tests/rest/login.rs", "#[test]\nfn a_link_is_good_once() {}"),
            ("crates/gate/tests/cli.rs", "both! { fn it_says_so(shell: &Shell) {} }"),
        ]
        .map(|(path, text)| SourceFile::sample(path, text));
        check(text, &sources).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn promises_whose_tests_are_there_pass() {
        let text = "| promise | test |\n|---|---|\n| a | `gate a_seal_holds` |\n\
                    | b | `gate::rest a_link_is_good_once`, `gate::cli it_says_so` |\n";
        assert_eq!(messages(Some(text)), [] as [String; 0]);
    }

    #[test]
    fn a_test_that_is_not_where_it_is_said_to_be_fails() {
        let text = "# Title\n\n| promise | test |\n|---|---|\n| a | `gate::rest a_seal_holds` |\n\
                    | b | `gate::rest a_link` |\n| c | `a_link_is_good_once` |\n| d | `gate::re a_link_is_good_once` |\n";
        assert_eq!(
            messages(Some(text)),
            [
                "docs/security.md:5: security: there is no test `gate::rest a_seal_holds`",
                "docs/security.md:6: security: there is no test `gate::rest a_link`",
                "docs/security.md:7: security: there is no test `a_link_is_good_once`",
                "docs/security.md:8: security: there is no test `gate::re a_link_is_good_once`",
            ]
        );
    }

    #[test]
    fn a_promise_without_a_test_fails_and_other_tables_are_left_alone() {
        let text =
            "| word | `meaning` |\n|---|---|\n| a | `b` |\n\n| promise | test |\n|---|---|\n| a | soon |\n";
        assert_eq!(messages(Some(text)), ["docs/security.md:7: security: the promise names no test"]);
    }

    #[test]
    fn no_file_and_no_table_fail() {
        assert_eq!(messages(None), ["docs/security.md:1: security: the file is missing"]);
        assert_eq!(
            messages(Some("# Security\n")),
            ["docs/security.md:1: security: no table has a last column called `test`"]
        );
    }
}
