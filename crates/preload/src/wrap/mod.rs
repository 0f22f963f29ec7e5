//! The names of the C library that this library defines, by subject.

mod asynchronous;
mod bytes;
mod descriptors;
mod durable;
mod files;
mod library;
mod process;
mod streams;
mod text;
