//! Schemas from SDL, for services that keep introspection off.
//!
//! Published SDL is not always valid: a field may be there twice. That is a warning, not the end.

use apollo_parser::Parser;
use apollo_parser::cst::{self, CstNode, Definition};

use super::schema::{Field, InputValue, Schema, SchemaError, TypeDefinition, TypeReference};

/// The deepest nesting of values and types.
const MAX_RECURSION: usize = 64;

pub(super) fn read(bytes: &[u8]) -> Result<Schema, SchemaError> {
    let syntax = |problem: String| SchemaError::Syntax { format: "SDL", problem };
    let text = std::str::from_utf8(bytes).map_err(|error| syntax(error.to_string()))?;
    let tree = Parser::new(text).recursion_limit(MAX_RECURSION).parse();
    // The tree's texts can be read without fear only where there was no error.
    if let Some(error) = tree.errors().next() {
        return Err(syntax(format!("{} (at byte {})", error.message(), error.index())));
    }
    let mut schema = Schema::default();
    let mut has_roots = false;
    for definition in tree.document().definitions() {
        match definition {
            Definition::SchemaDefinition(one) => {
                has_roots = true;
                one.root_operation_type_definitions().for_each(|root| read_root(&mut schema, &root));
            }
            Definition::SchemaExtension(one) => {
                one.root_operation_type_definitions().for_each(|root| read_root(&mut schema, &root));
            }
            other => read_type(&mut schema, other),
        }
    }
    for built_in in ["Boolean", "Float", "ID", "Int", "String"] {
        schema.types.entry(built_in.to_owned()).or_insert(TypeDefinition::Scalar { description: None });
    }
    if !has_roots {
        let there = |name: &str| schema.types.contains_key(name).then(|| name.to_owned());
        let roots = (there("Query"), there("Mutation"), there("Subscription"));
        (schema.query, schema.mutation, schema.subscription) = roots;
    }
    Ok(schema)
}

fn read_root(schema: &mut Schema, root: &cst::RootOperationTypeDefinition) {
    let name = root.named_type().and_then(|named| text(named.name()));
    let Some(operation) = root.operation_type() else { return };
    if operation.query_token().is_some() {
        schema.query = name;
    } else if operation.mutation_token().is_some() {
        schema.mutation = name;
    } else if operation.subscription_token().is_some() {
        schema.subscription = name;
    }
}

fn read_type(schema: &mut Schema, definition: Definition) {
    let Some(name) = text(definition.name()) else { return };
    let mut warnings = std::mem::take(&mut schema.warnings);
    let made = match definition {
        Definition::ScalarTypeDefinition(one) => {
            Some(TypeDefinition::Scalar { description: description(one.description()) })
        }
        Definition::ObjectTypeDefinition(one) => Some(TypeDefinition::Object {
            fields: fields(&name, one.fields_definition(), &mut warnings),
            interfaces: interfaces(one.implements_interfaces()),
        }),
        Definition::InterfaceTypeDefinition(one) => {
            Some(TypeDefinition::Interface { fields: fields(&name, one.fields_definition(), &mut warnings) })
        }
        Definition::UnionTypeDefinition(one) => {
            Some(TypeDefinition::Union { members: members(one.union_member_types()) })
        }
        Definition::EnumTypeDefinition(one) => Some(TypeDefinition::Enum {
            values: values(one.enum_values_definition()),
            description: description(one.description()),
        }),
        Definition::InputObjectTypeDefinition(one) => Some(TypeDefinition::Input {
            fields: input_fields(one.input_fields_definition()),
            description: description(one.description()),
        }),
        other => {
            extend(schema, &name, other, &mut warnings);
            None
        }
    };
    if let Some(made) = made
        && schema.types.insert(name.clone(), made).is_some()
    {
        warnings.push(format!("the type {name} is there twice; the last one counts"));
    }
    schema.warnings = warnings;
}

fn extend(schema: &mut Schema, name: &str, definition: Definition, warnings: &mut Vec<String>) {
    match (definition, schema.types.get_mut(name)) {
        (
            Definition::ObjectTypeExtension(one),
            Some(TypeDefinition::Object { fields: known, interfaces: with }),
        ) => {
            known.extend(fields(name, one.fields_definition(), warnings));
            with.extend(interfaces(one.implements_interfaces()));
        }
        // Root types are often only extended.
        (Definition::ObjectTypeExtension(one), None) => {
            let made = TypeDefinition::Object {
                fields: fields(name, one.fields_definition(), warnings),
                interfaces: interfaces(one.implements_interfaces()),
            };
            schema.types.insert(name.to_owned(), made);
        }
        (Definition::InterfaceTypeExtension(one), Some(TypeDefinition::Interface { fields: known })) => {
            known.extend(fields(name, one.fields_definition(), warnings));
        }
        (Definition::UnionTypeExtension(one), Some(TypeDefinition::Union { members: known })) => {
            known.extend(members(one.union_member_types()));
        }
        (Definition::EnumTypeExtension(one), Some(TypeDefinition::Enum { values: known, .. })) => {
            known.extend(values(one.enum_values_definition()));
        }
        (Definition::InputObjectTypeExtension(one), Some(TypeDefinition::Input { fields: known, .. })) => {
            known.extend(input_fields(one.input_fields_definition()));
        }
        _ => {}
    }
}

fn fields(owner: &str, told: Option<cst::FieldsDefinition>, warnings: &mut Vec<String>) -> Vec<Field> {
    let mut made: Vec<Field> = Vec::new();
    for field in told.into_iter().flat_map(|told| told.field_definitions()) {
        let (Some(name), Some(kind)) = (text(field.name()), reference(field.ty())) else { continue };
        let arguments =
            field.arguments_definition().into_iter().flat_map(|told| told.input_value_definitions());
        let directives = field.directives().into_iter().flat_map(|told| told.directives());
        let field = Field {
            description: description(field.description()),
            arguments: arguments.filter_map(|told| input(&told)).collect(),
            kind,
            is_deprecated: directives.filter_map(|one| text(one.name())).any(|name| name == "deprecated"),
            name,
        };
        if let Some(known) = made.iter_mut().find(|known| known.name == field.name) {
            warnings.push(format!("{owner}.{} is there twice; the last one counts", field.name));
            *known = field;
        } else {
            made.push(field);
        }
    }
    made
}

fn input(told: &cst::InputValueDefinition) -> Option<InputValue> {
    Some(InputValue {
        name: text(told.name())?,
        description: description(told.description()),
        kind: reference(told.ty())?,
        default: told.default_value().and_then(|default| default.value()).map(|value| value.source_string()),
    })
}

fn input_fields(told: Option<cst::InputFieldsDefinition>) -> Vec<InputValue> {
    told.into_iter().flat_map(|told| told.input_value_definitions()).filter_map(|told| input(&told)).collect()
}

fn members(told: Option<cst::UnionMemberTypes>) -> Vec<String> {
    told.into_iter().flat_map(|told| told.named_types()).filter_map(|named| text(named.name())).collect()
}

fn interfaces(told: Option<cst::ImplementsInterfaces>) -> Vec<String> {
    told.into_iter().flat_map(|told| told.named_types()).filter_map(|named| text(named.name())).collect()
}

fn values(told: Option<cst::EnumValuesDefinition>) -> Vec<String> {
    let values = told.into_iter().flat_map(|told| told.enum_value_definitions());
    values.filter_map(|one| text(one.enum_value()?.name())).collect()
}

fn reference(told: Option<cst::Type>) -> Option<TypeReference> {
    let list = |list: cst::ListType| Some(TypeReference::List(Box::new(reference(list.ty())?)));
    let named = |named: cst::NamedType| text(named.name()).map(TypeReference::Named);
    match told? {
        cst::Type::NamedType(one) => named(one),
        cst::Type::ListType(one) => list(one),
        cst::Type::NonNullType(one) => {
            let inner = one.named_type().and_then(named).or_else(|| one.list_type().and_then(list));
            Some(TypeReference::NonNull(Box::new(inner?)))
        }
    }
}

fn text(name: Option<cst::Name>) -> Option<String> {
    name.map(|name| name.text().to_string())
}

fn description(told: Option<cst::Description>) -> Option<String> {
    told.and_then(|told| told.string_value()).map(String::from)
}
