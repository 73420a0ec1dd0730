//! Toolsets: filtered, joined, confirmed; and what the model is shown of them.

use std::sync::Arc;

use countersign_agent::toolset::{CompositeToolset, Forecast, StaticToolset};
use countersign_agent::{Toolset, Verdict};
use serde_json::json;

use crate::shop::{Shop, calling, only_result, with};

#[tokio::test]
async fn a_filtered_toolset_shows_and_runs_only_what_it_keeps() {
    let shop = Shop::default();
    let tools =
        StaticToolset::new("all", [shop.read(), shop.delete()]).filtered(|tool| !tool.is_destructive());
    let model = calling("delete_records", &json!({ "table": "logs" }));
    let agent = with(&model).toolset(tools).build().unwrap();
    let (told, is_error) = only_result(&agent.chat("Go").await.unwrap());
    assert!(is_error && told.starts_with("Tool not found: delete_records"), "{told}");
    assert_eq!(model.asked()[0].tools, ["read_file"]);
    assert_eq!(shop.ran().len(), 0);
}

#[tokio::test]
async fn a_composite_toolset_has_the_tools_of_all_its_parts_and_their_confirmations() {
    let shop = Shop::default();
    let parts: [Arc<dyn Toolset>; 2] = [
        Arc::new(StaticToolset::new("reading", [shop.read()]).with_confirmation()),
        Arc::new(StaticToolset::new("money", [shop.transfer()])),
    ];
    let model = calling("read_file", &json!({ "path": "a" }));
    let agent = with(&model)
        .toolset(CompositeToolset::new("all", parts))
        .confirmation(shop.somebody(Verdict::Approve))
        .build()
        .unwrap();
    agent.chat("Go").await.unwrap();
    assert_eq!(model.asked()[0].tools, ["read_file", "transfer"]);
    assert_eq!((shop.asked().len(), shop.ran().len()), (1, 1));
}

#[tokio::test]
async fn with_confirmation_marks_every_tool_of_the_toolset() {
    let shop = Shop::default();
    let dangerous = ["delete_records", "drop_table", "format_disk"].map(|name| shop.destroyer(name));
    let confirmed =
        StaticToolset::new("dangerous", [shop.read()].into_iter().chain(dangerous)).with_confirmation();
    let tools = confirmed.tools().await.unwrap();
    assert_eq!(tools.len(), 4);
    assert!(tools.iter().all(|tool| tool.requires_confirmation()));
    assert!(
        matches!(confirmed.forecast(), Forecast::Tools(known) if known.iter().all(|t| t.requires_confirmation()))
    );
}
