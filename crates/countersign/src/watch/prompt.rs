//! A line that is being written, and a form that is filled in line by line.

use countersign_sdk::FormSchema;
use serde_json::{Map, Value};

use super::model::Key;
use crate::shown;
use crate::terminal::fields;

/// The longest line that is taken.
const MOST_CHARS: usize = 4_000;

/// A line that is being written.
#[derive(Debug, Clone, Default)]
pub(super) struct Line {
    text: String,
}

impl Line {
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn key(&mut self, key: Key) {
        match key {
            Key::Char(c) => self.push(c),
            Key::Backspace => drop(self.text.pop()),
            // What was pasted is one line here, whatever it was elsewhere.
            Key::Paste(text) => {
                text.chars().map(|c| if c == '\n' { ' ' } else { c }).for_each(|c| self.push(c));
            }
            _ => {}
        }
    }

    fn push(&mut self, c: char) {
        if !c.is_control() && self.text.chars().count() < MOST_CHARS {
            self.text.push(c);
        }
    }
}

/// A form, field by field. Nothing is sent before the person has seen the whole answer.
#[derive(Debug, Clone)]
pub(super) struct Filling {
    schema: FormSchema,
    /// The field that is asked for; past the last one, whether to send it.
    at: usize,
    data: Map<String, Value>,
    line: Line,
    problem: Option<String>,
}

/// What a key did to a form.
pub(super) enum Filled {
    Going,
    Left,
    With(Value),
}

impl Filling {
    /// A form to be filled in; nothing where its schema is not one that can be asked for.
    pub(super) fn of(schema: &Value) -> Option<Self> {
        let schema = FormSchema::new(schema).ok()?;
        Some(Self { schema, at: 0, data: Map::new(), line: Line::default(), problem: None })
    }

    /// What is asked for.
    pub(super) fn prompt(&self) -> String {
        match fields(&self.schema).get(self.at) {
            Some(field) => field.prompt(),
            None => format!(
                "Your answer: {}   [y] send it, anything else: start over",
                shown::line(&Value::Object(self.data.clone()).to_string())
            ),
        }
    }

    /// What was written so far.
    pub(super) fn written(&self) -> &str {
        self.line.text()
    }

    /// What is wrong with the last answer.
    pub(super) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    pub(super) fn key(&mut self, key: Key) -> Filled {
        if key == Key::Escape {
            return Filled::Left;
        }
        let fields = fields(&self.schema);
        let Some(field) = fields.get(self.at) else {
            if key == Key::Char('y') {
                return Filled::With(Value::Object(std::mem::take(&mut self.data)));
            }
            (self.at, self.data) = (0, Map::new());
            return Filled::Going;
        };
        if key != Key::Enter {
            self.line.key(key);
            return Filled::Going;
        }
        match field.read(self.line.text().trim()) {
            Ok(value) => {
                let name = field.name().to_owned();
                self.data.extend(value.map(|value| (name, value)));
                (self.at, self.problem) = (self.at + 1, None);
                self.line = Line::default();
            }
            Err(problem) => self.problem = Some(shown::line(&problem)),
        }
        Filled::Going
    }
}
