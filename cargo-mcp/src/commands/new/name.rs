//! What a package may be called: cargo's rules, and those of the compiler.

use crate::failure::Failure;

/// Words that the compiler keeps for itself, in any edition.
const KEYWORDS: &[&str] = &[
    "Self", "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn",
    "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro",
    "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "self", "static", "struct", "super",
    "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];
/// Libraries that every program has.
const BUILT_IN: &[&str] = &["alloc", "core", "proc-macro", "proc_macro", "std", "test"];
/// Directories that cargo makes beside the programs that it builds.
const DIRECTORIES: &[&str] = &["build", "deps", "examples", "incremental"];
/// Names of devices, which Windows lets no file have.
const DEVICES: &[&str] = &[
    "aux", "com1", "com2", "com3", "com4", "com5", "com6", "com7", "com8", "com9", "con", "lpt1", "lpt2", "lpt3",
    "lpt4", "lpt5", "lpt6", "lpt7", "lpt8", "lpt9", "nul", "prn",
];

/// Says what is wrong with a name, if anything is. Names in `taken` are those of the package's dependencies.
pub(super) fn fault(name: &str, taken: &[String]) -> Option<&'static str> {
    let lower = name.to_ascii_lowercase();
    let is_one_of = |names: &[&str]| names.contains(&&*lower);
    let same = |other: &String| other.replace('-', "_") == lower.replace('-', "_");
    match name.chars().next() {
        None => Some("it is empty"),
        Some(first) if first.is_ascii_digit() => Some("it begins with a digit"),
        Some('-') => Some("it begins with a hyphen"),
        _ if !name.chars().all(is_allowed) => Some("it holds more than letters, digits, `-` and `_`"),
        _ if !name.chars().any(|letter| letter.is_ascii_alphanumeric()) => {
            Some("it holds neither a letter nor a digit")
        }
        _ if KEYWORDS.contains(&name) || is_one_of(KEYWORDS) => Some("it is a keyword of Rust"),
        _ if is_one_of(BUILT_IN) => Some("it is the name of a library that comes with Rust"),
        _ if is_one_of(DIRECTORIES) => Some("cargo has a directory of this name beside the programs that it builds"),
        _ if is_one_of(DEVICES) => Some("Windows keeps it for a device"),
        _ if taken.iter().any(same) => Some("a dependency of the package has it"),
        _ => None,
    }
}

/// Refuses a name that cannot be a package's, and tells a good one that is like it.
///
/// # Errors
///
/// The name breaks a rule.
pub(super) fn check(name: &str, taken: &[String]) -> Result<(), Failure> {
    match fault(name, taken) {
        None => Ok(()),
        Some(fault) => Err(Failure::usage(format_args!("a package cannot be called `{name}`: {fault}"))
            .help(format_args!("call it `{}`", suggestion(name, taken)))),
    }
}

/// A good name that is like a bad one: `My Server` gives `my-server`.
pub(super) fn suggestion(name: &str, taken: &[String]) -> String {
    let mut good = String::new();
    let mut last = '-';
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && (last.is_ascii_lowercase() || last.is_ascii_digit()) {
            good.push('-');
        }
        match letter {
            _ if letter.is_ascii_alphanumeric() => good.push(letter.to_ascii_lowercase()),
            '_' if !good.is_empty() => good.push('_'),
            _ if !good.is_empty() && !good.ends_with('-') => good.push('-'),
            _ => {}
        }
        last = letter;
    }
    let good = good.trim_end_matches(['-', '_']).to_owned();
    match good {
        _ if good.is_empty() => "my-server".to_owned(),
        _ if fault(&good, taken).is_none() => good,
        _ if good.starts_with(|first: char| first.is_ascii_digit()) => format!("server-{good}"),
        _ => format!("{good}-server"),
    }
}

fn is_allowed(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '-' || letter == '_'
}

#[cfg(test)]
mod tests {
    use super::{fault, suggestion};

    #[test]
    fn bad_names_are_told_and_a_good_one_beside() {
        let taken = ["mcp-runtime".to_owned(), "tokio".to_owned()];
        for (name, expected) in [
            ("", Some(("it is empty", "my-server"))),
            ("My Server", Some(("it holds more than letters, digits, `-` and `_`", "my-server"))),
            ("café", Some(("it holds more than letters, digits, `-` and `_`", "caf"))),
            ("日本", Some(("it holds more than letters, digits, `-` and `_`", "my-server"))),
            ("a..b", Some(("it holds more than letters, digits, `-` and `_`", "a-b"))),
            ("MyServer!", Some(("it holds more than letters, digits, `-` and `_`", "my-server"))),
            ("3d", Some(("it begins with a digit", "server-3d"))),
            ("-weather", Some(("it begins with a hyphen", "weather"))),
            ("__", Some(("it holds neither a letter nor a digit", "my-server"))),
            ("async", Some(("it is a keyword of Rust", "async-server"))),
            ("Self", Some(("it is a keyword of Rust", "self-server"))),
            ("test", Some(("it is the name of a library that comes with Rust", "test-server"))),
            ("core", Some(("it is the name of a library that comes with Rust", "core-server"))),
            ("std", Some(("it is the name of a library that comes with Rust", "std-server"))),
            ("build", Some(("cargo has a directory of this name beside the programs that it builds", "build-server"))),
            ("NUL", Some(("Windows keeps it for a device", "nul-server"))),
            ("mcp_runtime", Some(("a dependency of the package has it", "mcp_runtime-server"))),
            ("tokio", Some(("a dependency of the package has it", "tokio-server"))),
            ("weather", None),
            ("my-server2", None),
            ("_private", None),
            ("Weather", None),
        ] {
            assert_eq!(fault(name, &taken), expected.map(|(fault, _)| fault), "{name}");
            if let Some((_, good)) = expected {
                assert_eq!(suggestion(name, &taken), good, "{name}");
                assert_eq!(fault(good, &taken), None, "{good}");
            }
        }
    }
}
