//! One file for each command.

pub(crate) mod acp;
pub(crate) mod approvals;
pub(crate) mod ask;
pub(crate) mod audit;
pub(crate) mod check;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod gateway;
pub(crate) mod install;
pub(crate) mod jobs;
pub(crate) mod new;
pub(crate) mod reload;
pub(crate) mod replay;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod status;
pub(crate) mod stop;
pub(crate) mod trust;
