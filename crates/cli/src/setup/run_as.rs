//! The OS user that a tenant's servers run as (docs/decisions/0183).

use crate::exit::{CliError, CliResult};
use hookwright_core::text::shown;
use hookwright_mcp::RunAs;
use std::process::{Command, Stdio};

/// The file that names a machine's own users.
const USERS: &str = "/etc/passwd";

/// Finds the user, and whether this process may start programs as it.
pub(super) fn user(tenant: &str, name: &str) -> CliResult<RunAs> {
    let user =
        find(name, &std::fs::read_to_string(USERS).unwrap_or_default()).or_else(|| asked(name)).ok_or_else(|| {
            CliError::usage(format!(
                "`run_as` of the tenant {tenant} names {}, and this machine has no such user",
                shown(name, 100)
            ))
            .hint("make that user (useradd), or write its numbers: run_as: \"1001:1001\"")
        })?;
    // Only root sheds the supplementary groups of its own that a server would else keep.
    if rustix::process::getuid().is_root() && rustix::process::geteuid().is_root() {
        return Ok(user);
    }
    Err(CliError::usage(format!(
        "`run_as` of the tenant {tenant} names {}, and only root may start programs as another user",
        shown(name, 100)
    ))
    .hint("run the node as root, or leave `run_as` out and give each tenant a node of its own"))
}

/// By its numbers, or by its line in the file of users.
fn find(name: &str, users: &str) -> Option<RunAs> {
    if let Some((uid, gid)) = name.split_once(':') {
        let (uid, gid) = (uid.parse().ok()?, gid.parse().ok()?);
        let home = users.lines().filter_map(line).find(|user| user.uid == uid).and_then(|user| user.home);
        return Some(RunAs { name: name.to_owned(), uid, gid, home });
    }
    users.lines().filter_map(line).find(|user| user.name == name)
}

/// `name:x:uid:gid:comment:home:shell`.
fn line(text: &str) -> Option<RunAs> {
    let fields: Vec<&str> = text.split(':').collect();
    let [name, _, uid, gid, _, home, ..] = fields.as_slice() else { return None };
    let home = (!home.is_empty()).then(|| (*home).to_owned());
    Some(RunAs { name: (*name).to_owned(), uid: uid.parse().ok()?, gid: gid.parse().ok()?, home })
}

/// A user that only the machine's name services know.
fn asked(name: &str) -> Option<RunAs> {
    let number = |flag: &str| {
        let mut id = Command::new("id");
        let said = id.args([flag, "--", name]).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
        String::from_utf8(said.stdout).ok()?.trim().parse::<u32>().ok()
    };
    Some(RunAs { name: name.to_owned(), uid: number("-u")?, gid: number("-g")?, home: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name_and_by_number() {
        let users = "root:x:0:0:root:/root:/bin/sh\n# a comment\nteam-a:x:1001:1002:Team A:/home/a:/bin/false\nhalf:x:7\nbare:x:9:9:::\n";
        for (name, expected) in [
            ("team-a", Some((1001, 1002, Some("/home/a")))),
            ("1001:7", Some((1001, 7, Some("/home/a")))),
            ("4000:4000", Some((4000, 4000, None))),
            ("bare", Some((9, 9, None))),
            ("half", None),
            ("team", None),
            ("", None),
        ] {
            let found = find(name, users);
            let found = found.as_ref().map(|user| (user.uid, user.gid, user.home.as_deref()));
            assert_eq!(found, expected, "{name}");
        }
    }
}
