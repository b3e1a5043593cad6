//! From an agent's `model:` to a model that can be asked.

use crate::options::{Env, Options};
use crate::remote::Remote;
use crate::script::Script;
use crate::secret::quote;
use crate::settings::{self, Provider};
use crate::wire::{ChatFlavour, Wire};
use hookwright_runtime::ports::model::{Model, ModelError};
use std::sync::Arc;

/// What may stand before the slash of an agent's `model:`.
pub const PROVIDERS: [&str; 7] = ["anthropic", "openai", "openai-chat", "gemini", "ollama", "compatible", "script"];

const REMOTE: [Provider; 6] = [
    Provider {
        id: "anthropic",
        wire: Wire::Anthropic,
        key_variables: &["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"],
        needs_key: true,
        base_variable: "ANTHROPIC_BASE_URL",
        base: Some("https://api.anthropic.com"),
    },
    Provider {
        id: "openai",
        wire: Wire::Responses,
        key_variables: &["OPENAI_API_KEY"],
        needs_key: true,
        base_variable: "OPENAI_BASE_URL",
        base: Some("https://api.openai.com/v1"),
    },
    Provider {
        id: "openai-chat",
        wire: Wire::Chat(ChatFlavour::OpenAi),
        key_variables: &["OPENAI_API_KEY"],
        needs_key: true,
        base_variable: "OPENAI_BASE_URL",
        base: Some("https://api.openai.com/v1"),
    },
    Provider {
        id: "gemini",
        wire: Wire::Gemini,
        key_variables: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        needs_key: true,
        base_variable: "GOOGLE_GEMINI_BASE_URL",
        base: Some("https://generativelanguage.googleapis.com"),
    },
    Provider {
        id: "ollama",
        wire: Wire::Chat(ChatFlavour::Compatible),
        key_variables: &["OLLAMA_API_KEY"],
        needs_key: false,
        base_variable: "OLLAMA_HOST",
        base: Some("http://127.0.0.1:11434/v1"),
    },
    Provider {
        id: "compatible",
        wire: Wire::Chat(ChatFlavour::Compatible),
        key_variables: &["HOOKWRIGHT_COMPATIBLE_API_KEY"],
        needs_key: false,
        base_variable: "HOOKWRIGHT_COMPATIBLE_BASE_URL",
        base: None,
    },
];

pub(crate) fn provider(id: &str) -> Option<&'static Provider> {
    static TABLE: [Provider; 6] = REMOTE;
    TABLE.iter().find(|p| p.id == id)
}

/// Opens the model that `spec` names: `anthropic/<model>`, `openai/<model>`, `openai-chat/<model>`, `gemini/<model>`,
/// `ollama/<model>`, `compatible/<model>` or `script/<file>.yaml`. Asks nobody; reads the script where there is one.
///
/// # Errors
/// [`ModelError::Config`] for an unknown provider (with the nearest one), a bad name, a missing key (with the variable to set),
/// a base URL or proxy that is none, or a script that can't be read or is wrong (with line and column).
pub fn open(spec: &str, env: &Env, options: &Options) -> Result<Arc<dyn Model>, ModelError> {
    let Some((id, name)) = spec.split_once('/') else {
        return Err(unknown(spec, spec));
    };
    if id == "script" {
        return Ok(Arc::new(Script::open(name, options)?));
    }
    let Some(provider) = provider(id) else { return Err(unknown(id, spec)) };
    let shown = quote(spec, None, 200);
    if name.is_empty() || name.len() > 200 || !name.chars().all(|c| c.is_ascii_graphic() && !"\"\\?#%".contains(c)) {
        return Err(ModelError::Config(format!("{shown} names no model of {id}: expected e.g. {}", example(id))));
    }
    let settings = settings::read(provider, &shown, env)?;
    Ok(Arc::new(Remote::new(provider, name, settings, options.clone())?))
}

fn example(id: &str) -> &'static str {
    match id {
        "anthropic" => "anthropic/claude-sonnet-4-5",
        "openai" => "openai/gpt-5.1",
        "openai-chat" => "openai-chat/gpt-4.1",
        "gemini" => "gemini/gemini-2.5-pro",
        "ollama" => "ollama/qwen3",
        "compatible" => "compatible/my-model",
        _ => "script/demo.yaml",
    }
}

fn unknown(id: &str, spec: &str) -> ModelError {
    let near = nearest(id);
    let hint = near.map_or_else(String::new, |p| format!("; did you mean {}?", example(p)));
    ModelError::Config(format!(
        "{:?} is no model: expected provider/model with one of the providers {}{hint}",
        quote(spec, None, 200),
        PROVIDERS.join(", ")
    ))
}

/// The provider whose name is nearest, or that makes a model of this name.
fn nearest(id: &str) -> Option<&'static str> {
    let id = id.to_lowercase();
    for (lead, provider) in [
        ("claude", "anthropic"),
        ("gpt", "openai"),
        ("chatgpt", "openai"),
        ("google", "gemini"),
        ("azure", "compatible"),
        ("vllm", "compatible"),
        ("llama", "compatible"),
        ("lmstudio", "compatible"),
        ("openrouter", "compatible"),
    ] {
        if id.starts_with(lead) {
            return Some(provider);
        }
    }
    PROVIDERS.into_iter().map(|p| (strsim::osa_distance(p, &id), p)).filter(|(d, _)| *d <= 3).min().map(|(_, p)| p)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(spec: &str) -> String {
        match open(spec, &|_| Some("x".to_owned()), &Options::default()) {
            Ok(model) => panic!("{} was opened", model.label()),
            Err(ModelError::Config(text)) => text,
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_unknown_provider_is_named_with_the_list_and_the_nearest() {
        assert!(error("antropic/claude").contains("did you mean anthropic/"));
        assert!(error("OpenAI/gpt").contains("did you mean openai/"));
        assert!(error("claude-sonnet-4-5").contains("did you mean anthropic/claude"));
        assert!(error("gpt-5").contains("did you mean openai/"));
        assert!(error("vllm/x").contains("did you mean compatible/"));
        let far = error("zzzzzzzzzzz/x");
        assert!(
            far.contains("anthropic, openai, openai-chat, gemini, ollama, compatible, script")
                && !far.contains("did you")
        );
    }

    #[test]
    fn a_bad_name_is_refused_and_escaped() {
        for bad in ["anthropic/", "gemini/a?b=c", "openai/\u{1b}[31m", &format!("openai/{}", "x".repeat(1_000))] {
            let text = error(bad);
            assert!(text.contains("names no model") && !text.contains('\u{1b}') && text.len() < 500, "{text}");
        }
    }

    #[test]
    fn every_provider_is_opened_with_its_key_alone() {
        let env = |name: &str| {
            (name.ends_with("_API_KEY") || name.starts_with("HOOKWRIGHT_")).then(|| "http://localhost".to_owned())
        };
        for id in PROVIDERS.into_iter().filter(|p| *p != "script") {
            assert_eq!(open(example(id), &env, &Options::default()).map(|m| m.label()), Ok(example(id).to_owned()));
        }
    }

    #[test]
    fn the_label_is_what_the_manifest_says() {
        let model = open("ollama/qwen3:8b", &|_| None, &Options::default()).unwrap();
        assert_eq!((model.label().as_str(), model.is_scripted()), ("ollama/qwen3:8b", false));
    }
}
