//! The console's pages as a browser gets them: logged in through a link, fetched with the cookie and the page's key.

use serde_json::Value;

use crate::server::{Home, read_token};

impl Home {
    /// The main part of a console page, as an admin's browser gets it.
    pub(crate) async fn page(&self, path: &str) -> String {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let admin = read_token(&self.data(), "admin");
        let browser = reqwest::Client::builder().no_proxy().build().unwrap();
        let url = |path: &str| format!("{}{path}", self.url);
        let link = browser.post(url("/api/login-links")).bearer_auth(admin).send().await.unwrap();
        let link: Value = link.json().await.unwrap();
        let code = link["url"].as_str().unwrap().rsplit('=').next().unwrap().to_owned();
        let form = browser.post(url("/login")).header("content-type", "application/x-www-form-urlencoded");
        let entered = form.header("origin", &self.url).body(format!("code={code}")).send().await.unwrap();
        let cookie = entered.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
        let entered = entered.text().await.unwrap();
        let key = entered.split("data-csrf=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
        let asked = browser.get(url(path)).header("cookie", cookie).header("x-csrf-token", key);
        let answer = asked.send().await.unwrap();
        assert!(answer.status().is_success(), "{path}: {answer:?}");
        answer.text().await.unwrap()
    }
}

/// The text of a page, without its markup.
pub(crate) fn text_of(page: &str) -> String {
    page.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text)).collect()
}
