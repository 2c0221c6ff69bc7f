// Adds a Copy button to each table and each command. A table is copied for spreadsheets and for trackers: as text with
// tabs, and as a plain HTML table. The selection shows what was copied; where a browser refuses to copy, Ctrl-C does.
for (const part of document.querySelectorAll("table, pre")) {
  const button = document.createElement("button");
  const rows = part.rows && [...part.rows];
  button.type = "button";
  button.className = "copy";
  button.textContent = rows ? "Copy table" : "Copy command";
  button.addEventListener("click", () => {
    getSelection().selectAllChildren(part);
    document.addEventListener("copy", (event) => {
      const lines = rows?.map((row) => [...row.cells].map((cell) => cell.textContent).join("\t"));
      event.clipboardData.setData("text/plain", lines ? lines.join("\n") : part.textContent);
      if (rows) event.clipboardData.setData("text/html", `<table>${rows.map((row) => row.outerHTML).join("")}</table>`);
      event.preventDefault();
    }, { once: true });
    button.textContent = document.execCommand("copy") ? "Copied" : "Selected";
  });
  (part.closest(".scroll") ?? part).after(button);
}
