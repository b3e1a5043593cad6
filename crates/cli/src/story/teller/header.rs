//! What a story begins with, and what it forgets on the way.

use super::super::line::Line;
use super::super::look::Role;
use super::{Teller, scripted};
use hookwright_core::event::Moment;

impl Teller {
    pub(super) fn header(&mut self) {
        let Some(spec) = &self.spec else { return };
        let label = if scripted(&spec.agent.model) { " (scripted)" } else { "" };
        let model = format!("{}{label}", spec.agent.model);
        let mut hooks: Vec<String> = vec![];
        for moment in Moment::ALL {
            let n = spec.hooks.hooks.iter().filter(|h| h.on == moment).count();
            if n > 0 {
                hooks.push(format!("{n} at {}", moment.name()));
            }
        }
        if let Some(lifecycle) = &spec.lifecycle {
            hooks.push(format!("lifecycle hooks of {}", lifecycle.servers.join(", ")));
        }
        let hooks = if hooks.is_empty() { "none".to_owned() } else { hooks.join(", ") };
        let first = Line::at("job", ' ').add(Role::Strong, &spec.job).add(Role::Dim, "  tenant ").plain(&spec.tenant);
        let lines = [
            first,
            Line::at("agent", ' ').add(Role::Strong, &spec.agent.id).add(Role::Dim, "  model ").plain(&model),
            Line::at("hooks", ' ').plain(&hooks),
        ];
        for line in lines {
            self.put(line);
        }
        let unavailable: Vec<Line> = (self.spec.iter().flat_map(|s| &s.hooks.hooks))
            .filter_map(|hook| {
                let why = hook.unavailable.as_ref()?;
                let name = hook.call.to_string();
                Some(Line::at("hooks", '!').plain(&name).add(Role::Bad, " can't be asked: ").plain(why))
            })
            .collect();
        for line in unavailable {
            self.put(line);
        }
    }

    pub(super) fn forget(&mut self) {
        self.tools.clear();
        self.changed_calls.clear();
        self.values.clear();
        self.asked.clear();
        self.waiting.clear();
    }
}
