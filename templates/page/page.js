// The page's own script: tables that sort, filter, pick columns and open rows, with the view in the
// address; whole logs. Without it the page is complete. No library, no request, text as text alone.
(() => {
"use strict";

const root = document.documentElement;
const SHOWN = 4000000;  // letters of a log that are shown: its end; all of it can be saved
const MISSING = "–";
const COLLATOR = new Intl.Collator("en", { numeric: true });

function make(tag, attributes, ...inside) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null) element.setAttribute(name, value);
  }
  element.append(...inside);
  return element;
}

function button(words, pressed, attributes) {
  const element = make("button", { type: "button", ...attributes }, words);
  element.addEventListener("click", pressed);
  return element;
}

function labelled(words, control) {
  return make("span", { class: "field" }, make("label", { for: control.id }, words), control);
}

// --- the address ------------------------------------------------------------------------------
// #sort=-samples_per_s&q=text&f.axis=value&cols=a,b&open=cell-x; an address of another kind, such
// as #plots, is a place of the page and says nothing of a table.

function addressed() {
  const hash = location.hash.slice(1);
  const row = decode(hash);
  if (document.getElementById(row)?.closest("table.interactive")) return { open: [row] };
  if (!hash.includes("=")) return hash ? null : {};
  const view = {};
  for (const pair of hash.split("&")) {
    const at = pair.indexOf("=");
    if (at > 0) view[decode(pair.slice(0, at))] = pair.slice(at + 1);
  }
  return view;
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

const list = (text) => (Array.isArray(text) ? text : (text || "").split(",").filter(Boolean).map(decode));
const listed = (names) => names.map(encodeURIComponent).join(",");

function remember(pairs, replace) {
  const hash = pairs.map(([key, value]) => `${encodeURIComponent(key)}=${value}`).join("&");
  const address = hash ? `#${hash}` : location.pathname + location.search;
  try {
    history[replace ? "replaceState" : "pushState"](null, "", address);
  } catch {  // a frame that may not: the page works, and its address stays
  }
}

// --- a table ----------------------------------------------------------------------------------

class Table {
  constructor(table, prefix) {
    this.table = table;
    this.prefix = prefix;  // of its keys in the address; the first table's have none
    this.body = table.tBodies[0];
    this.heads = [...table.tHead.rows[0].cells];
    this.keys = this.heads.map((head, at) => head.dataset.key || String(at));
    this.entries = [...this.body.rows].filter((row) => !row.classList.contains("detail")).map((row, at) => {
      const next = row.nextElementSibling;
      const detail = next?.classList.contains("detail") ? next : null;
      return { row, detail, at, words: `${row.dataset.name || ""} ${row.textContent}`.toLowerCase() };
    });
    this.sorted = "";
    this.ordered = this.entries;
    this.most = Number(table.dataset.most) || Infinity;
    this.view = { sort: "", q: "", filters: {}, cols: null, open: [] };
    this.hiding = document.head.appendChild(make("style"));
    this.controls();
    this.sortable();
    this.openable();
  }

  value(entry, column) {
    const cell = entry.row.cells[column];
    return cell.dataset.value ?? cell.textContent.trim();
  }

  // What stands above the table.
  controls() {
    const name = this.table.id;
    this.query = make("input", { type: "search", id: `${name}-q`, autocomplete: "off", spellcheck: "false" });
    this.query.addEventListener("input", () => this.change({ q: this.query.value }, "typing"));
    const bar = make("div", { class: "controls" },
      labelled("Find in rows", this.query));
    this.choices = {};
    const choices = make("div", { class: "fields" });
    this.heads.forEach((head, column) => {
      if (!("filter" in head.dataset)) return;
      const values = [...new Set(this.entries.map((entry) => this.value(entry, column)))].sort(COLLATOR.compare);
      const choice = make("select", { id: `${name}-f${column}` }, make("option", { value: "" }, "all"),
        ...values.map((value) => make("option", { value: `=${value}` }, value)));
      const key = this.keys[column];
      choice.addEventListener("change", () => {
        const filters = { ...this.view.filters, [key]: choice.value.slice(1) };
        if (!choice.value) delete filters[key];
        this.change({ filters });
      });
      this.choices[key] = { choice, column };
      choices.append(labelled(head.dataset.title || head.textContent, choice));
    });
    const narrow = matchMedia("(max-width: 640px)");
    const filters = make("details", { class: "filters", open: !narrow.matches }, make("summary", {}, "Filters"), choices);
    narrow.addEventListener("change", () => { filters.open = !narrow.matches; }, { signal: ending.signal });
    if (choices.childElementCount) bar.append(filters);
    this.count = make("span", { class: "count", role: "status" });
    this.all = button("", () => {
      this.most = Infinity;
      this.show();
    }, { class: "quiet" });
    this.clear = button("Clear filters", () => this.change({ q: "", filters: {} }), { class: "quiet" });
    bar.append(this.picker(), make("span", { class: "field shown" }, this.count, this.all, this.clear));
    (this.table.closest(".scroll") || this.table).before(bar);
  }

  picker() {
    this.boxes = this.heads.map((head, column) => {
      const box = make("input", { type: "checkbox", disabled: column === 0 });
      box.addEventListener("change", () => {
        const names = this.keys.filter((_, at) => this.boxes[at].checked);
        this.change({ cols: names.slice(1) });
      });
      return box;
    });
    this.pickerWords = make("summary");
    const choices = this.boxes.map((box, at) =>
      make("label", {}, box, this.heads[at].dataset.title || this.heads[at].textContent));
    const picker = make("details", { class: "picker" }, this.pickerWords,
      make("div", { class: "panel" },
        make("p", {},
          button("All columns", () => this.change({ cols: this.keys.slice(1) })),
          button("As many as fit", () => this.change({ cols: null }))),
        make("div", { class: "choices" }, ...choices)));
    picker.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && picker.open) {
        picker.open = false;
        this.pickerWords.focus();
      }
    });
    document.addEventListener("click", (event) => {
      if (!picker.contains(event.target)) picker.open = false;
    }, { signal: ending.signal });
    return picker;
  }

  sortable() {
    this.heads.forEach((head, column) => {
      const words = [...head.childNodes];
      const press = button("", () => this.change({ sort: this.next(column) }), { class: "sort" });
      press.append(make("span", {}, ...words), make("span", { class: "arrow", "aria-hidden": "true" }));
      head.append(press);
    });
  }

  // Numbers begin with the largest, words with the first; the third press is the page's own order.
  next(column) {
    const key = this.keys[column];
    const down = this.heads[column].classList.contains("number");
    const turns = down ? [`-${key}`, key, ""] : [key, `-${key}`, ""];
    return turns[(turns.indexOf(this.view.sort) + 1) % 3];
  }

  openable() {
    for (const entry of this.entries) {
      if (!entry.detail) continue;
      const inside = entry.detail.querySelector("details");
      if (inside) inside.open = true;
      const cell = entry.row.cells[0];
      entry.press = button("", () => {
        const open = this.view.open.filter((id) => id !== entry.row.id);
        this.change({ open: open.length < this.view.open.length ? open : [...open, entry.row.id] });
      }, {
        class: "open", "aria-expanded": "false", "aria-controls": entry.detail.id,
        "aria-label": `Details of ${cell.textContent.trim()}`,
      });
      cell.prepend(entry.press);
    }
  }

  change(part, how) {
    const typing = how === "typing" && this.typed;
    this.typed = how === "typing";
    Object.assign(this.view, part);
    this.show(Object.keys(part).some((key) => key !== "sort" && key !== "open"));
    remember(tables.flatMap((table) => table.pairs()), typing);
  }

  pairs() {
    const { sort, q, filters, cols, open } = this.view;
    const pairs = [];
    if (sort) pairs.push(["sort", encodeURIComponent(sort)]);
    if (q) pairs.push(["q", encodeURIComponent(q)]);
    for (const [key, value] of Object.entries(filters)) pairs.push([`f.${key}`, encodeURIComponent(value)]);
    if (cols) pairs.push(["cols", listed(cols)]);
    if (open.length) pairs.push(["open", listed(open)]);
    return pairs.map(([key, value]) => [this.prefix + key, value]);
  }

  restore(said) {
    const of = (key) => said[this.prefix + key];
    const filters = {};
    for (const key of Object.keys(this.choices)) {
      const value = of(`f.${key}`);
      if (value !== undefined) filters[key] = decode(value);
    }
    const sort = decode(of("sort") || "");
    const picked = list(of("cols")).filter((key) => this.keys.includes(key));
    const known = new Set(this.entries.map((entry) => entry.row.id));
    this.view = {
      sort: this.keys.includes(sort.replace(/^-/, "")) ? sort : "",
      q: decode(of("q") || ""),
      filters,
      cols: picked.length || of("cols") === "" ? picked : null,
      open: list(of("open")).filter((id) => known.has(id)),
    };
    this.show(true);
  }

  // `anew`: what is shown may have other widths, so that other columns fit.
  show(anew) {
    const { sort, q, filters, open } = this.view;
    if (this.query.value !== q) this.query.value = q;
    for (const [key, { choice }] of Object.entries(this.choices)) {
      choice.value = key in filters ? `=${filters[key]}` : "";
      if (choice.selectedIndex < 0) choice.value = "";
    }
    const wanted = Object.entries(filters).map(([key, value]) => [this.choices[key].column, value]);
    const words = q.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const entry of this.entries) {
      entry.shown = words.every((word) => entry.words.includes(word)) &&
        wanted.every(([column, value]) => this.value(entry, column) === value);
      const opened = entry.shown && open.includes(entry.row.id);
      entry.row.hidden = !entry.shown;
      if (entry.detail) entry.detail.hidden = !opened;
      entry.press?.setAttribute("aria-expanded", String(opened));
      if (opened && !entry.seen) {  // the last lines of a log are what is looked for
        for (const tail of entry.detail.querySelectorAll("pre.tail")) tail.scrollTop = tail.scrollHeight;
        entry.seen = true;
      }
      count += entry.shown;
    }
    this.count.textContent = count === this.entries.length ? `${count} rows` : `${count} of ${this.entries.length} rows`;
    this.clear.hidden = !q && !wanted.length;
    this.order(sort);
    this.limit(open.length ? Infinity : this.most, count);
    if (anew) this.pick();
  }

  // Of many rows the first, until a person asks for all: a thousand take a second to lay out.
  limit(most, count) {
    let left = most;
    for (const { row, detail, shown } of this.ordered) {
      row.classList.remove("more");
      left -= shown;
      if (shown && left < 0) row.hidden = true;
      if (detail && left < 0) detail.hidden = true;
    }
    this.all.hidden = left >= 0;
    this.all.textContent = left < 0 ? `The first ${most}: show all ${count}` : "";
  }

  order(sort) {
    const column = this.keys.indexOf(sort.replace(/^-/, ""));
    const down = sort.startsWith("-");
    this.heads.forEach((head, at) => {
      if (at === column) head.setAttribute("aria-sort", down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    if (sort === this.sorted) return;
    this.sorted = sort;
    const entries = [...this.entries];
    if (column >= 0) {
      const numbers = this.heads[column].classList.contains("number");
      const keyed = entries.map((entry) => {
        const value = this.value(entry, column);
        const key = numbers ? Number(value) : value;
        return { entry, key, none: value === "" || value === MISSING || Number.isNaN(key) };
      });
      keyed.sort((a, b) => {
        if (a.none || b.none) return a.none - b.none || a.entry.at - b.entry.at;  // last, either way
        const by = numbers ? a.key - b.key : COLLATOR.compare(a.key, b.key);
        return (down ? -by : by) || a.entry.at - b.entry.at;
      });
      entries.splice(0, entries.length, ...keyed.map(({ entry }) => entry));
    }
    this.ordered = entries;
    const rows = document.createDocumentFragment();
    for (const { row, detail } of entries) rows.append(row, ...(detail ? [detail] : []));
    this.body.append(rows);
  }

  // Columns that were picked, else as many as fit, from the left. Print has all.
  pick() {
    const cols = this.view.cols;
    const shown = this.heads.map((_, at) => at === 0 || !cols || cols.includes(this.keys[at]));
    if (!cols) {
      this.hiding.textContent = `#${CSS.escape(this.table.id)} tr.detail{display:none}`;
      const room = (this.table.closest(".scroll") || this.table.parentElement).clientWidth;
      const widths = this.heads.map((head) => head.getBoundingClientRect().width);
      if (widths.reduce((sum, width) => sum + width, 0) > room + 1) {
        let left = room - widths[0];
        for (let at = 1; at < widths.length; at++) {
          shown[at] = widths[at] <= left;
          if (shown[at]) left -= widths[at];
        }
      }
    }
    this.hide(shown.flatMap((is, at) => (is ? [] : [at])));
    const count = shown.filter(Boolean).length;
    this.boxes.forEach((box, at) => { box.checked = shown[at]; });
    this.pickerWords.textContent = count === shown.length ? `Columns: all ${count}` : `Columns: ${count} of ${shown.length}`;
    for (const { detail } of this.entries) if (detail) detail.cells[0].colSpan = count;
    this.table.classList.add("ready");
  }

  hide(columns) {
    const table = `#${CSS.escape(this.table.id)}`;
    const cells = columns.map((at) => `${table} tr:not(.detail)>:nth-child(${at + 1})`);
    this.hiding.textContent = cells.length ? `@media screen{${cells.join(",")}{display:none}}` : "";
  }
}

// --- logs and commands --------------------------------------------------------------------------

async function unpacked(packed) {
  const letters = atob(packed.content.textContent.trim());
  const bytes = Uint8Array.from(letters, (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).blob();
}

// Text as a reader sees it: no colours, and no character that moves, turns or hides others.
function plain(text) {
  return text
    .replace(/\x1b\[[0-9;?]{0,40}[ -\/]{0,4}[@-~]/g, "")
    .replace(/\x1b\][^\x07\x1b]{0,400}(?:\x07|\x1b\\)?/g, "")
    .replace(/\r\n/g, "\n")
    .replace(/[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g, "\ufffd");
}

function openableLog(packed) {
  const name = packed.dataset.name;
  let view = null;
  const fail = (error) => {
    view = make("p", { class: "nothing" }, `This log cannot be unpacked here: ${error.message}.`);
    packed.parentElement.append(view);
  };
  const show = button("Show all of it", async () => {
    if (view) {
      view.hidden = !view.hidden;
    } else {
      try {
        const blob = await unpacked(packed);
        const text = plain(await blob.slice(-SHOWN).text());
        const cut = blob.size > SHOWN ? `(the last ${SHOWN} of ${blob.size} bytes; Save has all)\n` : "";
        view = make("pre", { class: "whole", tabindex: "0", role: "group", "aria-label": `Log ${name}` }, cut + text);
        packed.parentElement.append(view);
      } catch (error) {
        fail(error);
      }
    }
    show.setAttribute("aria-expanded", String(!view.hidden));
    show.textContent = view.hidden ? "Show all of it" : "Hide it";
  }, { "aria-expanded": "false" });
  const save = button("Save", async () => {
    try {
      const address = URL.createObjectURL(await unpacked(packed));
      const parts = name.split("/").filter((part) => part && part !== "." && part !== "..");
      make("a", { href: address, download: parts.slice(-5).join("-") }).click();
      setTimeout(() => URL.revokeObjectURL(address), 60000);
    } catch (error) {
      fail(error);
    }
  });
  packed.after(" ", show, " ", save);
}

function copyable(text) {
  const words = "Copy";
  const press = button(words, async () => {
    try {
      await navigator.clipboard.writeText(text.textContent);
      press.textContent = "Copied";
    } catch {  // not allowed: marked, for the keyboard to copy
      getSelection().selectAllChildren(text);
      press.textContent = "Marked";
    }
    setTimeout(() => { press.textContent = words; }, 2000);
  }, { class: "copy" });
  text.before(press);
}

// --- begin --------------------------------------------------------------------------------------

let tables = [];
let ending = new AbortController();  // of the listeners that would keep tables which are gone
root.classList.add("js");

function begin() {
  for (const table of tables) table.hiding.remove();
  tables = [];
  ending.abort();
  ending = new AbortController();
  document.querySelectorAll("table.interactive").forEach((table, at) => {
    tables.push(new Table(table, at ? `${table.id}.` : ""));
  });
  if ("DecompressionStream" in window) document.querySelectorAll("template.log").forEach(openableLog);
  document.querySelectorAll("pre.words").forEach(copyable);
}

function restore(first) {
  const said = addressed();
  if (said === null && !first) return;
  for (const table of tables) table.restore(said || {});
  const open = list((said || {}).open)[0];
  if (first && open) document.getElementById(open)?.scrollIntoView();
}

begin();
restore(true);
addEventListener("hashchange", () => restore(false));
addEventListener("popstate", () => restore(false));
let width = innerWidth;
addEventListener("resize", () => {
  if (innerWidth !== width) for (const table of tables) table.pick();
  width = innerWidth;
});
})();
