//! A guide to writing servers, in chapters that can be read in order or on their own.
//!
//! Each chapter begins with a small complete example. All examples are compiled, and most of them run, with the tests
//! of this crate.
//!
//! **Functions**
//!
//! - [First server](first_server): a complete program, how to try it, and how to connect a client.
//! - [Arguments](arguments): types, optional arguments, constraints, and what a model reads about invalid values.

#![allow(rustdoc::broken_intra_doc_links, reason = "some chapters link to chapters that are not written yet")]

pub mod first_server {
    #![doc = include_str!("../docs/first_server.md")]
}
pub mod arguments {
    #![doc = include_str!("../docs/arguments.md")]
}
