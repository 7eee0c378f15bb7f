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
    pub(crate) time: Script,
    pub(crate) append: Script,
    pub(crate) last: Script,
    pub(crate) remove: Script,
    pub(crate) publish: Script,
}

impl Default for Scripts {
    fn default() -> Self {
        Self {
            set: Script::new(concat!(include_str!("group.lua"), include_str!("set.lua"))),
            insert: Script::new(concat!(include_str!("group.lua"), include_str!("insert.lua"))),
            delete: Script::new(concat!(include_str!("group.lua"), include_str!("delete.lua"))),
            names: Script::new(concat!(include_str!("group.lua"), include_str!("names.lua"))),
            count: Script::new(include_str!("count.lua")),
            time: Script::new(include_str!("time.lua")),
            append: Script::new(include_str!("append.lua")),
            last: Script::new(include_str!("last.lua")),
            remove: Script::new(include_str!("remove.lua")),
            publish: Script::new(include_str!("publish.lua")),
        }
    }
}
