//! Who else is out there: other pages, other ports, prefetchers, agents, and people who logged out.

use reqwest::Method;
use reqwest::header::COOKIE;
use serde_json::json;

use crate::browser::Browser;
use crate::desk::Who;
use crate::house::House;
use crate::stranger::Stranger;

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_only_a_cookie_speaks_for_is_refused() {
    let house = House::open().await;
    let waiting = house.desk.asks("lab.take", json!({})).await;
    let browser = Browser::logged_in(&house.desk, Who::Admin).await;
    let resolve = format!("/api/elicitation/{}/resolve", waiting.elicitation);
    for headers in ["{}", "{ 'x-csrf-token': '' }", "{ 'x-csrf-token': '0'.repeat(64) }"] {
        for (method, path) in [
            ("POST", resolve.as_str()),
            ("POST", "/api/tokens"),
            ("POST", "/logout"),
            ("DELETE", "/api/tokens/tok_x"),
        ] {
            let sent = format!(
                "fetch('{path}', {{ method: '{method}', headers: {{ 'content-type': 'application/json', ...{headers} }},
                   body: '{{\"approved\":true}}' }}).then(async (answer) => [answer.status, (await answer.json()).code])"
            );
            assert_eq!(browser.awaited(&sent).await, json!([403, "csrf"]), "{method} {path} {headers}");
        }
    }
    assert!(house.desk.is_pending(&waiting).await);
    assert_eq!(browser.value("document.cookie").await, "", "no script can read the cookie");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_other_page_can_frame_the_console() {
    let house = House::open().await;
    let waiting = house.desk.asks("lab.take", json!({})).await;
    let browser = Browser::logged_in(&house.desk, Who::Admin).await;
    for path in ["/".to_owned(), waiting.page()] {
        let stranger =
            Stranger::with_page(format!("<iframe src=\"{}{path}\"></iframe>", house.desk.console)).await;
        for site in [stranger.same_site(), stranger.other_site(), stranger.by_address()] {
            browser.visit(&site).await;
            browser.enter_frame().await;
            assert_eq!(
                browser.count("#main, .card, #decide, body[data-page]").await,
                0,
                "{site} frames {path}"
            );
            browser.leave_frame().await;
        }
    }
    let complaints = browser.complaints().await;
    assert!(
        complaints.iter().any(|complaint| complaint.contains("frame-ancestors 'none'")),
        "{complaints:?}"
    );
    let answer = house.desk.http.get(format!("{}/login", house.desk.url)).send().await.unwrap();
    assert_eq!(answer.headers()["x-frame-options"], "DENY", "for browsers that know no better");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_another_origin_cannot_decide_not_even_with_the_cookie_it_is_sent() {
    let house = House::open().await;
    let waiting = house.desk.asks("lab.take", json!({})).await;
    let browser = Browser::logged_in(&house.desk, Who::Admin).await;
    let path = format!("/api/elicitation/{}/resolve", waiting.elicitation);
    let resolve = format!("{}{path}", house.desk.console);
    let form = format!(
        "<form method=post enctype=text/plain action=\"{resolve}\"><input name='{{\"approved\":true,\"comment\":\"' value='\"}}'><button>Win a prize</button></form>"
    );
    let stranger = Stranger::with_page(form).await;
    for site in [stranger.other_site(), stranger.by_address(), stranger.same_site()] {
        assert!(stranger.cookies().is_empty(), "only the console's own host is sent its cookie");
        browser.visit(&site).await;
        for kind in ["application/json", "text/plain"] {
            for mode in ["cors", "no-cors"] {
                let sent = format!(
                    "fetch('{resolve}', {{ method: 'POST', mode: '{mode}', credentials: 'include', headers: {{ 'content-type': '{kind}' }},
                       body: '{{\"approved\":true}}' }}).then((answer) => answer.status, () => 'refused')"
                );
                let answer = browser.awaited(&sent).await;
                assert!(answer == "refused" || answer == 0, "{site} {kind} {mode}: {answer}");
            }
        }
        let read = format!(
            "fetch('{}/', {{ credentials: 'include' }}).then((answer) => answer.text(), () => 'refused')",
            house.desk.console
        );
        assert_eq!(browser.awaited(&read).await, "refused", "nor can it read");
        browser.click("button").await;
        browser.until("the answer is there", "location.pathname.endsWith('/resolve')").await;
        assert!(browser.text("body").await.contains("foreign_origin"), "{}", browser.text("body").await);
        assert!(house.desk.is_pending(&waiting).await, "{site}");
    }
    // Whoever listens on another port and is visited by the console's own name is sent the cookie, and can do nothing with it.
    let cookie = stranger.cookies().into_iter().next().expect("browsers tell hosts apart, not ports");
    for csrf in [None, Some("0".repeat(64)), Some(cookie.clone())] {
        let request = house.desk.http.post(format!("{}{path}", house.desk.url)).header(COOKIE, &cookie);
        let request = request.json(&json!({ "approved": true }));
        let request = csrf.iter().fold(request, |request, csrf| request.header("x-csrf-token", csrf));
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status().as_u16(), 403, "{csrf:?}");
    }
    assert!(house.desk.is_pending(&waiting).await);
    assert!(house.ran.all().is_empty());
    browser.complaints().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn other_ports_of_this_machine_get_no_cookie_and_a_stolen_one_reads_nothing() {
    let house = House::open().await;
    let waiting = house.desk.asks("lab.take", json!({ "secret": "plan" })).await;
    let browser = Browser::logged_in(&house.desk, Who::Admin).await;
    let stolen = browser.cookie().await;
    let stranger = Stranger::with_page("<h1>Another program of this machine</h1>".to_owned()).await;
    for site in [stranger.by_address(), stranger.other_site()] {
        browser.visit(&site).await;
        browser.says("h1", "Another program").await;
    }
    assert_eq!(stranger.cookies(), Vec::<String>::new(), "after two visits");

    let get = async |path: &str| {
        let request = house.desk.http.get(format!("{}{path}", house.desk.url)).header(COOKIE, &stolen);
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    };
    let empty = get("/").await;
    for page in ["/executions", "/audit", "/tokens", "/users", &waiting.page(), &waiting.execution_page()] {
        assert_eq!(get(page).await, empty, "{page}");
    }
    assert!(empty.0 == 200 && empty.1.contains("data-page=\"empty\""), "{empty:?}");
    assert!(!["lab.", "eli_", "plan", "ann"].iter().any(|word| empty.1.contains(word)), "{empty:?}");
    for path in ["/api/elicitation", "/api/whoami", "/api/events", "/api/audit", "/api/tokens", "/api/users"]
    {
        let (status, body) = get(path).await;
        assert!(status == 403 && body.contains("\"csrf\""), "{path}: {status} {body}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_on_another_sites_page_opens_for_whoever_is_logged_in() {
    let house = House::open().await;
    let waiting = house.desk.asks("lab.take", json!({})).await;
    let link = format!("<a href=\"{}{}\">Please look</a>", house.desk.console, waiting.page());
    let stranger = Stranger::with_page(link).await;
    let browser = Browser::logged_in(&house.desk, Who::Admin).await;
    browser.visit(&stranger.other_site()).await;
    browser.click("a").await;
    browser.has_settled(&waiting).await;
    assert!(house.desk.is_pending(&waiting).await, "looking decides nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn following_every_link_of_every_page_changes_nothing() {
    let house = House::open().await;
    let waiting = house.desk.asks("lab.take", json!({ "n": 1 })).await;
    let denied = house.desk.asks("lab.erase", json!({ "what": "x" })).await;
    house.desk.resolve(Who::Approver, &denied, false).await;
    house.desk.end_of(&denied).await;
    let browser = Browser::logged_in(&house.desk, Who::Admin).await;
    let link = house.desk.login_link(Who::Approver).await;
    let before = house.desk.recorded().await;

    // As a prefetcher does: every address that any page mentions, until there are no new ones.
    let crawl = format!(
        "(async () => {{
            const seen = new Set(), todo = ['/', '/elicitations/{}', '{link}'.replace(location.origin, '')];
            while (todo.length) {{
                const at = todo.pop();
                if (seen.has(at)) continue;
                seen.add(at);
                for (const method of ['HEAD', 'GET']) {{
                    const headers = {{ 'x-csrf-token': localStorage.getItem('csrf') }};
                    const answer = await fetch(at, {{ method, headers }});
                    if (!answer.headers.get('content-type')?.startsWith('text/html')) continue;
                    const found = (await answer.text()).matchAll(/(?:href|src|action)=\"([^\"]+)\"/g);
                    for (const [, to] of found) {{
                        const url = new URL(to.replaceAll('&amp;', '&'), location.origin + at);
                        if (url.origin === location.origin) todo.push(url.pathname + url.search);
                    }}
                }}
            }}
            return [...seen];
        }})()",
        waiting.elicitation
    );
    let seen = browser.awaited(&crawl).await;
    let seen: Vec<&str> =
        seen.as_array().unwrap_or_else(|| panic!("{seen}")).iter().map(|at| at.as_str().unwrap()).collect();
    for page in [
        "/executions",
        "/tools/lab.take",
        "/sessions",
        "/audit",
        "/tokens",
        "/users",
        &waiting.page(),
        &denied.execution_page(),
    ] {
        assert!(seen.contains(&page), "{page} was not reached: {seen:?}");
    }
    assert_eq!(house.desk.recorded().await, before, "after {} pages", seen.len());
    assert!(house.desk.is_pending(&waiting).await);
    let other = Browser::open().await;
    other.visit(&link).await;
    assert_eq!(other.count("form[action='/login']").await, 1, "the link that was looked at is still good");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_cannot_log_in_and_an_approver_finds_no_tokens() {
    let house = House::open().await;
    let (status, answer) =
        house.desk.ask(Who::Agent, Method::POST, "/api/login-links", Some(&json!({}))).await;
    assert_eq!((status, &answer["code"]), (403, &json!("not_allowed")));
    let browser = Browser::logged_in(&house.desk, Who::Approver).await;
    assert_eq!(browser.count("nav a[href='/audit']").await, 1);
    assert_eq!(browser.count("a[href='/tokens'], a[href='/users']").await, 0);
    browser.go(&house.desk, "/tokens").await;
    assert!(browser.text("main").await.contains("only an admin may do this"), "it is refused as a page");
    browser.go(&house.desk, "/tools/lab.take").await;
    assert_eq!(browser.count("form[data-api]").await, 0, "who may not call finds no form to call with");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_link_is_good_once_and_logging_out_ends_it() {
    let house = House::open().await;
    let browser = Browser::open().await;
    browser.go(&house.desk, "/executions").await;
    assert!(browser.text("main").await.contains("countersign login"), "it says how to get in");
    let link = house.desk.login_link(Who::Admin).await;
    browser.visit(&link).await;
    browser.visit(&link).await;
    browser.click("form[action='/login'] button").await;
    browser.until("it goes on where one wanted to go", "location.pathname === '/executions'").await;
    browser.visit(&link).await;
    assert!(browser.text("main").await.contains("was used"));

    browser.go(&house.desk, "/").await;
    browser.click("[data-log-out]").await;
    browser.until("it asks for a login", "document.body.dataset.page === 'login'").await;
    for page in ["/", "/executions", "/audit", "/tokens"] {
        browser.go(&house.desk, page).await;
        assert!(browser.text("main").await.contains("countersign login"), "{page}");
    }
    assert_eq!(browser.value("localStorage.getItem('csrf')").await, json!(null));
}
