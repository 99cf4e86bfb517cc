// Elements of the page. Names of files and classes are only ever set as text.

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
  confirmed: "exception",
  cleared: "not an exception",
  relabelled: "wrong label",
  excluded: "excluded",
  skipped: "skipped",
  edited: "edited in the table",
};

export function statusText(row) {
  return row.new_label ? `${STATUS[row.status]}, now ${row.new_label}` : STATUS[row.status];
}

export function describe(row) {
  const taken = row.predicted ? `, taken for ${row.predicted}` : "";
  return `${row.name}: ${row.label}${taken}, score ${row.score.toFixed(2)}, ${statusText(row)}`;
}

export function announce(text) {
  byId("live").textContent = text;
}

export function warn(text) {
  const banner = byId("banner");
  if (banner.textContent !== text) banner.textContent = text;
  banner.hidden = !text;
}

// Addresses of pictures have the name of the table, so that the browser keeps none of another.
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
