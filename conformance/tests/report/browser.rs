//! Chromium without a window, driven through chromedriver by the W3C WebDriver protocol.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base64::Engine as _;
use serde_json::{Value, json};

/// A browser of its own, with an empty profile; both end when this is dropped.
pub struct Browser {
    driver: Child,
    http: reqwest::Client,
    base: String,
    session: String,
    _profile: tempfile::TempDir,
}

/// Why there is no browser here, or nothing.
fn missing() -> Option<String> {
    ["chromium", "chromedriver"].into_iter().find_map(|program| {
        let ran = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        (!ran.is_ok_and(|s| s.success())).then(|| format!("{program} is not on the path"))
    })
}

impl Browser {
    /// Starts one. Without Chromium: none, and the reason is printed; a run that says it has one (`FLOE_REQUIRE=chromium`)
    /// fails instead.
    pub async fn start() -> Option<Self> {
        if let Some(why) = missing() {
            let required = std::env::var("FLOE_REQUIRE").unwrap_or_default();
            assert!(!required.split(',').any(|r| r == "chromium"), "{why}, and FLOE_REQUIRE asks for it");
            eprintln!("skipped: {why} (Debian: apt-get install chromium chromium-driver)");
            return None;
        }
        let profile = tempfile::tempdir().expect("temporary folder");
        let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a free port").port();
        let driver = Command::new("chromedriver")
            .arg(format!("--port={port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver starts");
        let http = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(60)).build().expect("client");
        let mut me =
            Self { driver, http, base: format!("http://127.0.0.1:{port}"), session: String::new(), _profile: profile };
        for _ in 0..100 {
            if me.http.get(format!("{}/status", me.base)).send().await.is_ok() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let quiet = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--hide-scrollbars",
        ];
        let mut args: Vec<String> = quiet.iter().map(ToString::to_string).collect();
        args.push(format!("--user-data-dir={}", me._profile.path().display()));
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": {"args": args},
            "goog:loggingPrefs": {"browser": "ALL"},
        }}});
        let made = me.send("POST", &format!("{}/session", me.base), Some(wanted)).await;
        me.session = format!("{}/session/{}", me.base, made["sessionId"].as_str().expect("a session"));
        Some(me)
    }

    async fn send(&self, method: &str, url: &str, body: Option<Value>) -> Value {
        let mut request = self.http.request(method.parse().expect("method"), url);
        if let Some(body) = body {
            request = request.header("Content-Type", "application/json").body(body.to_string());
        }
        let answer = request.send().await.expect("chromedriver answers").text().await.expect("text");
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        let value = answer["value"].clone();
        assert!(value["error"].is_null(), "{value}");
        value
    }

    async fn post(&self, path: &str, body: Value) -> Value {
        self.send("POST", &format!("{}{path}", self.session), Some(body)).await
    }

    async fn devtools(&self, cmd: &str, params: Value) -> Value {
        self.post("/goog/cdp/execute", json!({"cmd": cmd, "params": params})).await
    }

    /// A window of this many CSS pixels, and the system's colour scheme.
    pub async fn look(&self, width: u32, height: u32, dark: bool) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600});
        self.devtools("Emulation.setDeviceMetricsOverride", size).await;
        let scheme = if dark { "dark" } else { "light" };
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.devtools("Emulation.setEmulatedMedia", media).await;
    }

    /// Opens an address from nothing, as a visitor with a permalink does.
    pub async fn open(&self, url: &str) {
        self.post("/url", json!({"url": "about:blank"})).await;
        self.post("/url", json!({"url": url})).await;
    }

    /// Runs a script's body and gives what it returns.
    pub async fn js(&self, script: &str) -> Value {
        self.post("/execute/sync", json!({"script": script, "args": []})).await
    }

    /// The text of the first element that fits.
    pub async fn text(&self, css: &str) -> String {
        let found = self.js(&format!("return document.querySelector({css:?})?.innerText ?? null")).await;
        found.as_str().unwrap_or_else(|| panic!("nothing fits {css}")).to_string()
    }

    /// How many elements fit.
    pub async fn count(&self, css: &str) -> u64 {
        self.js(&format!("return document.querySelectorAll({css:?}).length")).await.as_u64().expect("a number")
    }

    async fn element(&self, css: &str) -> String {
        let found = self.post("/element", json!({"using": "css selector", "value": css})).await;
        let id = found.as_object().and_then(|o| o.values().next()).and_then(Value::as_str);
        id.unwrap_or_else(|| panic!("nothing fits {css}")).to_string()
    }

    /// Clicks on the first element that fits, as a user would.
    pub async fn click(&self, css: &str) {
        let id = self.element(css).await;
        let target = self.js(&format!("return document.querySelector({css:?}).closest('a')?.hash ?? ''")).await;
        self.post(&format!("/element/{id}/click"), json!({})).await;
        // the page draws what a link within it leads to in a later turn of the browser
        if target.as_str().is_some_and(|hash| !hash.is_empty()) {
            for _ in 0..100 {
                if self.js("return location.hash").await == target {
                    break;
                }
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
            self.js("return new Promise(done => setTimeout(done, 100))").await;
        }
    }

    /// Types into the first element that fits.
    pub async fn type_into(&self, css: &str, text: &str) {
        let id = self.element(css).await;
        self.post(&format!("/element/{id}/value"), json!({"text": text})).await;
    }

    /// Errors and warnings of the console since the last call.
    pub async fn complaints(&self) -> Vec<String> {
        let log = self.post("/se/log", json!({"type": "browser"})).await;
        log.as_array().into_iter().flatten().map(|e| e["message"].to_string()).collect()
    }

    /// A picture of the whole page, as PNG.
    pub async fn picture(&self, file: &Path) {
        let size = self.js("return [innerWidth, document.documentElement.scrollHeight]").await;
        let clip =
            json!({"x": 0, "y": 0, "width": size[0], "height": size[1].as_u64().unwrap_or(0).min(4000), "scale": 1});
        let shot = self.devtools("Page.captureScreenshot", json!({"captureBeyondViewport": true, "clip": clip})).await;
        let bytes = base64::engine::general_purpose::STANDARD.decode(shot["data"].as_str().expect("a picture"));
        std::fs::write(file, bytes.expect("base64")).expect("writes the picture");
    }

    /// Ends the session in good order.
    pub async fn close(mut self) {
        self.send("DELETE", &self.session, None).await;
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // a failed test ends here; chromedriver takes its browser with it
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
