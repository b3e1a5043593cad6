//! The agent that answers: a plugin's, or one of our own where no plugin declares any or it is asked for.

use crate::exit::{CliError, CliResult};
use crate::setup::Tenant;
use hookwright_core::job::AgentSpec;
use hookwright_core::stored::{Blob, Stored};
use serde_json::Value;

/// The id of the agent that needs no plugin. Hooks may match it.
const BUILT_IN: &str = "assistant";

/// What it is told, before the folder.
const INSTRUCTIONS: &str = "You are an assistant in the user's editor. Use the tools that you have; say plainly what you did and \
what you could not do.";

/// The agent of all sessions.
pub(crate) struct Chosen {
    pub(super) id: String,
    /// The plugin that declares it; empty for our own.
    pub(super) plugin: String,
    /// Its model, where it declares one.
    pub(super) model: Option<String>,
    spec: AgentSpec,
    blobs: Vec<Blob>,
    instructions: String,
    /// Whether its prompts are JSON.
    pub(super) takes_json: bool,
    input_schema: Option<Value>,
}

impl Chosen {
    /// The agent of that id; without one, the only agent of the plugins, or our own where they declare none. Our own has an id, too,
    /// which an agent of a plugin may take.
    pub(super) fn of(tenant: &Tenant, id: Option<&str>) -> CliResult<Self> {
        let mut declared = tenant.plugins.iter().flat_map(|p| &p.parsed.manifest.agents);
        let own = match id {
            Some(id) => id == BUILT_IN && declared.all(|agent| agent.id != BUILT_IN),
            None => declared.next().is_none(),
        };
        if own {
            return Ok(Self::built_in(tenant));
        }
        let (plugin, decl) = tenant.agent(id)?;
        let mut blobs = vec![];
        let spec = tenant.agent_spec(plugin, decl, &mut blobs);
        if spec.external.is_some() {
            let what = format!("the agent {} runs in a harness; editors are answered by agents with a model", spec.id);
            return Err(CliError::usage(what).hint("name another one: --agent ID, or --agent assistant"));
        }
        Ok(Self {
            id: spec.id.clone(),
            plugin: spec.plugin.clone(),
            model: Some(spec.model.clone()),
            instructions: decl.instructions.clone().unwrap_or_default(),
            takes_json: decl.input_schema.is_some(),
            input_schema: decl.input_schema.clone(),
            spec,
            blobs,
        })
    }

    fn built_in(tenant: &Tenant) -> Self {
        let spec = AgentSpec {
            // Whatever there is; functions of hooks stay hidden.
            tools: Some(vec!["*".to_owned()]),
            ..AgentSpec::new(BUILT_IN, "", "", tenant.config.limits.max_turns)
        };
        Self {
            id: BUILT_IN.to_owned(),
            plugin: String::new(),
            model: None,
            spec,
            blobs: vec![],
            instructions: INSTRUCTIONS.to_owned(),
            takes_json: false,
            input_schema: None,
        }
    }

    /// The agent as a job of a session has it: with the client's servers, the chosen model, and the folder that the user works in.
    pub(super) fn spec(&self, model: &str, cwd: &str, from_client: &[&str]) -> (AgentSpec, Vec<Blob>) {
        let mut spec = self.spec.clone();
        let mut blobs = self.blobs.clone();
        if *model != spec.model {
            // What was declared is true of the declared model alone.
            spec.context_window = None;
            spec.max_tokens = None;
        }
        model.clone_into(&mut spec.model);
        let ids = from_client.iter().map(|id| (*id).to_owned());
        match &mut spec.tools {
            Some(tools) => tools.extend(ids),
            None => spec.own_tools.extend(ids),
        }
        let folder = format!("The user works in the folder {cwd}");
        let text = if self.instructions.is_empty() { folder } else { format!("{}\n\n{folder}", self.instructions) };
        let (stored, blob) = Stored::new(Value::String(text));
        spec.instructions = Some(stored);
        blobs.extend(blob);
        (spec, blobs)
    }

    /// A prompt as the agent's input.
    pub(super) fn input(&self, text: &str) -> Result<Value, String> {
        let input = if self.takes_json {
            hookwright_core::json::parse_strict(text)
                .map_err(|e| format!("the agent {} takes JSON, and the prompt is none: {e}", self.id))?
        } else {
            Value::String(text.to_owned())
        };
        let moment = hookwright_core::event::Moment::JobStart;
        hookwright_core::event::check_value(moment, &input, self.input_schema.as_ref())
            .map_err(|e| format!("the prompt does not fit the agent {}: {e}", self.id))?;
        Ok(input)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_agent_declares_of_its_model_is_not_said_of_another() {
        let chosen = Chosen {
            id: "a".into(),
            plugin: "p".into(),
            model: Some("x/one".into()),
            spec: AgentSpec {
                context_window: Some(1_000),
                max_tokens: Some(100),
                ..AgentSpec::new("a", "p", "x/one", 5)
            },
            blobs: vec![],
            instructions: String::new(),
            takes_json: false,
            input_schema: None,
        };
        for (model, window, tokens) in [("x/one", Some(1_000), Some(100)), ("x/two", None, None)] {
            let spec = chosen.spec(model, "/", &[]).0;
            assert_eq!((&*spec.model, spec.context_window, spec.max_tokens), (model, window, tokens));
        }
    }
}
