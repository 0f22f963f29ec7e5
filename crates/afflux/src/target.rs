//! What `--on` names.
