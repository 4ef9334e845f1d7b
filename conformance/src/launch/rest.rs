//! The Iceberg REST catalog in a container of its own.

use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::{Container, Inside, image_of};

/// The catalog's default image; `FLOE_IMAGE_REST` names another that takes `CATALOG_WAREHOUSE` and `CATALOG_REST_PORT`.
pub const REST_IMAGE: &str = "apache/iceberg-rest-fixture:1.10.1";

/// A running catalog.
pub struct Rest {
    /// Its address, for engines in containers and outside alike.
    pub uri: String,
    container: Container,
}

impl Rest {
    /// Starts a catalog over `warehouse`, a folder of this machine; `scratch` is its own folder. The error is a reason.
    pub async fn start(warehouse: &Path, scratch: &Path) -> Result<Self, String> {
        let image = image_of("rest", REST_IMAGE)?;
        std::fs::create_dir_all(scratch).map_err(|e| format!("cannot make {}: {e}", scratch.display()))?;
        let port = free_port().await.map_err(|e| format!("no free port: {e}"))?;
        let text = warehouse.display().to_string();
        let what = Inside {
            command: Vec::new(),
            env: vec![("CATALOG_WAREHOUSE".into(), text), ("CATALOG_REST_PORT".into(), port.to_string())],
            mounts: vec![(warehouse.to_path_buf(), false), (scratch.to_path_buf(), false)],
        };
        let container = Container::start(&image, &what, scratch, &scratch.join("rest.log")).await?;
        let me = Self { uri: format!("http://127.0.0.1:{port}"), container };
        me.ready(port).await?;
        Ok(me)
    }

    async fn ready(&self, port: u16) -> Result<(), String> {
        for _ in 0..600 {
            if answers(port).await {
                return Ok(());
            }
            let ended = tokio::time::timeout(Duration::from_millis(100), self.container.ended()).await.is_ok();
            if ended {
                let said: String = self.container.said().await.chars().take(900).collect();
                return Err(format!("the REST catalog's container ended at once: {said}"));
            }
        }
        Err("the REST catalog in its container did not answer within 60 s".into())
    }

    /// Ends and removes it.
    pub fn stop(&mut self) {
        self.container.end();
    }
}

async fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0)).await?.local_addr()?.port())
}

/// Whether something speaks the protocol there: `GET /v1/config` gives 200 (REST-1).
async fn answers(port: u16) -> bool {
    let ask = async {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.write_all(b"GET /v1/config HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n").await?;
        let mut head = [0; 12];
        stream.read_exact(&mut head).await?;
        std::io::Result::Ok(head.ends_with(b" 200"))
    };
    matches!(tokio::time::timeout(Duration::from_secs(2), ask).await, Ok(Ok(true)))
}
