//! The real clients: how each is set up and started in the jail. Keys are dummies, addresses are loopback.

use crate::lab::{Lab, Run};
use hookwright_bridge::Harness;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Client {
    ClaudeCode,
    Codex,
    GeminiCli,
    CopilotCli,
    AgentSdk,
    OpenCode,
    Cline,
}

/// What the model does in a run.
pub(crate) struct Setup {
    turns: Vec<Vec<Value>>,
    subagent: Option<Vec<Vec<Value>>>,
}

impl Setup {
    pub(crate) fn turns(turns: Vec<Vec<Value>>) -> Self {
        Self { turns, subagent: None }
    }

    pub(crate) fn with_subagent(mut self, turns: Vec<Vec<Value>>) -> Self {
        self.subagent = Some(turns);
        self
    }

    pub(crate) fn scenario(&self) -> Value {
        let mut routes = vec![];
        if let Some(turns) = &self.subagent {
            routes.push(json!({"match": "SUB-JOB", "turns": turns}));
        }
        routes.push(json!({"match": "please GO now", "turns": self.turns}));
        json!({"routes": routes, "default": "done", "json_answer": {"reasoning": "x", "model_choice": "flash", "next_speaker": "user"}})
    }
}

/// What people type.
pub(crate) const PROMPT: &str = "please GO now";

impl Client {
    pub(crate) const ALL: [Self; 7] =
        [Self::ClaudeCode, Self::Codex, Self::AgentSdk, Self::GeminiCli, Self::CopilotCli, Self::OpenCode, Self::Cline];

    pub(crate) fn harness(self) -> Harness {
        match self {
            Self::ClaudeCode => Harness::ClaudeCode,
            Self::Codex => Harness::Codex,
            Self::GeminiCli => Harness::GeminiCli,
            Self::CopilotCli => Harness::CopilotCli,
            Self::AgentSdk => Harness::ClaudeAgentSdk,
            Self::OpenCode => Harness::OpenCode,
            Self::Cline => Harness::Cline,
        }
    }

    /// Its program, below the folder of clients.
    fn program(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude/node_modules/@anthropic-ai/claude-code-linux-x64/claude",
            Self::Codex => "codex/node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex",
            Self::GeminiCli => "gemini/node_modules/@google/gemini-cli/bundle/gemini.js",
            Self::CopilotCli => "copilot/node_modules/@github/copilot-linux-x64/copilot",
            Self::AgentSdk => "sdk/claude_agent_sdk/__init__.py",
            Self::OpenCode => "opencode/node_modules/opencode-linux-x64/bin/opencode",
            Self::Cline => "cline/node_modules/@cline/cli-linux-x64/bin/cline",
        }
    }

    /// Its program's path.
    pub(crate) fn path(self, run: &Run) -> String {
        run.clients().join(self.program()).display().to_string()
    }

    pub(crate) fn is_there(self, lab: &Lab) -> bool {
        lab.clients.join(self.program()).is_file()
    }

    /// A folder for the PATH of `install`: Codex's hashes are told by Codex.
    pub(crate) fn search_path(self, run: &Run) -> Option<PathBuf> {
        (self == Self::Codex).then(|| run.clients().join(self.program()).parent().unwrap().to_owned())
    }

    /// The call of its shell.
    pub(crate) fn shell(self, command: &str) -> Value {
        match self {
            Self::ClaudeCode | Self::AgentSdk => {
                json!({"tool": "Bash", "input": {"command": command, "description": "d"}})
            }
            Self::Codex => json!({"tool": "exec_command", "input": {"cmd": command}}),
            Self::GeminiCli => json!({"tool": "run_shell_command", "input": {"command": command, "description": "d"}}),
            Self::CopilotCli | Self::OpenCode => {
                json!({"tool": "bash", "input": {"command": command, "description": "d"}})
            }
            Self::Cline => json!({"tool": "run_commands", "input": {"commands": [command]}}),
        }
    }

    /// The shell's name, as hooks know it, and the arguments of a command.
    pub(crate) fn hooked(self, command: &str) -> (&'static str, Value) {
        match self {
            Self::ClaudeCode | Self::AgentSdk => ("Bash", json!({"command": command, "description": "d"})),
            Self::Codex => ("Bash", json!({"command": command})),
            Self::GeminiCli => ("run_shell_command", json!({"command": command, "description": "d"})),
            Self::CopilotCli | Self::OpenCode => ("bash", json!({"command": command, "description": "d"})),
            Self::Cline => ("run_commands", json!({"commands": [command]})),
        }
    }

    /// The call of the MCP function `greet` of the server `brg`.
    pub(crate) fn greet(self, name: &str) -> Value {
        let input = json!({"name": name});
        match self {
            Self::ClaudeCode | Self::AgentSdk => json!({"tool": "mcp__brg__greet", "input": input}),
            Self::Codex => json!({"tool": "greet", "namespace": "mcp__brg", "input": input}),
            Self::GeminiCli => json!({"tool": "mcp_brg_greet", "input": input}),
            Self::CopilotCli => json!({"tool": "brg-greet", "input": input}),
            Self::OpenCode => json!({"tool": "brg_greet", "input": input}),
            Self::Cline => json!({"tool": "brg__greet", "input": input}),
        }
    }

    /// The call that starts a subagent; none: it was not found out how this client's model does that.
    pub(crate) fn delegate(self) -> Option<Value> {
        match self {
            Self::ClaudeCode | Self::AgentSdk => Some(json!({"tool": "Task", "input": {"description": "sub job",
                "prompt": "do the SUB-JOB now", "subagent_type": "general-purpose"}})),
            Self::CopilotCli => Some(json!({"tool": "task", "input": {"name": "sub", "description": "sub job",
                "prompt": "do the SUB-JOB", "agent_type": "general-purpose", "mode": "sync"}})),
            Self::OpenCode => {
                Some(json!({"tool": "task", "input": {"description": "sub job", "prompt": "do the SUB-JOB",
                "subagent_type": "general"}}))
            }
            Self::Codex | Self::GeminiCli | Self::Cline => None,
        }
    }

    /// Its own configuration, before Hookwright's.
    pub(crate) fn prepare(self, run: &Run) {
        let greeter = run.folder.join("greeter.py").display().to_string();
        let server = json!({"command": "/usr/bin/python3", "args": [greeter]});
        let home = run.folder.join("home");
        match self {
            Self::ClaudeCode | Self::AgentSdk => {
                write(&run.folder.join("mcp.json"), &json!({"mcpServers": {"brg": server}}).to_string());
            }
            Self::Codex => write(
                &home.join(".codex/config.toml"),
                &format!(
                    "model = \"fake-model\"\nmodel_provider = \"fake\"\napproval_policy = \"never\"\nsandbox_mode = \"danger-full-access\"\n\
                 check_for_update_on_startup = false\n\n[analytics]\nenabled = false\n\n[model_providers.fake]\nname = \"fake\"\n\
                 base_url = \"{}/v1\"\nenv_key = \"FAKE_KEY\"\nwire_api = \"responses\"\n\n[mcp_servers.brg]\ncommand = \"/usr/bin/python3\"\n\
                 args = [\"{greeter}\"]\n",
                    run.url()
                ),
            ),
            Self::GeminiCli => write(
                &home.join(".gemini/settings.json"),
                &json!({
                "security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": false},
                "mcpServers": {"brg": server}})
                .to_string(),
            ),
            Self::CopilotCli => write(
                &home.join(".copilot/mcp-config.json"),
                &json!({"mcpServers": {"brg": {"type": "local",
                "command": "/usr/bin/python3", "args": [greeter], "tools": ["*"]}}})
                .to_string(),
            ),
            Self::OpenCode => {
                // Its plugin package must be there, or it waits for the network.
                copy(&run.clients().join("opencode-config"), &home.join(".config/opencode"));
                write(&home.join(".config/opencode/opencode.json"), &json!({"model": "fake/fake-model", "permission": "allow",
                    "provider": {"fake": {"npm": "@ai-sdk/openai-compatible", "name": "fake",
                        "options": {"baseURL": format!("{}/v1", run.url()), "apiKey": "dummy"}, "models": {"fake-model": {"name": "fake"}}}},
                    "mcp": {"brg": {"type": "local", "command": ["/usr/bin/python3", greeter]}}}).to_string());
            }
            Self::Cline => {
                let cline = run.clients().join(self.program()).display().to_string();
                write(
                    &run.folder.join("go.sh"),
                    &format!(
                        "{cline} auth -p openai-compatible -k dummy -m fake-model -b {}/v1 >/dev/null 2>&1\nexec {cline} --json -P openai-compatible \"{PROMPT}\"\n",
                        run.url()
                    ),
                );
            }
        }
        if self == Self::AgentSdk {
            write(&run.folder.join("go.py"), SDK);
        }
    }

    /// Its variables.
    pub(crate) fn environment(self, run: &Run) -> Vec<String> {
        let url = run.url();
        let words: Vec<String> = match self {
            Self::ClaudeCode | Self::AgentSdk => vec![
                format!("ANTHROPIC_BASE_URL={url}"),
                "ANTHROPIC_API_KEY=sk-ant-dummy".into(),
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1".into(),
                "DISABLE_AUTOUPDATER=1".into(),
                "DISABLE_TELEMETRY=1".into(),
                "DISABLE_ERROR_REPORTING=1".into(),
            ],
            Self::Codex => vec!["FAKE_KEY=dummy".into()],
            Self::GeminiCli => vec![
                "GEMINI_API_KEY=dummy".into(),
                format!("GOOGLE_GEMINI_BASE_URL={url}"),
                "GEMINI_CLI_TRUST_WORKSPACE=true".into(),
                "GEMINI_CLI_NO_RELAUNCH=true".into(),
                "NO_COLOR=1".into(),
                "CI=1".into(),
            ],
            Self::CopilotCli => vec![
                "COPILOT_OFFLINE=true".into(),
                "COPILOT_AUTO_UPDATE=false".into(),
                format!("COPILOT_PROVIDER_BASE_URL={url}/v1"),
                "COPILOT_PROVIDER_API_KEY=dummy".into(),
                "COPILOT_MODEL=gpt-4.1".into(),
            ],
            Self::OpenCode => ["MODELS_FETCH", "AUTOUPDATE", "LSP_DOWNLOAD", "DEFAULT_PLUGINS"]
                .map(|what| format!("OPENCODE_DISABLE_{what}=1"))
                .to_vec(),
            Self::Cline => vec![],
        };
        words
    }

    /// The command that runs it on the prompt.
    pub(crate) fn command(self, run: &Run, _setup: &Setup) -> Vec<String> {
        let program = run.clients().join(self.program()).display().to_string();
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>();
        let mcp = run.folder.join("mcp.json").display().to_string();
        let mut command = self.environment(run);
        if self == Self::AgentSdk {
            command.push(format!("PYTHONPATH={}", run.clients().join("sdk").display()));
        }
        command.extend(match self {
            Self::ClaudeCode => words(&[
                &program,
                "-p",
                PROMPT,
                "--output-format",
                "stream-json",
                "--verbose",
                "--allowedTools",
                "Bash,Task,Read,mcp__brg__greet",
                "--mcp-config",
                &mcp,
            ]),
            Self::AgentSdk => {
                words(&["/usr/bin/python3", &run.folder.join("go.py").display().to_string(), PROMPT, &mcp])
            }
            Self::Codex => words(&[&program, "exec", "--json", "--skip-git-repo-check", PROMPT]),
            Self::GeminiCli => words(&[
                "/usr/bin/node",
                &program,
                "-p",
                PROMPT,
                "-m",
                "gemini-2.5-flash",
                "--yolo",
                "--output-format",
                "stream-json",
            ]),
            Self::CopilotCli => words(&[&program, "-p", PROMPT, "--allow-all-tools"]),
            Self::OpenCode => words(&[&program, "run", "--print-logs", PROMPT]),
            Self::Cline => words(&["/bin/bash", &run.folder.join("go.sh").display().to_string()]),
        });
        command
    }
}

/// A program with the Agent SDK: it loads the settings of its user, as `hookwright install` wrote them.
const SDK: &str = r#"
import asyncio, sys
from claude_agent_sdk import ClaudeAgentOptions, query

async def main():
    options = ClaudeAgentOptions(
        setting_sources=["user"], mcp_servers=sys.argv[2],
        allowed_tools=["Bash", "Task", "Read", "mcp__brg__greet"],
    )
    async for message in query(prompt=sys.argv[1], options=options):
        print(message)

asyncio.run(main())
"#;

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    let from = format!("{}/.", from.display());
    assert!(std::process::Command::new("cp").args(["-a", &from]).arg(to).status().unwrap().success());
}
