//! What stands on the stage: a folder with plugins, and the configuration that names them.

use crate::plugin::{Place, Plugin};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use tempfile::TempDir;

/// A folder of its own, in which everything of a case happens.
#[derive(Debug)]
pub struct Stage {
    folder: TempDir,
    plugins: Mutex<Vec<String>>,
    /// Further keys of the tenant: limits, lifecycle, groups.
    pub tenant: Value,
}

impl Place for Stage {
    fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn installed(&self, plugin: &str) {
        let mut plugins = self.plugins.lock().unwrap_or_else(PoisonError::into_inner);
        if !plugins.iter().any(|known| known == plugin) {
            plugins.push(plugin.to_owned());
        }
    }
}

impl Stage {
    /// An empty one below this folder.
    ///
    /// # Panics
    /// Where no folder can be made.
    pub fn below(base: &Path) -> Self {
        let made = tempfile::Builder::new().prefix("e").tempdir_in(base);
        let folder = match made {
            Ok(folder) => folder,
            Err(e) => panic!("{} can't be written to: {e}", base.display()),
        };
        let _ = std::fs::create_dir_all(folder.path().join("home/config"));
        Self { folder, plugins: Mutex::default(), tenant: json!({}) }
    }

    /// With this plugin.
    pub fn with(self, plugin: Plugin) -> Self {
        plugin.save(&self);
        self
    }

    /// With further keys of the tenant.
    pub fn tenant(self, keys: Value) -> Self {
        Self { tenant: keys, ..self }
    }

    /// A file below the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes the configuration, with the engine that is named, and returns its file.
    ///
    /// # Panics
    /// Where it can't be written.
    pub fn configure(&self, engine: &Value) -> PathBuf {
        let plugins = self.plugins.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut tenant = json!({"id": "team", "plugins": plugins});
        if let (Value::Object(tenant), Value::Object(keys)) = (&mut tenant, &self.tenant) {
            tenant.extend(keys.clone());
        }
        let mut config = json!({"store": "jobs.db", "tenants": [tenant]});
        if !engine.is_null() {
            config["engine"] = engine.clone();
        }
        let file = self.path("hookwright.yaml");
        let written = std::fs::write(&file, config.to_string());
        assert!(written.is_ok(), "{written:?}");
        file
    }

    /// The messages that a tool's server got, in order.
    pub fn messages(&self, tool: &str) -> Vec<Value> {
        lines(&self.path(&format!("{tool}.log")))
    }

    /// The calls that a tool's server got: function and arguments.
    pub fn calls(&self, tool: &str) -> Vec<(String, Value)> {
        let calls = self.messages(tool).into_iter().filter(|message| message["method"] == "tools/call");
        calls
            .map(|call| {
                (call["params"]["name"].as_str().unwrap_or_default().to_owned(), call["params"]["arguments"].clone())
            })
            .collect()
    }

    /// The lines that servers appended to a file: side effects.
    pub fn effects(&self, file: &str) -> Vec<String> {
        crate::process::said(&self.path(file)).lines().map(str::to_owned).collect()
    }

    /// A function that appends a line to `effects.log` and answers with a text; `{arguments}` stands for its arguments.
    pub fn appends(&self, name: &str, line: &str, text: &str) -> Value {
        let file = self.path("effects.log");
        crate::plugin::function(name, json!([{"append": {"file": file, "line": line}}, {"text": text}]))
    }
}

/// The lines of a file that are JSON.
fn lines(path: &Path) -> Vec<Value> {
    crate::process::said(path).lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}
