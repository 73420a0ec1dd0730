//! How a document tells the variants of a choice apart, in words: JSON Schema has no keyword for it. Pure.

use serde_json::{Map, Value};

/// The longest sentence; a document may have hundreds of variants.
const MAX_TOLD_CHARS: usize = 300;

/// The sentence for a schema with a `discriminator`. `name_of` knows what a reference is called in the schema that is made.
pub(super) fn told(
    keywords: &Map<String, Value>,
    name_of: impl Fn(&str) -> Option<String>,
) -> Option<String> {
    let (property, mapping) = match keywords.get("discriminator")? {
        Value::Object(said) => (said.get("propertyName")?.as_str()?, said.get("mapping")),
        // Swagger 2 names the property alone.
        Value::String(property) => (property.as_str(), None),
        _ => return None,
    };
    let name = |reference: &str| {
        name_of(reference).unwrap_or_else(|| reference.rsplit('/').next().unwrap_or_default().to_owned())
    };
    let variants: Vec<(String, String)> = match mapping
        .and_then(Value::as_object)
        .filter(|map| !map.is_empty())
    {
        Some(mapping) => {
            mapping.iter().filter_map(|(value, to)| Some((value.clone(), name(to.as_str()?)))).collect()
        }
        // Without a mapping a variant's value is the name that its schema has in the document.
        None => references(keywords)
            .map(|reference| (reference.rsplit('/').next().unwrap_or_default().to_owned(), name(reference)))
            .collect(),
    };
    Some(sentence(property, &variants))
}

fn references(keywords: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let lists = ["oneOf", "anyOf"].into_iter().filter_map(|key| keywords.get(key)?.as_array());
    lists.flatten().filter_map(|variant| variant.get("$ref")?.as_str())
}

fn sentence(property: &str, variants: &[(String, String)]) -> String {
    let mut text = format!("`{property}` says which variant it is");
    for (number, (value, name)) in variants.iter().enumerate() {
        let words = if value == name { format!("`{value}`") } else { format!("`{value}` is {name}") };
        if text.chars().count() + words.chars().count() + 3 > MAX_TOLD_CHARS {
            text.push_str(", …");
            break;
        }
        text.push_str(if number == 0 { ": " } else { ", " });
        text.push_str(&words);
    }
    text.push('.');
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "a schema is written where it is used")]
    fn of(schema: Value) -> Option<String> {
        told(schema.as_object().unwrap(), |_| None)
    }

    #[test]
    fn each_way_of_naming_variants_is_told() {
        let choice = json!([{ "$ref": "#/components/schemas/Cat" }, { "$ref": "#/components/schemas/Dog" }]);
        let mapping = json!({ "cat": "#/components/schemas/Cat", "Dog": "Dog" });
        for (schema, expected) in [
            (
                json!({ "oneOf": choice, "discriminator": { "propertyName": "kind", "mapping": mapping } }),
                "`kind` says which variant it is: `Dog`, `cat` is Cat.",
            ),
            (
                json!({ "anyOf": choice, "discriminator": { "propertyName": "kind" } }),
                "`kind` says which variant it is: `Cat`, `Dog`.",
            ),
            (json!({ "discriminator": "kind" }), "`kind` says which variant it is."),
        ] {
            assert_eq!(of(schema.clone()).as_deref(), Some(expected), "{schema}");
        }
        for nothing in
            [json!({}), json!({ "discriminator": 7 }), json!({ "discriminator": { "mapping": {} } })]
        {
            assert_eq!(of(nothing), None);
        }
    }

    #[test]
    fn hundreds_of_variants_are_told_up_to_a_bound() {
        let mapping: Map<String, Value> = (0..300).map(|n| (format!("v{n:03}"), json!("X"))).collect();
        let told = of(json!({ "discriminator": { "propertyName": "kind", "mapping": mapping } })).unwrap();
        assert!(told.chars().count() <= MAX_TOLD_CHARS && told.ends_with(", …."), "{told}");
    }
}
