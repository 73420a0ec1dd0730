//! One entry, put into somebody else's configuration. Everything else stays as it was written: order, spacing, comments.
//! What cannot be read is refused, never replaced.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::clients::{NAME, Shape};

/// Why an entry was not put in.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NotMerged {
    /// The file is not what its name says.
    Unreadable(String),
    /// It is, but not in a way that this program dares to change.
    Unfamiliar(String),
}

/// The file's text with the entry in it; none where it is there already.
pub(super) fn merged(text: &str, shape: Shape, entry: &Value) -> Result<Option<String>, NotMerged> {
    match shape {
        Shape::Json { servers } => in_json(text, servers, entry),
        Shape::Toml { servers } => in_toml(text, servers, entry),
    }
}

/// The whole of a file that holds nothing but the entry.
pub(super) fn alone(shape: Shape, entry: &Value) -> String {
    match shape {
        Shape::Json { servers } => pretty(&serde_json::json!({ servers: { NAME: entry } })),
        Shape::Toml { servers } => table(servers, entry),
    }
}

/// An object with its keys in the order in which they were written, and its values as they were written.
struct Written(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Written {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keys;
        impl<'de> Visitor<'de> for Keys {
            type Value = Written;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Written, A::Error> {
                let mut all = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    all.push(pair);
                }
                Ok(Written(all))
            }
        }
        deserializer.deserialize_map(Keys)
    }
}

impl Written {
    fn get(&self, key: &str) -> Option<&RawValue> {
        self.0.iter().find(|(k, _)| k == key).map(|(_, value)| &**value)
    }

    fn set(&mut self, key: &str, value: Box<RawValue>) {
        match self.0.iter_mut().find(|(k, _)| k == key) {
            Some((_, there)) => *there = value,
            None => self.0.push((key.to_owned(), value)),
        }
    }

    fn text(&self, indent: usize) -> String {
        let (inner, outer) = (" ".repeat(indent + 2), " ".repeat(indent));
        let lines: Vec<String> = self
            .0
            .iter()
            .map(|(key, value)| format!("{inner}{}: {}", Value::from(key.as_str()), value.get()))
            .collect();
        format!("{{\n{}\n{outer}}}", lines.join(",\n"))
    }
}

fn in_json(text: &str, servers: &'static str, entry: &Value) -> Result<Option<String>, NotMerged> {
    if text.trim().is_empty() {
        return Ok(Some(alone(Shape::Json { servers }, entry)));
    }
    let read = |text: &str, what: &str| -> Result<Written, NotMerged> {
        serde_json::from_str(text).map_err(|e| NotMerged::Unreadable(format!("{what}: {e}")))
    };
    let mut file = read(text, "it is no JSON object")?;
    let mut all = match file.get(servers) {
        Some(there) => read(there.get(), &format!("\"{servers}\" in it is no object"))?,
        None => Written(Vec::new()),
    };
    if all.get(NAME).and_then(|there| serde_json::from_str::<Value>(there.get()).ok()).as_ref() == Some(entry)
    {
        return Ok(None);
    }
    all.set(NAME, raw(indented(&pretty(entry), 4))?);
    file.set(servers, raw(all.text(2))?);
    Ok(Some(format!("{}\n", file.text(0))))
}

fn in_toml(text: &str, servers: &str, entry: &Value) -> Result<Option<String>, NotMerged> {
    let before: toml::Table =
        text.parse().map_err(|e| NotMerged::Unreadable(format!("it is no TOML: {e}")))?;
    let wanted = toml::Value::try_from(entry).map_err(|e| NotMerged::Unfamiliar(e.to_string()))?;
    if before.get(servers).and_then(|all| all.get(NAME)) == Some(&wanted) {
        return Ok(None);
    }
    let head = format!("[{servers}.{NAME}]");
    let mut lines: Vec<&str> = text.lines().collect();
    if let Some(start) = lines.iter().position(|line| line.trim() == head) {
        let rest = lines[start + 1..].iter().position(|line| line.trim_start().starts_with('['));
        let end = rest.map_or(lines.len(), |offset| start + 1 + offset);
        lines.drain(start..end);
    }
    let kept = lines.join("\n");
    let gap = if kept.trim().is_empty() { "" } else { "\n\n" };
    let after = format!("{}{gap}{}", kept.trim_end(), table(servers, entry));
    // The text was changed by hand, so what it means is checked: the entry is there, and nothing else moved.
    let mut expected = before;
    let all = expected.entry(servers).or_insert_with(|| toml::Table::new().into());
    match all.as_table_mut() {
        Some(all) => drop(all.insert(NAME.to_owned(), wanted)),
        None => return Err(NotMerged::Unfamiliar(format!("`{servers}` in it is no table"))),
    }
    match after.parse::<toml::Table>() {
        Ok(read) if read == expected => Ok(Some(after)),
        _ => Err(NotMerged::Unfamiliar(format!("`{servers}.{NAME}` is written in an unusual way in it"))),
    }
}

/// The TOML table of an entry.
fn table(servers: &str, entry: &Value) -> String {
    let mut text = format!("[{servers}.{NAME}]\n");
    for (key, value) in entry.as_object().into_iter().flatten() {
        // A string or a list of strings is written alike in JSON and in TOML.
        text.push_str(&format!("{key} = {value}\n"));
    }
    text
}

fn pretty(value: &Value) -> String {
    format!("{value:#}")
}

fn indented(text: &str, by: usize) -> String {
    text.replace('\n', &format!("\n{}", " ".repeat(by)))
}

fn raw(text: String) -> Result<Box<RawValue>, NotMerged> {
    RawValue::from_string(text).map_err(|e| NotMerged::Unfamiliar(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const JSON: Shape = Shape::Json { servers: "mcpServers" };
    const TOML: Shape = Shape::Toml { servers: "mcp_servers" };

    fn entry() -> Value {
        json!({ "command": "/usr/bin/countersign", "args": ["--demo", "mcp"] })
    }

    #[test]
    fn everything_else_in_a_json_file_stays_as_it_was_written() {
        let text = "{\n  \"zeta\": [1,  2],\n  \"mcpServers\": { \"other\": {\"command\":  \"x\"} },\n  \"alpha\": 1e2\n}\n";
        let after = merged(text, JSON, &entry()).unwrap().unwrap();
        for kept in ["\"zeta\": [1,  2]", "\"other\": {\"command\":  \"x\"}", "\"alpha\": 1e2"] {
            assert!(after.contains(kept), "{kept} is not in\n{after}");
        }
        assert!(after.find("zeta") < after.find("alpha"), "{after}");
        let read: Value = serde_json::from_str(&after).unwrap();
        assert_eq!(read["mcpServers"]["countersign"], entry());
    }

    #[test]
    fn putting_it_in_twice_is_putting_it_in_once() {
        for (shape, text) in [(JSON, "{}"), (JSON, ""), (TOML, ""), (TOML, "model = \"o\"\n")] {
            let once = merged(text, shape, &entry()).unwrap().unwrap();
            assert_eq!(merged(&once, shape, &entry()), Ok(None), "{once}");
        }
    }

    #[test]
    fn an_older_entry_is_replaced() {
        let older = json!({ "command": "old", "args": [] });
        for shape in [JSON, TOML] {
            let text = merged("", shape, &older).unwrap().unwrap();
            let after = merged(&text, shape, &entry()).unwrap().unwrap();
            assert!(!after.contains("old") && after.contains("--demo"), "{after}");
        }
    }

    #[test]
    fn comments_and_other_tables_of_a_toml_file_stay() {
        let text = "# mine\nmodel = \"o\" # best\n\n[mcp_servers.countersign]\ncommand = \"old\"\n\n[mcp_servers.other]\ncommand = \"x\"\n";
        let after = merged(text, TOML, &entry()).unwrap().unwrap();
        assert!(
            after.starts_with("# mine\nmodel = \"o\" # best\n\n[mcp_servers.other]\ncommand = \"x\"\n"),
            "{after}"
        );
        assert!(
            after.ends_with(
                "[mcp_servers.countersign]\nargs = [\"--demo\",\"mcp\"]\ncommand = \"/usr/bin/countersign\"\n"
            ),
            "{after}"
        );
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        for (shape, text) in
            [(JSON, "{ // a comment\n}"), (JSON, "[]"), (JSON, "{\"mcpServers\": 7}"), (TOML, "a = = 1")]
        {
            assert!(matches!(merged(text, shape, &entry()), Err(NotMerged::Unreadable(_))), "{text}");
        }
        for text in ["mcp_servers = 7", "mcp_servers = { countersign = { command = \"x\" } }"] {
            assert!(matches!(merged(text, TOML, &entry()), Err(NotMerged::Unfamiliar(_))), "{text}");
        }
    }
}
