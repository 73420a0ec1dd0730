//! What an admin says of one tool's effect: recorded with who said it, kept over a restart, and nothing asked before it counts.

use std::time::Duration;

use countersign_core::execution::Status;
use countersign_kernel::ports::{
    Acceptance, EffectSetting, SourceConfig, SourceHealth, Sources as _, SourcesError, ToolSettings,
};
use countersign_sdk::EffectClass;
use countersign_sources::{Reading, SourceRegistry};
use countersign_testkit::world::{InTests as _, admin, yes};
use serde_json::json;

use crate::shop::{Mood, Shop, document, order};

const LIST: &str = "shop.orders.list";
const CREATE: &str = "shop.orders.create";

fn says(path: &str, effect: impl Into<Option<EffectClass>>) -> EffectSetting {
    EffectSetting { path: path.to_owned(), effect: effect.into() }
}

/// The details of what one person changed about sources, oldest first.
async fn recorded(shop: &Shop) -> Vec<String> {
    let by = Some(admin().principal.id);
    let all = shop.gateway.audit(0, 1_000).await.unwrap();
    let transitions = all.iter().flat_map(|record| record.parse().unwrap());
    let theirs = transitions.filter(|of| of.what == "SourceChanged" && of.by == by);
    theirs.map(|of| of.detail).collect()
}

#[tokio::test]
async fn an_effect_that_an_admin_sets_counts_at_once_and_is_recorded_with_before_and_after() {
    let shop = Shop::open().await;
    shop.added().await;
    let detail = shop.registry.set_effect(&admin(), "shop", says(LIST, EffectClass::Destroys)).await.unwrap();
    let list = detail.tools.iter().find(|tool| tool.path == LIST).unwrap();
    assert_eq!((list.effect, list.offered_effect), (EffectClass::Destroys, EffectClass::Reads));
    assert_eq!((detail.summary.callable, detail.summary.changed), (2, 0), "it stays accepted");
    assert!(shop.gateway.ask(LIST, json!({})).await.unwrap().paused().is_some());
    shop.registry.set_effect(&admin(), "shop", says(LIST, None)).await.unwrap();
    assert!(shop.gateway.ask(LIST, json!({})).await.unwrap().success(), "as the protocol says");
    let told = recorded(&shop).await;
    let [.., set, taken_back] = &told[..] else { panic!("{told:?}") };
    assert!(set.contains("effect of shop.orders.list: reads before, destroys now"), "{set}");
    assert!(set.contains("tools.destructive +orders.list"), "{set}");
    assert!(taken_back.contains("effect of shop.orders.list: destroys before, reads now"), "{taken_back}");
}

#[tokio::test]
async fn a_question_about_a_tool_is_withdrawn_when_its_effect_is_set() {
    let shop = Shop::open().await;
    shop.added().await;
    let waiting = shop.gateway.ask(CREATE, order()).await.unwrap();
    assert!(waiting.paused().is_some());
    shop.registry.set_effect(&admin(), "shop", says(CREATE, EffectClass::Reads)).await.unwrap();
    let end = shop.gateway.end_of(&waiting).await;
    assert_eq!(end.status, Status::Failed, "{end:?}");
    assert_eq!(shop.service.asked(), [""; 0], "it never ran");
    assert!(shop.gateway.ask(CREATE, order()).await.unwrap().success(), "nobody is asked any more");
}

#[tokio::test]
async fn an_effect_that_an_admin_sets_survives_a_restart() {
    let shop = Shop::open().await;
    shop.added().await;
    shop.registry.set_effect(&admin(), "shop", says(LIST, EffectClass::Destroys)).await.unwrap();
    let gateway = shop.world.start().await;
    let again = SourceRegistry::start(gateway.clone(), vec![], shop.secrets(), Reading::FromTheStart);
    again.await.unwrap().read_all().await;
    assert!(gateway.ask(LIST, json!({})).await.unwrap().paused().is_some());
}

#[tokio::test]
async fn an_effect_that_could_not_count_is_refused_and_changes_nothing() {
    let shop = Shop::open().await;
    let mut config = shop.config();
    config.tools.destructive = vec!["orders.*".to_owned()];
    shop.registry.put(&admin(), config).await.unwrap();
    shop.registry.accept(&admin(), "shop", Acceptance::default()).await.unwrap();
    let before = recorded(&shop).await;
    for wanted in [says(LIST, EffectClass::Reads), says("shop.no.such", EffectClass::Reads)] {
        let refused = shop.registry.set_effect(&admin(), "shop", wanted).await.unwrap_err();
        assert!(matches!(refused, SourcesError::BadConfig(_)), "{refused}");
    }
    let refused = shop.registry.set_effect(&admin(), "else", says(LIST, None)).await.unwrap_err();
    assert_eq!(refused.code(), "source_not_found");
    shop.registry.set_effect(&admin(), "shop", says(LIST, None)).await.unwrap();
    assert_eq!(recorded(&shop).await, before, "nothing changed, nothing is recorded");
}

#[tokio::test]
async fn an_offer_whose_effects_were_set_since_it_was_shown_is_not_what_was_shown() {
    let shop = Shop::open().await;
    let shown = shop.registry.preview(shop.config()).await.unwrap().digest;
    let added = shop.registry.put(&admin(), shop.config()).await.unwrap().digest;
    assert_eq!(added, shown, "adding what was previewed changes nothing");
    let set = shop.registry.set_effect(&admin(), "shop", says(CREATE, EffectClass::Reads)).await.unwrap();
    let accept = async |digest: &str| {
        let what = Acceptance { digest: Some(digest.to_owned()), ..Acceptance::default() };
        shop.registry.accept(&admin(), "shop", what).await
    };
    assert_eq!(accept(&shown).await.unwrap_err().code(), "not_what_was_shown");
    assert_eq!(accept(&set.digest).await.unwrap().summary.callable, 2);
}

#[tokio::test]
async fn the_effects_of_a_source_in_the_file_are_set_in_the_file() {
    let shop = Shop::open().await;
    let gateway = shop.world.start().await;
    let configured = vec![shop.config()];
    let registry =
        SourceRegistry::start(gateway, configured, shop.secrets(), Reading::FromTheStart).await.unwrap();
    registry.read_all().await;
    let refused = registry.set_effect(&admin(), "shop", says(LIST, EffectClass::Writes)).await.unwrap_err();
    assert_eq!(refused.code(), "source_in_file");
}

/// An operation that demands an idempotency key, at a service that takes the request and hangs up.
async fn after_a_lost_answer(settings: ToolSettings) -> Status {
    let shop = Shop::open().await;
    let mut document = document("Lists the orders.", &shop.service.url);
    let key = json!({ "name": "Idempotency-Key", "in": "header", "required": true, "schema": { "type": "string" } });
    document["paths"]["/orders"]["post"]["parameters"] = json!([key]);
    std::fs::write(shop.document(), document.to_string()).unwrap();
    shop.registry.put(&admin(), SourceConfig { tools: settings, ..shop.config() }).await.unwrap();
    shop.registry.accept(&admin(), "shop", Acceptance::default()).await.unwrap();
    shop.service.is_now(Mood::HangsUp);
    let mut arguments = order();
    arguments["Idempotency-Key"] = json!("k-1");
    let waiting = shop.gateway.ask(CREATE, arguments).await.unwrap();
    shop.gateway.ann_says(&waiting, yes()).await.unwrap();
    shop.gateway.end_of(&waiting).await.status
}

/// A source could else lower its own risk: what it said of itself would make a lost answer a failure, which agents try again.
#[tokio::test]
async fn a_lost_answer_is_a_doubt_unless_the_operator_says_that_the_tool_may_run_twice() {
    assert_eq!(after_a_lost_answer(ToolSettings::default()).await, Status::InDoubt);
    let said = ToolSettings { idempotent: vec!["orders.*".to_owned()], ..ToolSettings::default() };
    assert_eq!(after_a_lost_answer(said).await, Status::Failed);
}

/// Whoever accepts while another sets an effect must not bring back the effect from before.
#[tokio::test]
async fn an_acceptance_at_the_same_moment_does_not_undo_an_effect() {
    let shop = Shop::open().await;
    shop.added().await;
    let by = admin();
    for _ in 0..20 {
        shop.registry.set_effect(&by, "shop", says(LIST, None)).await.unwrap();
        let (set, accepted, _) = tokio::join!(
            shop.registry.set_effect(&by, "shop", says(LIST, EffectClass::Destroys)),
            shop.registry.accept(&by, "shop", Acceptance::default()),
            shop.registry.refresh("shop"),
        );
        set.unwrap();
        assert!(accepted.is_ok() || accepted.is_err_and(|error| error.code() == "nothing_to_accept"));
        assert!(shop.gateway.ask(LIST, json!({})).await.unwrap().paused().is_some());
    }
}

#[tokio::test]
async fn a_source_that_could_not_be_read_is_read_later_also_where_an_effect_was_set_meanwhile() {
    let shop = Shop::open().await;
    shop.added().await;
    std::fs::remove_file(shop.document()).unwrap();
    let gateway = shop.world.start().await;
    let again = SourceRegistry::start(gateway.clone(), vec![], shop.secrets(), Reading::FromTheStart);
    let registry = again.await.unwrap();
    registry.read_all().await;
    assert_eq!(registry.list().await[0].health, SourceHealth::Failing);
    registry.set_effect(&admin(), "shop", says(LIST, EffectClass::Destroys)).await.unwrap();
    shop.write_document("Lists the orders.");
    let is_read = async {
        while registry.list().await[0].health != SourceHealth::Ready {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), is_read).await.expect("it is tried again");
    assert!(gateway.ask(LIST, json!({})).await.unwrap().paused().is_some());
}
