//! `script/<file>.yaml`: turns from a file, for demos, tests, and to make a bug happen again.
//!
//! Invariant: which turn comes next follows from the conversation alone, so a script plays on after a crash and in a replay.
//! Invariant: a scripted model is always called so, in its label too.

mod format;
mod play;

use crate::options::Options;
use crate::secret::quote;
use format::ScriptWire;
use hookwright_runtime::ports::model::{Model, ModelError, Turn, TurnRequest, TurnSink};
use std::path::{Component, Path};

/// The longest script that is read, in bytes.
const MAX_BYTES: u64 = 1024 * 1024;

/// A model that plays a script.
#[derive(Debug)]
pub(crate) struct Script {
    file: String,
    script: ScriptWire,
}

impl Script {
    pub(crate) fn open(file: &str, options: &Options) -> Result<Self, ModelError> {
        let shown = format!("script/{}", quote(file, None, 200));
        let wrong = |why: String| ModelError::Config(format!("{shown}: {why}"));
        let path = Path::new(file);
        if file.is_empty() || !path.components().all(|c| matches!(c, Component::Normal(_))) {
            return Err(wrong("expected a file inside the plugin's folder, e.g. script/demo.yaml".into()));
        }
        if !path.extension().is_some_and(|e| e == "yaml" || e == "yml") {
            return Err(wrong("a script's name ends in .yaml".into()));
        }
        let folder = options.folder.as_deref().unwrap_or_else(|| Path::new("."));
        let full = folder.join(path);
        let at = quote(&full.display().to_string(), None, 400);
        let meta = std::fs::metadata(&full).map_err(|e| wrong(format!("{at} can't be read: {e}")))?;
        if !meta.is_file() || meta.len() > MAX_BYTES {
            return Err(wrong(format!("{at} is no file of at most {MAX_BYTES} bytes")));
        }
        let bytes = std::fs::read(&full).map_err(|e| wrong(format!("{at} can't be read: {e}")))?;
        let text = String::from_utf8(bytes).map_err(|e| wrong(format!("{at} is not UTF-8: {e}")))?;
        let script = format::parse(&text).map_err(|why| wrong(format!("{at}:{why}")))?;
        Ok(Self { file: quote(file, None, 200), script })
    }
}

#[async_trait::async_trait]
impl Model for Script {
    async fn turn(&self, request: TurnRequest<'_>, sink: &dyn TurnSink) -> Result<Turn, ModelError> {
        play::turn(&format!("script/{}", self.file), &self.script, request, sink).await
    }

    async fn window(&self) -> Option<u64> {
        self.script.window
    }

    fn label(&self) -> String {
        format!("script/{} (scripted)", self.file)
    }

    fn is_scripted(&self) -> bool {
        true
    }
}

/// The JSON Schema of a script, as `schemas/script.schema.json` holds it.
pub fn schema() -> serde_json::Value {
    let mut schema = schemars::schema_for!(ScriptWire);
    schema.insert("title".to_owned(), "Hookwright script".into());
    schema.to_value()
}

#[cfg(test)]
mod tests;
