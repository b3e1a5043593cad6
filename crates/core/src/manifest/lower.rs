//! The tree → a manifest. Everything around `tools`, `hooks` and `agents`.

use super::{AgentDecl, HookDecl, ToolDecl, agents, hooks, tools};
use crate::diagnostic::{Code, Place, shown};
use crate::yaml::{Node, Reader, Sink};
use std::collections::{BTreeMap, HashMap};

/// What a file says.
pub(super) struct Lowered {
    pub(super) id: String,
    pub(super) tools: Vec<ToolDecl>,
    pub(super) hooks: Vec<HookDecl>,
    pub(super) agents: Vec<AgentDecl>,
    pub(super) places: BTreeMap<String, Place>,
}

/// Reads values, and notes where they stand.
pub(super) struct Context<'r, 's> {
    pub(super) read: Reader<'r, 's>,
    pub(super) places: BTreeMap<String, Place>,
}

impl Context<'_, '_> {
    pub(super) fn note(&mut self, path: String, place: Place) {
        self.places.insert(path, place);
    }

    /// Notes the entries of a list and gives their texts.
    pub(super) fn noted(&mut self, path: &str, entries: Vec<(String, Place)>) -> Vec<String> {
        let note = |(i, (text, place)): (usize, (String, Place))| {
            self.places.insert(format!("{path}/{i}"), place);
            text
        };
        entries.into_iter().enumerate().map(note).collect()
    }

    /// Says where ids stand twice in the file.
    pub(super) fn unique(&mut self, kind: &str, ids: &[(String, Place)]) {
        let mut first: HashMap<&str, u32> = HashMap::new();
        for (id, place) in ids {
            if let Some(line) = first.get(id.as_str()) {
                self.read.error(
                    *place,
                    Code::DuplicateId,
                    format!("a second {kind} with the id `{id}`; the first is on line {line}"),
                );
            } else {
                first.insert(id, place.line);
            }
        }
    }
}

/// `None`: an error was said.
pub(super) fn manifest(root: &Node, folder_name: &str, sink: &mut Sink<'_>) -> Option<Lowered> {
    let mut cx = Context { read: Reader { sink }, places: BTreeMap::new() };
    let fields = cx.read.fields(root, "the manifest", &["id", "tools", "hooks", "agents"])?;
    let id = match fields.get("id") {
        Some(node) => {
            cx.note("id".into(), node.place);
            cx.read.id(node, "`id`").map(str::to_owned)
        }
        None if crate::name::is_tool_id(folder_name) => Some(folder_name.to_owned()),
        None => {
            let message = format!("the folder's name `{}` can't be the plugin's id", shown(folder_name));
            cx.read.error(Place::START, Code::InvalidId, message).hint("give the manifest an `id:`");
            None
        }
    };
    let tools = section(&mut cx, fields.get("tools"), "tools", tools::tool);
    let hooks = section(&mut cx, fields.get("hooks"), "hooks", hooks::hook);
    let agents = section(&mut cx, fields.get("agents"), "agents", agents::agent);
    for (kind, section) in [("tool", "tools"), ("agent", "agents")] {
        let ids = ids_of(fields.get(section));
        cx.unique(kind, &ids);
    }
    let (tools, hooks, agents) = (tools?, hooks?, agents?);
    if tools.is_empty() && hooks.is_empty() && agents.is_empty() && !cx.read.sink.has_errors() {
        cx.read.warn(Place::START, Code::NothingDeclared, "the manifest declares no tools, no hooks and no agents");
    }
    Some(Lowered { id: id?, tools, hooks, agents, places: cx.places })
}

/// The ids of a section as they are written, also of entries that are faulty otherwise.
fn ids_of(node: Option<&Node>) -> Vec<(String, Place)> {
    use crate::yaml::Kind;
    let Some(Kind::List(items)) = node.map(|node| &node.kind) else { return Vec::new() };
    let id_of = |item: &std::rc::Rc<Node>| match &item.kind {
        Kind::Map(entries) => entries.iter().find(|e| e.key == "id").and_then(|e| match &e.value.kind {
            Kind::Text(id) if crate::name::is_tool_id(id) => Some((id.clone(), e.value.place)),
            _ => None,
        }),
        _ => None,
    };
    items.iter().filter_map(id_of).collect()
}

/// A list of entries; an absent one is empty.
fn section<'r, 's, T>(
    cx: &mut Context<'r, 's>,
    node: Option<&Node>,
    name: &str,
    entry: impl Fn(&mut Context<'r, 's>, &Node, &str) -> Option<T>,
) -> Option<Vec<T>> {
    let Some(node) = node else { return Some(Vec::new()) };
    let items = cx.read.list(node, &format!("`{name}`"))?;
    let mut found = Vec::with_capacity(items.len());
    for (i, item) in items.iter().enumerate() {
        let path = format!("{name}/{i}");
        cx.note(path.clone(), item.place);
        // Each is read, so that the faults of all are said.
        found.push(entry(cx, item, &path));
    }
    found.into_iter().collect()
}
