//! The server inside this process, on a free loopback port: the one REST catalog that all engines of a run share.

use std::sync::Arc;

use floe_engine::catalog::Catalog;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::Server;

/// A running server; it ends when this is dropped.
#[derive(Debug)]
pub struct Local {
    uri: String,
    task: JoinHandle<()>,
}

impl Local {
    /// Serves `catalog`, without a token, to programs of this machine. The error says what could not be listened on.
    pub async fn start(catalog: Arc<dyn Catalog>) -> Result<Self, String> {
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(|e| format!("cannot listen on loopback: {e}"))?;
        let address = listener.local_addr().map_err(|e| e.to_string())?;
        let router = Server::new(catalog, None).router();
        let task = tokio::spawn(async move {
            if let Err(e) = axum::serve(listener, router).await {
                tracing::error!("the shared REST catalog ended: {e}");
            }
        });
        Ok(Self { uri: format!("http://{address}"), task })
    }

    /// What clients are told: `http://127.0.0.1:PORT`.
    pub fn uri(&self) -> &str {
        &self.uri
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        self.task.abort();
    }
}
