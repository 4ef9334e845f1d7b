//! An engine whose driver speaks the protocol on its standard input and output, in a child process or in a container. A child
//! gets a process group of its own, so that what it starts (a JVM) goes with it; it is killed on stop, on drop and on Ctrl-C.

use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::link::{Link, Place};
use super::{Driver, ROW_LIMIT};
use crate::protocol::{Answer, Hello, Measured, PROTOCOL, Reply, Request, TableRef, Work, rows};
use crate::value::Rows;

/// How to start a driver.
#[derive(Debug, Clone)]
pub struct Launch {
    /// Registry name.
    pub name: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Environment on top of this process's.
    pub env: Vec<(String, String)>,
    /// The engine's own folder: working folder, scratch and log.
    pub scratch: PathBuf,
    /// Shared warehouse folder.
    pub warehouse: PathBuf,
    /// Name of the shared catalog in statements.
    pub catalog: String,
    /// REST catalog to use instead.
    pub rest: Option<String>,
    /// Time for `hello`.
    pub start_timeout: Duration,
    /// Time for any other request.
    pub step_timeout: Duration,
}

/// A running driver.
pub struct Process {
    name: String,
    hello: Hello,
    link: Link,
    next: u64,
    log: PathBuf,
    step_timeout: Duration,
    dead: Option<String>,
    /// How and where it was started, to start it again.
    launch: Launch,
    place: Place,
    restarts: u32,
}

/// How often a dead engine is started again in a run.
const RESTARTS: u32 = 5;

impl Process {
    /// Starts the driver as a child process and says hello. The error is a reason with the tail of its log.
    pub async fn start(launch: Launch) -> Result<Self, String> {
        Self::start_at(launch, Place::Native).await
    }

    /// Starts the driver at a given place and says hello. The error is a reason with the tail of its log.
    pub async fn start_at(launch: Launch, place: Place) -> Result<Self, String> {
        let again = launch.clone();
        std::fs::create_dir_all(&launch.scratch)
            .map_err(|e| format!("cannot make {}: {e}", launch.scratch.display()))?;
        let log = launch.scratch.join("engine.log");
        let link = Link::open(&launch, &place, &log).await?;
        let Launch { name, scratch, warehouse, catalog, rest, start_timeout, step_timeout, .. } = launch;
        let hello = Hello::default();
        let mut me =
            Self { name, hello, link, next: 0, log, step_timeout, dead: None, launch: again, place, restarts: 0 };
        let text = |p: &Path| p.display().to_string();
        let request =
            Request::Hello { protocol: PROTOCOL, warehouse: text(&warehouse), catalog, scratch: text(&scratch), rest };
        let hello: Hello = match me.call(&request, start_timeout).await {
            Answer::Ok(v) => {
                serde_json::from_value(v).map_err(|e| format!("driver broke the protocol in hello: {e}"))?
            }
            Answer::Refused(m) | Answer::Skipped(m) | Answer::Error(m) => return Err(m),
        };
        if hello.protocol != PROTOCOL {
            return Err(format!("driver speaks protocol {}, this is {PROTOCOL}", hello.protocol));
        }
        me.hello = hello;
        Ok(me)
    }

    async fn call(&mut self, request: &Request, limit: Duration) -> Answer<Value> {
        if let Some(why) = &self.dead {
            return Answer::Error(why.clone());
        }
        self.next += 1;
        let id = self.next;
        match timeout(limit, self.exchange(id, request)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(why)) => self.bury(&why),
            Err(_) => self.bury(&format!("no answer within {} s", limit.as_secs())),
        }
    }

    async fn exchange(&mut self, id: u64, request: &Request) -> Result<Answer<Value>, String> {
        let mut message = json!({ "id": id });
        let Value::Object(fields) = serde_json::to_value(request).map_err(|e| e.to_string())? else {
            return Err("request is no object".into());
        };
        message.as_object_mut().into_iter().for_each(|m| m.extend(fields.clone()));
        let line = format!("{message}\n");
        let to = self.link.to.as_mut().ok_or("engine was stopped")?;
        let ended = |e: std::io::Error| format!("engine ended: {e}");
        to.write_all(line.as_bytes()).await.map_err(ended)?;
        to.flush().await.map_err(ended)?;
        let mut text = String::new();
        if self.link.from.read_line(&mut text).await.map_err(ended)? == 0 {
            return Err("engine ended without an answer".into());
        }
        let reply: Reply = serde_json::from_str(&text)
            .map_err(|e| format!("driver broke the protocol: {e} in {}", text.chars().take(200).collect::<String>()))?;
        if reply.id != id {
            return Err(format!("driver broke the protocol: answered request {} instead of {id}", reply.id));
        }
        Ok(reply.answer())
    }

    /// Kills the engine; from now on every call answers with the reason and the log's tail.
    fn bury(&mut self, why: &str) -> Answer<Value> {
        self.link.end();
        let why = format!("{why}{}", log_tail(&self.log));
        self.dead = Some(why.clone());
        Answer::Error(why)
    }
}

/// The last lines of a log as a clause of a sentence; empty when there are none.
fn log_tail(path: &Path) -> String {
    let text = std::fs::read(path).map(|b| String::from_utf8_lossy(&b).into_owned()).unwrap_or_default();
    let lines: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
    let tail = lines[lines.len().saturating_sub(6)..].join(" | ");
    if tail.is_empty() {
        String::new()
    } else {
        format!("; its log ends: {}", tail.chars().take(900).collect::<String>())
    }
}

#[async_trait]
impl Driver for Process {
    fn name(&self) -> &str {
        &self.name
    }

    fn hello(&self) -> &Hello {
        &self.hello
    }

    fn process(&self) -> Option<u32> {
        self.link.process()
    }

    async fn apply(&mut self, sql: &str, table: &TableRef) -> Answer<()> {
        let request = Request::Apply { sql: sql.into(), table: table.clone() };
        self.call(&request, self.step_timeout).await.and_then(|_| Ok(()))
    }

    async fn scan(&mut self, table: &TableRef) -> Answer<Rows> {
        let request = Request::Scan { table: table.clone(), limit: ROW_LIMIT };
        self.call(&request, self.step_timeout).await.and_then(rows)
    }

    async fn query(&mut self, sql: &str, table: &TableRef) -> Answer<Rows> {
        let request = Request::Query { sql: sql.into(), table: table.clone(), limit: ROW_LIMIT };
        self.call(&request, self.step_timeout).await.and_then(rows)
    }

    async fn changes(&mut self, table: &TableRef, from: Option<i64>, to: Option<i64>) -> Answer<Rows> {
        let request = Request::Changes { table: table.clone(), from, to, limit: ROW_LIMIT };
        self.call(&request, self.step_timeout).await.and_then(rows)
    }

    async fn measure(&mut self, work: &Work, calls: u32) -> Answer<Measured> {
        let request = Request::Measure { work: work.clone(), calls };
        let broken = |e| format!("driver broke the protocol: {e}");
        self.call(&request, self.step_timeout).await.and_then(|v| serde_json::from_value(v).map_err(broken))
    }

    async fn revive(&mut self) {
        if self.alive() || self.restarts >= RESTARTS {
            return;
        }
        let restarts = self.restarts + 1;
        self.restarts = restarts;
        match Self::start_at(self.launch.clone(), self.place.clone()).await {
            Ok(mut new) => {
                new.restarts = restarts;
                *self = new;
            }
            Err(why) => self.dead = Some(format!("could not be started again: {why}")),
        }
    }

    fn alive(&self) -> bool {
        self.dead.is_none()
    }

    async fn stop(&mut self) {
        if self.dead.is_none() {
            // A polite stop first: engines flush and remove their temporary files.
            let _ = self.call(&Request::Stop {}, Duration::from_secs(5)).await;
            self.link.to = None;
            let _ = timeout(Duration::from_secs(2), self.link.ended()).await;
        }
        self.link.end();
        self.dead.get_or_insert_with(|| "engine was stopped".into());
    }
}
