// Elements from descriptions, and an update in place that keeps focus, selection and scrolling. What
// comes from peers becomes text and attributes only, made visible.
import {visible} from "./format.js";

const svgTags = new Set(["svg", "polyline", "polygon", "line"]);
const shownAttributes = new Set(["title", "aria-label", "data-label"]);

// h("td", {class: "n", style: {width: "3%"}}, "text", element, ...). Null and false children are left
// out, arrays are opened. Styles go through the object model: the page's policy has no inline styles.
export function h(tag, attributes = {}, ...children) {
  const element = svgTags.has(tag)
    ? document.createElementNS("http://www.w3.org/2000/svg", tag)
    : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "style") {
      for (const [property, text] of Object.entries(value)) element.style.setProperty(property, text);
    } else {
      element.setAttribute(name, value === true ? "" : shownAttributes.has(name) ? visible(value) : value);
    }
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) {
      element.append(child instanceof Node ? child : visible(String(child)));
    }
  }
  return element;
}

// Makes `target`'s children like those of `fresh`, touching only what differs.
export function update(target, ...fresh) {
  const wanted = fresh.flat(Infinity).filter((child) => child !== null && child !== false)
    .map((child) => (typeof child === "string" ? document.createTextNode(visible(child)) : child));
  while (target.childNodes.length > wanted.length) target.lastChild.remove();
  wanted.forEach((node, index) => {
    const old = target.childNodes[index];
    if (!old) target.append(node);
    else if (old.nodeName !== node.nodeName || keyOf(old) !== keyOf(node)) old.replaceWith(node);
    else adopt(old, node);
  });
}

const keyOf = (node) => (node.nodeType === Node.ELEMENT_NODE ? node.getAttribute("data-key") : null);

function adopt(old, node) {
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== node.data) old.data = node.data;
    return;
  }
  for (const name of old.getAttributeNames()) {
    if (name !== "style" && !node.hasAttribute(name)) old.removeAttribute(name);
  }
  for (const name of node.getAttributeNames()) {
    if (name !== "style" && old.getAttribute(name) !== node.getAttribute(name)) {
      old.setAttribute(name, node.getAttribute(name));
    }
  }
  if (old.style.cssText !== node.style.cssText) old.style.cssText = node.style.cssText;
  update(old, ...node.childNodes);
}

// A table whose roles survive the narrow layout, which shows each row as a card. A column is
// {title, n: its cells are figures, wide: they may be long and go on below}; rows are arrays of cells
// or {head: text} for a group.
export function table(label, columns, rows) {
  const heads = columns.map((column) =>
    h("th", {role: "columnheader", scope: "col", class: column.n ? "n" : null}, column.title));
  const body = rows.map((row) => row.head !== undefined
    ? h("tr", {role: "row", class: "group", "data-key": `group ${row.key}`},
      h("th", {role: "rowheader", scope: "rowgroup", colspan: columns.length}, row.head))
    : h("tr", {role: "row", "data-key": row.key, "aria-current": row.current ? "true" : null},
      row.cells.map((cell, index) => h("td", {
        role: "cell", class: columns[index].n ? "n" : columns[index].wide ? "wide" : null, "data-label": columns[index].title,
      }, cell))));
  return h("table", {role: "table", "aria-label": label},
    h("thead", {role: "rowgroup"}, h("tr", {role: "row"}, heads)),
    h("tbody", {role: "rowgroup"}, body));
}
