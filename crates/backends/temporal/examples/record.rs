//! Records the history of a job's workflow for `tests/replay.rs`: `… --example record -- ADDRESS NAMESPACE JOB FILE`.

use hookwright_temporal::{Access, Cluster};
use std::error::Error;

#[tokio::main]
#[allow(clippy::disallowed_methods, reason = "a tool of the developer's")]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [address, namespace, job, file] = &args[..] else {
        return Err("expected ADDRESS NAMESPACE JOB FILE".into());
    };
    let (address, namespace) = (address.clone(), namespace.clone());
    let access = Access { address, namespace, tls: None, api_key: None, queue: String::new() };
    let history = Cluster::connect(&access).await?.workflow(job).await?;
    std::fs::write(file, history)?;
    Ok(())
}
