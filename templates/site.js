// Lets a reader sort and filter the table of each section that names the columns to filter by. Without a script all rows
// are shown, those with the most tables first. What is chosen is in the address, such as #results&server=5.7.22&cache=cold.
for (const section of document.querySelectorAll("[data-filters]")) {
  const table = section.querySelector("table");
  const body = table.tBodies[0];
  const headers = [...table.tHead.rows[0].cells];
  const names = headers.map((header) => header.textContent);
  const rows = [...body.rows];
  const inWords = new Intl.Collator("en", { numeric: true });
  const text = (row, column) => row.cells[column].textContent.trim();
  const number = (row, column) => parseFloat(text(row, column).replaceAll(",", ""));
  const bar = document.createElement("div");
  const status = document.createElement("p");
  const labelled = (name, control) => {
    const label = document.createElement("label");
    label.append(name, control);
    bar.append(label);
    return control;
  };
  const select = (name, options) => {
    const control = labelled(name, document.createElement("select"));
    options.forEach((option) => control.add(new Option(...[option].flat())));
    return control;
  };
  bar.className = "filters";
  status.setAttribute("role", "status");

  const filters = section.dataset.filters.split(",").map((name) => {
    const column = names.indexOf(name);
    const values = [...new Set(rows.map((row) => text(row, column)))].sort(inWords.compare);
    return { name, column, control: select(name, [["all", ""], ...values.map((value) => [value, value])]) };
  });
  const filter = () => {
    for (const row of rows) {
      row.hidden = filters.some(({ column, control }) => control.value && control.value !== text(row, column));
    }
    const shown = rows.filter((row) => !row.hidden).length;
    status.textContent = `${shown} of ${rows.length} rows`;
  };
  const chosen = () => new URLSearchParams(filters.flatMap(({ name, control }) => (control.value ? [[name, control.value]] : [])));
  const address = () => [section.id, ...(chosen().size ? [chosen()] : [])].join("&");
  const choose = () => {
    const [id, ...values] = location.hash.slice(1).split("&");
    if (id !== section.id) return;
    const given = new URLSearchParams(values.join("&"));
    filters.forEach(({ name, control }) => {
      control.value = given.get(name) ?? "";
      if (control.selectedIndex < 0) control.value = ""; // a value that no row has
    });
    filter();
    section.scrollIntoView();
  };

  const by = select("sort by", names.map((name, column) => [name, column]));
  const order = labelled("order", document.createElement("button"));
  order.type = "button";
  const sort = (column, descending) => {
    const isNumber = headers[column].classList.contains("number");
    const compare = (one, other) => {
      if (!isNumber) return inWords.compare(text(one, column), text(other, column));
      const [low, high] = [number(one, column), number(other, column)];
      // What has no figure comes last in both orders.
      if (isNaN(low) || isNaN(high)) return (isNaN(low) - isNaN(high)) * (descending ? -1 : 1);
      return low - high;
    };
    body.append(...[...rows].sort((one, other) => compare(one, other) * (descending ? -1 : 1)));
    headers.forEach((header, place) => {
      if (place === column) header.setAttribute("aria-sort", descending ? "descending" : "ascending");
      else header.removeAttribute("aria-sort");
    });
    by.value = column;
    order.dataset.descending = descending ? "yes" : "";
    order.textContent = descending ? "descending" : "ascending";
  };
  const isDescending = () => order.dataset.descending === "yes";
  headers.forEach((header, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = names[column];
    button.addEventListener("click", () => sort(column, header.getAttribute("aria-sort") === "ascending"));
    header.replaceChildren(button);
  });
  filters.forEach(({ control }) =>
    control.addEventListener("change", () => {
      filter();
      history.replaceState(null, "", `#${address()}`);
    }),
  );
  addEventListener("hashchange", choose);
  by.addEventListener("change", () => sort(Number(by.value), names[by.value] === "date")); // the newest first
  order.addEventListener("click", () => sort(Number(by.value), !isDescending()));
  bar.append(status);
  (table.closest(".scroll") ?? table).before(bar);
  sort(names.indexOf("tables"), true);
  filter();
  choose();
}
