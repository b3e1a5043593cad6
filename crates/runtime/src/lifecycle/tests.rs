//! Rounds of asks against scripted tools.
