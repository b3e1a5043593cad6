//! Models: what answers an agent's turns (home of everything that speaks to an LLM provider).
//!
//! [`open()`] turns an agent's `model:` (`anthropic/claude-sonnet-4-5`, `script/demo.yaml`) into a
//! [`Model`](hookwright_runtime::ports::model::Model). Four wire formats are spoken: Anthropic Messages, OpenAI Responses,
//! OpenAI Chat Completions (also Ollama, vLLM, llama.cpp and the like) and Gemini; `script/` plays turns from a file.
//!
//! Invariant: the environment is an argument ([`Env`]); nothing here reads the process's own.
//! Invariant: a key stands in no error, log, notice or `Debug` text, whatever a provider answers.
//! Invariant: whatever a provider sends is bounded in size and in time, and never panics.
//! Invariant: model text is passed on as it is; escaping it is the printer's job.

mod open;
mod options;
mod remote;
pub mod script;
mod secret;
mod settings;
mod wire;

pub use open::{PROVIDERS, open};
pub use options::{Env, Options, RetryPolicy};
