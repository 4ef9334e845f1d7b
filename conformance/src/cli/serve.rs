//! `floe serve`: a REST catalog on this machine.

use std::collections::HashMap;
use std::net::IpAddr;

use clap::Args;
use floe_engine::catalog::open_catalog;

use super::signals::asked_to_end;
use crate::serve::Server;

/// Arguments of `floe serve`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  floe serve --warehouse lake --port 8181
  FLOE_TOKEN=secret floe serve --catalog hadoop:lake --warehouse lake --host 0.0.0.0
  floe sql --catalog rest:http://127.0.0.1:8181 -c \"SHOW NAMESPACES\"    # a client")]
pub struct ServeArgs {
    /// The catalog behind: `hadoop:DIR`, `sql:sqlite:PATH`, or a name in floe.toml. Without it: a SQLite catalog in the warehouse
    #[arg(long)]
    catalog: Option<String>,
    /// Where new tables go: a folder or a URI
    #[arg(long, default_value = "warehouse")]
    warehouse: String,
    /// Port; 0 takes a free one
    #[arg(long, default_value_t = 8181)]
    port: u16,
    /// Address to listen on; other than loopback only with a token
    #[arg(long, default_value = "127.0.0.1")]
    host: IpAddr,
    /// Bearer token that every request must carry; else the environment variable FLOE_TOKEN, which `ps` does not show
    #[arg(long)]
    token: Option<String>,
}

/// Serves until it is interrupted. Prints one line when it listens.
pub async fn run(args: &ServeArgs) -> Result<i32, String> {
    let token = args.token.clone().or_else(|| std::env::var("FLOE_TOKEN").ok());
    if !args.host.is_loopback() && token.is_none() {
        return Err(format!(
            "--host {} can be reached by others: set a bearer token with --token or FLOE_TOKEN",
            args.host
        ));
    }
    if token.as_deref().is_some_and(str::is_empty) {
        return Err("the token is empty".into());
    }
    let warehouse = location(&args.warehouse)?;
    // before anything is made: a port that is taken leaves no folder behind
    let listener = tokio::net::TcpListener::bind((args.host, args.port))
        .await
        .map_err(|e| format!("cannot listen on {}:{}: {e}", args.host, args.port))?;
    let spec = match &args.catalog {
        Some(spec) => spec.clone(),
        None => {
            let Some(folder) = folder(&warehouse) else {
                return Err(format!("--warehouse {warehouse} is not a local folder: say --catalog sql:sqlite:PATH"));
            };
            std::fs::create_dir_all(folder)
                .map_err(|e| format!("cannot make the warehouse (--warehouse) {folder}: {e}"))?;
            format!("sql:sqlite:{folder}/catalog.db")
        }
    };
    let props = HashMap::from([("warehouse".to_string(), warehouse.clone())]);
    let catalog = open_catalog(&spec, "floe", props).await.map_err(|e| e.to_string())?;
    let address = listener.local_addr().map_err(|e| e.to_string())?;
    println!("floe serves {warehouse} at http://{address}");
    let router = Server::new(catalog, token).router();
    axum::serve(listener, router).with_graceful_shutdown(asked_to_end()).await.map_err(|e| e.to_string())?;
    Ok(0)
}

/// A folder becomes an absolute path; a URI stays.
fn location(warehouse: &str) -> Result<String, String> {
    if warehouse.split_once(':').is_some_and(|(s, _)| s.len() > 1 && !s.contains('/')) {
        return Ok(warehouse.trim_end_matches('/').to_string());
    }
    let path = std::path::absolute(warehouse).map_err(|e| format!("--warehouse {warehouse}: {e}"))?;
    let path: std::path::PathBuf = path.components().collect();
    path.into_os_string().into_string().map_err(|_| "the warehouse folder's name is not UTF-8".to_string())
}

/// The local folder of a location, if it is one.
fn folder(location: &str) -> Option<&str> {
    match location.strip_prefix("file:") {
        Some(rest) => Some(rest.strip_prefix("//").unwrap_or(rest)),
        None => location.starts_with('/').then_some(location),
    }
}
