//! `/api/configuration`: an admin reads what the server runs with.

use countersign_server::wire::{Configuration, Setting};
use serde_json::json;

use crate::house::{House, Who};

#[tokio::test]
async fn an_admin_reads_the_configuration_that_the_server_was_started_with() {
    let house = House::with(|options| {
        let setting = Setting {
            key: "approvals.agent_may_decide".into(),
            value: "true".into(),
            from: "/etc/c.toml:2".into(),
        };
        options.configuration = Configuration {
            file: Some("/etc/c.toml".into()),
            settings: vec![setting],
            ..Configuration::default()
        };
    })
    .await;
    let told = house.get(Who::Admin, "/api/configuration").await.with(200);
    assert_eq!(told["file"], "/etc/c.toml");
    let setting = json!({ "key": "approvals.agent_may_decide", "value": "true", "from": "/etc/c.toml:2" });
    assert_eq!(told["settings"], json!([setting]));
    house.get(Who::Approver, "/api/configuration").await.with(403);
}
