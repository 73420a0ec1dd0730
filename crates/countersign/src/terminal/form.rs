//! Forms, field by field.
//!
//! Each answer is held against the field's own schema at once, and what is wrong with it is said before it is asked for
//! again. Nothing is sent before the person has seen the whole answer.

use countersign_core::visible::offered_texts;
use countersign_sdk::FormSchema;
use serde_json::{Map, Value, json};

use super::choice::reason;
use super::{Keyboard, Reply, no, yes};
use crate::screen::Screen;
use crate::shown;

/// Asks for every field, shows what they make, and asks whether to send it.
pub(super) async fn fill(schema: &FormSchema, keyboard: &mut Keyboard, screen: Screen) -> Reply {
    loop {
        screen.ask("[f] fill it in   [d] decline   [q] leave it waiting\n> ");
        match keyboard.line().await.as_deref() {
            None | Some("q") => return Reply::Leave,
            Some("d") => return Reply::Answer(no(reason(keyboard, screen).await)),
            Some("f") => {}
            Some(_) => {
                screen.note("Type one of the letters and press Enter.");
                continue;
            }
        }
        let Some(data) = answers(schema, keyboard, screen).await else { return Reply::Leave };
        screen.note(&format!("Your answer\n{}", shown::json_block(&data, "  ", screen.err)));
        screen.ask("[y] send it   anything else: start over\n> ");
        match keyboard.line().await.as_deref() {
            None => return Reply::Leave,
            Some("y") => return Reply::Answer(yes(None, Some(data))),
            Some(_) => {}
        }
    }
}

/// Asks for every field until the person sends what they make; nothing where the input ends.
pub(super) async fn complete(schema: &FormSchema, keyboard: &mut Keyboard, screen: Screen) -> Option<Value> {
    loop {
        let data = answers(schema, keyboard, screen).await?;
        screen.note(&format!("Your answer\n{}", shown::json_block(&data, "  ", screen.err)));
        screen.ask("[y] send it   [q] leave it   anything else: start over\n> ");
        match keyboard.line().await?.as_str() {
            "y" => return Some(data),
            "q" => return None,
            _ => {}
        }
    }
}

/// One field of a form.
pub(crate) struct Field<'f> {
    name: &'f str,
    schema: &'f Value,
    required: bool,
}

/// The fields of a form, in its order.
pub(crate) fn fields(schema: &FormSchema) -> Vec<Field<'_>> {
    let top = schema.as_value();
    let required = |name: &str| top["required"].as_array().is_some_and(|all| all.iter().any(|n| n == name));
    let properties = top["properties"].as_object().into_iter().flatten();
    properties.map(|(name, schema)| Field { name, schema, required: required(name) }).collect()
}

async fn answers(schema: &FormSchema, keyboard: &mut Keyboard, screen: Screen) -> Option<Value> {
    let mut data = Map::new();
    for field in fields(schema) {
        if let Some(value) = field.ask(keyboard, screen).await? {
            data.insert(field.name.to_owned(), value);
        }
    }
    Some(Value::Object(data))
}

impl Field<'_> {
    /// The answer; nothing inside where the field is left out, nothing at all at the end of input.
    async fn ask(&self, keyboard: &mut Keyboard, screen: Screen) -> Option<Option<Value>> {
        loop {
            screen.ask(&format!("{}\n> ", self.prompt()));
            let line = keyboard.line().await?;
            match self.read(&line) {
                Ok(value) => return Some(value),
                Err(problem) => screen.note(&screen.err.red(&shown::line(&problem))),
            }
        }
    }

    pub(crate) fn name(&self) -> &str {
        self.name
    }

    /// What is asked for.
    pub(crate) fn prompt(&self) -> String {
        let text = |key: &str| self.schema[key].as_str().map(shown::line);
        let mut prompt = text("title").unwrap_or_else(|| shown::line(self.name));
        if let Some(description) = text("description") {
            prompt.push_str(&format!(" – {description}"));
        }
        let mut facts = vec![match self.kind() {
            "array" => "several, with commas between".to_owned(),
            "boolean" => "y or n".to_owned(),
            kind => kind.to_owned(),
        }];
        let options = self.options();
        if !options.is_empty() {
            facts.push(format!("one of: {}", options.join(", ")));
        }
        if let Some(default) = self.default() {
            facts.push(format!("Enter for {}", shown::line(&default.to_string())));
        } else if !self.required {
            facts.push("Enter to leave it out".to_owned());
        }
        format!("{prompt} ({})", facts.join("; "))
    }

    fn kind(&self) -> &str {
        self.schema["type"].as_str().unwrap_or("string")
    }

    fn default(&self) -> Option<&Value> {
        self.schema.get("default").filter(|default| !default.is_null())
    }

    /// The values to choose from, with their titles.
    fn options(&self) -> Vec<String> {
        let place = if self.kind() == "array" { &self.schema["items"] } else { self.schema };
        let plain = place["enum"].as_array().into_iter().flatten().filter_map(Value::as_str).map(shown::line);
        let titled = place["oneOf"].as_array().or_else(|| place["anyOf"].as_array()).into_iter().flatten();
        let titled = titled.filter_map(|option| {
            let value = shown::line(option["const"].as_str()?);
            Some(
                option["title"]
                    .as_str()
                    .map_or_else(|| value.clone(), |title| format!("{value} ({})", shown::line(title))),
            )
        });
        plain.chain(titled).collect()
    }

    /// What a line means, held against the field's schema.
    pub(crate) fn read(&self, line: &str) -> Result<Option<Value>, String> {
        if line.is_empty() {
            return match self.default() {
                Some(default) => Ok(Some(default.clone())),
                None if self.required && self.kind() != "string" => Err("This one is needed.".into()),
                None if self.required => self.checked(json!("")),
                None => Ok(None),
            };
        }
        let value = match self.kind() {
            "integer" => {
                line.parse::<i64>().map(Value::from).map_err(|_| format!("{line:?} is no whole number."))?
            }
            "number" => serde_json::from_str::<serde_json::Number>(line)
                .map(Value::Number)
                .map_err(|_| format!("{line:?} is no number."))?,
            "boolean" => match line {
                "y" | "yes" | "true" => json!(true),
                "n" | "no" | "false" => json!(false),
                _ => return Err(format!("{line:?} is neither y nor n.")),
            },
            "array" => {
                let items = line.split(',').map(str::trim).filter(|item| !item.is_empty());
                items.map(|item| self.exact(item)).collect()
            }
            _ => json!(self.exact(line)),
        };
        self.checked(value)
    }

    /// The choice that is shown like this: one with hidden characters cannot be typed otherwise.
    fn exact<'t>(&'t self, typed: &'t str) -> &'t str {
        offered_texts(self.schema).find(|offered| shown::line(offered) == typed).unwrap_or(typed)
    }

    fn checked(&self, value: Value) -> Result<Option<Value>, String> {
        let alone =
            json!({ "type": "object", "properties": { self.name: self.schema }, "required": [self.name] });
        let alone = FormSchema::new(&alone).map_err(|e| e.to_string())?;
        let answer = json!({ self.name: value });
        alone.check(&answer).map_err(|violations| {
            let problems: Vec<String> = violations.into_iter().map(|v| v.problem).collect();
            problems.join("; ")
        })?;
        Ok(Some(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::{Audience, Format, Paint};

    const SCREEN: Screen =
        Screen { format: Format::Text, audience: Audience::Person, out: Paint::Plain, err: Paint::Plain };

    fn schema() -> FormSchema {
        FormSchema::new(&json!({
            "type": "object",
            "required": ["count", "name"],
            "properties": {
                "count": { "type": "integer", "minimum": 1, "maximum": 9 },
                "kind": { "type": "string", "enum": ["a", "b"], "default": "a" },
                "name": { "type": "string", "minLength": 2 },
                "ok": { "type": "boolean" },
                "tags": { "type": "array", "items": { "type": "string", "enum": ["x", "y"] } },
            },
        }))
        .unwrap()
    }

    async fn typed(lines: &[&str]) -> Reply {
        fill(&schema(), &mut Keyboard::typing(lines), SCREEN).await
    }

    #[tokio::test]
    async fn wrong_answers_are_asked_for_again_and_the_rest_is_kept() {
        let lines = ["f", "zero", "0", "10", "3", "c", "b", "", "n", "no", "maybe", "y", "z", "x, y", "y"];
        let reply = typed(&lines).await;
        let data = json!({ "count": 3, "kind": "b", "name": "no", "ok": true, "tags": ["x", "y"] });
        assert_eq!(reply, Reply::Answer(yes(None, Some(data))));
    }

    #[tokio::test]
    async fn defaults_and_optional_fields_may_be_skipped() {
        let data = json!({ "count": 3, "kind": "a", "name": "nn" });
        let sent = Reply::Answer(yes(None, Some(data)));
        assert_eq!(typed(&["f", "3", "", "nn", "", "", "y"]).await, sent);
    }

    #[test]
    fn a_choice_with_hidden_characters_is_chosen_as_it_is_shown_and_stays_exact() {
        let form = json!({ "type": "object", "properties": { "color": { "type": "string", "enum": ["red", "r\u{202e}der"] } } });
        let form = FormSchema::new(&form).unwrap();
        let field = &fields(&form)[0];
        assert!(field.prompt().contains("r⟦U+202E⟧der"), "{}", field.prompt());
        assert_eq!(field.read("r⟦U+202E⟧der"), Ok(Some(json!("r\u{202e}der"))));
        assert!(field.read("r⟦U+202C⟧der").is_err());
    }

    #[tokio::test]
    async fn nothing_is_sent_without_a_last_yes() {
        assert_eq!(typed(&["f", "3", "", "nn", "", "", "n", "q"]).await, Reply::Leave);
        assert_eq!(typed(&["f", "3"]).await, Reply::Leave);
        assert_eq!(typed(&["d", "not now"]).await, Reply::Answer(no(Some("not now".into()))));
    }
}
