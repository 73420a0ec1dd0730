//! A file that has grown long has usually grown a second subject. Uniform tables, which one reads by looking things up,
//! may be longer if they say that they are one.

use crate::tidy::source::SourceFile;
use crate::tidy::violation::Violation;

const RULE: &str = "file-length";
const LIMIT: usize = 600;
const TABLE_LIMIT: usize = 2000;
const TABLE_MARK: &str = "// tidy: uniform table";

pub(super) fn check(file: &SourceFile) -> Vec<Violation> {
    let lines = file.text.lines().count();
    let is_table = file.text.lines().any(|line| line.trim() == TABLE_MARK);
    let limit = if is_table { TABLE_LIMIT } else { LIMIT };
    if lines <= limit {
        return Vec::new();
    }
    vec![file.violation(limit + 1, RULE, format!("{lines} lines; at most {limit}"))]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_lines(lines: usize, first: &str) -> SourceFile {
        SourceFile::sample("crates/a/src/lib.rs", &format!("{first}\n{}", "\n".repeat(lines - 1)))
    }

    #[test]
    fn files_up_to_their_limit_pass() {
        assert_eq!(check(&of_lines(600, "")), []);
        assert_eq!(check(&of_lines(2000, TABLE_MARK)), []);
    }

    #[test]
    fn files_beyond_it_fail_at_the_first_line_too_many() {
        assert_eq!(check(&of_lines(601, ""))[0].line, 601);
        assert_eq!(check(&of_lines(2001, TABLE_MARK))[0].message, "2001 lines; at most 2000");
    }
}
