//! Random changes of a server. A table of the functions that are registered, and of those that are enabled, says what lists
//! contain, what each operation returns, and which notifications follow.

use std::collections::BTreeMap;

use mcp_runtime::{
    __private::Entry,
    function::{Collect, EntryInfo, SchemaProfile},
};
use proptest::{collection::vec, prelude::*};

use super::*;

/// Another template.
#[resource("test://note/{id}", tags("admin"))]
fn note(id: u32) -> String {
    id.to_string()
}

/// Declares sets of functions, with the names under which their functions are listed.
macro_rules! sets {
    ($($set:ident { $($function:ident $list:literal $name:literal),* })*) => {
        $(
            struct $set;

            impl Collect for $set {
                fn entries() -> &'static [Entry] {
                    Vec::leak([$($function::entries()),*].concat())
                }
            }
        )*

        const SETS: &[Set] = &[
            $(Set {
                functions: &[$(($list, $name)),*],
                add: |handle| handle.add::<$set>().is_ok(),
                remove: Handle::remove::<$set>,
                enable: Handle::enable::<$set>,
                disable: Handle::disable::<$set>,
            }),*
        ];
    };
}

/// A set of functions, and what a handle does with it.
struct Set {
    functions: &'static [(&'static str, &'static str)],
    add: fn(&Handle) -> bool,
    remove: fn(&Handle) -> bool,
    enable: fn(&Handle) -> bool,
    disable: fn(&Handle) -> bool,
}

sets! {
    OneTool { optional "tools" "optional" }
    Tools { optional "tools" "optional", permanent "tools" "permanent" }
    OneResource { fixed "resources" "test://fixed" }
    OneTemplate { item "resources/templates" "test://item/{id}" }
    Templates { item "resources/templates" "test://item/{id}", note "resources/templates" "test://note/{id}" }
    OnePrompt { ask "prompts" "ask" }
    Admin {
        optional "tools" "optional", other "resources" "test://other", note "resources/templates" "test://note/{id}",
        ask_more "prompts" "ask_more"
    }
    Mixed {
        permanent "tools" "permanent", fixed "resources" "test://fixed", note "resources/templates" "test://note/{id}",
        ask "prompts" "ask"
    }
}

const LISTS: [&str; 4] = ["tools", "resources", "resources/templates", "prompts"];

/// The functions that are registered, and whether each is enabled.
type Model = BTreeMap<(&'static str, &'static str), bool>;

fn enabled(model: &Model, list: &str) -> Vec<&'static str> {
    model.iter().filter(|((of, _), enabled)| *of == list && **enabled).map(|((_, name), _)| *name).collect()
}

fn is_admin(name: &str) -> bool {
    ["optional", "test://other", "test://note/{id}", "ask_more"].contains(&name)
}

/// Performs an operation on the server and on the model, and compares what they return.
fn perform(handle: &Handle, model: &mut Model, operation: u8, set: &Set) {
    let before = model.clone();
    let (found, expected) = match operation {
        0 => {
            model.extend(set.functions.iter().map(|function| (*function, true)));
            ((set.add)(handle), true)
        }
        1 => {
            model.retain(|function, _| !set.functions.contains(function));
            ((set.remove)(handle), *model != before)
        }
        2 | 3 => {
            let enables = operation == 2;
            model.iter_mut().filter(|(of, _)| set.functions.contains(of)).for_each(|(_, enabled)| *enabled = enables);
            (if enables { set.enable } else { set.disable }(handle), *model != before)
        }
        _ => {
            let decides = |is_admin: bool| is_admin == (operation == 4);
            model.iter_mut().for_each(|((_, name), enabled)| *enabled = decides(is_admin(name)));
            let decide = |entry: &EntryInfo<'_>| decides(entry.has_tag("admin"));
            (handle.set_enabled(decide), *model != before)
        }
    };
    assert_eq!(found, expected, "{operation} {:?}", set.functions);
}

async fn check_changes(revision: Revision, schemas: SchemaProfile, operations: Vec<(u8, usize)>) {
    // With an entry of every kind, every list exists from the start.
    let built = server().schemas(schemas).build().unwrap();
    // The contents of lists do not depend on the order of changes.
    let mut unchanged = server().schemas(schemas).with::<Tools>().test_client(revision);
    let described = unchanged.tools().await.unwrap();
    let (handle, mut client) = (built.handle(), built.test_client(revision));
    watch_lists(&mut client);
    let mut model: Model = SETS
        .iter()
        .flat_map(|set| set.functions)
        .filter(|function| ["permanent", "test://fixed", "test://item/{id}", "ask"].contains(&function.1))
        .map(|function| (*function, true))
        .collect();
    for (operation, set) in operations {
        let before = LISTS.map(|list| enabled(&model, list));
        perform(&handle, &mut model, operation, &SETS[set]);
        let after = LISTS.map(|list| enabled(&model, list));
        let is_changed = |list: usize| before[list] != after[list];
        let expected =
            [("tools", is_changed(0)), ("resources", is_changed(1) || is_changed(2)), ("prompts", is_changed(3))];
        let expected =
            expected.into_iter().filter(|(_, changed)| *changed).map(|(list, _)| format!("{list}/list_changed"));
        assert_eq!(methods(&mut client), expected.collect::<Vec<_>>(), "{operation} {:?}", SETS[set].functions);
        for tool in client.tools().await.unwrap() {
            assert!(described.contains(&tool), "{schemas:?}: {tool:?}");
        }
        for (list, names) in LISTS.iter().zip(&after) {
            assert_eq!(
                listed(&mut client, &format!("{list}/list")).await,
                *names,
                "{operation} {:?}",
                SETS[set].functions
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn lists_and_notifications_follow_every_change(
        is_stateless: bool,
        is_exact: bool,
        operations in vec((0..6_u8, 0..SETS.len()), 1..40),
    ) {
        let revision = if is_stateless { Revision::V2026_07_28 } else { Revision::V2025_11_25 };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let schemas = if is_exact { SchemaProfile::Exact } else { SchemaProfile::Compatible };
        runtime.block_on(check_changes(revision, schemas, operations));
    }
}
