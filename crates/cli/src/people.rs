//! Who decides: the OS user, which counts as verified, or a name that is only claimed.

use hookwright_core::approval::name_of;

/// A person as the history names them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Person {
    pub(crate) name: String,
    pub(crate) verified: bool,
}

/// The person that `--as` names, else the OS user of this process.
pub(crate) fn person(claimed: Option<&str>) -> Person {
    match claimed {
        Some(name) => Person { name: name_of(name), verified: false },
        None => match whoami::username() {
            Ok(name) => Person { name: name_of(&name), verified: true },
            Err(_) => Person { name: "somebody".into(), verified: false },
        },
    }
}
