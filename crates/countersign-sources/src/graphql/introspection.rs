//! Schemas from introspection.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::schema::{Field, InputValue, Schema, SchemaError, TypeDefinition, TypeReference, is_name};

/// The query whose answer [`Schema::parse`] reads.
pub const INTROSPECTION_QUERY: &str = "query Introspection { __schema { \
    queryType { name } mutationType { name } subscriptionType { name } \
    types { kind name description \
    fields(includeDeprecated: true) { name description isDeprecated args { ...Value } type { ...Type } } \
    inputFields { ...Value } interfaces { ...Type } possibleTypes { ...Type } \
    enumValues(includeDeprecated: true) { name } } } } \
    fragment Value on __InputValue { name description defaultValue type { ...Type } } \
    fragment Type on __Type { kind name ofType { kind name ofType { kind name ofType { kind name ofType { kind name \
    ofType { kind name ofType { kind name ofType { kind name } } } } } } } }";

pub(super) fn read(bytes: &[u8]) -> Result<Schema, SchemaError> {
    let syntax = |problem: String| SchemaError::Syntax { format: "introspection JSON", problem };
    let answer: Answer = serde_json::from_slice(bytes).map_err(|error| syntax(error.to_string()))?;
    let told = answer.schema.or(answer.data.and_then(|data| data.schema));
    let Some(told) = told else { return Err(syntax("it has no \"__schema\"".to_owned())) };
    let mut schema = Schema {
        query: told.query_type.map(|one| one.name),
        mutation: told.mutation_type.map(|one| one.name),
        subscription: told.subscription_type.map(|one| one.name),
        ..Schema::default()
    };
    for one in told.types {
        if !is_name(&one.name) {
            schema.warnings.push(format!("the type {:?} is left out: that is no name", one.name));
            continue;
        }
        schema.types.insert(one.name.clone(), definition(one, &mut schema.warnings));
    }
    Ok(schema)
}

#[derive(Deserialize)]
struct Answer {
    #[serde(rename = "__schema")]
    schema: Option<Told>,
    data: Option<Data>,
}

#[derive(Deserialize)]
struct Data {
    #[serde(rename = "__schema")]
    schema: Option<Told>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Told {
    query_type: Option<Named>,
    mutation_type: Option<Named>,
    subscription_type: Option<Named>,
    types: Vec<ToldType>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToldType {
    kind: String,
    name: String,
    description: Option<String>,
    #[serde(default)]
    fields: Option<Vec<ToldField>>,
    #[serde(default)]
    input_fields: Option<Vec<ToldInput>>,
    #[serde(default)]
    interfaces: Option<Vec<ToldReference>>,
    #[serde(default)]
    possible_types: Option<Vec<ToldReference>>,
    #[serde(default)]
    enum_values: Option<Vec<Named>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToldField {
    name: String,
    description: Option<String>,
    #[serde(default)]
    args: Vec<ToldInput>,
    #[serde(rename = "type")]
    kind: ToldReference,
    #[serde(default)]
    is_deprecated: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToldInput {
    name: String,
    description: Option<String>,
    #[serde(rename = "type")]
    kind: ToldReference,
    #[serde(default)]
    default_value: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToldReference {
    kind: String,
    name: Option<String>,
    #[serde(default)]
    of_type: Option<Box<ToldReference>>,
}

fn definition(told: ToldType, warnings: &mut Vec<String>) -> TypeDefinition {
    let names = |list: Option<Vec<ToldReference>>| -> Vec<String> {
        list.into_iter().flatten().filter_map(|one| one.name).filter(|name| is_name(name)).collect()
    };
    let description = told.description;
    let name = told.name;
    match told.kind.as_str() {
        "OBJECT" => TypeDefinition::Object {
            fields: fields(&name, told.fields, warnings),
            interfaces: names(told.interfaces),
        },
        "INTERFACE" => TypeDefinition::Interface { fields: fields(&name, told.fields, warnings) },
        "UNION" => TypeDefinition::Union { members: names(told.possible_types) },
        "ENUM" => {
            let values =
                told.enum_values.into_iter().flatten().map(|one| one.name).filter(|name| is_name(name));
            TypeDefinition::Enum { values: values.collect(), description }
        }
        "INPUT_OBJECT" => {
            let fields = inputs(&name, told.input_fields.unwrap_or_default(), warnings);
            TypeDefinition::Input { fields, description }
        }
        _ => TypeDefinition::Scalar { description },
    }
}

fn fields(owner: &str, told: Option<Vec<ToldField>>, warnings: &mut Vec<String>) -> Vec<Field> {
    let mut kept = BTreeMap::new();
    let mut order = Vec::new();
    for field in told.into_iter().flatten() {
        let Some(kind) = reference(field.kind).filter(|_| is_name(&field.name)) else {
            warnings.push(format!("{owner}.{} is left out: its name or type is unreadable", field.name));
            continue;
        };
        let arguments = inputs(&format!("{owner}.{}", field.name), field.args, warnings);
        let made = Field {
            name: field.name.clone(),
            description: field.description,
            arguments,
            kind,
            is_deprecated: field.is_deprecated,
        };
        if kept.insert(field.name.clone(), made).is_some() {
            warnings.push(format!("{owner}.{} is there twice; the last one counts", field.name));
        } else {
            order.push(field.name);
        }
    }
    order.iter().filter_map(|name| kept.remove(name)).collect()
}

fn inputs(owner: &str, told: Vec<ToldInput>, warnings: &mut Vec<String>) -> Vec<InputValue> {
    let mut made = Vec::with_capacity(told.len());
    for input in told {
        let Some(kind) = reference(input.kind).filter(|_| is_name(&input.name)) else {
            warnings.push(format!("{owner}({}) is left out: its name or type is unreadable", input.name));
            continue;
        };
        made.push(InputValue {
            name: input.name,
            description: input.description,
            kind,
            default: input.default_value,
        });
    }
    made
}

fn reference(told: ToldReference) -> Option<TypeReference> {
    let inner = |told: Option<Box<ToldReference>>| reference(*told?).map(Box::new);
    match told.kind.as_str() {
        "NON_NULL" => inner(told.of_type).map(TypeReference::NonNull),
        "LIST" => inner(told.of_type).map(TypeReference::List),
        _ => told.name.filter(|name| is_name(name)).map(TypeReference::Named),
    }
}
