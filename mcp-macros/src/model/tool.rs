use proc_macro2::Span;
use syn::{Expr, Lit};

use super::{Common, Kind, Manner, Owner};
use crate::{
    errors::{Errors, listed},
    nearest::nearest,
    syntax::{Function, ToolSyntax},
};

/// A tool that can be called.
pub(crate) struct Tool {
    pub(crate) common: Common,
    pub(crate) read_only: Option<bool>,
    pub(crate) destructive: Option<bool>,
    pub(crate) idempotent: Option<bool>,
    pub(crate) open_world: Option<bool>,
    pub(crate) task: TaskSupport,
}

/// Whether a call of a tool may be a task.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum TaskSupport {
    Forbidden,
    Optional,
    Required,
    Deferred,
}

impl TaskSupport {
    /// What an author may write.
    const WRITTEN: [(&'static str, Self); 3] =
        [("optional", Self::Optional), ("required", Self::Required), ("deferred", Self::Deferred)];
}

impl Tool {
    /// Checks a tool, and gives back the function that it was made of.
    pub(crate) fn check(given: ToolSyntax, owner: &Owner, errors: &mut Errors) -> (Self, Function) {
        let ToolSyntax { mut function, common, read_only, destructive, idempotent, open_world, task } = given;
        check_hints(read_only, destructive, errors);
        let hint = |given: Option<(bool, Span)>| given.map(|(value, _)| value);
        let common = Common::check(Kind::Tool, owner, common, &mut function, errors);
        let tool = Self {
            task: task.map_or(TaskSupport::Forbidden, |task| check_task(task, common.call.manner, errors)),
            common,
            read_only: hint(read_only),
            destructive: hint(destructive),
            idempotent: hint(idempotent),
            open_world: hint(open_world),
        };
        (tool, function)
    }
}

/// Checks what `task` says, and that the function can wait: one that cannot has ended before anybody could ask for it.
fn check_task((value, place): (Option<Expr>, Span), manner: Manner, errors: &mut Errors) -> TaskSupport {
    let support = value.map_or(Some(TaskSupport::Optional), |value| read_task(&value, errors));
    let Some(support) = support else { return TaskSupport::Forbidden };
    match manner {
        Manner::Sync => errors.at(
            place,
            "a synchronous function cannot be a `task`: it keeps the server's thread to itself until it has ended\nhelp: add `blocking`, or make the function `async`",
        ),
        Manner::Blocking if support == TaskSupport::Deferred => errors.at(
            place,
            "a function that blocks cannot say when it becomes a task, which is `ctx.become_task().await`\nhelp: make the function `async`",
        ),
        Manner::Blocking | Manner::Async => {}
    }
    support
}

fn read_task(value: &Expr, errors: &mut Errors) -> Option<TaskSupport> {
    let Expr::Lit(literal) = value else { return misused(value, errors) };
    let Lit::Str(text) = &literal.lit else { return misused(value, errors) };
    let text = text.value();
    let known = || TaskSupport::WRITTEN.into_iter().map(|(name, _)| name);
    let support = TaskSupport::WRITTEN.into_iter().find_map(|(name, support)| (name == text).then_some(support));
    if support.is_none() {
        let message = format!("`{text}` says nothing about a task, expected one of {}", listed(known()));
        match nearest(&text, known()) {
            Some(nearest) => errors.help(value, message, format_args!("did you mean `{nearest}`?")),
            None => errors.on(value, message),
        }
    }
    support
}

fn misused(value: &Expr, errors: &mut Errors) -> Option<TaskSupport> {
    errors.on(value, r#"wrong value for the option `task`, expected `task = "required"`"#);
    None
}

fn check_hints(read_only: Option<(bool, Span)>, destructive: Option<(bool, Span)>, errors: &mut Errors) {
    if let (Some((true, _)), Some((true, place))) = (read_only, destructive) {
        let message =
            "`destructive` contradicts `read_only`: what changes nothing cannot destroy\nhelp: remove one of the two";
        errors.at(place, message);
    }
}
