use proc_macro2::TokenStream;
use quote::{format_ident, quote_spanned};

use super::{Entry, common::common, here, option};
use crate::model::{TaskSupport, Tool};

/// Emits the static data of a tool.
///
/// ```text
/// ToolEntry {
///     output: OutputType::of::<Json<Vec<Note>>>(),
///     common: CommonEntry { … },
///     hints: Hints { read_only: Some(true), destructive: None, idempotent: None, open_world: None },
///     task: task_support!(Optional),
/// }
/// ```
pub(crate) fn tool(tool: &Tool, private: &TokenStream) -> Entry {
    let here = here();
    let [read_only, destructive, idempotent, open_world] =
        [tool.read_only, tool.destructive, tool.idempotent, tool.open_world].map(option);
    let common = common(&tool.common, "write_tool", private);
    // The macro fails without the feature `tasks` of the runtime.
    let supported = |variant| {
        let variant = format_ident!("{variant}", span = here);
        quote_spanned!(here=> #private::task_support!(#variant))
    };
    let task = match tool.task {
        TaskSupport::Forbidden => quote_spanned!(here=> #private::TaskSupport::Forbidden),
        TaskSupport::Optional => supported("Optional"),
        TaskSupport::Required => supported("Required"),
        TaskSupport::Deferred => supported("Deferred"),
    };
    let output = &tool.common.call.output;
    let value = quote_spanned! {here=>
        #private::ToolEntry {
            output: #private::OutputType::of::<#output>(),
            common: #common,
            hints: #private::Hints {
                read_only: #read_only,
                destructive: #destructive,
                idempotent: #idempotent,
                open_world: #open_world,
            },
            task: #task,
        }
    };
    Entry { kind: "Tool", value, conditions: tool.common.call.conditions.clone() }
}
