//! Finds the text of a fault after its file was split, renamed or rewritten.

use std::path::{Path, PathBuf};

/// The most files that a hint names.
const LONGEST_LIST: usize = 3;

/// The end of an error message: the files that have the text now, or those that have its longest line, or nothing.
pub(super) fn hint(root: &Path, text: &str) -> String {
    let mut files = Vec::new();
    collect(&root.join("crates"), &mut files);
    let having = |text: &str| -> Vec<String> {
        let has = |file: &&PathBuf| std::fs::read_to_string(file).is_ok_and(|source| source.contains(text));
        files.iter().filter(has).filter_map(|file| relative(root, file)).take(LONGEST_LIST).collect()
    };
    let whole = having(text);
    if !whole.is_empty() {
        return format!("; it is in {} now", whole.join(" and "));
    }
    let longest = text.lines().map(str::trim).max_by_key(|line| line.len()).unwrap_or_default();
    match having(longest) {
        part if part.is_empty() || longest.is_empty() => String::new(),
        part => format!("; a part of it is in {}", part.join(" and ")),
    }
}

fn relative(root: &Path, file: &Path) -> Option<String> {
    file.strip_prefix(root).ok().map(|file| file.display().to_string())
}

/// All sources of the product below a folder.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
}
