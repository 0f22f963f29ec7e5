//! The striped store.
