//! A plugin under construction: a folder with a manifest, scripted servers and scripted models.

use crate::bins;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// Where plugins are written.
pub trait Place {
    /// The folder in which they stand.
    fn folder(&self) -> &Path;
    /// One more stands there, which is the last of the tenant's if it is new.
    fn installed(&self, plugin: &str);
}

/// A plugin under construction. Its manifest and scripts are written as JSON, which is YAML.
#[derive(Debug, Clone)]
pub struct Plugin {
    id: String,
    servers: Vec<(String, Value, Value)>,
    hooks: Vec<Value>,
    agent: Option<Value>,
    turns: Value,
    /// Further agents: id, keys, turns.
    others: Vec<(String, Value, Value)>,
}

impl Plugin {
    /// An empty one.
    pub fn new(id: &str) -> Self {
        Self { id: id.into(), servers: vec![], hooks: vec![], agent: None, turns: json!([]), others: vec![] }
    }

    /// A server that lists these functions.
    pub fn server(self, tool: &str, functions: Value) -> Self {
        self.scripted(tool, json!({ "tools": functions }), json!({}))
    }

    /// A server that plays this script; `keys` stand beside it in the manifest.
    pub fn scripted(mut self, tool: &str, script: Value, keys: Value) -> Self {
        self.servers.push((tool.into(), script, keys));
        self
    }

    /// A hook: `{"on": …, "call": …, …}`.
    pub fn hook(mut self, hook: Value) -> Self {
        self.hooks.push(hook);
        self
    }

    /// An agent, `worker`, whose model plays these turns.
    pub fn turns(mut self, turns: Value) -> Self {
        self.turns = turns;
        self.agent.get_or_insert_with(|| json!({}));
        self
    }

    /// Further keys of the agent.
    pub fn agent(mut self, keys: Value) -> Self {
        self.agent = Some(keys);
        self
    }

    /// A further agent, whose model plays these turns.
    pub fn other(mut self, id: &str, keys: Value, turns: Value) -> Self {
        self.others.push((id.into(), keys, turns));
        self
    }

    /// Writes it, in the place of what stood there. Each server's messages are in `TOOL.log` beside the plugin's folder.
    ///
    /// # Panics
    /// Where it can't be written.
    pub fn save(self, place: &impl Place) -> PathBuf {
        let folder = place.folder().join(&self.id);
        let write = |name: &str, content: String| {
            let path = folder.join(name);
            let written = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&path, content));
            assert!(written.is_ok(), "{} can't be written: {written:?}", path.display());
            path
        };
        let mut tools = vec![];
        for (tool, mut script, keys) in self.servers {
            script["log"] = json!(place.folder().join(format!("{tool}.log")));
            let file = write(&format!("{tool}.json"), script.to_string());
            let mut decl = json!({"id": tool, "mcp": [bins::bin("scripted-mcp"), file]});
            extend(&mut decl, &keys);
            tools.push(decl);
        }
        let mut manifest = json!({ "id": self.id });
        for (key, list) in [("tools", tools), ("hooks", self.hooks)] {
            if !list.is_empty() {
                manifest[key] = json!(list);
            }
        }
        let worker = self.agent.map(|keys| ("worker".to_owned(), "script".to_owned(), keys, self.turns));
        let others = self.others.into_iter().map(|(id, keys, turns)| (id.clone(), id, keys, turns));
        let mut agents = vec![];
        for (id, script, keys, turns) in worker.into_iter().chain(others) {
            let mut agent = json!({ "id": id });
            if keys.get("harness").is_none() {
                agent["model"] = json!(format!("script/{script}.yaml"));
            }
            extend(&mut agent, &keys);
            agents.push(agent);
            write(&format!("{script}.yaml"), json!({ "turns": turns }).to_string());
        }
        if !agents.is_empty() {
            manifest["agents"] = json!(agents);
        }
        write("plugin.yaml", manifest.to_string());
        place.installed(&self.id);
        folder
    }
}

fn extend(object: &mut Value, keys: &Value) {
    if let (Value::Object(object), Value::Object(keys)) = (object, keys) {
        object.extend(keys.clone());
    }
}

/// A function of a server, with any arguments.
pub fn function(name: &str, behaviour: Value) -> Value {
    json!({"name": name, "inputSchema": {"type": "object"}, "behaviour": behaviour})
}

/// A server's answer: this decision.
pub fn says(decision: &str, more: Value) -> Value {
    let mut answer = Map::from_iter([("decision".to_owned(), json!(decision))]);
    answer.extend(more.as_object().cloned().unwrap_or_default());
    json!({ "structured": answer })
}

/// A regular expression that fits this text alone, as a script's `expect`.
pub fn exactly(text: &str) -> Value {
    let mut pattern = "^".to_owned();
    for c in text.chars() {
        if "\\.+*?()|[]{}^$#&-~/\"".contains(c) {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    json!({ "matches": pattern + "$" })
}
