// Sort a table by the column whose head is clicked: numbers from the largest, texts from A. A second click reverses the
// order. What is missing comes last.
for (const table of document.querySelectorAll("table.sortable")) {
  table.querySelectorAll("thead th").forEach((head, column) => {
    head.querySelector("button").addEventListener("click", () => {
      const first = head.classList.contains("number") ? "descending" : "ascending";
      const second = first === "descending" ? "ascending" : "descending";
      const order = head.getAttribute("aria-sort") === first ? second : first;
      const sign = order === "ascending" ? 1 : -1;
      const value = (row) => row.children[column].dataset.value ?? "";
      const compare = (a, b) => {
        const [x, y] = [value(a), value(b)];
        if (x === "" || y === "") return (x === "") - (y === "");
        return sign * (isNaN(x) || isNaN(y) ? x.localeCompare(y) : x - y);
      };
      table.tBodies[0].append(...[...table.tBodies[0].rows].sort(compare));
      table.querySelectorAll("thead th").forEach((each) => each.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", order);
    });
  });
}
