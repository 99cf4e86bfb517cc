// Helpers for elements of the page. Names of files and classes are only set as text, never as HTML.

export const byId = (id) => document.getElementById(id);

export function element(tag, values = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(values)) {
    if (name === "text") made.textContent = value;
    else if (name === "data") Object.assign(made.dataset, value);
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

export const STATUS = {
  open: "not decided",
  confirmed: "conflicting",
  cleared: "not conflicting",
  relabelled: "wrong label",
  excluded: "excluded",
  skipped: "skipped",
  edited: "edited in the table",
};

export function statusText(row) {
  return row.new_label ? `${STATUS[row.status]}, now ${row.new_label}` : STATUS[row.status];
}

export function describe(row) {
  const predicted = row.predicted ? `, predicted ${row.predicted}` : "";
  return `${row.name}: ${row.label}${predicted}, score ${row.score.toFixed(2)}, ${statusText(row)}`;
}

export function announce(text) {
  byId("live").textContent = text;
}

export function warn(text) {
  const banner = byId("banner");
  if (banner.textContent !== text) banner.textContent = text;
  banner.hidden = !text;
}

// URLs of pictures contain the name of the table, so that the browser does not reuse pictures of another table.
let table = "";

export function setTable(name) {
  table = name;
}

export function picture(kind, row) {
  return `${kind}/${row}?table=${table}`;
}

export function pictureOf(row, size, alt) {
  const image = element("img", { alt, decoding: "async", data: { row: row.row } });
  image.addEventListener("error", () => image.classList.add("broken"));
  image.addEventListener("load", () => {
    image.classList.remove("broken");
    image.classList.toggle("pixels", Math.max(image.naturalWidth, image.naturalHeight) <= 96);
  });
  image.src = picture(size, row.row);
  return image;
}
