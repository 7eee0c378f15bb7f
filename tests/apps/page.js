// @ts-check
// A script of a page. TypeScript must find an error in exactly the lines that say so.
const app = mcp.app({ name: "page", displayModes: ["inline"] });
app.on("result", result => console.log(result.content.length));
app.on("finished", () => {}); // error
app.context.theme === "dark";
app.context.theme === "blue"; // error

async function main() {
    const { value } = await app.call("add_note", { title: "Milk", color: "red" });
    value?.notes.map(note => note.toUpperCase());
    value?.title; // error
    value?.notes.map(note => note.toFixed()); // error
    await app.call("show_notes");
    await app.call("show_notes", { query: "milk" });
    await app.call("undo");
    (await app.call("list_titles")).value?.map(title => title.toUpperCase());
    (await app.call("list_titles")).value?.result; // error
    await app.call("add_note"); // error
    await app.call("add_notes", { title: "Milk" }); // error
    await app.call("add_note", { name: "Milk" }); // error
    await app.call("add_note", { title: 5 }); // error
    await app.call("add_note", { title: "Milk", color: "blue" }); // error
    await app.call("undo", { title: "Milk" }); // error
    await app.requestDisplayMode("fullscreen");
    await app.requestDisplayMode("window"); // error
    await app.updateModelContext("one note");
    await app.sendMessage([{ type: "text", text: "Hello" }]);
}
main();
