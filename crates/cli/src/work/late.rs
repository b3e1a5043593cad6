//! What shows only when servers run: hooks that they don't list, patterns that fit nothing.

use crate::setup::Tenant;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use hookwright_core::diagnostic::Severity;
use hookwright_core::manifest::Parsed;
use hookwright_core::manifest::tenant::{Listed, check_live};
use hookwright_mcp::McpHost;
use hookwright_runtime::ports::tools::Tools as _;

/// Verifies the manifests against the running servers, as they come up, and says what can't be asked or fits nothing (SPEC §2).
pub(crate) async fn late_faults(
    host: &McpHost,
    tenant: &Tenant,
    started: &(dyn Fn(&str) -> bool + Sync),
    say: &(dyn Fn(&str) + Sync),
) {
    let plugins: Vec<&Parsed> = tenant.plugins.iter().map(|p| &p.parsed).collect();
    let tools = plugins.iter().flat_map(|p| p.manifest.tools.iter().map(|t| t.id.as_str()));
    let tools = tools.filter(|tool| started(tool));
    let mut lists: FuturesUnordered<_> = tools.map(|tool| async move { (tool, host.functions(tool).await) }).collect();
    let (mut listed, mut said) = (Listed::new(), std::collections::HashSet::new());
    while let Some((tool, functions)) = lists.next().await {
        let names = functions.map(|fs| fs.into_iter().map(|f| f.name).collect()).map_err(|down| down.why);
        listed.insert(tool.to_owned(), names);
        for found in check_live(&plugins, &listed) {
            let what = format!("{}:{}: {}", found.file, found.line, found.message);
            if found.severity != Severity::Info && said.insert(what.clone()) {
                say(&what);
            }
        }
    }
}
