//! What scripts are told of tools: a zoo of Rust types, through schemars and the catalog, as TypeScript.

#![expect(clippy::unwrap_used, reason = "a test that meets the unexpected stops there")]

use std::collections::{BTreeMap, BTreeSet};

use countersign_kernel::Catalog;
use countersign_sdk::{Approved, Ctx, Plugin, Remember, Tool, ToolError};
use countersign_server::declarations;
use oxc_allocator::Allocator;
use oxc_parser::Parser;
use oxc_span::SourceType;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// What an animal is kept in.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Enclosure {
    /// With bars.
    Cage {
        bars: u16,
    },
    /// With water.
    Tank {
        litres: f64,
        salty: bool,
    },
    Open,
}

#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Diet {
    Plants,
    /// Other animals.
    Meat,
    Of(Vec<String>),
}

#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Size {
    Small,
    Large,
}

/// An animal and its young.
#[derive(Deserialize, Serialize, JsonSchema)]
struct Animal {
    name: String,
    size: Size,
    young: Vec<Animal>,
}

#[derive(Deserialize, Serialize, JsonSchema)]
struct Place {
    /// North, east.
    at: (f64, f64),
    #[serde(rename = "street-name")]
    street: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema is looked at")]
struct Admit {
    /// Its name. */ declare const evil: any; /*
    #[schemars(length(min = 1, max = 40))]
    name: String,
    animal: Animal,
    enclosure: Enclosure,
    diet: Diet,
    from: Place,
    to: Option<Place>,
    /// In kilograms; \u202e is written out.
    #[schemars(range(min = 0.5, max = 9000))]
    weight: f64,
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 12))]
    count: u8,
    /// Whatever else is known.
    #[serde(default)]
    notes: BTreeMap<String, serde_json::Value>,
    #[schemars(
        regex(pattern = r"^[A-Z]{2}-\d+$"),
        description = "Tags,\u{202e} each\u{7}\nunlike the others"
    )]
    tags: BTreeSet<String>,
    #[serde(rename = "2nd keeper")]
    second_keeper: Option<String>,
}

fn one() -> u8 {
    1
}

/// Where it went.
#[derive(Serialize, JsonSchema)]
struct Admitted {
    animal: Animal,
    place: Place,
    #[schemars(with = "String", extend("format" = "date-time"))]
    since: String,
    weights: BTreeMap<String, Vec<Option<f64>>>,
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema is looked at")]
struct Filter {
    #[serde(flatten)]
    page: Page,
    size: Option<Size>,
    #[serde(flatten)]
    sort: Sort,
}

#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema is looked at")]
struct Page {
    /// How many.
    #[serde(default = "thirty")]
    limit: u32,
    cursor: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(tag = "sort")]
#[expect(dead_code, reason = "only its schema is looked at")]
enum Sort {
    Name { reverse: bool },
    Age {},
}

fn thirty() -> u32 {
    30
}

/// Another type of the same name as [`Place`].
mod elsewhere {
    use super::{Deserialize, JsonSchema, Serialize};

    #[derive(Deserialize, Serialize, JsonSchema)]
    pub(super) struct Place {
        pub(super) code: String,
    }
}

#[derive(Serialize, JsonSchema)]
struct Route {
    from: elsewhere::Place,
    to: elsewhere::Place,
}

fn reads<I, O>(path: &str, name: &str, description: &str) -> Tool
where
    I: DeserializeOwned + JsonSchema + Send + 'static,
    O: Serialize + JsonSchema + 'static,
{
    Tool::new(path)
        .name(name)
        .describe(description)
        .handler(async |_: Ctx, _: I| -> Result<O, ToolError> { Err(ToolError::denied("nobody calls it")) })
}

fn destroys(path: &str, remember: Option<Remember>) -> Tool {
    let tool = Tool::new(path).name("Release").describe("Lets it go.");
    let tool = match remember {
        Some(remember) => tool.remember(remember),
        None => tool,
    };
    tool.destructive(|_: &Nothing| "Sure?".to_owned())
        .handler(async |_: Ctx, _: Approved<Nothing>| -> Result<(), ToolError> { Ok(()) })
}

fn zoo() -> Catalog {
    let plugin = Plugin::new("zoo", "Zoo", "Every kind of type.")
        .tool(reads::<Admit, Admitted>(
            "zoo.admit",
            "Admit",
            "Takes an animal in.\n\nA second paragraph, which is much too long to stand on one line and so is broken between two of its words.",
        ))
        .tool(reads::<Nothing, Vec<Animal>>("zoo.animals", "Animals", "Animals of the zoo."))
        .tool(reads::<Filter, BTreeMap<String, Animal>>("zoo.animals.find", "Find", "Finds some."))
        .tool(reads::<Nothing, Route>("zoo.route", "Route", "Says how to get there."))
        .tool(reads::<Nothing, (String, Option<Size>)>("zoo.new", "New", "Is called like a constructor."))
        .tool(destroys("zoo.release.one", Some(Remember::Session)))
        .tool(destroys("zoo.release.all", Some(Remember::Call)))
        .tool(destroys("zoo.release.delete", None));
    let mut catalog = Catalog::default();
    catalog.register(plugin).unwrap();
    catalog
}

#[test]
fn every_kind_of_type_is_declared_as_a_script_would_want_to_read_it() {
    let catalog = zoo();
    let text = declarations(catalog.iter().map(AsRef::as_ref));
    insta::assert_snapshot!(text);
    let allocator = Allocator::default();
    let parsed = Parser::new(&allocator, &text, SourceType::ts()).parse();
    assert!(parsed.diagnostics.is_empty() && !parsed.panicked, "{:?}\n{text}", parsed.diagnostics);
    assert!(text.lines().all(|line| line.chars().count() <= 110), "{text}");
}

#[test]
fn the_order_in_which_tools_are_given_does_not_matter() {
    let catalog = zoo();
    let mut tools: Vec<_> = catalog.iter().map(AsRef::as_ref).collect();
    let there = declarations(tools.iter().copied());
    tools.reverse();
    assert_eq!(declarations(tools.iter().copied()), there);
}

#[test]
fn no_tools_still_give_declarations_that_parse() {
    let text = declarations([]);
    assert!(text.contains("declare const tools: {\n};") && text.contains("sleep"), "{text}");
}
