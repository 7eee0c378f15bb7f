//! Validation of package names, by the rules of cargo and of the compiler.

use std::path::Path;

use crate::failure::Failure;

/// The keywords of all editions.
const KEYWORDS: &[&str] = &[
    "Self", "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn",
    "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro",
    "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "self", "static", "struct", "super",
    "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];
/// The crates of the standard library.
const BUILT_IN: &[&str] = &["alloc", "core", "proc-macro", "proc_macro", "std", "test"];
/// Directories that cargo creates next to the programs it builds.
const DIRECTORIES: &[&str] = &["build", "deps", "examples", "incremental"];
/// Device names, which are not allowed as file names on Windows.
const DEVICES: &[&str] = &[
    "aux", "com1", "com2", "com3", "com4", "com5", "com6", "com7", "com8", "com9", "con", "lpt1", "lpt2", "lpt3",
    "lpt4", "lpt5", "lpt6", "lpt7", "lpt8", "lpt9", "nul", "prn",
];

/// Returns the name of the package that is created at a path.
///
/// # Errors
///
/// Fails if the path has no last component.
pub(super) fn of_path(path: &Path) -> Result<String, Failure> {
    let path_with_name = match path.file_name() {
        Some(_) => path.to_owned(),
        // `.` and `..` refer to existing directories.
        None => path.canonicalize().unwrap_or_default(),
    };
    match path_with_name.file_name() {
        Some(name) => Ok(name.to_string_lossy().into_owned()),
        None => Err(Failure::usage(format_args!("`{}` does not end with a name", path.display()))
            .help("specify a name, such as `cargo mcp new weather`")),
    }
}

/// Returns why a name is invalid, if it is. `taken` are the names of the package's dependencies.
pub(super) fn problem(name: &str, taken: &[String]) -> Option<&'static str> {
    let lower = name.to_ascii_lowercase();
    let is_one_of = |names: &[&str]| names.contains(&&*lower);
    let same = |other: &String| other.replace('-', "_") == lower.replace('-', "_");
    match name.chars().next() {
        None => Some("it is empty"),
        Some(first) if first.is_ascii_digit() => Some("it starts with a digit"),
        Some('-') => Some("it starts with a hyphen"),
        _ if !name.chars().all(is_allowed) => Some("it contains characters other than letters, digits, `-` and `_`"),
        _ if !name.chars().any(|letter| letter.is_ascii_alphanumeric()) => {
            Some("it contains neither letters nor digits")
        }
        _ if KEYWORDS.contains(&name) || is_one_of(KEYWORDS) => Some("it is a Rust keyword"),
        _ if is_one_of(BUILT_IN) => Some("it is the name of a standard library crate"),
        _ if is_one_of(DIRECTORIES) => Some("it conflicts with a directory that cargo creates in the target directory"),
        _ if is_one_of(DEVICES) => Some("it is a device name on Windows"),
        _ if taken.iter().any(same) => Some("it is the name of a dependency"),
        _ => None,
    }
}

/// Checks a name.
///
/// # Errors
///
/// Fails if the name is invalid, with a similar valid name as a suggestion.
pub(super) fn check(name: &str, taken: &[String]) -> Result<(), Failure> {
    match problem(name, taken) {
        None => Ok(()),
        Some(problem) => Err(Failure::usage(format_args!("invalid package name `{name}`: {problem}"))
            .help(format_args!("use `{}` instead", suggestion(name, taken)))),
    }
}

/// Returns a valid name similar to an invalid name: `My Server` becomes `my-server`.
pub(super) fn suggestion(name: &str, taken: &[String]) -> String {
    let mut valid = String::new();
    let mut last = '-';
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && (last.is_ascii_lowercase() || last.is_ascii_digit()) {
            valid.push('-');
        }
        match letter {
            _ if letter.is_ascii_alphanumeric() => valid.push(letter.to_ascii_lowercase()),
            '_' if !valid.is_empty() => valid.push('_'),
            _ if !valid.is_empty() && !valid.ends_with('-') => valid.push('-'),
            _ => {}
        }
        last = letter;
    }
    let valid = valid.trim_end_matches(['-', '_']).to_owned();
    match valid {
        _ if valid.is_empty() => "my-server".to_owned(),
        _ if problem(&valid, taken).is_none() => valid,
        _ if valid.starts_with(|first: char| first.is_ascii_digit()) => format!("server-{valid}"),
        _ => format!("{valid}-server"),
    }
}

fn is_allowed(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '-' || letter == '_'
}

#[cfg(test)]
mod tests {
    use super::{problem, suggestion};

    #[test]
    fn invalid_names_are_rejected_with_a_suggestion() {
        let taken = ["mcp-runtime".to_owned(), "tokio".to_owned()];
        for (name, expected) in [
            ("", Some(("it is empty", "my-server"))),
            ("My Server", Some(("it contains characters other than letters, digits, `-` and `_`", "my-server"))),
            ("café", Some(("it contains characters other than letters, digits, `-` and `_`", "caf"))),
            ("日本", Some(("it contains characters other than letters, digits, `-` and `_`", "my-server"))),
            ("a..b", Some(("it contains characters other than letters, digits, `-` and `_`", "a-b"))),
            ("MyServer!", Some(("it contains characters other than letters, digits, `-` and `_`", "my-server"))),
            ("3d", Some(("it starts with a digit", "server-3d"))),
            ("-weather", Some(("it starts with a hyphen", "weather"))),
            ("__", Some(("it contains neither letters nor digits", "my-server"))),
            ("async", Some(("it is a Rust keyword", "async-server"))),
            ("Self", Some(("it is a Rust keyword", "self-server"))),
            ("test", Some(("it is the name of a standard library crate", "test-server"))),
            ("core", Some(("it is the name of a standard library crate", "core-server"))),
            ("std", Some(("it is the name of a standard library crate", "std-server"))),
            (
                "build",
                Some(("it conflicts with a directory that cargo creates in the target directory", "build-server")),
            ),
            ("NUL", Some(("it is a device name on Windows", "nul-server"))),
            ("mcp_runtime", Some(("it is the name of a dependency", "mcp_runtime-server"))),
            ("tokio", Some(("it is the name of a dependency", "tokio-server"))),
            ("weather", None),
            ("my-server2", None),
            ("_private", None),
            ("Weather", None),
        ] {
            assert_eq!(problem(name, &taken), expected.map(|(problem, _)| problem), "{name}");
            if let Some((_, valid)) = expected {
                assert_eq!(suggestion(name, &taken), valid, "{name}");
                assert_eq!(problem(valid, &taken), None, "{valid}");
            }
        }
    }
}
