//! What can happen, and the queue of what will.
