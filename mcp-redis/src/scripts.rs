//! The scripts, each of which Redis executes atomically.

/// A Lua script.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) text: &'static str,
    /// The hash by which Redis finds a script that it has executed before.
    pub(crate) hash: String,
}

impl Script {
    fn new(text: &'static str) -> Self {
        Self { text, hash: redis::Script::new(text).get_hash().to_owned() }
    }
}

#[derive(Debug)]
pub(crate) struct Scripts {
    pub(crate) set: Script,
    pub(crate) insert: Script,
    pub(crate) delete: Script,
    pub(crate) names: Script,
    pub(crate) count: Script,
    pub(crate) append: Script,
    pub(crate) last: Script,
    pub(crate) remove: Script,
    pub(crate) publish: Script,
}

impl Default for Scripts {
    fn default() -> Self {
        Self {
            set: Script::new(concat!(include_str!("scripts/group.lua"), include_str!("scripts/set.lua"))),
            insert: Script::new(concat!(include_str!("scripts/group.lua"), include_str!("scripts/insert.lua"))),
            delete: Script::new(concat!(include_str!("scripts/group.lua"), include_str!("scripts/delete.lua"))),
            names: Script::new(concat!(include_str!("scripts/group.lua"), include_str!("scripts/names.lua"))),
            count: Script::new(include_str!("scripts/count.lua")),
            append: Script::new(include_str!("scripts/append.lua")),
            last: Script::new(include_str!("scripts/last.lua")),
            remove: Script::new(include_str!("scripts/remove.lua")),
            publish: Script::new(include_str!("scripts/publish.lua")),
        }
    }
}
