//! One headless Chromium, driven over WebDriver.
//!
//! Promises: when it goes, its processes go; what a failed test had on its screen is kept as a picture; and a test that ends well had
//! nothing in the browser's console, neither errors nor violations of the content security policy.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::time::{Duration, Instant};

use fantoccini::actions::{InputSource as _, KeyAction, KeyActions};
use fantoccini::wd::{WebDriverCompatibleCommand, WindowHandle};
use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use reqwest::{Method, Url};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::desk::{Desk, PATIENCE, Waiting, Who};
use crate::installed::{self, chromedriver, chromium};

/// Without a sandbox of its own, because CI is root; and without calling home.
const FLAGS: [&str; 13] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-default-browser-check",
    "--no-proxy-server",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--window-size=1280,800",
];
/// The key.
pub(crate) const ENTER: &str = "\u{e007}";
/// How long a request must have been on the screen before it can be approved, and a little more.
pub(crate) const SETTLED: Duration = Duration::from_millis(650);

/// What happens to a key that is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyEvent {
    Down,
    /// The browser says again that it is down.
    Repeat,
    Up,
}

/// How colours are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    Light,
    Dark,
}

/// A screen's size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Screen {
    Desktop,
    Phone,
}

/// The browser.
pub(crate) struct Browser {
    client: Client,
    driver: Child,
    /// Its profile, and what it downloads.
    folder: TempDir,
}

impl Browser {
    /// Starts one that knows nothing.
    pub(crate) async fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (driver, address) = start_driver();
        let profile = format!("--user-data-dir={}", folder.path().join("profile").display());
        let flags: Vec<&str> = FLAGS.into_iter().chain([profile.as_str()]).collect();
        let wanted = json!({
            "browserName": "chrome",
            "goog:chromeOptions": { "binary": chromium(), "args": flags },
            "goog:loggingPrefs": { "browser": "ALL" },
        });
        let mut builder = ClientBuilder::new(HttpConnector::new());
        builder.capabilities(wanted.as_object().unwrap().clone());
        let client = builder.connect(&address).await.expect("ChromeDriver starts Chromium");
        Self { client, driver, folder }
    }

    /// Starts one in which somebody is logged in, and looks at the inbox.
    pub(crate) async fn logged_in(desk: &Desk, who: Who) -> Self {
        let browser = Self::open().await;
        browser.log_in(desk, who).await;
        browser
    }

    /// Logs in as a person does: by a link and its button.
    pub(crate) async fn log_in(&self, desk: &Desk, who: Who) {
        self.visit(&desk.login_link(who).await).await;
        self.click("form[action='/login'] button").await;
        self.until("the inbox is there", "document.body.dataset.page === 'inbox'").await;
    }

    pub(crate) async fn visit(&self, address: &str) {
        self.client.goto(address).await.unwrap();
        self.is_filled().await;
    }

    /// Waits until a page has fetched what is on it.
    pub(crate) async fn is_filled(&self) {
        self.until("the page is filled", "document.body && document.body.dataset.page !== 'empty'").await;
    }

    /// Opens another tab of the same browser, and gives the one that was left.
    pub(crate) async fn new_tab(&self) -> WindowHandle {
        let left = self.client.window().await.unwrap();
        let tab = self.client.new_window(true).await.unwrap();
        self.client.switch_to_window(tab.handle).await.unwrap();
        left
    }

    /// Goes to another tab.
    pub(crate) async fn switch_to(&self, tab: WindowHandle) {
        self.client.switch_to_window(tab).await.unwrap();
    }

    /// The cookie that logs this browser in, as it is sent.
    pub(crate) async fn cookie(&self) -> String {
        let all = self.client.get_all_cookies().await.unwrap();
        let ours = all.iter().find(|cookie| cookie.name().starts_with("countersign-"));
        let ours = ours.expect("the browser has a cookie of the console");
        format!("{}={}", ours.name(), ours.value())
    }

    /// Opens a page of the console.
    pub(crate) async fn go(&self, desk: &Desk, path: &str) {
        self.visit(&format!("{}{path}", desk.console)).await;
    }

    /// Opens a request's own page, and leaves it there long enough to be read.
    pub(crate) async fn read(&self, desk: &Desk, waiting: &Waiting) {
        self.go(desk, &waiting.page()).await;
        self.has_settled(waiting).await;
    }

    /// Waits until a request is the one on the screen, and long enough for keys to count.
    pub(crate) async fn has_settled(&self, waiting: &Waiting) {
        let id = &waiting.elicitation;
        self.until(
            "the request is on the screen",
            &format!("document.querySelector('#request')?.dataset.id === '{id}'"),
        )
        .await;
        tokio::time::sleep(SETTLED).await;
    }

    /// What an expression is in the page.
    pub(crate) async fn value(&self, expression: &str) -> Value {
        self.try_value(expression).await.unwrap_or_else(|e| panic!("{expression}: {e}"))
    }

    async fn try_value(&self, expression: &str) -> Result<Value, String> {
        self.client.execute(&format!("return ({expression})"), Vec::new()).await.map_err(|e| e.to_string())
    }

    /// The same, of an expression that takes its time.
    pub(crate) async fn awaited(&self, expression: &str) -> Value {
        let script = format!(
            "const done = arguments[arguments.length - 1]; (async () => ({expression}))().then(done, (e) => done('' + e))"
        );
        self.client.execute_async(&script, Vec::new()).await.unwrap_or_else(|e| panic!("{expression}: {e}"))
    }

    /// Runs statements in the page.
    pub(crate) async fn run(&self, script: &str, arguments: Vec<Value>) -> Value {
        self.client.execute(script, arguments).await.unwrap()
    }

    /// Waits until something is so in the page, whichever page that is by then.
    pub(crate) async fn until(&self, what: &str, expression: &str) {
        let begun = Instant::now();
        loop {
            let found = self.try_value(expression).await;
            if found.as_ref().is_ok_and(is_true) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "in vain: {what}: {expression} is {found:?}");
            tokio::time::sleep(Duration::from_millis(15)).await;
        }
    }

    /// Waits until an element says something.
    pub(crate) async fn says(&self, selector: &str, words: &str) {
        let (selector, words) = (json!(selector), json!(words));
        let expression = format!("(document.querySelector({selector})?.textContent ?? '').includes({words})");
        self.until("it says so", &expression).await;
    }

    /// The text of an element, folded and hidden parts too.
    pub(crate) async fn text(&self, selector: &str) -> String {
        let found =
            self.value(&format!("document.querySelector({})?.textContent ?? null", json!(selector))).await;
        found.as_str().unwrap_or_else(|| panic!("there is no {selector}")).to_owned()
    }

    /// How many elements there are.
    pub(crate) async fn count(&self, selector: &str) -> u64 {
        self.value(&format!("document.querySelectorAll({}).length", json!(selector))).await.as_u64().unwrap()
    }

    /// The address that is open, without the server's part.
    pub(crate) async fn path(&self) -> String {
        self.client.current_url().await.unwrap().path().to_owned()
    }

    /// The page as it is now, markup and all.
    pub(crate) async fn source(&self) -> String {
        self.client.source().await.unwrap()
    }

    /// Clicks on what is there. A page that is drawn anew between finding and clicking has the same element again.
    pub(crate) async fn click(&self, selector: &str) {
        let begun = Instant::now();
        loop {
            let found = self.client.find(Locator::Css(selector)).await;
            match found.unwrap_or_else(|e| panic!("{selector}: {e}")).click().await {
                Ok(()) => return,
                Err(error) if error.is_stale_element_reference() && begun.elapsed() < PATIENCE => {}
                Err(error) => panic!("{selector}: {error}"),
            }
        }
    }

    /// Clicks on what asks back, and says yes.
    pub(crate) async fn click_and_agree(&self, selector: &str) {
        self.click(selector).await;
        self.client.accept_alert().await.unwrap();
    }

    /// Types into a field that is found.
    pub(crate) async fn write(&self, selector: &str, text: &str) {
        let field = self.client.find(Locator::Css(selector)).await.unwrap();
        field.clear().await.unwrap();
        field.send_keys(text).await.unwrap();
    }

    /// Presses keys, one after another, wherever the focus is.
    pub(crate) async fn press(&self, keys: &str) {
        let pressed = keys.chars().fold(KeyActions::new("keyboard".to_owned()), |keys, value| {
            keys.then(KeyAction::Down { value }).then(KeyAction::Up { value })
        });
        self.client.perform_actions(pressed).await.unwrap();
    }

    /// What a key does that stays down: only Chromium's own protocol says that a press is a repeated one.
    pub(crate) async fn hold(&self, key: &str, event: KeyEvent) {
        let kind = if event == KeyEvent::Up { "keyUp" } else { "keyDown" };
        let is_repeated = event == KeyEvent::Repeat;
        let parameters = json!({ "type": kind, "key": key, "text": key, "autoRepeat": is_repeated });
        self.command("Input.dispatchKeyEvent", &parameters).await;
    }

    /// Goes into the page's one frame; what follows is about that.
    pub(crate) async fn enter_frame(&self) {
        self.client.enter_frame(0).await.unwrap();
    }

    pub(crate) async fn leave_frame(&self) {
        self.client.enter_parent_frame().await.unwrap();
    }

    /// A command of Chromium's own protocol.
    pub(crate) async fn command(&self, name: &str, parameters: &Value) -> Value {
        let body = json!({ "cmd": name, "params": parameters });
        self.client.issue_cmd(Extension { path: "goog/cdp/execute", body }).await.unwrap()
    }

    pub(crate) async fn prefers(&self, scheme: Scheme) {
        let value = match scheme {
            Scheme::Light => "light",
            Scheme::Dark => "dark",
        };
        let feature = json!({ "name": "prefers-color-scheme", "value": value });
        self.command("Emulation.setEmulatedMedia", &json!({ "features": [feature] })).await;
    }

    pub(crate) async fn resize(&self, screen: Screen) {
        let (width, height) = match screen {
            Screen::Desktop => (1280, 800),
            Screen::Phone => (360, 740),
        };
        let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.command("Emulation.setDeviceMetricsOverride", &metrics).await;
    }

    /// Where downloads go from now on.
    pub(crate) async fn download_folder(&self) -> std::path::PathBuf {
        let folder = self.folder.path().join("downloads");
        let wanted = json!({ "behavior": "allow", "downloadPath": folder });
        self.command("Browser.setDownloadBehavior", &wanted).await;
        folder
    }

    pub(crate) async fn photograph(&self, place: &Path) {
        std::fs::write(place, self.client.screenshot().await.unwrap()).unwrap();
    }

    /// What the browser complained of since it was last asked. That an answer was no is REST's way to say so, and no complaint.
    pub(crate) async fn complaints(&self) -> Vec<String> {
        let body = json!({ "type": "browser" });
        let log = self.client.issue_cmd(Extension { path: "se/log", body }).await.unwrap();
        let entries = log.as_array().unwrap().iter();
        let complaints = entries.filter(|entry| {
            entry["source"] != "network" && matches!(entry["level"].as_str(), Some("SEVERE" | "WARNING"))
        });
        complaints.map(|entry| entry["message"].as_str().unwrap_or_default().to_owned()).collect()
    }

    async fn keep_a_picture(&self) {
        let name = std::thread::current().name().unwrap_or("test").replace("::", "-");
        let place = installed::folder("failed").join(format!("{name}.png"));
        let (picture, address) = (self.client.screenshot().await, self.client.current_url().await);
        if let Ok(picture) = picture
            && std::fs::write(&place, picture).is_ok()
        {
            eprintln!("what was on the screen, at {address:?}: {}", place.display());
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let is_well = !std::thread::panicking();
        let complaints = tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(async {
                let complaints = if is_well { self.complaints().await } else { Vec::new() };
                if !is_well {
                    self.keep_a_picture().await;
                }
                let _ = tokio::time::timeout(PATIENCE, self.client.clone().close()).await;
                complaints
            })
        });
        // Chromium is of the driver's group: whatever is left goes with it.
        let _ = kill_process_group(Pid::from_child(&self.driver), Signal::KILL);
        let _ = self.driver.wait();
        assert!(complaints.is_empty(), "the browser complains: {complaints:#?}");
    }
}

/// A command that WebDriver itself does not have.
#[derive(Debug)]
struct Extension {
    path: &'static str,
    body: Value,
}

impl WebDriverCompatibleCommand for Extension {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> Result<Url, <Url as FromStr>::Err> {
        base.join(&format!("session/{}/{}", session.unwrap_or_default(), self.path))
    }

    fn method_and_body(&self, _: &Url) -> (Method, Option<String>) {
        (Method::POST, Some(self.body.to_string()))
    }
}

/// How often a driver is started that ends before it listens.
const DRIVER_STARTS: usize = 5;

/// ChromeDriver takes a free port of IPv4 and then wants the same one of IPv6, which another driver may have by then; it ends,
/// and the next one takes another port.
fn start_driver() -> (Child, String) {
    (0..DRIVER_STARTS).find_map(|_| try_to_start_driver()).expect("ChromeDriver says where it listens")
}

fn try_to_start_driver() -> Option<(Child, String)> {
    let mut driver = Command::new(chromedriver())
        .arg("--port=0")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines().map_while(Result::ok);
    // "ChromeDriver was started successfully on port 40001."
    let port = lines.find_map(|line| {
        line.rsplit_once("successfully on port ").map(|(_, port)| port.trim_end_matches('.').to_owned())
    });
    let Some(port) = port else {
        driver.wait().unwrap();
        return None;
    };
    // Somebody must go on listening, or it would die of saying something.
    std::thread::spawn(move || lines.for_each(drop));
    Some((driver, format!("http://127.0.0.1:{port}")))
}

fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(is) => *is,
        Value::String(text) => !text.is_empty(),
        _ => true,
    }
}
