//! Seed 002: plugins and tools as their authors define them, and what the gateway does with each field.

#![expect(clippy::unwrap_used, reason = "a test that meets the unexpected stops there")]

use std::sync::{Arc, Mutex};

use countersign_core::execution::Status;
use countersign_kernel::ports::{Credentials, CredentialsError};
use countersign_kernel::{
    BuildError, CallError, CallRequest, Catalog, ExecutionResult, Gateway, HookCall, HookError, HookVerdict,
    PreHook,
};
use countersign_sdk::{
    Approved, AuthKind, AuthProvider, Ctx, LogLevel, Plugin, PluginError, Principal, Remember, SecretString,
    Tool, ToolBuilder, ToolError, UnknownProperties,
};
use countersign_testkit::lab::{self, Done, Keyring, ListIssues, Nothing, What};
use countersign_testkit::ledger::Ledger;
use countersign_testkit::world::{InTests, World, agent, ann, request, service};
use serde_json::{Value, json};

async fn with(world: &World, plugin: Plugin, keys: Vec<(&'static str, &'static str)>) -> Gateway {
    let builder = world.builder(Arc::new(world.disk.clone()));
    world.start_with(builder.plugin(plugin).credentials(Keyring(keys))).await
}

async fn with_github(world: &World) -> Gateway {
    with(world, lab::github(&world.ledger), vec![("github", "gho_of_the_caller")]).await
}

/// A plugin of one tool.
fn own(tool: Tool) -> Plugin {
    Plugin::new("own", "Own", "Tools of this test.").tool(tool)
}

fn named(path: &str) -> ToolBuilder<countersign_sdk::Safe> {
    Tool::new(path).name("Name").describe("Description.")
}

fn contradicts_itself(tool: ToolBuilder<countersign_sdk::Safe>) -> Tool {
    tool.read_only()
        .destructive(|_: &Nothing| "Sure?".to_owned())
        .handler(async |_: Ctx, _: Approved<Nothing>| -> Result<Done, ToolError> { Ok(Done { done: true }) })
}

fn does_nothing(tool: ToolBuilder<countersign_sdk::Safe>) -> Tool {
    tool.handler(async |_: Ctx, _: Nothing| -> Result<Done, ToolError> { Ok(Done { done: true }) })
}

#[test]
fn a_tool_has_every_field_of_the_seed_and_the_seeds_defaults() {
    let plain = does_nothing(Tool::new("a.b").name("N").describe("D"));
    let definition = plain.definition();
    assert_eq!(
        (definition.path.as_str(), definition.name.as_str(), definition.description.as_str()),
        ("a.b", "N", "D")
    );
    assert!(
        !definition.effects.destructive && !definition.effects.idempotent && !definition.effects.open_world
    );
    assert!(!definition.service_account_allowed);
    assert_eq!((&definition.auth_provider, definition.remember), (&None, None));
    assert_eq!(plain.input_schema().unwrap().json()["type"], "object");
    assert_eq!(plain.output_schema().unwrap().json()["properties"]["done"]["type"], "boolean");

    let full = Tool::new("a.c")
        .name("N")
        .describe("D")
        .idempotent()
        .open_world()
        .auth_provider("github")
        .service_account_allowed()
        .remember(Remember::Call)
        .destructive(|i: &What| i.what.clone())
        .handler(async |_: Ctx, _: Approved<What>| -> Result<Done, ToolError> { Ok(Done { done: true }) });
    let definition = full.definition();
    assert!(definition.effects.destructive && definition.effects.idempotent && definition.effects.open_world);
    assert!(definition.service_account_allowed);
    assert_eq!(
        (definition.auth_provider.as_deref(), definition.remember),
        (Some("github"), Some(Remember::Call))
    );
    assert_eq!(full.message(&json!({ "what": "Sure?" })).unwrap().unwrap(), "Sure?");
    assert!(plain.message(&json!({})).is_none());
}

#[test]
fn a_plugin_has_every_field_of_the_seed() {
    let plugin = lab::github(&Ledger::default());
    assert_eq!((plugin.id(), plugin.name()), ("github", "GitHub"));
    assert_eq!(plugin.description(), "GitHub issues, pull requests, and repository operations.");
    let scopes = vec!["repo".to_owned(), "read:user".to_owned()];
    assert_eq!(plugin.providers(), [AuthProvider { id: "github".into(), kind: AuthKind::OAuth2 { scopes } }]);
    let paths: Vec<_> = plugin.tools().iter().map(|t| t.definition().path.as_str()).collect();
    assert_eq!(paths, ["github.issues.list", "github.issues.create", "github.logs.export"]);
}

#[test]
fn the_seeds_naming_rule_is_enforced_at_registration_with_advice() {
    for path in ["github.issues.list", "github.issues.create", "github.repos.search", "a.b_c.d1"] {
        assert!(Catalog::default().register(own(does_nothing(named(path)))).is_ok(), "{path}");
    }
    for (path, says) in [
        ("createIssue", "Did you mean \"create.issue\"?"),
        ("github.Issues.List", "Did you mean \"github.issues.list\"?"),
        ("github_issues_list", "Did you mean \"github.issues.list\"?"),
        ("github", "no namespace"),
        ("", "empty"),
        ("a..b", "empty segment"),
        ("a.1b", "starts with"),
        ("a.\u{202e}b", "only a-z, 0-9 and _ are allowed"),
    ] {
        let errors = Catalog::default().register(own(does_nothing(named(path)))).unwrap_err();
        let text: String = errors.iter().map(ToString::to_string).collect();
        assert!(text.contains(says), "{path:?}: {text}");
    }
}

#[test]
fn everything_that_is_wrong_with_a_plugin_is_said_at_once_and_nothing_of_it_is_added() {
    let mut catalog = Catalog::default();
    let plugin = Plugin::new("own id", "Own", "Own.")
        .tool(does_nothing(named("own.good")))
        .tool(does_nothing(Tool::new("own.bare")))
        .tool(does_nothing(named("Own.Bad")))
        .tool(does_nothing(named("own.good")))
        .tool(does_nothing(named("own.auth").auth_provider("slack")))
        .tool(contradicts_itself(named("own.both")));
    let errors = catalog.register(plugin).unwrap_err();
    let found = |wanted: fn(&PluginError) -> bool| errors.iter().filter(|e| wanted(e)).count();
    assert_eq!(found(|e| matches!(e, PluginError::Id(_))), 1);
    assert_eq!(found(|e| matches!(e, PluginError::Path(_))), 1);
    assert_eq!(found(|e| matches!(e, PluginError::Missing { .. })), 2, "name and description");
    assert_eq!(found(|e| matches!(e, PluginError::DuplicatePath(_))), 1);
    assert_eq!(found(|e| matches!(e, PluginError::UndeclaredProvider { .. })), 1);
    assert_eq!(found(|e| matches!(e, PluginError::Contradiction(path) if path == "own.both")), 1);
    assert!(catalog.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_path_that_another_plugin_has_is_refused_and_stops_the_start() {
    let world = World::new(1);
    let builder = world.builder(Arc::new(world.disk.clone()));
    let error = builder.plugin(own(does_nothing(named("lab.destroy")))).start().await.err().unwrap();
    let BuildError::Plugin { plugin, errors } = &error else { panic!("{error}") };
    assert_eq!(plugin, "own");
    assert!(matches!(&errors[..], [PluginError::DuplicatePath(path)] if path == "lab.destroy"));
    assert!(error.to_string().contains("\"lab.destroy\" is taken by another tool"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn defaults_are_filled_in_before_anybody_sees_the_call() {
    let gateway = with_github(&World::new(1)).await;
    let end = gateway.ask("github.issues.list", json!({ "owner": "o", "repo": "r" })).await.unwrap();
    let expected = json!({ "owner": "o", "repo": "r", "state": "open", "limit": 30 });
    assert_eq!(end.calls[0].args.to_value(), expected);
    let handler_got: ListIssues = serde_json::from_value(end.value.unwrap()["asked"].clone()).unwrap();
    assert_eq!(handler_got.limit, 30);
}

#[tokio::test(start_paused = true)]
async fn invalid_input_is_refused_with_every_violation_before_anything_happens() {
    let gateway = with_github(&World::new(1)).await;
    let bad = json!({ "repo": 7, "state": "ajar", "labels": "none", "limit": 0, "extra": true });
    let error = gateway.ask("github.issues.list", bad).await.unwrap_err();
    assert_eq!(error.code(), "invalid_input");
    let text = error.to_string();
    for place in ["owner", "/repo", "/state", "/labels", "/limit", "extra"] {
        assert!(text.contains(place), "{place} is not in: {text}");
    }
    let none =
        gateway.executions(Default::default(), countersign_kernel::ports::Page::first(10)).await.unwrap();
    assert_eq!(none.items, []);
}

#[tokio::test(start_paused = true)]
async fn invalid_input_of_a_destructive_tool_asks_nobody() {
    let world = World::new(1);
    let gateway = world.start().await;
    let error = gateway.ask("lab.destroy", json!({ "what": ["a"] })).await.unwrap_err();
    assert!(matches!(error, CallError::InvalidInput { .. }), "{error}");
    assert_eq!(gateway.open().await, []);
    assert_eq!(world.ledger.effects(), []);
}

#[tokio::test(start_paused = true)]
async fn a_tool_may_have_unknown_properties_dropped_before_the_person_sees_them() {
    let strict = gateway_with_unknown(UnknownProperties::Refuse).await;
    let error = strict.ask("own.sloppy", json!({ "what": "x", "approved": true })).await.unwrap_err();
    assert_eq!(error.code(), "invalid_input");
    let sloppy = gateway_with_unknown(UnknownProperties::Strip).await;
    let waiting = sloppy.ask("own.sloppy", json!({ "what": "x", "approved": true })).await.unwrap();
    assert_eq!(waiting.paused().unwrap().elicitation.args.to_value(), json!({ "what": "x" }));
}

async fn gateway_with_unknown(unknown: UnknownProperties) -> Gateway {
    let tool = named("own.sloppy")
        .unknown_properties(unknown)
        .destructive(|i: &What| i.what.clone())
        .handler(async |_: Ctx, _: Approved<What>| -> Result<Done, ToolError> { Ok(Done { done: true }) });
    with(&World::new(1), own(tool), vec![]).await
}

/// Something whose JSON is not what its schema says.
#[derive(schemars::JsonSchema)]
struct Liar {
    #[expect(dead_code, reason = "only its schema is looked at")]
    number: u64,
}

impl serde::Serialize for Liar {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json!({ "number": "seven" }).serialize(serializer)
    }
}

#[tokio::test(start_paused = true)]
async fn output_that_does_not_fit_the_schema_is_a_failure_and_not_a_value() {
    let tool = named("own.liar")
        .handler(async |_: Ctx, _: Nothing| -> Result<Liar, ToolError> { Ok(Liar { number: 7 }) });
    let gateway = with(&World::new(1), own(tool), vec![]).await;
    let end = gateway.ask("own.liar", json!({})).await.unwrap();
    assert_eq!((end.status, &end.value), (Status::Failed, &None));
    let error = end.error.unwrap();
    assert_eq!(error.code, "invalid_output");
    assert!(error.message.contains("/number"), "{}", error.message);
}

fn tells_token(path: &str, provider: &'static str) -> Tool {
    named(path).handler(move |ctx: Ctx, _: Nothing| async move {
        let token = ctx.auth().token(provider).await?;
        let length = countersign_sdk::ExposeSecret::expose_secret(&token).len();
        Ok::<_, ToolError>(json!({ "length": length }))
    })
}

async fn token_of(plugin: Plugin, keys: Vec<(&'static str, &'static str)>) -> ExecutionResult {
    with(&World::new(1), plugin, keys).await.ask("own.token", json!({})).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_handler_gets_tokens_only_of_providers_that_its_plugin_declares() {
    let declared = own(tells_token("own.token", "slack")).auth(AuthProvider::api_key("slack"));
    let end = token_of(declared, vec![("slack", "xoxb-12345")]).await;
    assert_eq!(end.value, Some(json!({ "length": 10 })));

    let undeclared =
        token_of(own(tells_token("own.token", "github")), vec![("github", "gho_1234567890")]).await;
    let error = undeclared.error.unwrap();
    assert_eq!(error.code, "auth_not_available");
    assert!(error.message.contains("declares no auth provider \"github\""), "{}", error.message);

    let unset = own(tells_token("own.token", "slack")).auth(AuthProvider::api_key("slack"));
    assert_eq!(token_of(unset, vec![]).await.error.unwrap().code, "auth_not_available");
}

/// Credentials that note who asked for which, and fail with a text that nobody may see.
struct Failing(Arc<Mutex<Vec<String>>>);

#[async_trait::async_trait]
impl Credentials for Failing {
    async fn token(
        &self,
        provider: &AuthProvider,
        by: &Principal,
    ) -> Result<Option<SecretString>, CredentialsError> {
        self.0.lock().unwrap().push(format!("{:?} for {}", provider.kind, by.id));
        Err(CredentialsError("vault password hunter2 refused".into()))
    }
}

#[tokio::test(start_paused = true)]
async fn credentials_are_looked_up_for_the_caller_and_their_failure_stays_inside() {
    let (world, asked) = (World::new(1), Arc::<Mutex<Vec<String>>>::default());
    let builder = world.builder(Arc::new(world.disk.clone())).plugin(lab::github(&world.ledger));
    let gateway = world.start_with(builder.credentials(Failing(Arc::clone(&asked)))).await;
    let end = gateway.ask("github.issues.list", json!({ "owner": "o", "repo": "r" })).await.unwrap();
    let error = end.error.unwrap();
    assert_eq!(error.code, "auth_not_available");
    assert!(!error.message.contains("hunter2"), "{}", error.message);
    assert_eq!(*asked.lock().unwrap(), ["OAuth2 { scopes: [\"repo\", \"read:user\"] } for agent-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_service_account_calls_only_what_allows_it() {
    let gateway = with_github(&World::new(1)).await;
    let session = gateway.open_session(&service(), "cron", None).await.unwrap();
    let as_service = |path: &str, args: Value| CallRequest {
        caller: service(),
        session: session.clone(),
        ..request(path, args)
    };
    assert!(gateway.call(as_service("github.logs.export", json!({}))).await.unwrap().success());
    for (path, args) in [("lab.read", json!({ "what": "x" })), ("lab.destroy", json!({ "what": "x" }))] {
        let error = gateway.call(as_service(path, args)).await.unwrap_err();
        assert_eq!(error.code(), "not_allowed", "{path}");
    }
    assert_eq!(gateway.open().await, []);
}

#[tokio::test(start_paused = true)]
async fn what_a_handler_logs_comes_with_its_result() {
    let gateway = with_github(&World::new(1)).await;
    let end = gateway.ask("github.issues.list", json!({ "owner": "o", "repo": "r" })).await.unwrap();
    assert_eq!(end.logs.len(), 1);
    assert_eq!(end.logs[0].level, LogLevel::Info);
    assert_eq!(end.logs[0].message, "Fetching issues {\"repo\":\"o/r\"}");
}

#[tokio::test(start_paused = true)]
async fn logs_are_bounded_in_number_and_length_and_keep_their_level() {
    let chatty = named("own.chatty").handler(async |ctx: Ctx, _: Nothing| -> Result<Done, ToolError> {
        let log = ctx.logger();
        log.debug("d", Value::Null);
        log.info("i", Value::Null);
        log.warn("w", Value::Null);
        log.error(&"ä".repeat(100_000), Value::Null);
        (0..5_000).for_each(|_| log.info("more", Value::Null));
        Ok(Done { done: true })
    });
    let end = with(&World::new(1), own(chatty), vec![]).await.ask("own.chatty", json!({})).await.unwrap();
    let levels: Vec<_> = end.logs[..4].iter().map(|line| line.level).collect();
    assert_eq!(levels, [LogLevel::Debug, LogLevel::Info, LogLevel::Warn, LogLevel::Error]);
    assert_eq!(end.logs.len(), 1_000);
    assert!(end.logs.iter().all(|line| line.message.len() <= 8 * 1024));
}

#[tokio::test(start_paused = true)]
async fn a_handler_knows_who_called_where_and_under_which_key() {
    let facts = named("own.facts").handler(async |ctx: Ctx, _: Nothing| -> Result<Value, ToolError> {
        Ok(json!({ "who": ctx.principal().id, "session": ctx.session(), "path": ctx.path(),
            "execution": ctx.execution_id(), "key": ctx.idempotency_key() }))
    });
    let end = with(&World::new(1), own(facts), vec![]).await.ask("own.facts", json!({})).await.unwrap();
    let id = end.execution.to_string();
    let expected = json!({ "who": agent().principal.id, "session": "ses_test", "path": "own.facts",
        "execution": id, "key": format!("{id}.0") });
    assert_eq!(end.value, Some(expected));
}

/// A catalog in which one word stands in a path, in a name and in a description.
fn catalog() -> Catalog {
    let tool = |path: &str, name: &str, description: &str| {
        does_nothing(Tool::new(path).name(name).describe(description))
    };
    let plugin = Plugin::new("own", "Own", "Own.")
        .tool(tool("zoo.other", "Other", "Feeds every issue to the lions."))
        .tool(tool("zoo.named", "Issue Feeder", "Feeds."))
        .tool(tool("zoo.issues_archive", "Archive", "Keeps."))
        .tool(tool("zoo.issue", "Single", "One."))
        .tool(tool("zoo.lions", "Lions", "Roar."));
    let mut catalog = Catalog::default();
    catalog.register(plugin).unwrap();
    catalog
}

fn found(query: &str, limit: usize) -> Vec<String> {
    catalog().search(query, limit).iter().map(|hit| hit.tool.path().to_string()).collect()
}

#[test]
fn search_ranks_a_path_above_a_name_above_a_description_and_a_whole_segment_first() {
    assert_eq!(found("issue", 10), ["zoo.issue", "zoo.issues_archive", "zoo.named", "zoo.other"]);
}

#[test]
fn search_wants_every_word_in_any_case_and_order_and_ignores_punctuation() {
    assert_eq!(found("lions", 10), ["zoo.lions", "zoo.other"]);
    assert_eq!(found("LIONS issue", 10), ["zoo.other"]);
    assert_eq!(found("issue, lions!", 10), ["zoo.other"]);
    assert_eq!(found("issue tigers", 10), Vec::<String>::new());
}

#[test]
fn search_gives_everything_for_nothing_and_never_more_than_was_asked_for() {
    assert_eq!(found("", 10).len(), 5);
    assert_eq!(found("\0 \u{202e}", 10).len(), 5, "no word is in it");
    assert_eq!(found("zoo", 2), ["zoo.issue", "zoo.issues_archive"]);
    assert_eq!(found("zoo", 0), Vec::<String>::new());
    let hits = catalog().search("issue", 10);
    assert!(hits.windows(2).all(|pair| pair[0].score >= pair[1].score));
}

#[tokio::test(start_paused = true)]
async fn an_unknown_path_is_refused_with_the_near_misses() {
    let gateway = with_github(&World::new(1)).await;
    for (wrong, right) in [
        ("github.issues.crate", "github.issues.create"),
        ("github.create.issues", "github.issues.create"),
        ("github__issues__create", "github.issues.create"),
        ("GitHub.Issues.List", "github.issues.list"),
        ("github/issues/list", "github.issues.list"),
    ] {
        let error = gateway.ask(wrong, json!({})).await.unwrap_err();
        let CallError::ToolNotFound { near, path } = &error else { panic!("{error}") };
        assert_eq!(path, wrong);
        assert_eq!(near.first().map(|p| p.as_str()), Some(right), "{wrong}: {near:?}");
        assert!(error.to_string().contains(right), "{error}");
    }
    let error = gateway.ask("completely.different", json!({})).await.unwrap_err();
    assert!(error.to_string().contains("search the catalog"), "{error}");
}

/// Notes that it was reached.
struct Reached(Arc<Mutex<bool>>);

#[async_trait::async_trait]
impl PreHook for Reached {
    async fn before(&self, _: HookCall<'_>) -> Result<HookVerdict, HookError> {
        *self.0.lock().unwrap() = true;
        Ok(HookVerdict::Continue)
    }
}

#[tokio::test(start_paused = true)]
async fn an_unknown_path_and_bad_input_reach_no_hook() {
    let world = World::new(1);
    let reached: Arc<Mutex<bool>> = Arc::default();
    let builder = world.builder(Arc::new(world.disk.clone())).pre_hook(Reached(Arc::clone(&reached)));
    let gateway = world.start_with(builder).await;
    gateway.ask("lab.unknown", json!({})).await.unwrap_err();
    gateway.ask("lab.read", json!({ "what": 1 })).await.unwrap_err();
    assert!(!*reached.lock().unwrap());
    gateway.ask("lab.read", json!({ "what": "x" })).await.unwrap();
    assert!(*reached.lock().unwrap());
}

#[tokio::test(start_paused = true)]
async fn the_catalog_shows_what_a_client_needs_to_know_of_a_tool() {
    let gateway = with_github(&World::new(1)).await;
    let catalog = gateway.catalog();
    let tool = catalog.get("github.issues.create").unwrap();
    assert!(tool.effects().destructive);
    assert_eq!(tool.source(), "github");
    assert_eq!(tool.input_schema()["required"], json!(["owner", "repo", "title"]));
    assert_eq!(tool.output_schema()["properties"]["number"]["type"], "integer");
    let paths: Vec<_> = gateway.catalog().iter().map(|t| t.path().to_string()).collect();
    assert!(paths.is_sorted() && paths.len() == gateway.catalog().len());
    let explanation =
        gateway.explain("github.issues.create", &json!({}), &ann(), &countersign_testkit::world::session());
    assert!(explanation.unwrap().to_string().contains("destructive tools ask"));
}
