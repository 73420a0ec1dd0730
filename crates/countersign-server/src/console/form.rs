//! Fields from a schema: for the forms that tools ask people to fill in, and for trying a tool.
//!
//! A field's name says where its value goes (`data.warehouseId`), `data-type` how the script reads it. The browser checks what
//! it can; the server checks everything.

use countersign_core::visible::has_shape;
use maud::{Markup, html};
use serde_json::Value;

use super::text::text;

/// A text that may be longer than this gets room for several lines.
const ONE_LINE: u64 = 200;

/// Every property as a field; names begin with `prefix`.
pub(super) fn fields(schema: &Value, prefix: &str) -> Markup {
    scoped_fields(schema, prefix, "")
}

/// The same, for a page with several such forms: their elements are told apart by `scope`.
pub(super) fn scoped_fields(schema: &Value, prefix: &str, scope: &str) -> Markup {
    let required = schema.get("required").and_then(Value::as_array);
    let is_required =
        |name: &str| required.is_some_and(|all| all.iter().any(|one| one.as_str() == Some(name)));
    let properties = schema.get("properties").and_then(Value::as_object);
    html! {
        @match properties.filter(|all| !all.is_empty()) {
            None => p.faint { "Nothing to fill in." },
            Some(all) => @for (name, property) in all {
                (Field { name: &format!("{prefix}.{name}"), property: resolve(property, schema), need: need(is_required(name)), label: name, scope }.markup())
            },
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    Required,
    Optional,
}

fn need(is_required: bool) -> Need {
    if is_required { Need::Required } else { Need::Optional }
}

/// A property that only refers to a definition is what that says.
fn resolve<'s>(property: &'s Value, root: &'s Value) -> &'s Value {
    let target =
        property.get("$ref").and_then(Value::as_str).and_then(|at| root.pointer(at.strip_prefix('#')?));
    target.unwrap_or(property)
}

struct Field<'a> {
    name: &'a str,
    property: &'a Value,
    need: Need,
    label: &'a str,
    scope: &'a str,
}

impl Field<'_> {
    fn markup(&self) -> Markup {
        let title = self.text("title").unwrap_or(self.label);
        let id = format!("field-{}{}", self.scope, self.name.replace('.', "-"));
        let hint = format!("{id}-hint");
        let described = self.text("description").map(|_| hint.as_str());
        let required = self.need == Need::Required;
        html! {
            div.field data-field=(self.name) {
                @match self.choices() {
                    Some(choices) if self.is("array") => fieldset.choices { legend { (text(title)) (optional(self.need)) } (self.boxes(&choices)) },
                    Some(choices) => {
                        label for=(id) { (text(title)) (optional(self.need)) }
                        select id=(id) name=(self.name) data-type="choice" required[required] aria-describedby=[described] {
                            @if self.need == Need::Optional || self.property.get("default").is_none() { option value="" { "Choose…" } }
                            @for (value, title) in &choices {
                                option value=(json(value)) selected[self.property.get("default") == Some(value)] { (text(title)) }
                            }
                        }
                    }
                    None if self.is("boolean") => label.check {
                        input id=(id) type="checkbox" name=(self.name) data-type="boolean" checked[self.property.get("default") == Some(&Value::Bool(true))] aria-describedby=[described];
                        " " (text(title))
                    },
                    None => {
                        label for=(id) { (text(title)) (optional(self.need)) }
                        (self.input(&id, described))
                    }
                }
                @if let Some(description) = self.text("description") { p.hint id=(hint) { (text(description)) } }
                @if let Some(default) = self.misleading_default() { p.hint { "The value given here contains: " (text(default)) } }
                p.violation role="alert" {}
            }
        }
    }

    fn input(&self, id: &str, described: Option<&str>) -> Markup {
        let required = self.need == Need::Required;
        let default = self.property.get("default").filter(|value| !value.is_null());
        let shown = default.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        let (least, most) = (self.number("minimum"), self.number("maximum"));
        html! {
            @if self.is("number") || self.is("integer") {
                input id=(id) type="number" name=(self.name) data-type="number" step=(if self.is("integer") { "1" } else { "any" })
                    min=[least] max=[most] value=[shown] required[required] aria-describedby=[described];
            } @else if self.is("string") {
                @if self.length("maxLength").is_some_and(|most| most > ONE_LINE) {
                    textarea id=(id) name=(self.name) data-type="string" rows="4" minlength=[self.length("minLength")] maxlength=[self.length("maxLength")]
                        required[required] aria-describedby=[described] { (shown.unwrap_or_default()) }
                } @else {
                    input id=(id) type=(self.input_type()) name=(self.name) data-type="string" minlength=[self.length("minLength")] maxlength=[self.length("maxLength")]
                        pattern=[self.text("pattern")] value=[shown] required[required] autocomplete="off" aria-describedby=[described];
                }
            } @else {
                textarea id=(id) name=(self.name) data-type="json" rows="3" required[required] spellcheck="false" placeholder="JSON" aria-describedby=[described] { (shown.unwrap_or_default()) }
            }
        }
    }

    fn boxes(&self, choices: &[(Value, String)]) -> Markup {
        let chosen = self.property.get("default").and_then(Value::as_array);
        html! {
            @for (value, title) in choices {
                label.check {
                    input type="checkbox" name=(self.name) data-type="choices" value=(json(value)) checked[chosen.is_some_and(|all| all.contains(value))];
                    " " (text(title))
                }
            }
        }
    }

    /// The values one may choose from, with what people call them: `enum` with `enumNames`, or titled `const`s.
    fn choices(&self) -> Option<Vec<(Value, String)>> {
        let of = if self.is("array") { self.property.get("items")? } else { self.property };
        let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        if let Some(values) = of.get("enum").and_then(Value::as_array) {
            let names = of.get("enumNames").and_then(Value::as_array);
            let named = |n: usize| names.and_then(|names| names.get(n)).and_then(Value::as_str);
            return Some(
                values
                    .iter()
                    .enumerate()
                    .map(|(n, value)| (value.clone(), named(n).map_or_else(|| plain(value), str::to_owned)))
                    .collect(),
            );
        }
        let titled = of.get("oneOf").or_else(|| of.get("anyOf"))?.as_array()?;
        titled
            .iter()
            .map(|one| {
                let value = one.get("const")?;
                Some((
                    value.clone(),
                    one.get("title").and_then(Value::as_str).map_or_else(|| plain(value), str::to_owned),
                ))
            })
            .collect()
    }

    /// A default that an input cannot show as it is: its hidden characters stay in it, and are written out beside it.
    fn misleading_default(&self) -> Option<&str> {
        let default = self.text("default").filter(|_| self.choices().is_none())?;
        default.chars().any(|c| !has_shape(c)).then_some(default)
    }

    fn input_type(&self) -> &'static str {
        match self.text("format") {
            Some("email") => "email",
            Some("uri" | "url") => "url",
            Some("date") => "date",
            Some("password") => "password",
            _ => "text",
        }
    }

    fn is(&self, kind: &str) -> bool {
        match self.property.get("type") {
            Some(Value::String(one)) => one == kind,
            Some(Value::Array(some)) => some.iter().any(|one| one == kind),
            _ => false,
        }
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.property.get(key).and_then(Value::as_str)
    }

    fn number(&self, key: &str) -> Option<String> {
        self.property.get(key).filter(|value| value.is_number()).map(Value::to_string)
    }

    fn length(&self, key: &str) -> Option<u64> {
        self.property.get(key).and_then(Value::as_u64)
    }
}

fn json(value: &Value) -> String {
    value.to_string()
}

fn optional(need: Need) -> Markup {
    html! { @if need == Need::Optional { " " span.faint { "(optional)" } } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn page(properties: &Value) -> String {
        fields(&json!({ "type": "object", "properties": properties, "required": ["a"] }), "data")
            .into_string()
    }

    #[test]
    fn each_kind_of_property_has_its_field() {
        let page = page(&json!({
            "a": { "type": "string", "title": "Mail", "format": "email", "maxLength": 80 },
            "b": { "type": "integer", "minimum": 1, "maximum": 9, "default": 3 },
            "c": { "type": "boolean", "default": true },
            "d": { "type": "string", "enum": ["x", "y"], "enumNames": ["Ex", "Why"], "default": "y" },
            "e": { "type": "array", "items": { "type": "string", "oneOf": [{ "const": "p", "title": "Pea" }] } },
            "f": { "type": "string", "maxLength": 5000 },
            "g": { "type": "object" },
        }));
        for part in [
            "type=\"email\" name=\"data.a\" data-type=\"string\" maxlength=\"80\" required",
            "type=\"number\" name=\"data.b\" data-type=\"number\" step=\"1\" min=\"1\" max=\"9\" value=\"3\"",
            "data-type=\"boolean\" checked",
            "<option value=\"&quot;y&quot;\" selected>Why</option>",
            "data-type=\"choices\" value=\"&quot;p&quot;\"> Pea",
            "<textarea id=\"field-data-f\" name=\"data.f\" data-type=\"string\"",
            "<textarea id=\"field-data-g\" name=\"data.g\" data-type=\"json\"",
        ] {
            assert!(page.contains(part), "{part}\nin {page}");
        }
    }

    #[test]
    fn hidden_characters_of_choices_and_defaults_are_written_out_and_their_values_stay_exact() {
        let choice = json!({ "type": "string", "enum": ["r\u{202e}der"], "default": "r\u{202e}der" });
        let note = json!({ "type": "string", "default": "keep\u{200b}" });
        let page = page(&json!({ "a": choice, "b": note }));
        let option = "<option value=\"&quot;r\u{202e}der&quot;\" selected>r<mark";
        assert!(page.contains(option) && page.contains("U+202E"), "{page}");
        assert!(page.contains("value=\"keep\u{200b}\"") && page.contains("contains: keep<mark"), "{page}");
        assert_eq!(
            page.matches("The value given here contains").count(),
            1,
            "a choice is shown by its title"
        );
    }

    #[test]
    fn a_schema_cannot_bring_markup() {
        let page = page(
            &json!({ "a": { "type": "string", "title": "<script>", "description": "\"><img>", "pattern": "\"x" } }),
        );
        assert!(
            !page.contains("<script>") && !page.contains("<img>") && page.contains("pattern=\"&quot;x\""),
            "{page}"
        );
    }
}
