// Tables that sort, and the confusion matrix. It imports nothing, so that a page of one file has it.

for (const table of document.querySelectorAll("table.sortable")) sortable(table);
for (const table of document.querySelectorAll("table.confusion")) matrix(table);

// A click on a heading sorts by it, a second click the other way round.
function sortable(table) {
  const body = table.tBodies[0];
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sort";
    button.textContent = heading.textContent;
    heading.replaceChildren(button);
    button.addEventListener("click", () => {
      const numbers = heading.classList.contains("number");
      const first = numbers ? "descending" : "ascending";
      const order = heading.getAttribute("aria-sort") === first ? flipped(first) : first;
      for (const other of headings) other.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", order);
      const sign = order === "ascending" ? 1 : -1;
      const value = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
      const rows = [...body.rows].sort((one, other) => {
        const [a, b] = [value(one), value(other)];
        if (!a || !b) return (a ? 0 : 1) - (b ? 0 : 1); // what has no value stands last
        return sign * (numbers ? a - b : a.localeCompare(b));
      });
      body.append(...rows);
    });
  });
}

function flipped(order) {
  return order === "ascending" ? "descending" : "ascending";
}

// A sentence for the cell under the pointer or the keyboard.
function matrix(table) {
  const output = document.getElementById("said");
  const names = [...table.tHead.rows[0].cells].slice(1).map((cell) => cell.textContent);
  const rows = [...table.tBodies[0].rows].map((row) => [...row.cells].slice(1));
  let at = [0, 0];
  const tell = (row, column) => {
    const cell = rows[row][column];
    const count = Number(cell.textContent || 0);
    const all = rows[row].reduce((sum, one) => sum + Number(one.textContent || 0), 0);
    const what = `${count.toLocaleString("en")} of ${all.toLocaleString("en")} images of ${names[row]}`;
    output.textContent = `${what} were called ${names[column]}.`;
  };
  const move = (row, column) => {
    rows[at[0]][at[1]].tabIndex = -1;
    at = [row, column];
    rows[row][column].tabIndex = 0;
    rows[row][column].focus();
  };
  rows.forEach((cells, row) =>
    cells.forEach((cell, column) => {
      cell.tabIndex = row + column === 0 ? 0 : -1;
      cell.addEventListener("pointerenter", () => tell(row, column));
      cell.addEventListener("focus", () => tell(row, column));
      cell.addEventListener("keydown", (event) => {
        const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
        if (!step) return;
        event.preventDefault();
        const within = (place) => Math.min(Math.max(place, 0), rows.length - 1);
        move(within(row + step[0]), within(column + step[1]));
      });
    }),
  );
}
