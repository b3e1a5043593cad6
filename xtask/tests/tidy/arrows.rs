//! Which crate may need which: doors and backends → runtime → core, and one home for each heavy dependency.

use crate::repository::{Member, members};

/// Where a crate stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layer {
    Core,
    /// Needs nobody, and may be needed by whoever starts children.
    Process,
    Runtime,
    Backend,
    Door,
    Cli,
    Testkit,
    Bench,
    Example,
    Xtask,
}

fn layer(folder: &str) -> Option<Layer> {
    match folder.split('/').collect::<Vec<_>>()[..] {
        ["crates", "core"] => Some(Layer::Core),
        ["crates", "process"] => Some(Layer::Process),
        ["crates", "runtime"] => Some(Layer::Runtime),
        ["crates", "backends", _] => Some(Layer::Backend),
        ["crates", "doors", _] => Some(Layer::Door),
        ["crates", "cli"] => Some(Layer::Cli),
        ["crates", "testkit"] => Some(Layer::Testkit),
        ["crates", "bench"] => Some(Layer::Bench),
        ["examples", _] => Some(Layer::Example),
        ["xtask"] => Some(Layer::Xtask),
        _ => None,
    }
}

/// What a layer's crates may need of ours, beside what their tests need.
fn may_need(layer: Layer) -> &'static [Layer] {
    match layer {
        Layer::Core | Layer::Process => &[],
        Layer::Runtime | Layer::Xtask => &[Layer::Core],
        Layer::Backend | Layer::Door => &[Layer::Core, Layer::Process, Layer::Runtime],
        Layer::Cli => &[Layer::Core, Layer::Process, Layer::Runtime, Layer::Backend, Layer::Door, Layer::Example],
        Layer::Testkit | Layer::Bench => &[Layer::Core, Layer::Runtime, Layer::Backend],
        Layer::Example => &[Layer::Example],
    }
}

/// Heavy dependencies and the folders where they may be needed.
const HOMES: [(&str, &[&str]); 13] = [
    ("agent-client-protocol", &["crates/doors/acp"]),
    ("rmcp", &["crates/backends/mcp", "crates/doors/gateway", "crates/testkit", "crates/bench", "examples/"]),
    ("genai", &["crates/backends/model"]),
    ("rusqlite", &["crates/backends/sqlite"]),
    ("temporalio-sdk", &["crates/backends/temporal"]),
    ("reqwest", &["crates/backends/mcp", "crates/backends/model"]),
    ("axum", &["crates/doors/", "crates/testkit"]),
    ("clap", &["crates/cli", "crates/testkit", "examples/", "xtask"]),
    ("clap_complete", &["crates/cli"]),
    ("indicatif", &["crates/cli"]),
    ("tracing-subscriber", &["crates/cli"]),
    ("serde-saphyr", &["crates/core", "crates/backends/model"]),
    ("jsonschema", &["crates/core"]),
];

/// What would bring IO, clock, randomness or async into the pure core.
const NOT_IN_CORE: [&str; 9] =
    ["tokio", "async-trait", "futures-util", "rand", "getrandom", "jiff", "reqwest", "tracing", "tempfile"];

fn wrong(members: &[Member]) -> Vec<String> {
    let mut wrong = Vec::new();
    for member in members {
        let Some(own) = layer(&member.folder) else {
            wrong.push(format!(
                "{} stands in {}, which has no layer: name one in {}",
                member.name,
                member.folder,
                file!()
            ));
            continue;
        };
        for need in &member.needs {
            let needed = members.iter().find(|other| other.name == *need).and_then(|other| layer(&other.folder));
            if needed.is_some_and(|needed| !may_need(own).contains(&needed)) {
                wrong.push(format!("{} ({own:?}) may not need {need}", member.name));
            }
            let home = HOMES.iter().find(|(name, _)| name == need);
            if home.is_some_and(|(_, homes)| {
                !homes
                    .iter()
                    .any(|home| member.folder == *home || (home.ends_with('/') && member.folder.starts_with(home)))
            }) {
                wrong.push(format!("{need} has its home elsewhere than in {}", member.folder));
            }
            if own == Layer::Core && NOT_IN_CORE.contains(&need.as_str()) {
                wrong.push(format!("{need} would make the core impure"));
            }
        }
    }
    wrong
}

#[test]
fn crates_need_only_what_their_layer_may() {
    assert_eq!(wrong(&members()), [""; 0]);
}

#[test]
fn a_wrong_arrow_home_or_place_is_noticed() {
    let member = |name: &str, folder: &str, needs: &[&str]| Member {
        name: name.to_owned(),
        folder: folder.to_owned(),
        needs: needs.iter().map(|n| (*n).to_owned()).collect(),
    };
    let found = wrong(&[
        member("core", "crates/core", &["tokio", "runtime"]),
        member("runtime", "crates/runtime", &["core", "a"]),
        member("a", "crates/backends/a", &["core", "runtime", "b"]),
        member("b", "crates/backends/b", &["rusqlite", "cli"]),
        member("door", "crates/doors/door", &["a", "axum"]),
        member("cli", "crates/cli", &["a", "b", "door", "testkit"]),
        member("testkit", "crates/testkit", &["a", "rmcp"]),
        member("stray", "stray", &[]),
    ]);
    assert_eq!(found.len(), 9, "{found:#?}");
}
