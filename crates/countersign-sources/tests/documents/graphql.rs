//! GraphQL schemas as tools: GitHub's whole, and a small one for each rule.

use countersign_sources::RequestError;
use countersign_sources::graphql::{
    FIELDS_ARGUMENT, INTROSPECTION_QUERY, MAX_SCHEMA_BYTES, MAX_SELECTION_BYTES, MAX_SELECTION_DEPTH, Mapped,
    NoResult, Options, Schema,
};
use serde_json::{Value, json};

use crate::generated;
use crate::npm;

const SMALL: &str = r#"
    "The shop." schema { query: Query mutation: Mutation subscription: Subscription }
    scalar Money
    enum Color { RED GREEN @deprecated BLUE }
    interface Node { id: ID! }
    type Query {
        "One product." product(id: ID!, color: Color = RED): Product
        products(first: Int, filter: Filter): ProductConnection!
        search(text: String!, fields: [String!]): [Hit!]!
        count: Int!
        node(id: ID!): Node
        deleteEverything: Boolean
    }
    type Mutation {
        createProduct(input: NewProduct!): ProductPayload
        ping(at: Money): Boolean!
    }
    type Subscription { productChanged: Product }
    type Product implements Node {
        id: ID! name: String price: Money color: Color old: String @deprecated
        reviews(first: Int!): [Review!]! maker: Maker
    }
    type Maker implements Node { id: ID! name: String products(first: Int): ProductConnection maker: Maker }
    type Review { text: String stars(scale: Int = 5, weights: [Weight!]): Float }
    input Filter { color: Color }
    input Weight { by: String, factor: Float! = 1.0 }
    union Hit = Product | Maker
    type ProductConnection { nodes: [Product] pageInfo: PageInfo! totalCount: Int! }
    type PageInfo { hasNextPage: Boolean! endCursor: String }
    type ProductPayload { clientMutationId: String product: Product errors: [UserError!]! }
    type UserError { message: String! }
    input NewProduct { name: String! price: Money! = "0" parts: [NewProduct!] color: Color }
"#;

fn options() -> Options {
    Options { endpoint: "https://shop.example/graphql".to_owned(), ..Options::default() }
}

fn small() -> Mapped {
    Schema::parse(SMALL.as_bytes()).unwrap().map(&options())
}

/// The query that a tool sends for these arguments.
fn query(tool: &str, arguments: Value) -> Result<String, RequestError> {
    let request = small().operations[tool].request(&arguments)?;
    let body: Value = serde_json::from_slice(&request.body.unwrap()).unwrap();
    Ok(body["query"].as_str().unwrap().to_owned())
}

#[test]
fn queries_and_mutations_are_tools_and_subscriptions_are_listed() {
    let mapped = small();
    insta::assert_snapshot!("graphql_offer", serde_json::to_string_pretty(&mapped.offer).unwrap());
    for tool in &mapped.offer.tools {
        jsonschema::draft202012::new(&tool.input_schema.to_value()).unwrap();
    }
}

#[test]
fn values_travel_only_as_variables() {
    let request = small().operations["mutation.create_product"]
        .request(&json!({ "input": { "name": "\") { evil } #" } }))
        .unwrap();
    assert_eq!((request.method.as_str(), request.url.as_str()), ("POST", "https://shop.example/graphql"));
    let body: Value = serde_json::from_slice(&request.body.unwrap()).unwrap();
    assert_eq!(body["variables"], json!({ "input": { "name": "\") { evil } #" } }));
    assert_eq!(
        body["query"],
        "mutation createProduct($input: NewProduct!) { createProduct(input: $input) { clientMutationId product { id name \
         price color } errors { message } } }"
    );
    assert_eq!(body["operationName"], "createProduct");
}

#[test]
fn default_selections_go_as_deep_as_the_answer_needs() {
    for (tool, arguments, wanted) in [
        (
            "query.product",
            json!({ "id": 1 }),
            "query product($id: ID!) { product(id: $id) { id name price color } }",
        ),
        ("query.count", json!({}), "query count { count }"),
        (
            "query.products",
            json!({ "first": 2 }),
            "query products($first: Int) { products(first: $first) { totalCount pageInfo { hasNextPage endCursor } \
             nodes { id name price color } } }",
        ),
        (
            "query.search",
            json!({ "text": "x" }),
            "query search($text: String!) { search(text: $text) { __typename ... on Product { id } ... on Maker { id } } }",
        ),
        ("query.node", json!({ "id": "a" }), "query node($id: ID!) { node(id: $id) { __typename id } }"),
        ("mutation.ping", json!({}), "mutation ping { ping }"),
    ] {
        assert_eq!(query(tool, arguments).unwrap(), wanted, "{tool}");
    }
    let missing = query("query.product", json!({}));
    assert_eq!(missing, Err(RequestError::Missing { argument: "id".to_owned() }));
}

#[test]
fn a_chosen_selection_is_checked_and_written_anew() {
    for (chosen, written) in [
        ("id", "id"),
        ("{ id name }", "id name"),
        ("id # a comment }", "id"),
        ("label: name, maker { id }", "label: name maker { id }"),
        (
            "reviews(first: 3) { text stars(scale: 10, weights: [{by: \"a\\\"b\", factor: 2.5}]) }",
            "reviews(first: 3) { text stars(scale: 10, weights: [{by: \"a\\\"b\", factor: 2.5}]) }",
        ),
        ("__typename ... on Product { id }", "__typename ... on Product { id }"),
        ("... { id }", "... on Product { id }"),
    ] {
        let sent = query("query.product", json!({ "id": 1, "fields": chosen })).unwrap();
        assert_eq!(
            sent,
            format!("query product($id: ID!) {{ product(id: $id) {{ {written} }} }}"),
            "{chosen}"
        );
    }
    // A field that has an argument called `fields` keeps it.
    let sent =
        query("query.search", json!({ "text": "x", "fields": ["a"], "fields_": "__typename" })).unwrap();
    assert_eq!(
        sent,
        "query search($text: String!, $fields: [String!]) { search(text: $text, fields: $fields) { __typename } }"
    );
}

#[test]
fn a_selection_cannot_add_another_field_to_the_root() {
    for injected in [
        "id } } deleteIssue(id: 1) { x",
        "id } deleteEverything",
        "id } deleteEverything root { id",
        "id } } mutation { ping",
        "id } } mutation Evil { ping } query Other { product(id: 1) { id",
        "id } } fragment F on Product { id",
        "id } ... on Query { deleteEverything",
        "{ id } } mutation { ping(at: 1) }",
        "{ id } deleteEverything",
        "...F",
        "id @include(if: true)",
        "reviews(first: $id) { text }",
        "... on Mutation { ping }",
        "... on Query { deleteEverything }",
        "",
        "{}",
        "id }",
        "\u{feff}id } } { deleteEverything",
        "id\u{2028}} } { count",
        "\"\"\"",
        "id #\n} } mutation { ping",
    ] {
        let refused = query("query.product", json!({ "id": 1, "fields": injected }));
        let is_refused =
            matches!(&refused, Err(RequestError::Unusable { argument, .. }) if argument == FIELDS_ARGUMENT);
        assert!(is_refused, "{injected:?} became {refused:?}");
    }
}

#[test]
fn a_selection_must_be_in_the_schema() {
    for (chosen, problem) in [
        ("nothing", "does not have"),
        ("__schema { types { name } }", "does not have"),
        ("maker", "which fields"),
        ("name { x }", "which is a String"),
        ("reviews { text }", "leaves out the argument"),
        ("reviews(first: 1, last: 2) { text }", "which it does not have"),
        ("... on Color { id }", "has no fields"),
        ("... on Review { text }", "is never one"),
    ] {
        let refused = query("query.product", json!({ "id": 1, "fields": chosen })).unwrap_err().to_string();
        assert!(refused.contains(problem), "{chosen}: {refused}");
    }
    assert!(query("query.count", json!({ "fields": "id" })).is_err());
}

#[test]
fn a_selection_is_bounded_in_depth_and_size() {
    let nested = |levels: usize| format!("{}id{}", "maker { ".repeat(levels - 1), " }".repeat(levels - 1));
    let ask = |chosen: String| query("query.product", json!({ "id": 1, "fields": chosen }));
    assert!(ask(nested(MAX_SELECTION_DEPTH)).is_ok());
    assert!(ask(nested(MAX_SELECTION_DEPTH + 1)).unwrap_err().to_string().contains("levels deep"));
    assert!(ask(nested(100_000)).is_err());
    assert!(ask("{".repeat(5000)).is_err());
    assert!(ask(format!("id{}", " ".repeat(MAX_SELECTION_BYTES - 2))).is_ok());
    assert!(ask(format!("id{}", " ".repeat(MAX_SELECTION_BYTES - 1))).is_err());
}

#[test]
fn errors_are_a_failure_and_data_beside_them_is_told() {
    let operation = &small().operations["query.product"];
    let answer = |status, body: Value| operation.result(status, &[], body.to_string().as_bytes());
    assert_eq!(answer(200, json!({ "data": { "product": { "id": "1" } } })), Ok(json!({ "id": "1" })));
    assert_eq!(answer(200, json!({ "data": { "product": null } })), Ok(Value::Null));
    assert_eq!(answer(200, json!({ "data": { "product": null }, "errors": [] })), Ok(Value::Null));
    let partly = json!({
        "data": { "product": { "id": "1", "price": null } },
        "errors": [{ "message": "no price", "path": ["product", "price"], "extensions": { "code": "X", "stack": "secret" } }],
    });
    let failed = answer(200, partly).unwrap_err().answer().clone();
    assert!(failed.body.contains("no price") && failed.body.contains("\"id\":\"1\""), "{failed}");
    assert!(!failed.body.contains("secret"), "{failed}");
    assert_eq!(answer(502, json!({ "data": { "product": {} } })).unwrap_err().answer().status, 502);
    assert!(operation.result(503, &[], b"<html>").unwrap_err().answer().body.contains("<html>"));
    assert!(answer(200, json!({ "data": {} })).is_err());
}

/// Told as failed, an agent would do it again.
#[test]
fn a_mutation_failed_only_where_its_answer_says_so() {
    let mapped = small();
    let operation = &mapped.operations["mutation.create_product"];
    let answer = |status: u16, body: &Value| operation.result(status, &[], body.to_string().as_bytes());
    let error = |path: Value| match path {
        Value::Null => json!({ "message": "no" }),
        path => json!({ "message": "no", "path": path }),
    };
    let field = "createProduct";
    let done = json!({ "data": { field: { "product": { "id": "1", "price": null } } },
        "errors": [error(json!([field, "product", "price"]))] });
    let told = answer(200, &done).unwrap();
    assert_eq!((&told["data"], &told["errors"]), (&done["data"][field], &done["errors"]), "it took effect");
    for (status, body) in [
        (200, json!({ "errors": [error(json!(null))] })),
        (200, json!({ "errors": [error(json!(["mutation createProduct", field]))] })),
        (400, json!({ "errors": [error(json!(null))] })),
        (400, json!({ "data": null, "errors": [error(json!(null))] })),
        (200, json!({ "data": { field: null }, "errors": [error(json!([field]))] })),
        (200, json!({ "data": null, "errors": [error(json!([field]))] })),
        (401, json!({ "message": "who are you" })),
        (500, json!({ "message": "broken" })),
    ] {
        let failed = answer(status, &body).unwrap_err();
        assert!(matches!(failed, NoResult::Failed(_)), "{status} {body}");
    }
    for (status, body) in [
        (200, json!({ "data": { field: null }, "errors": [error(json!([field, "product", "id"]))] })),
        (200, json!({ "data": null, "errors": [error(json!([field, "product", "id"]))] })),
        (200, json!({ "errors": [error(json!([field, "product", "id"]))] })),
        (200, json!({ "data": null, "errors": [error(json!(null))] })),
        (200, json!({ "data": { field: null }, "errors": [error(json!(null))] })),
        (200, json!({ "data": {} })),
        (200, json!({})),
        (500, json!({ "data": { field: { "product": { "id": "1" } } } })),
        (500, json!({ "data": null, "errors": [error(json!([field, "product", "id"]))] })),
    ] {
        let unknown = answer(status, &body).unwrap_err();
        assert!(matches!(unknown, NoResult::Unknown(_)), "{status} {body}");
    }
    assert!(matches!(operation.result(200, &[], b"<html>done</html>"), Err(NoResult::Unknown(_))));
    assert!(matches!(operation.result(503, &[], b"<html>later</html>"), Err(NoResult::Failed(_))));
}

#[test]
fn schemas_that_cannot_be_read_are_refused_with_a_code() {
    let code = |bytes: &[u8]| Schema::parse(bytes).unwrap_err().code();
    assert_eq!(code(&vec![b' '; MAX_SCHEMA_BYTES + 1]), "document_too_large");
    assert_eq!(code(b"type Query {"), "document_syntax");
    assert_eq!(code(b"{\"data\": {}}"), "document_syntax");
    assert_eq!(code(b"type A { a: Int }"), "document_version");
    let fields = |count: usize| {
        let fields: String = (0..count).map(|at| format!("f{at}: Int\n")).collect();
        format!("type Query {{ {fields} }}")
    };
    assert_eq!(Schema::parse(fields(10_000).as_bytes()).unwrap().map(&options()).offer.tools.len(), 10_000);
    assert_eq!(code(fields(10_001).as_bytes()), "document_too_many_operations");
    let hostile = json!({ "__schema": { "queryType": { "name": "Query" }, "types": [{
        "kind": "OBJECT", "name": "Query", "fields": [
            { "name": "ok", "type": { "kind": "SCALAR", "name": "Int" } },
            { "name": "a { b } evil", "type": { "kind": "SCALAR", "name": "Int" } },
            { "name": "b", "type": { "kind": "SCALAR", "name": "Int) { evil" } },
            { "name": "c", "args": [{ "name": "x: 1) { y", "type": { "kind": "SCALAR", "name": "Int" } }], "type": { "kind": "SCALAR", "name": "Int" } },
        ] }] } });
    let mapped = Schema::parse(hostile.to_string().as_bytes()).unwrap().map(&options());
    assert_eq!(
        mapped.offer.tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(),
        ["query.c", "query.ok"]
    );
    assert_eq!(mapped.offer.warnings.len(), 3, "{:?}", mapped.offer.warnings);
}

#[test]
fn an_endpoint_that_cannot_be_called_leaves_everything_listed() {
    for endpoint in ["", "ftp://shop.example", "https://user:secret@shop.example/graphql"] {
        let options = Options { endpoint: endpoint.to_owned(), ..Options::default() };
        let mapped = Schema::parse(SMALL.as_bytes()).unwrap().map(&options);
        assert!(mapped.offer.tools.is_empty());
        assert_eq!(mapped.offer.unmapped.len(), 9, "{endpoint}");
        assert!(!mapped.offer.unmapped[0].reason.contains("secret"));
    }
}

/// Checks every query of this process's tools with graphql-js.
const VALIDATE: &str = r"
    const { buildSchema, parse, validate } = require('graphql');
    const { sdl, queries } = JSON.parse(require('fs').readFileSync(0, 'utf8'));
    const schema = buildSchema(sdl, { assumeValid: true });
    const wrong = queries.map((q) => [q, validate(schema, parse(q), undefined, { maxErrors: 1 })]).filter(([, e]) => e.length);
    process.stdout.write(JSON.stringify(wrong.map(([q, e]) => `${e[0].message}: ${q}`)));
";

fn invalid_queries(sdl: &str, mapped: &Mapped) -> Vec<String> {
    let queries: Vec<String> = mapped
        .offer
        .tools
        .iter()
        .map(|tool| {
            let arguments = generated::arguments(&tool.input_schema.to_value());
            let mut arguments = arguments.unwrap_or_else(|| panic!("no arguments for {}", tool.name));
            // The default selection is what is checked here.
            let is_selection =
                |name: &str, value: &Value| name.starts_with(FIELDS_ARGUMENT) && value.is_string();
            arguments.as_object_mut().unwrap().retain(|name, value| !is_selection(name, value));
            let request = mapped.operations[&tool.name].request(&arguments).unwrap();
            let body: Value = serde_json::from_slice(&request.body.unwrap()).unwrap();
            body["query"].as_str().unwrap().to_owned()
        })
        .collect();
    serde_json::from_str(&npm::node(VALIDATE, &json!({ "sdl": sdl, "queries": queries }).to_string()))
        .unwrap()
}

#[test]
fn every_field_of_github_is_a_tool_whose_query_is_valid() {
    let sdl = String::from_utf8(npm::read("@octokit/graphql-schema/schema.graphql")).unwrap();
    let introspected = npm::read("@octokit/graphql-schema/schema.json");
    let from_sdl = Schema::parse(sdl.as_bytes()).unwrap().map(&options());
    let from_json = Schema::parse(&introspected).unwrap().map(&options());
    for mapped in [&from_sdl, &from_json] {
        let count = |root: &str| mapped.offer.tools.iter().filter(|tool| tool.name.starts_with(root)).count();
        assert!(
            count("query.") >= 30 && count("mutation.") >= 240,
            "{} {}",
            count("query."),
            count("mutation.")
        );
        assert!(mapped.offer.unmapped.is_empty());
        for tool in &mapped.offer.tools {
            jsonschema::draft202012::new(&tool.input_schema.to_value()).unwrap();
            assert_eq!(tool.effects.read_only, tool.name.starts_with("query."), "{}", tool.name);
        }
    }
    assert_eq!(invalid_queries(&sdl, &from_sdl), Vec::<String>::new());
}

#[test]
fn the_introspection_query_is_valid_and_its_answer_offers_what_the_sdl_offers() {
    let program = r"
        const { buildSchema, parse, validate, graphqlSync } = require('graphql');
        const { sdl, query } = JSON.parse(require('fs').readFileSync(0, 'utf8'));
        const schema = buildSchema(sdl);
        const wrong = validate(schema, parse(query));
        if (wrong.length) throw wrong[0];
        process.stdout.write(JSON.stringify(graphqlSync({ schema, source: query })));
    ";
    let answer = npm::node(program, &json!({ "sdl": SMALL, "query": INTROSPECTION_QUERY }).to_string());
    let introspected = Schema::parse(answer.as_bytes()).unwrap().map(&options());
    assert_eq!(introspected.offer, small().offer);
    assert_eq!(invalid_queries(SMALL, &introspected), Vec::<String>::new());
}
