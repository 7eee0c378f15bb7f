//! A source of an example in the words of the new package.

/// Names of an example, and what stands for them in the new package.
pub(super) struct Renaming<'a> {
    pub(super) example: &'a str,
    pub(super) name: &'a str,
    /// Whether the package has a library: without one, nothing in it can name its crate, but modules can have that name.
    pub(super) has_library: bool,
}

impl Renaming<'_> {
    /// Puts the new name where the example's stood: as a crate, as a server, and in command lines.
    pub(super) fn apply(&self, source: &str) -> String {
        let (old, new) = (self.example.replace('-', "_"), self.name.replace('-', "_"));
        let words = [self.example, &old];
        let mut text = String::with_capacity(source.len());
        let mut rest = source;
        while let Some((at, word)) = first(rest, words) {
            text.push_str(&rest[..at]);
            rest = &rest[at + word.len()..];
            text.push_str(match place(&text, rest) {
                Some(Place::Package) => self.name,
                Some(Place::Crate) if self.has_library && word == old => &new,
                Some(Place::Crate) | None => word,
            });
        }
        text + rest
    }
}

/// Where the first of some words stands.
fn first<'a>(text: &str, words: [&'a str; 2]) -> Option<(usize, &'a str)> {
    words.into_iter().filter_map(|word| Some((text.find(word)?, word))).min_by_key(|(at, _)| *at)
}

enum Place {
    /// `use hello::greet`.
    Crate,
    /// `cargo run -p hello`, `Server::new("hello", …)`, `CARGO_BIN_EXE_hello`.
    Package,
}

/// What a word between two texts stands for, if it is a name of the package.
fn place(before: &str, after: &str) -> Option<Place> {
    let part_of_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let ends = |marks: &[&str]| marks.iter().any(|mark| before.ends_with(mark));
    let goes_on = after.starts_with(|next| part_of_word(next) || next == '-');
    if ends(&["Server::new(\""]) && after.starts_with('"') || ends(&["CARGO_BIN_EXE_", " -p "]) && !goes_on {
        return Some(Place::Package);
    }
    // A path begins with it, or it is the crate that is meant: `use hello as it`, `extern crate hello`.
    let begins = !before.ends_with(|last| part_of_word(last) || ".:\"'/-".contains(last));
    let is_path = after.starts_with("::") || (ends(&["use ", "extern crate "]) && after.starts_with([' ', ';']));
    (begins && is_path).then_some(Place::Crate)
}

#[cfg(test)]
mod tests {
    use super::Renaming;

    #[test]
    fn only_what_names_the_crate_is_renamed() {
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
    fn a_module_of_a_program_keeps_its_name() {
        let renaming = Renaming { example: "notes", name: "diary", has_library: false };
        assert_eq!(
            renaming.apply("notes::all(); Server::new(\"notes\", v)"),
            "notes::all(); Server::new(\"diary\", v)"
        );
    }
}
