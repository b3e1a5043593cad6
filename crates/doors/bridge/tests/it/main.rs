//! The bridge door from outside: goldens of every harness, event and reply; what fails closed; configurations.

mod closed;
mod goldens;
mod install;
mod probe;
