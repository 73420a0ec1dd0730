//! Names of tools: by rule, and the same every time.
//!
//! Promise: names are unique, none is also a namespace of another, and a name once given stays with its operation: neither
//! a new operation nor a vanished one changes it. Where the rule gives several operations one name, every one of them gets
//! six hex digits of its own origin, so that no order decides.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use sha2::{Digest, Sha256};

use super::words::snake_case;

/// The most bytes of a name; the source's own name comes in front of it.
pub const MAX_NAME_BYTES: usize = 120;

/// Path words that say nothing of a resource.
const EMPTY_WORDS: [&str; 2] = ["api", "rest"];

/// What a name is made from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Named<'d> {
    /// `POST /repos/{owner}/{repo}/issues`: what the name stays with.
    pub(crate) origin: &'d str,
    pub(crate) method: &'d str,
    pub(crate) path: &'d str,
    pub(crate) operation_id: Option<&'d str>,
    pub(crate) first_tag: Option<&'d str>,
}

/// Names that are decided already, by origin.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Decided<'o> {
    /// The operator's choice; it wins.
    pub(crate) overrides: &'o BTreeMap<String, String>,
    /// What each operation was called when it was first accepted.
    pub(crate) given: &'o BTreeMap<String, String>,
}

/// One name for each operation, in their order; and what is wrong with names that were decided.
pub(crate) fn assign(operations: &[Named<'_>], decided: Decided<'_>) -> (Vec<String>, Vec<String>) {
    let proposed: Vec<(&str, String)> =
        operations.iter().map(|operation| (operation.origin, by_rule(operation))).collect();
    assign_proposed(&proposed, decided)
}

/// As [`assign`], for operations whose rule is another.
pub(crate) fn assign_proposed(
    proposed: &[(&str, String)],
    decided: Decided<'_>,
) -> (Vec<String>, Vec<String>) {
    let mut warnings = Vec::new();
    let mut taken = Taken::default();
    let present: BTreeSet<&str> = proposed.iter().map(|(origin, _)| *origin).collect();
    let mut fixed: HashMap<&str, &str> = HashMap::new();
    for (origin, name) in decided.overrides.iter().filter(|(origin, _)| present.contains(origin.as_str())) {
        if !is_name(name) || taken.refuses(name) {
            warnings
                .push(format!("the name {name:?} for {origin} cannot be used: it is taken or not a path"));
            continue;
        }
        taken.take(name);
        fixed.insert(origin, name);
    }
    for (origin, name) in decided.given {
        if fixed.contains_key(origin.as_str()) || !is_name(name) || taken.refuses(name) {
            continue;
        }
        // A name of an operation that is gone stays taken: a grant for it must not come to mean another.
        taken.take(name);
        fixed.insert(origin, name);
    }
    let mut names: Vec<String> = proposed
        .iter()
        .map(|(origin, name)| fixed.get(origin).map_or_else(|| name.clone(), |fixed| (*fixed).to_owned()))
        .collect();
    let free: Vec<usize> = (0..names.len()).filter(|at| !fixed.contains_key(proposed[*at].0)).collect();
    part(&mut names, &free, proposed, &taken);
    (names, warnings)
}

/// Whether a text can be a tool's name below its source.
pub(crate) fn is_name(name: &str) -> bool {
    name.len() <= MAX_NAME_BYTES
        && name.split('.').all(|segment| {
            segment.starts_with(|c: char| c.is_ascii_lowercase())
                && segment.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        })
}

/// Names in use, and every namespace in front of them.
#[derive(Debug, Default)]
struct Taken {
    names: BTreeSet<String>,
    namespaces: BTreeSet<String>,
}

impl Taken {
    fn take(&mut self, name: &str) {
        self.namespaces.extend(namespaces(name).map(str::to_owned));
        self.names.insert(name.to_owned());
    }

    fn refuses(&self, name: &str) -> bool {
        self.names.contains(name)
            || self.namespaces.contains(name)
            || namespaces(name).any(|above| self.names.contains(above))
    }
}

fn namespaces(name: &str) -> impl Iterator<Item = &str> {
    name.match_indices('.').map(|(at, _)| &name[..at])
}

/// Gives every free name that meets another one its origin's hash. A longer hash follows where six digits meet again.
fn part(names: &mut [String], free: &[usize], proposed: &[(&str, String)], taken: &Taken) {
    for digits in [6, 12, 64] {
        let mut count: HashMap<&str, usize> = HashMap::new();
        let mut above: BTreeSet<&str> = taken.namespaces.iter().map(String::as_str).collect();
        for name in names.iter() {
            *count.entry(name).or_default() += 1;
            above.extend(namespaces(name));
        }
        let meets = |name: &str| {
            count.get(name).copied().unwrap_or_default() > 1
                || above.contains(name)
                || taken.names.contains(name)
                || namespaces(name).any(|namespace| taken.names.contains(namespace))
        };
        let parted: Vec<usize> = free.iter().copied().filter(|at| meets(&names[*at])).collect();
        if parted.is_empty() {
            return;
        }
        for at in parted {
            let (origin, by_rule) = &proposed[at];
            names[at] = with_hash(by_rule, origin, digits, taken);
        }
    }
}

fn with_hash(name: &str, origin: &str, digits: usize, taken: &Taken) -> String {
    let hash: String = Sha256::digest(origin.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    let kept = &name[..name.len().min(MAX_NAME_BYTES - digits - 1)];
    let parted = format!("{}_{}", kept.trim_end_matches('.'), &hash[..digits]);
    // Below a tool nothing can stand: what would be its member stands beside it.
    if namespaces(&parted).any(|namespace| taken.names.contains(namespace)) {
        return parted.replace('.', "_");
    }
    parted
}

fn by_rule(operation: &Named<'_>) -> String {
    let segments = match operation.operation_id.map(segments_of) {
        Some(segments) if segments.len() > 1 => segments,
        Some(segments) if segments.len() == 1 => below_its_group(operation, &segments[0]),
        _ => from_path(operation),
    };
    let name = segments.join(".");
    if name.len() <= MAX_NAME_BYTES { name } else { with_hash(&name, operation.origin, 6, &Taken::default()) }
}

fn segments_of(id: &str) -> Vec<String> {
    id.split(['/', '.']).filter_map(snake_case).collect()
}

/// `chat_postMessage` with the tag `chat` is `chat.post_message`.
fn below_its_group(operation: &Named<'_>, id: &str) -> Vec<String> {
    let tag = operation.first_tag.and_then(snake_case);
    let Some(group) = tag.or_else(|| path_words(operation.path).into_iter().next()) else {
        return vec![id.to_owned()];
    };
    let rest = id.strip_prefix(group.as_str()).and_then(|rest| rest.strip_prefix('_'));
    let rest = rest.filter(|rest| rest.starts_with(|c: char| c.is_ascii_lowercase())).unwrap_or(id);
    let rest = rest.to_owned();
    vec![group, rest]
}

fn from_path(operation: &Named<'_>) -> Vec<String> {
    let mut segments = path_words(operation.path);
    if segments.is_empty() {
        segments.push("root".to_owned());
    }
    let is_member = operation.path.trim_end_matches('/').ends_with('}');
    let verb = match operation.method {
        "GET" if is_member => "get",
        "GET" => "list",
        "POST" => "create",
        "PUT" => "replace",
        "PATCH" => "update",
        _ => "delete",
    };
    segments.push(verb.to_owned());
    segments
}

/// A path's words without parameters, versions and words that every path begins with.
fn path_words(path: &str) -> Vec<String> {
    let literal = path.split(['/', '.', ':']).filter(|segment| !segment.contains(['{', '}']));
    let words = literal.filter_map(snake_case);
    words.filter(|word| !EMPTY_WORDS.contains(&word.as_str()) && !is_version(word)).collect()
}

fn is_version(word: &str) -> bool {
    word.strip_prefix('v').is_some_and(|rest| {
        rest.starts_with(|c: char| c.is_ascii_digit()) && rest.chars().all(|c| c.is_ascii_alphanumeric())
    })
}
