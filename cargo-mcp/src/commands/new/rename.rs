//! Replacement of an example's name in its sources.

/// The names of an example and of the new package.
pub(super) struct Renaming<'a> {
    pub(super) example: &'a str,
    pub(super) name: &'a str,
    /// Whether the package has a library. Without one, its crate cannot be referred to, but a module may have its name.
    pub(super) has_library: bool,
}

impl Renaming<'_> {
    /// Replaces the name of the example where it refers to the crate or the package.
    pub(super) fn apply(&self, source: &str) -> String {
        let (old, new) = (self.example.replace('-', "_"), self.name.replace('-', "_"));
        let words = [self.example, &old];
        let mut text = String::with_capacity(source.len());
        let mut rest = source;
        while let Some((at, word)) = first(rest, words) {
            text.push_str(&rest[..at]);
            rest = &rest[at + word.len()..];
            text.push_str(match meaning(&text, rest) {
                Some(Meaning::Package) => self.name,
                Some(Meaning::Crate) if self.has_library && word == old => &new,
                Some(Meaning::Crate) | None => word,
            });
        }
        text + rest
    }
}

/// Returns the position of the first occurrence of one of the words.
fn first<'a>(text: &str, words: [&'a str; 2]) -> Option<(usize, &'a str)> {
    words.into_iter().filter_map(|word| Some((text.find(word)?, word))).min_by_key(|(at, _)| *at)
}

/// The meaning of an occurrence of the name.
enum Meaning {
    /// `use hello::greet`.
    Crate,
    /// `cargo run -p hello`, `Server::new("hello", …)`, `CARGO_BIN_EXE_hello`.
    Package,
}

/// Returns the meaning of an occurrence of the name between two texts, or `None` if it is another word.
fn meaning(before: &str, after: &str) -> Option<Meaning> {
    let part_of_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let ends = |marks: &[&str]| marks.iter().any(|mark| before.ends_with(mark));
    let continues = after.starts_with(|next| part_of_word(next) || next == '-');
    if ends(&["Server::new(\""]) && after.starts_with('"') || ends(&["CARGO_BIN_EXE_", " -p "]) && !continues {
        return Some(Meaning::Package);
    }
    // The start of a path, or an import of the crate: `use hello as it`, `extern crate hello`.
    let starts_path = !before.ends_with(|last| part_of_word(last) || ".:\"'/-".contains(last));
    let is_path = after.starts_with("::") || (ends(&["use ", "extern crate "]) && after.starts_with([' ', ';']));
    (starts_path && is_path).then_some(Meaning::Crate)
}

#[cfg(test)]
mod tests {
    use super::Renaming;

    #[test]
    fn only_references_to_the_package_are_renamed() {
        for (example, source, expected) in [
            ("hello", "use hello::greet;", "use my_server::greet;"),
            ("hello", "use {hello::greet, std::io};", "use {my_server::greet, std::io};"),
            ("hello", "let it = hello::greet();", "let it = my_server::greet();"),
            ("hello", "use hello as it; extern crate hello;", "use my_server as it; extern crate my_server;"),
            ("hello", "Server::new(\"hello\", \"0.1.0\")", "Server::new(\"my-server\", \"0.1.0\")"),
            ("hello", "env!(\"CARGO_BIN_EXE_hello\")", "env!(\"CARGO_BIN_EXE_my-server\")"),
            ("hello", "//! cargo run -p hello -- --list", "//! cargo run -p my-server -- --list"),
            ("mount_axum", "//! cargo run -p mount_axum\n", "//! cargo run -p my-server\n"),
            (
                "two-words",
                "use two_words::it; // cargo test -p two-words",
                "use my_server::it; // cargo test -p my-server",
            ),
            ("hello", "fn hello() {} // hello, hello-world", "fn hello() {} // hello, hello-world"),
            (
                "files",
                "crate::files::x(); self.files(); \"files:///{+path}\"",
                "crate::files::x(); self.files(); \"files:///{+path}\"",
            ),
            (
                "notes",
                "let notes = \"SELECT * FROM notes\"; // -p notes2",
                "let notes = \"SELECT * FROM notes\"; // -p notes2",
            ),
            ("hello", "othello::x(); hello_world::x();", "othello::x(); hello_world::x();"),
        ] {
            let renaming = Renaming { example, name: "my-server", has_library: true };
            assert_eq!(renaming.apply(source), expected);
        }
    }

    #[test]
    fn modules_of_a_program_are_not_renamed() {
        let renaming = Renaming { example: "notes", name: "diary", has_library: false };
        assert_eq!(
            renaming.apply("notes::all(); Server::new(\"notes\", v)"),
            "notes::all(); Server::new(\"diary\", v)"
        );
    }
}
