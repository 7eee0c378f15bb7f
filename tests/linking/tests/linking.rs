//! The linker drops the functions of a library that nothing refers to. The server reports that they are missing.

use std::process::Command;

#[test]
fn a_library_that_is_not_linked_is_reported() {
    for (program, is_linked) in [(env!("CARGO_BIN_EXE_linked"), true), (env!("CARGO_BIN_EXE_unlinked"), false)] {
        let output = Command::new(program).arg("--list").env_remove("RUST_LOG").output().unwrap();
        let (stdout, stderr) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        for (library, tool) in [("mcp-linking-toolbox", "sharpen"), ("mcp-linking", "erase")] {
            assert_eq!(stdout.contains(tool), is_linked, "{stdout}");
            let warning = format!("help: add `use {} as _;`", library.replace('-', "_"));
            assert_eq!(stderr.contains(&warning), !is_linked, "{stderr}");
            assert_eq!(stderr.contains(library), !is_linked, "{stderr}");
        }
    }
}
