//! The methods whose names the engine knows.

use crate::revision::{Dialect, Feature};

/// The member of `params` that names what a request refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    /// There is none.
    Absent,
    /// `name`, which HTTP repeats in a header.
    Name,
    /// `uri`, which HTTP repeats in a header.
    Uri,
    /// `uri`, which only the message contains.
    UnmirroredUri,
    /// `taskId`, which HTTP repeats in a header.
    Task,
}

/// Defines the methods: their names, their subjects, and the features of which a revision needs one to have the method.
/// All revisions have a method without features.
macro_rules! methods {
    ($($method:ident = $name:literal, $subject:ident, [$($feature:ident),*];)*) => {
        /// A method of the protocol: of a request, of a notification, or of a request to the client.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Method {
            $($method,)*
        }

        impl Method {
            #[inline]
            pub(crate) fn named(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$method),)*
                    _ => None,
                }
            }

            pub(crate) const fn name(self) -> &'static str {
                match self {
                    $(Self::$method => $name,)*
                }
            }

            pub(crate) const fn subject(self) -> Subject {
                match self {
                    $(Self::$method => Subject::$subject,)*
                }
            }

            /// Returns whether a dialect has the method.
            #[inline]
            pub(crate) fn is_in(self, dialect: &Dialect) -> bool {
                let features: &[Feature] = match self {
                    $(Self::$method => &[$(Feature::$feature),*],)*
                };
                features.is_empty() || features.iter().any(|feature| dialect.has(*feature))
            }
        }
    };
}

methods! {
    CallTool = "tools/call", Name, [];
    ListTools = "tools/list", Absent, [];
    ReadResource = "resources/read", Uri, [];
    ListResources = "resources/list", Absent, [];
    ListTemplates = "resources/templates/list", Absent, [];
    Subscribe = "resources/subscribe", UnmirroredUri, [ResourceSubscriptions];
    Unsubscribe = "resources/unsubscribe", UnmirroredUri, [ResourceSubscriptions];
    ReadDirectory = "resources/directory/read", UnmirroredUri, [SkillsExtension];
    GetPrompt = "prompts/get", Name, [];
    ListPrompts = "prompts/list", Absent, [];
    Complete = "completion/complete", Absent, [];
    Ping = "ping", Absent, [Ping];
    Initialize = "initialize", Absent, [Handshake];
    Discover = "server/discover", Absent, [RequestMeta];
    SetLevel = "logging/setLevel", Absent, [LogLevel];
    ListSkills = "skills/list", Absent, [SkillsExtension];
    GetSkill = "skills/get", UnmirroredUri, [SkillsExtension];
    Listen = "subscriptions/listen", Absent, [Listening];
    GetTask = "tasks/get", Task, [SessionTasks, TaskExtension];
    TaskResult = "tasks/result", Absent, [SessionTasks];
    ListTasks = "tasks/list", Absent, [SessionTasks];
    CancelTask = "tasks/cancel", Task, [SessionTasks, TaskExtension];
    UpdateTask = "tasks/update", Task, [TaskExtension];
    Initialized = "notifications/initialized", Absent, [];
    Cancelled = "notifications/cancelled", Absent, [];
    Progress = "notifications/progress", Absent, [];
    RootsChanged = "notifications/roots/list_changed", Absent, [];
    // Requests to the client.
    Elicit = "elicitation/create", Absent, [];
    Sample = "sampling/createMessage", Absent, [];
    ListRoots = "roots/list", Absent, [];
}
