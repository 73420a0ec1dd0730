//! The keys of a `countersign.toml`, read as text with their lines. Rules are the policy's to read, and sources are in `sources`.

use toml::de::{DeTable, DeValue};

/// A key of the file, and with it a variable of the environment.
pub(super) struct Key {
    pub(super) name: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Truth,
    /// Strings; in a variable, with commas between them.
    List,
}

/// A value that somebody wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) key: &'static str,
    pub(super) text: String,
    pub(super) origin: Origin,
}

/// Where a value was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// On this line of the file, from 1.
    Line(usize),
    /// In the key's variable.
    Variable,
}

/// All keys but those of rules and sources.
pub(super) const KEYS: &[Key] = &[
    Key { name: "listen", kind: Kind::Text },
    Key { name: "data_dir", kind: Kind::Text },
    Key { name: "public_url", kind: Kind::Text },
    Key { name: "hosts", kind: Kind::List },
    Key { name: "origins", kind: Kind::List },
    Key { name: "mcp.surface", kind: Kind::Text },
    Key { name: "mcp.hold", kind: Kind::Text },
    Key { name: "approvals.expires", kind: Kind::Text },
    Key { name: "approvals.remember", kind: Kind::Text },
    Key { name: "approvals.remember_for", kind: Kind::Text },
    Key { name: "approvals.agent_may_decide", kind: Kind::Truth },
    Key { name: "approvals.client_elicitation", kind: Kind::Text },
    Key { name: "approvals.park_after", kind: Kind::Text },
    Key { name: "sandbox.allow_weaker", kind: Kind::Truth },
    Key { name: "approvals.writes", kind: Kind::Text },
];

impl Key {
    /// The variable that overrides it.
    pub(super) fn variable(&self) -> String {
        variable_of(self.name)
    }
}

/// `approvals.expires` is `COUNTERSIGN_APPROVALS_EXPIRES`.
pub(super) fn variable_of(key: &str) -> String {
    format!("COUNTERSIGN_{}", key.to_ascii_uppercase().replace('.', "_"))
}

/// What the file says, and what of it makes no sense, by line. A file that is no TOML gives neither: the policy, which
/// reads the same text, says so.
pub(super) fn read(text: &str) -> (Vec<Entry>, Vec<(usize, String)>) {
    let mut reading = Reading { text, entries: Vec::new(), errors: Vec::new() };
    if let Ok(document) = DeTable::parse(text) {
        reading.table(document.get_ref(), "");
    }
    (reading.entries, reading.errors)
}

struct Reading<'t> {
    text: &'t str,
    entries: Vec<Entry>,
    errors: Vec<(usize, String)>,
}

impl Reading<'_> {
    fn table(&mut self, table: &DeTable<'_>, prefix: &str) {
        for (key, value) in table {
            let name = format!("{prefix}{}", key.get_ref());
            let line = line_at(self.text, key.span().start);
            match (name.as_str(), value.get_ref()) {
                ("rule" | "source", _) => {}
                (section @ ("approvals" | "mcp" | "sandbox"), DeValue::Table(below)) => {
                    self.table(below, &format!("{section}."));
                }
                (section @ ("approvals" | "mcp" | "sandbox"), _) => {
                    self.errors.push((line, format!("{section} is a table: write [{section}]")));
                }
                ("database_url", _) => {
                    let reason = "database_url is not supported by this version, which keeps everything in data_dir; remove it";
                    self.errors.push((line, reason.into()));
                }
                (name, value) => self.value(name, value, line),
            }
        }
    }

    fn value(&mut self, name: &str, value: &DeValue<'_>, line: usize) {
        let Some(key) = KEYS.iter().find(|key| key.name == name) else {
            let known: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
            self.errors.push((
                line,
                format!("there is no key `{name}`; there are {}, [[rule]] and [[source]]", known.join(", ")),
            ));
            return;
        };
        let text = match (key.kind, value) {
            (Kind::Text, DeValue::String(text)) => text.to_string(),
            (Kind::Truth, DeValue::Boolean(truth)) => truth.to_string(),
            (Kind::List, DeValue::Array(items)) => {
                let texts: Option<Vec<&str>> = items.iter().map(|item| item.get_ref().as_str()).collect();
                match texts {
                    Some(texts) => texts.join(","),
                    None => return self.errors.push((line, format!("{name} must be a list of strings"))),
                }
            }
            (Kind::List, _) => {
                return self.errors.push((line, format!("{name} must be a list, such as [\"a\"]")));
            }
            (Kind::Text, _) => {
                return self.errors.push((line, format!("{name} must be a string, in quotes")));
            }
            (Kind::Truth, _) => {
                return self.errors.push((line, format!("{name} must be true or false, without quotes")));
            }
        };
        self.entries.push(Entry { key: key.name, text, origin: Origin::Line(line) });
    }
}

/// The line of an offset, from 1.
pub(super) fn line_at(text: &str, offset: usize) -> usize {
    let before = text.as_bytes().get(..offset).unwrap_or_default();
    before.iter().filter(|byte| **byte == b'\n').count() + 1
}
