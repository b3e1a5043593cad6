//! What an agent does that somebody else runs.

use super::super::line::Line;
use super::super::look::Role;
use super::super::units;
use super::Teller;
use hookwright_core::job::Fact;

/// Calls that are remembered: more are not under way at once.
const CALLS: usize = 1_024;

impl Teller {
    pub(super) fn outside(&mut self, fact: &Fact) {
        match fact {
            Fact::CallRequested { id, call } => {
                if self.tools.len() >= CALLS {
                    self.forget();
                }
                self.requested(id, call, false);
            }
            Fact::CallLeft { call } => {
                self.put(Line::at(call, ' ').plain("the agent waits no longer; it may ask for the same call again"));
            }
            Fact::CallCancelled { call } => {
                self.put(Line::at(call, '!').add(Role::Warn, "cancelled").plain(" by the agent"));
            }
            Fact::OutputOffered { output } => {
                self.values.insert("end".into(), output.clone());
                let size = units::bytes(output.bytes);
                self.put(Line::at("end", ' ').plain("the agent ends with an output of ").plain(&size));
            }
            Fact::AgentLeft { by, done, .. } => {
                let how = if *done { " left" } else { " left before it was done" };
                self.put(Line::at("job", ' ').plain(by).plain(how));
            }
            _ => {}
        }
    }
}
