//! The integration tests, in one binary.

mod asking;
mod building;
mod calls;
mod changes;
mod enforcement;
mod errors;
mod failures;
mod flags;
mod flatten;
mod forms;
mod golden;
mod http;
mod installation;
mod layers;
mod lines;
mod lock;
mod macros;
mod metadata;
mod names;
mod order;
mod pages;
mod property;
mod rates;
mod replicas;
mod requirements;
mod results;
mod sessions;
mod shapes;
mod skills;
mod specification;
#[cfg(unix)]
mod stdio;
mod tasks;
mod telemetry;
mod test_client;
mod values;
