//! The console's login: a link that is good once or a token; a cookie that neither reads nor changes anything by itself.

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::house::{House, Who};

/// A browser that is logged in.
struct Browser<'a> {
    house: &'a House,
    cookie: String,
    csrf: String,
}

impl<'a> Browser<'a> {
    async fn logged_in(house: &'a House, who: Who) -> Self {
        Self::holding(house, &press(house, &link(house, who).await).await)
    }

    /// What the page after the button gives.
    fn holding(house: &'a House, welcome: &Answer) -> Self {
        assert_eq!(welcome.status, 200, "{}", welcome.text);
        let cookie = welcome.header("set-cookie").split(';').next().unwrap().to_owned();
        let csrf = welcome.text.split("data-csrf=\"").nth(1).and_then(|rest| rest.split('"').next());
        Self { house, cookie, csrf: csrf.expect("the page hands the token over").to_owned() }
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.house.request(Who::Nobody, method, path).header("cookie", &self.cookie)
    }

    /// Reads, as a page of the console does.
    async fn get(&self, path: &str) -> Answer {
        let request = self.request(Method::GET, path).header("x-csrf-token", &self.csrf);
        Answer::of(request.send().await.unwrap()).await
    }

    /// Decides, with this as its CSRF token.
    async fn decides(&self, elicitation: &str, csrf: Option<&str>) -> Answer {
        let path = format!("/api/elicitation/{elicitation}/resolve");
        let mut request = self.request(Method::POST, &path).json(&json!({ "approved": true }));
        if let Some(csrf) = csrf {
            request = request.header("x-csrf-token", csrf);
        }
        Answer::of(request.send().await.unwrap()).await
    }
}

/// The code of a fresh link.
async fn link(house: &House, who: Who) -> String {
    let link: Value = house.post(who, "/api/login-links", json!(null)).await.with(201);
    let url = link["url"].as_str().unwrap();
    let code = url.strip_prefix(&format!("{}/login?code=", house.base)).unwrap();
    assert!(code.len() >= 32 && code.bytes().all(|b| b.is_ascii_hexdigit()), "{code}");
    code.to_owned()
}

/// Presses the button of a link.
async fn press(house: &House, code: &str) -> Answer {
    let request = house.request(Who::Nobody, Method::POST, "/login");
    let form =
        request.header("content-type", "application/x-www-form-urlencoded").body(format!("code={code}"));
    Answer::of(form.send().await.unwrap()).await
}

#[tokio::test]
async fn opening_a_link_uses_nothing_up_and_pressing_its_button_does_once() {
    let house = House::open().await;
    let code = link(&house, Who::Approver).await;
    for _ in 0..3 {
        let page = house.get(Who::Nobody, &format!("/login?code={code}")).await;
        assert!(page.status == 200 && page.text.contains("<form method=\"post\""), "{}", page.text);
        assert!(page.headers.get("set-cookie").is_none());
        let head =
            house.request(Who::Nobody, Method::HEAD, &format!("/login?code={code}")).send().await.unwrap();
        assert_eq!(head.status(), 200);
    }
    assert_eq!(press(&house, &code).await.status, 200);
    press(&house, &code).await.turned_away(410, "link_used");
    assert_eq!(house.get(Who::Nobody, &format!("/login?code={code}")).await.status, 410);
}

#[tokio::test]
async fn the_button_counts_on_the_servers_own_page_and_on_no_other() {
    let house = House::open().await;
    let code = link(&house, Who::Approver).await;
    let form = "application/x-www-form-urlencoded";
    for (origin, status) in [("null", 403), ("https://evil.example", 403), (house.base.as_str(), 200)] {
        let request = house.request(Who::Nobody, Method::POST, "/login").header("origin", origin);
        let request = request.header("content-type", form).body(format!("code={code}"));
        assert_eq!(request.send().await.unwrap().status(), status, "{origin}");
    }
}

#[tokio::test]
async fn of_many_who_press_at_once_one_gets_in() {
    let house = House::open().await;
    let code = link(&house, Who::Approver).await;
    let all = futures_util::future::join_all((0..20).map(|_| press(&house, &code))).await;
    assert_eq!(all.iter().filter(|answer| answer.status == 200).count(), 1);
}

#[tokio::test]
async fn a_link_is_good_for_ten_minutes() {
    let house = House::open().await;
    let code = link(&house, Who::Approver).await;
    house.world.clock.jump(10 * 60 * 1000 + 1);
    press(&house, &code).await.turned_away(410, "link_used");
}

#[tokio::test]
async fn codes_that_were_never_given_log_nobody_in() {
    let house = House::open().await;
    link(&house, Who::Approver).await;
    for code in ["", "0", &"0".repeat(64), "%00", "<script>alert(1)</script>", "'; --"] {
        press(&house, code).await.turned_away(410, "link_used");
        let page = house.get(Who::Nobody, &format!("/login?code={code}")).await;
        let status = if code.is_empty() { 200 } else { 410 };
        assert!(page.status == status && !page.text.contains("<script>"), "{code}: {}", page.text);
    }
}

#[tokio::test]
async fn the_login_page_loads_nothing_of_others_frames_nowhere_and_is_kept_by_nobody() {
    let house = House::open().await;
    let code = link(&house, Who::Approver).await;
    let page = house.get(Who::Nobody, &format!("/login?code={code}")).await;
    let csp = page.header("content-security-policy");
    assert!(csp.contains("default-src 'none'") && csp.contains("frame-ancestors 'none'"), "{csp}");
    // With none at all a browser would send the form from the origin `null`, which is refused.
    assert_eq!(page.header("referrer-policy"), "same-origin");
    assert_eq!(page.header("cache-control"), "no-store");
    assert_eq!(page.header("x-content-type-options"), "nosniff");
}

#[tokio::test]
async fn the_cookie_is_for_this_site_alone_and_out_of_scripts_reach() {
    let house = House::open().await;
    let answer = press(&house, &link(&house, Who::Approver).await).await;
    let cookie = answer.header("set-cookie");
    for flag in [
        &format!("countersign-{}=", house.server.address().port()),
        "HttpOnly",
        "SameSite=Strict",
        "Path=/",
        "Max-Age=",
    ] {
        assert!(cookie.contains(flag), "{flag} in {cookie}");
    }
    assert!(!cookie.contains("Domain") && !cookie.contains("Secure"), "{cookie}");
    assert!(
        !cookie.contains(house.secret(Who::Approver).unwrap()),
        "the token itself never goes to a browser"
    );
    let public =
        House::with(|options| options.links = countersign_server::Links::below("https://gate.example.com"))
            .await;
    let made = public.post(Who::Approver, "/api/login-links", json!(null)).await.with(201);
    let code = made["url"]
        .as_str()
        .unwrap()
        .strip_prefix("https://gate.example.com/login?code=")
        .unwrap()
        .to_owned();
    assert!(press(&public, &code).await.header("set-cookie").contains("; Secure"));
}

#[tokio::test]
async fn a_cookie_reads_and_changes_nothing_without_its_csrf_token() {
    let house = House::open().await;
    let waiting = house.wants_to_destroy("a").await;
    let (ann, bob) = (
        Browser::logged_in(&house, Who::Approver).await,
        Browser::logged_in(&house, Who::OtherApprover).await,
    );
    ann.get("/api/elicitation?status=pending").await.with(200);
    for path in ["/api/elicitation?status=pending", "/api/whoami", "/api/events", "/api/audit"] {
        let alone = Answer::of(ann.request(Method::GET, path).send().await.unwrap()).await;
        alone.refused(403, "csrf");
    }
    for path in ["/", "/executions", &format!("/elicitations/{}", waiting.elicitation)] {
        let alone = Answer::of(ann.request(Method::GET, path).send().await.unwrap()).await;
        assert_eq!(alone.status, 200);
        assert!(alone.text.contains("data-page=\"empty\""), "{}", alone.text);
        assert!(!alone.text.contains("destroy") && !alone.text.contains("eli_"), "{}", alone.text);
    }
    let (csrf, of_another) = (ann.csrf.clone(), bob.csrf.clone());
    assert_ne!(csrf, of_another);
    for wrong in [
        None,
        Some(""),
        Some("x"),
        Some(of_another.as_str()),
        Some(&csrf[..csrf.len() - 1]),
        Some(&csrf.to_uppercase()),
    ] {
        ann.decides(&waiting.elicitation, wrong).await.refused(403, "csrf");
    }
    assert_eq!((house.open_questions().await.len(), house.effects().len()), (1, 0));
    ann.decides(&waiting.elicitation, Some(&csrf)).await.with(200);
    let decided =
        house.get(Who::Approver, &format!("/api/elicitation/{}", waiting.elicitation)).await.with(200);
    assert_eq!(decided["decision"]["channel"], "console");
    assert_eq!(decided["decision"]["by"], house.key(Who::Approver).caller.principal.id.as_str());
}

#[tokio::test]
async fn every_changing_route_wants_the_csrf_token_of_a_cookie() {
    let house = House::open().await;
    let admin = Browser::logged_in(&house, Who::Admin).await;
    let before = house.recorded().await;
    for (method, path, _) in crate::roles::requests() {
        if matches!(method, Method::GET) || path == "/login" {
            continue;
        }
        let mut request = admin.request(method.clone(), &crate::roles::address(path));
        if let Some(body) = crate::roles::body(&method, path) {
            request = request.json(&body);
        }
        let answer = Answer::of(request.send().await.unwrap()).await;
        answer.refused_as(crate::roles::is_page(path), 403, "csrf");
    }
    assert_eq!(house.recorded().await, before);
}

#[tokio::test]
async fn a_cookie_that_was_made_up_altered_or_grown_old_is_nobodys() {
    let house = House::open().await;
    let browser = Browser::logged_in(&house, Who::Approver).await;
    let (name, value) = browser.cookie.split_once('=').unwrap();
    let (login, seal) = value.split_once('.').unwrap();
    let other = Browser::logged_in(&house, Who::Admin).await;
    let others = other.cookie.split_once('=').unwrap().1.split_once('.').unwrap().0;
    for forged in [
        format!("{others}.{seal}"),
        format!("log_{:032x}.{seal}", 1),
        format!("{login}.{}", "0".repeat(64)),
        login.to_owned(),
        format!("{login}."),
        String::new(),
        "..".to_owned(),
        browser.csrf.clone(),
    ] {
        let request = house
            .request(Who::Nobody, Method::GET, "/api/whoami")
            .header("x-csrf-token", &browser.csrf)
            .header("cookie", format!("{name}={forged}"));
        Answer::of(request.send().await.unwrap()).await.refused(401, "unauthenticated");
    }
    browser.get("/api/whoami").await.with(200);
    house.world.clock.jump(12 * 60 * 60 * 1000 + 1);
    browser.get("/api/whoami").await.refused(401, "unauthenticated");
}

#[tokio::test]
async fn revoking_the_token_logs_its_browsers_out_at_once() {
    let house = House::open().await;
    let browser = Browser::logged_in(&house, Who::Approver).await;
    let unused = link(&house, Who::Approver).await;
    let csrf = browser.csrf.clone();
    let waiting = house.wants_to_destroy("a").await;
    let id = house.key(Who::Approver).caller.token.unwrap();
    assert_eq!(house.delete(Who::Admin, &format!("/api/tokens/{id}")).await.status, 204);
    browser.get("/api/whoami").await.refused(401, "unauthenticated");
    browser.decides(&waiting.elicitation, Some(&csrf)).await.refused(401, "unauthenticated");
    press(&house, &unused).await.turned_away(410, "link_used");
    assert_eq!(house.open_questions().await.len(), 1);
}

/// The same cookie as a server on another port calls it.
fn renamed(cookie: &str, house: &House) -> String {
    let value = cookie.split_once('=').unwrap().1;
    format!("countersign-{}={value}", house.server.address().port())
}

#[tokio::test]
async fn nobody_can_ask_for_the_csrf_token_of_a_cookie_again() {
    let house = House::open().await;
    let browser = Browser::logged_in(&house, Who::Admin).await;
    for (method, path, _) in crate::roles::requests() {
        if method != Method::GET || ["/api/events", "/mcp"].contains(&path) {
            continue;
        }
        let answer = browser.get(&crate::roles::address(path)).await;
        assert!(!answer.text.contains(&browser.csrf), "{path}");
    }
}

#[tokio::test]
async fn servers_on_two_ports_of_a_host_do_not_log_each_others_browsers_out() {
    let (one, other) = (House::open().await, House::open().await);
    let (here, there) =
        (Browser::logged_in(&one, Who::Admin).await, Browser::logged_in(&other, Who::Admin).await);
    let both = format!("{}; {}", here.cookie, there.cookie);
    for (house, csrf) in [(&one, &here.csrf), (&other, &there.csrf)] {
        let request = house.request(Who::Nobody, Method::GET, "/api/whoami").header("cookie", &both);
        let request = request.header("x-csrf-token", csrf);
        Answer::of(request.send().await.unwrap()).await.with(200);
    }
}

#[tokio::test]
async fn a_cookie_outlives_a_restart_and_a_link_does_not() {
    let house = House::open().await;
    let browser = Browser::logged_in(&house, Who::Approver).await;
    let (cookie, csrf) = (browser.cookie.clone(), browser.csrf.clone());
    let unused = link(&house, Who::Approver).await;
    let waiting = house.wants_to_destroy("a").await;
    let house = house.after().await;
    let browser = Browser { house: &house, cookie: renamed(&cookie, &house), csrf: csrf.clone() };
    browser.decides(&waiting.elicitation, Some(&csrf)).await.with(200);
    press(&house, &unused).await.turned_away(410, "link_used");
}

#[tokio::test]
async fn logging_out_ends_the_login_for_every_copy_of_the_cookie() {
    let house = House::open().await;
    let browser = Browser::logged_in(&house, Who::Approver).await;
    let other = Browser::logged_in(&house, Who::Approver).await;
    let waiting = house.wants_to_destroy("a").await;
    let csrf = browser.csrf.clone();
    let answer = Answer::of(
        browser.request(Method::POST, "/logout").header("x-csrf-token", csrf).send().await.unwrap(),
    )
    .await;
    assert_eq!(answer.status, 204);
    assert!(answer.header("set-cookie").contains("=; Path=/"), "{}", answer.header("set-cookie"));
    assert!(answer.header("set-cookie").contains("Max-Age=0"));
    browser.get("/api/whoami").await.refused(401, "unauthenticated");
    browser.decides(&waiting.elicitation, Some(&browser.csrf)).await.refused(401, "unauthenticated");
    other.get("/api/whoami").await.with(200);
}

#[tokio::test]
async fn logging_out_and_disabling_a_user_end_their_streams_at_once() {
    let house = House::open().await;
    let (one, other) =
        (Browser::logged_in(&house, Who::Approver).await, Browser::logged_in(&house, Who::Approver).await);
    let stream = async |browser: &Browser<'_>| {
        let request = browser.request(Method::GET, "/api/events").header("x-csrf-token", &browser.csrf);
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        response
    };
    let (first, second) = (stream(&one).await, stream(&other).await);
    let out = one.request(Method::POST, "/logout").header("x-csrf-token", &one.csrf).send();
    assert_eq!(out.await.unwrap().status(), 204);
    first.bytes().await.expect("the stream ends by itself");
    other.get("/api/whoami").await.with(200);
    let user = house.key(Who::Approver).caller.principal.id.to_string();
    house.patch(Who::Admin, &format!("/api/users/{user}"), json!({ "disabled": true })).await.with(200);
    second.bytes().await.expect("the stream ends by itself");
    other.get("/api/whoami").await.refused(401, "unauthenticated");
}

#[tokio::test]
async fn a_token_logs_a_person_in_and_an_agents_token_nobody() {
    let house = House::open().await;
    let paste = async |secret: &str| {
        let request = house.request(Who::Nobody, Method::POST, "/login");
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        Answer::of(request.body(format!("token=+{secret}%0A")).send().await.unwrap()).await
    };
    let browser = Browser::holding(&house, &paste(house.secret(Who::Approver).unwrap()).await);
    let me = browser.get("/api/whoami").await.with(200);
    assert_eq!(me["userName"], "approver");
    for who in [Who::Agent, Who::Service, Who::Revoked] {
        paste(house.secret(who).unwrap()).await.turned_away(403, "token_refused");
    }
    for nonsense in ["", "cs_0", "%00"] {
        assert_ne!(paste(nonsense).await.status, 200, "{nonsense}");
    }
}

#[tokio::test]
async fn an_invite_lets_its_user_in_once_and_decisions_are_theirs() {
    let house = House::open().await;
    let user = house
        .post(Who::Admin, "/api/users", json!({ "name": "carol", "roles": ["approver"] }))
        .await
        .with(201);
    let invite = house.post(Who::Admin, "/api/users/carol/invite", json!(null)).await.with(201);
    let code = invite["url"].as_str().unwrap().rsplit_once("code=").unwrap().1.to_owned();
    let browser = Browser::holding(&house, &press(&house, &code).await);
    press(&house, &code).await.turned_away(410, "link_used");
    let waiting = house.wants_to_destroy("a").await;
    browser.decides(&waiting.elicitation, Some(&browser.csrf)).await.with(200);
    let decided = house.get(Who::Admin, &format!("/api/elicitation/{}", waiting.elicitation)).await.with(200);
    assert_eq!(decided["decision"]["by"], user["userId"]);
    assert_eq!(decided["decision"]["byName"], "carol");
    assert_eq!(decided["decision"]["proof"], "login");
    // Somebody without a role has nothing to do in the console.
    house.post(Who::Admin, "/api/users", json!({ "name": "dave" })).await.with(201);
    house.post(Who::Admin, "/api/users/dave/invite", json!(null)).await.refused(409, "user_inactive");
}
