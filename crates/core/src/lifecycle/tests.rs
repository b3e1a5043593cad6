//! The rules of lifecycle hooks, by tables.
